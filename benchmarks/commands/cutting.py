"""Cuts a text to the positions of a model, where a user asks for it."""

from lrp_axioms.benchmarks.commands.output import note
from lrp_axioms.numeric.models.facts import facts_of


def cut(loaded, text: str | tuple[str, str], tokens: int, *, truncate: bool):
    """Returns the inputs of a text that is cut, or None for a text of ``tokens`` that fits.

    The last tokens are kept where the next token is explained, else the first ones, and of a
    question and its context the question.  A rotary model reads any length, and a text is cut to
    the length that the model was made for.
    Raises ValueError that names ``--truncate`` for a text that is too long and may not be cut.
    """
    from lrp_axioms.numeric.models.texts import check_special, tokenized

    facts = facts_of(loaded.model)
    if not truncate and tokens > facts.positions:
        raise ValueError(
            f"the text has {tokens} tokens, and the model {facts.positions} positions: pass "
            "--truncate to cut the text, or a shorter text"
        )
    limit = min(facts.positions, facts.made_for)
    if not truncate or tokens <= limit:
        return None
    check_special(loaded.tokenizer, [text])
    kept, side = ("last", "left") if loaded.explains == "next token" else ("first", "right")
    before = loaded.tokenizer.truncation_side
    try:
        loaded.tokenizer.truncation_side = side
        part = True if isinstance(text, str) else "only_second"
        how = {"truncation": part, "max_length": limit, "return_tensors": "pt"}
        inputs = tokenized(loaded.tokenizer, [text], **how).to(loaded.model.device)
    finally:
        loaded.tokenizer.truncation_side = before
    note(f"--truncate: the {kept} {limit} of {tokens} tokens are explained")
    return inputs

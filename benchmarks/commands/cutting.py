"""Cuts a text to the positions of a model, where a user asks for it."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

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


def cut_prompt(
    loaded,
    text: str,
    *,
    asked: Callable[[str], object],
    count: int,
    answers: Sequence[str | None],
) -> str:
    """Returns a text that a model can go on with, cut at its beginning if it is too long.

    ``asked`` makes a prompt of the text: the text itself, or a chat with its message.  The prompt
    has room for ``count`` written tokens and each of the ``answers``.  The text begins with a word
    then, or within a word that is too long.  An encoder with a decoder reads the first words.
    Raises ValueError where no part of the text fits.
    """
    from lrp_axioms.numeric.generation.prompts import text_of_chat
    from lrp_axioms.numeric.models.texts import ids_once, tokenized

    facts, tokenizer = facts_of(loaded.model), loaded.tokenizer

    def size(part: str) -> int:
        prompt = asked(part)
        whole = prompt if isinstance(prompt, str) else text_of_chat(tokenizer, prompt)
        return len(ids_once(tokenizer, whole))

    written = [tokenized(tokenizer, x, add_special_tokens=False)["input_ids"] for x in answers if x]
    behind = 0 if facts.two else max([count, *map(len, written)]) - 1  # the last one is not read
    limit = min(facts.positions, facts.made_for)
    room = max(limit - behind, 0)
    if (whole := size(text)) <= room:
        return text
    for word in (r"\S+", r"(?s)."):
        found = [*re.finditer(word, text)]
        tails, heads = [slice(x.start(), None) for x in found], [slice(x.end()) for x in found]
        parts = heads[::-1] if facts.two else tails
        first = bisect_left(parts, 1, key=lambda part: size(text[part]) <= room)
        if first < len(parts):
            kept, part = "first" if facts.two else "last", text[parts[first]]
            note(f"--truncate: the {kept} {size(part)} of {whole} tokens of the prompt are read")
            return part
    raise ValueError(
        f"--truncate: the answer leaves {room} of {limit} positions to the prompt, and no part of "
        "the text fits; ask for a shorter answer"
    )

"""Cuts a text to the positions of a model, where a user asks for it."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from lrp_axioms.benchmarks.commands.output import note
from lrp_axioms.numeric.models.facts import facts_of

NEAR = 16  # parts before a part that fits


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
        raise too_long(tokens, facts.positions)
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
    count: int | None,
    answers: Sequence[str | None],
    truncate: bool,
) -> str:
    """Returns a text for a model to go on with, cut if it is too long and may be cut.

    ``asked`` makes a prompt of the text: the text itself, or a chat with its message.  Beside a
    text that is cut, there is room for each of the ``answers``, or for ``count`` written tokens in
    at most half of the positions.  The text is cut at its beginning, at a word, and within a word
    only where no word fits; an encoder with a decoder reads the first words.
    Raises ValueError for a text that may not be cut, and where no part of the text fits.
    """
    from lrp_axioms.numeric.generation.prompts import text_of_chat
    from lrp_axioms.numeric.models.texts import ids_once, tokenized

    facts, tokenizer = facts_of(loaded.model), loaded.tokenizer

    def size(part: str) -> int:
        prompt = asked(part)
        whole = prompt if isinstance(prompt, str) else text_of_chat(tokenizer, prompt)
        return len(ids_once(tokenizer, whole))

    limit = min(facts.positions, facts.made_for)
    given = [
        len(tokenized(tokenizer, x, add_special_tokens=False)["input_ids"]) for x in answers if x
    ]
    behind = 0 if facts.two else max(given, default=1) - 1  # the last token is not read
    whole = size(text)
    if not truncate and whole + behind > facts.positions:
        raise too_long(whole + behind, facts.positions)
    if not truncate or whole + behind <= limit:
        return text
    room = limit - behind
    if not facts.two and count is not None:
        room = min(room, max(limit + 1 - count, limit // 2))
    for word in (r"\S+", r"(?s)."):
        parts = [slice(x.start(), None) for x in re.finditer(word, text)]
        if facts.two:
            parts = [slice(x.end()) for x in re.finditer(word, text)][::-1]
        fits = lambda part: size(text[part]) <= room
        nearly = bisect_left(parts, 1, key=fits)
        # A longer text may have fewer tokens, so that the first one that fits may come before.
        part = next(filter(fits, parts[max(nearly - NEAR, 0) : nearly + 1]), None)
        if part:
            end = "end" if facts.two else "beginning"
            left = f"{size(text[part])} of {whole} tokens are left of the prompt"
            note(f"--truncate: the text is cut at its {end}, and {left}")
            return text[part]
    raise ValueError(
        f"--truncate: no part of the text fits: the prompt, the template of a chat included, has "
        f"{max(room, 0)} of {limit} positions beside the answer; pass a shorter answer, or a model "
        "with more positions"
    )


def too_long(tokens: int, positions: int) -> ValueError:
    """Returns the error of a text that may not be cut."""
    return ValueError(
        f"the text has {tokens} tokens, and the model {positions} positions: pass "
        "--truncate to cut the text, or a shorter text"
    )

"""Cuts a text to the positions of a model, where a user asks for it."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from lrp_axioms.benchmarks.commands.output import note
from lrp_axioms.numeric.generation.prompts import text_of_chat
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.texts import TOKENIZING, check_special, ids_once, tokenized
from lrp_axioms.numeric.targets.naming import text_ids

NEAR = 16  # parts before a part that fits


def read(loaded, text: str | tuple[str, str], *, truncate: bool) -> tuple[Any, list[str], str]:
    """Returns the inputs of a text, their tokens, and which of them a cut has left, or "".

    A note says that the text is cut, too.
    The last tokens are kept where the next token is explained, else the first ones, and of a
    question and its context the question.  A rotary model reads any length, and a text is cut to
    the length that the model was made for.
    Raises ValueError that names ``--truncate`` for a text that is too long and may not be cut.
    """
    tokenizer, positions = loaded.tokenizer, facts_of(loaded.model).positions
    check_special(tokenizer, [text])
    inputs, cut = tokenized(tokenizer, [text], return_tensors="pt"), ""
    size = inputs["input_ids"].shape[1]
    if not truncate and size > positions:
        raise too_long(size, positions)
    how = cutting(loaded, text)
    side, limit = how.pop("truncation_side"), how["max_length"]
    if truncate and size > limit:
        _check_context(tokenizer, text, limit)
        with TOKENIZING:
            before = tokenizer.truncation_side
            try:
                tokenizer.truncation_side = side
                inputs = tokenized(tokenizer, [text], return_tensors="pt", **how)
            finally:
                tokenizer.truncation_side = before
        kept = "last" if side == "left" else "first"
        note(cut := f"only the {kept} {limit} of {size} tokens are explained")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    return inputs.to(loaded.model.device), tokens, cut


def _check_context(tokenizer, text: str | tuple[str, str], limit: int) -> None:
    """Raises ValueError for a question that leaves no room for its context."""
    if isinstance(text, str):
        return
    own = len(text_ids(tokenizer, text[0]))
    special = tokenizer.num_special_tokens_to_add(pair=True)
    if own + special >= limit:
        raise ValueError(
            f"--truncate: the question has {own} tokens and leaves no room for its context, beside "
            f"{special} special tokens in {limit} positions; pass a shorter question"
        )


def cutting(loaded, text: str | tuple[str, str]) -> dict[str, Any]:
    """Returns the options of a tokenizer that cuts a text."""
    facts = facts_of(loaded.model)
    return {
        "truncation": True if isinstance(text, str) else "only_second",
        "truncation_side": "left" if loaded.explains == "next token" else "right",
        "max_length": min(facts.positions, facts.made_for),
    }


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
    facts, tokenizer = facts_of(loaded.model), loaded.tokenizer

    def size(part: str) -> int:
        prompt = asked(part)
        if isinstance(prompt, str):
            return len(ids_once(tokenizer, prompt))
        return len(text_ids(tokenizer, text_of_chat(tokenizer, prompt)))

    limit = min(facts.positions, facts.made_for)
    given = [len(text_ids(tokenizer, x)) for x in answers if x]
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
            note(f"the text is cut at its {end}, and {left}")
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

"""Names the parts of a prompt, such as a document, and finds the tokens of each."""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from transformers import PreTrainedTokenizerBase

from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.models.texts import tokenized

REST = "rest"
"""The segment of tokens that no named segment holds."""
Place = str | tuple[int, int]
"""A part of a prompt: a text that is in it once, or its first character and the one behind it."""


MARK = "\uf8ff"  # a private character, which no template writes


def find_segments(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int], places: Mapping[str, Place]
) -> tuple[str, ...]:
    """Returns the name of each token's segment; a token belongs where its last character is.

    Raises one ValueError that lists all places that are not in the text or are there twice, that
    overlap or have no token.
    """
    if not isinstance(places, Mapping) or not all(isinstance(name, str) for name in places):
        raise ValueError(f"segments={reprlib.repr(places)}: pass a dict of parts by name")
    spans = {name: span for name, x in places.items() if (span := _span(text, x))}
    wrong = {name: x for name, x in places.items() if name not in spans}
    faults = [f"{name!r}: {x!r} is not a single part of the prompt" for name, x in wrong.items()]
    faults += [f"{REST!r} stands for all other tokens"] * (REST in places)
    for (one, (a, b)), (other, (c, d)) in combinations(spans.items(), 2):
        if (start := max(a, c)) < (end := min(b, d)):
            faults.append(f"{one!r} and {other!r} overlap at characters {start} to {end}")
    last = _last_characters(tokenizer, text, ids)
    if not last:
        raise ValueError(
            f"segments: {type(tokenizer).__name__} does not say where its tokens are; pass a fast "
            "tokenizer, or leave segments out"
        )
    found = _names(spans, last)
    faults = faults or [f"{name!r} has no token" for name in spans if name not in found]
    if faults:
        raise ValueError(
            f"segments: {'; '.join(faults)}; pass parts of the prompt {reprlib.repr(text)} by "
            f"name, each a text that is in it once, or (first, end) of its {len(text)} characters"
        )
    return found


def find_messages(
    tokenizer: PreTrainedTokenizerBase,
    write: Callable[[Sequence[Mapping[str, Any]]], str],
    chat: Any,
    ids: Sequence[int],
) -> tuple[str, ...]:
    """Names the message of each token of a chat by its role, with a number if it speaks again.

    ``write`` makes a text of messages.  A message is where a mark in its place is; a message that
    the template changes has no segment.  Returns () if the tokenizer does not say where tokens are.
    """
    messages = [chat] if isinstance(chat, Mapping) else list(chat)
    roles = [str(x.get("role")) for x in messages]
    text, spans = write(messages), {}
    for n, (role, message) in enumerate(zip(roles, messages, strict=True)):
        content = message.get("content")
        if not isinstance(content, str) or not (said := content.strip()):
            continue
        marked = {**message, "content": content.replace(said, MARK)}
        before, *behind = write([*messages[:n], marked, *messages[n + 1 :]]).split(MARK)
        if [before + said + x for x in behind] == [text]:
            number = f" {roles[: n + 1].count(role)}" if roles.count(role) > 1 else ""
            spans[role + number] = len(before), len(before) + len(said)
    return _names(spans, _last_characters(tokenizer, text, ids)) if spans else ()


def _names(spans: Mapping[str, tuple[int, int]], last: Sequence[int]) -> tuple[str, ...]:
    return tuple(next((x for x, (a, b) in spans.items() if a <= n < b), REST) for n in last)


def _span(text: str, place: Any) -> tuple[int, int] | None:
    """Returns the characters of a place, or None if it is no one part of the text."""
    if isinstance(place, str):
        start = text.find(place) if place else -1
        return (start, start + len(place)) if start == text.rfind(place) >= 0 else None
    pair = tuple(map(builtin, place)) if isinstance(place, tuple | list) else ()
    whole = [type(x) for x in pair] == [int, int] and 0 <= pair[0] < pair[1] <= len(text)
    return pair if whole else None


def _last_characters(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int]
) -> list[int]:
    """Returns the place of every token's last character, -1 for tokens that are added.

    None are returned if the tokenizer does not say where its tokens are.
    """
    if not getattr(tokenizer, "is_fast", False):
        return []
    read = tokenized(tokenizer, text, add_special_tokens=False, return_offsets_mapping=True)
    own, found = read["input_ids"], [-1] * len(ids)
    first = next((n for n in range(len(ids)) if [*ids[n : n + len(own)]] == own), None)
    if first is None:
        return []
    found[first : first + len(own)] = [max(a, b - 1) for a, b in read["offset_mapping"]]
    return found

"""Names the parts of a prompt, such as a document, and finds the tokens of each."""

import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from transformers import PreTrainedTokenizerBase

from lrp_axioms.numeric.models.texts import tokenized

REST = "rest"
"""The segment of tokens that no named segment holds."""
Place = str | tuple[int, int]
"""A part of a prompt: a text that is in it once, or its first character and the one behind it."""


def spans_by_role(text: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Place]:
    """Returns the places of messages in their text: by role, with a number if it speaks again."""
    counts, seen, end = Counter(x["role"] for x in messages), Counter[str](), 0
    found: dict[str, Place] = {}
    for role, content in ((x["role"], x.get("content")) for x in messages):
        seen[role] += 1
        said = content.strip() if isinstance(content, str) else ""
        if said and (start := text.find(said, end)) >= 0:  # a template may change a message
            end = start + len(said)
            found[f"{role} {seen[role]}" if counts[role] > 1 else role] = (start, end)
    return found


def segments_of(
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
    last = [] if faults else _last_characters(tokenizer, text, ids)
    found = [next((name for name, (a, b) in spans.items() if a <= n < b), REST) for n in last]
    faults += [f"{name!r} has no token" for name in spans if last and name not in found]
    if faults:
        raise ValueError(
            f"segments: {'; '.join(faults)}; pass parts of the prompt {reprlib.repr(text)} by "
            f"name, each a text that is in it once, or (first, end) of its {len(text)} characters"
        )
    return tuple(found)


def _span(text: str, place: Any) -> tuple[int, int] | None:
    """Returns the characters of a place, or None if it is no one part of the text."""
    if isinstance(place, str):
        start = text.find(place)
        return (start, start + len(place)) if place and text.count(place) == 1 else None
    pair = tuple(place) if isinstance(place, tuple | list) else ()
    whole = [type(x) for x in pair] == [int, int] and 0 <= pair[0] < pair[1] <= len(text)
    return pair if whole else None


def _last_characters(
    tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int]
) -> list[int]:
    """Returns the place of every token's last character, -1 for tokens that are added."""
    options = {"add_special_tokens": False, "return_offsets_mapping": tokenizer.is_fast}
    read = tokenized(tokenizer, text, **options)
    own, found = read["input_ids"], [-1] * len(ids)
    first = next((n for n in range(len(ids)) if [*ids[n : n + len(own)]] == own), None)
    if first is None or not tokenizer.is_fast:
        raise ValueError(
            f"segments: {type(tokenizer).__name__} does not say where its tokens are; pass a fast "
            "tokenizer, or leave segments out"
        )
    found[first : first + len(own)] = [max(a, b - 1) for a, b in read["offset_mapping"]]
    return found

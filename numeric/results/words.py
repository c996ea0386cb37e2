"""Cuts text into tokens, and groups tokens into words and sentences."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"
"""A decoder's text for a character with bytes still to come."""
JOINERS = "\u200c\u200d"  # between letters of one word, or pictures of one
TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"  # of skin, behind a picture
BEFORE = 4  # tokens decoded with each, because its text depends on the tokens before it

UNITS = {
    "word": re.compile(
        r"[\U0001f1e6-\U0001f1ff]{2}|[\w\x00\x01]+(?:['’\-][\w\x00\x01]+)*"
        r"|[^\w\s\x00\x01][\x00\x01]*(?:(?<=\x01)[^\w\s\x00\x01][\x00\x01]*)*"
    ),
    "sentence": re.compile(
        r"(?=\S)(?:[^.!?…。！？\n]|[.!?…](?=\w))+[.!?…。！？]*[\"'”’)\]]*|[.!?…。！？]+"
    ),
}
"""Beginnings of units; text between two of them, such as a space, belongs to the next.

A mark stands as 0 in the text, and a joiner as 1 (``_plain``).
"""


def pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """Returns the text of every token as it stands in the whole text, spaces included.

    Where several tokens spell one character, the last one has it, and the others are empty.
    """

    def decode(part: Sequence[int]) -> str:
        options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return str(tokenizer.decode(list(part), **options))

    found: list[str] = []
    read = 0
    for n in range(len(ids)):
        start = max(0, read - BEFORE)
        while start and not found[start - 1]:  # one byte less breaks all bytes of a run
            start -= 1
        text = decode(ids[start : n + 1])
        if text.endswith(UNFINISHED) and n + 1 < len(ids):
            found.append("")
            continue
        found.append(text[len(decode(ids[start:read])) if read else 0 :])
        read = n + 1
    return found


def units(tokens: Sequence[str], by: str, cuts: Sequence[int] = ()) -> list[int]:
    """Returns the number of the unit that each token begins in, from 0: (token,).

    ``by`` is a name in ``UNITS``; the tokens ``cuts`` begin a new unit in any case.
    Raises ValueError for another name.
    """
    if by not in UNITS:
        raise ValueError(f"by={by!r}: pass one of {', '.join(UNITS)}")
    numbers: list[int] = []
    last = -1
    bounds = [0, *sorted({*cuts} - {0, len(tokens)}), len(tokens)]
    for start, end in pairwise(bounds):
        part = _units("".join(tokens[start:end]), tokens[start:end], UNITS[by])
        numbers += [last + 1 + n for n in part]
        last = numbers[-1]
    return numbers


def named_units(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], by: str
) -> tuple[list[int], list[str]]:
    """Returns the number of the unit of every token, and the text of every unit.

    A text behind a separator begins a new unit.  A unit of spaces is written with escapes.
    """
    texts = pieces(tokenizer, ids)
    ends = {getattr(tokenizer, x, None) for x in ("sep_token_id", "eos_token_id")}
    cuts = [n for n in range(1, len(ids)) if ids[n - 1] in ends and ids[n] not in ends]
    numbers = units(texts, by, cuts)
    words = ["" for _ in range(max(numbers) + 1)]
    for text, n in zip(texts, numbers, strict=True):
        words[n] += text
    return numbers, [word.strip() or repr(word)[1:-1] for word in words]


def _plain(character: str) -> str:
    """Returns 1 for a joiner, 0 for a mark such as a vowel sign, and others as they are.

    Regular expressions of Python take both for punctuation.
    """
    if character in JOINERS:
        return "\x01"
    is_mark = unicodedata.category(character).startswith("M") or character in TONES
    return "\x00" if is_mark else character


def _units(text: str, tokens: Sequence[str], unit: re.Pattern[str]) -> list[int]:
    starts = [found.start() for found in unit.finditer("".join(map(_plain, text)))]
    begins = accumulate((len(token) for token in tokens), initial=0)
    found = []
    for token, begin in zip(tokens, begins, strict=False):
        # The last token of a character has it, and white space belongs to the word behind it.
        spelt = token if token.strip() else text[begin:]
        word = begin + len(spelt) - len(spelt.lstrip())  # its first character that is no space
        found.append(bisect_right(starts, min(word, len(text) - 1)))
    order = {number: n for n, number in enumerate(dict.fromkeys(found))}
    return [order[number] for number in found]

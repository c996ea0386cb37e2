"""Cuts text into tokens, and groups tokens into words and sentences."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

from transformers import PreTrainedTokenizerBase

UNFINISHED = "\ufffd"
"""A decoder's text for a character with bytes still to come."""
JOINERS = "\u200c\u200d"  # between letters of one word
BEFORE = 4  # tokens decoded with each, because its text depends on the tokens before it

UNITS = {
    "word": re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]"),
    "sentence": re.compile(
        r"(?=\S)(?:[^.!?…。！？\n]|[.!?…](?=\w))+[.!?…。！？]*[\"'”’)\]]*|[.!?…。！？]+"
    ),
}
"""Beginnings of units; text between two of them, such as a space, belongs to the next."""


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


def _letter(character: str) -> str:
    """Returns a letter for a mark of the letter before, such as a vowel sign; others as they are.

    Regular expressions of Python take marks for punctuation.
    """
    is_mark = unicodedata.category(character).startswith("M") or character in JOINERS
    return "x" if is_mark else character


def _units(text: str, tokens: Sequence[str], unit: re.Pattern[str]) -> list[int]:
    starts = [found.start() for found in unit.finditer("".join(map(_letter, text)))]
    begins = accumulate((len(token) for token in tokens), initial=0)
    found = []
    for token, begin in zip(tokens, begins, strict=False):
        spelt = token or text[begin:]  # the last token of a character has it
        word = begin + len(spelt) - len(spelt.lstrip())  # its first character that is no space
        found.append(sum(start <= min(word, len(text) - 1) for start in starts))
    order = {number: n for n, number in enumerate(dict.fromkeys(found))}
    return [order[number] for number in found]

"""Makes tokens readable that a byte-level tokenizer spells in one letter per byte."""

import re
from collections.abc import Sequence

MARKED = re.compile(r"^(##\w|\u2581)|</w>$")
"""Marks of WordPiece, SentencePiece and BPE of whole characters."""
_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHER = [n for n in range(0x100) if n not in {*_PLAIN}]
LETTERS = {chr(n): n for n in _PLAIN} | {chr(0x100 + n): x for n, x in enumerate(_OTHER)}
"""GPT-2's letter of each byte: itself where it is printable, and then the letters from U+0100."""


def readable(tokens: Sequence[str]) -> list[str]:
    """Returns a row of tokens with characters beyond ASCII in place of the letters of their bytes.

    A byte-level tokenizer spells the two bytes of an a with an umlaut as two letters.  Spaces and
    line ends stay as it spells them.  Bytes of a character that several tokens share are numbers,
    such as <0xE6>.  A row that spells fewer whole characters than broken ones is of another
    tokenizer, and is not changed, nor is one with a mark of such.
    """
    if any(MARKED.search(token) for token in tokens):
        return [*tokens]
    raw = [_bytes(token) for token in tokens]
    text = b"".join(raw).decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = sum(letter > "\x7f" for letter in text) - broken
    if whole <= broken:
        return [*tokens]
    return [_read(x) if not x.isascii() else token for token, x in zip(tokens, raw, strict=True)]


def _bytes(token: str) -> bytes:
    """Returns the bytes of a token, none of a token that has other letters."""
    return bytes(map(LETTERS.__getitem__, token)) if LETTERS.keys() >= {*token} else b""


def _read(raw: bytes) -> str:
    """Decodes bytes; bytes of no whole character are numbers, and ASCII is spelled as before."""
    spelled = {chr(n): letter for letter, n in LETTERS.items() if n < 0x80}
    spelled |= {chr(0xDC00 + n): f"<0x{n:02X}>" for n in range(0x80, 0x100)}
    return "".join(spelled.get(x, x) for x in raw.decode("utf-8", "surrogateescape"))

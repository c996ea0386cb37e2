"""Finds misspelt names, and broken or unprintable texts.

Imports only the standard library, so that commands start fast.
"""

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from textwrap import shorten

LONGEST = 2**24  # letters of a text, or bytes of a line: about ten long books
LISTED, LETTERS = 50, 2000  # lines of an error, letters of a line
SHOWN = 10  # values in a line of an error
NAME = 4096  # letters of an option
# Categories of signs that move a cursor, colour a terminal, or reverse the writing direction.
CONTROLS = {"Cc", "Cf", "Zl", "Zp"}
KEPT = "\n\t\u200c\u200d"  # the last two join letters of Persian and Hindi, and emoji


def printable(text: str) -> str:
    """Shows each sign that a terminal would obey as a box."""
    if text.isprintable():
        return text
    return "".join(
        "�" if x not in KEPT and unicodedata.category(x) in CONTROLS else x for x in text
    )


def beginning(text: str, most: int) -> str:
    """Returns at most ``most`` letters of a text, cut between words unless the first is longer."""
    found, whole = shorten(text, most), " ".join(text.split())
    return found if found != "[...]" or whole == found else f"{whole[: most - 1]}…"


def listed(lines: Iterable[str]) -> str:
    """Joins lines of an error, at most ``LISTED`` of them, each of at most ``LETTERS`` letters."""
    every = [x if len(x) <= LETTERS else f"{x[:LETTERS]} ... ({len(x)} letters)" for x in lines]
    more = [f"and {len(every) - LISTED} more"] if len(every) > LISTED else []
    return "\n".join(every[:LISTED] + more)


def some(values: Sequence[object], count: int | None = None) -> str:
    """Lists the first ``SHOWN`` values for an error, and how many more of ``count`` there are.

    ``count``: None stands for the number of values.
    """
    more = (len(values) if count is None else count) - SHOWN
    return ", ".join(map(str, values[:SHOWN])) + (f" and {more} more" if more > 0 else "")


def closest(word: object, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Returns the name in ``known`` that is closest to a word, case aside.

    None if no name is ``alike`` enough: 0 to 1.
    """
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lower(), names, n=1, cutoff=alike)
    return names[found[0]] if found else None


def did_you_mean(given: Iterable[object], known: Iterable[str], *, alike: float = 0.6) -> str:
    """Suggests the names in ``known`` closest to ``given``: "; did you mean 'cp-lrp'?".

    Empty if no name is ``alike`` enough, as in ``closest``.
    """
    known = [*known]
    found = (closest(word, known, alike=alike) for word in given)
    meant = dict.fromkeys(repr(name) for name in found if name is not None)
    return f"; did you mean {', '.join(meant)}?" if meant else ""


def check_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises ValueError that lists all ``given`` names of a ``what`` that are not ``known``."""
    if unknown := [name for name in given if name not in known]:
        raise ValueError(
            f"unknown {what} {', '.join(map(repr, unknown))}; the {what}s are {', '.join(known)}"
            f"{did_you_mean(unknown, known)}"
        )


def text_fault(value: object) -> str | None:
    """Returns the reason why ``value`` is no text to explain, or None."""
    if value is None:
        return "no text"
    if not isinstance(value, str):
        return f"{'object' if isinstance(value, tuple) else type(value).__name__} in place of text"
    if len(value) > LONGEST:
        return f"more than {LONGEST} letters"
    if not value.strip():
        return "no text"
    if "\0" in value:
        return "a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate)"
    return None

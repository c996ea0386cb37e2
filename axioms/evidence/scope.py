"""Compares the assumptions and sizes named in a statement with the symbols of its test.

A proof is as wide as its symbols: one of a positive x says nothing of a negative x, and one of 3
keys nothing of 4.  So a proved statement names every assumption as ``given``, such as
"x, y > 0: sizes", and every number of entries that is decided in its ``scope``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from lrp_axioms.axioms.decide.decisions import Decision

RELATIONS = {
    "positive": "> 0",
    "negative": "< 0",
    "nonnegative": ">= 0",
    "nonpositive": "<= 0",
    "nonzero": "!= 0",
}
POSITIVE = ("epsilon", "e", "ea", "eb", "exp", "rest", "S", "sqrt", "rms")
"""Stabilisers, exponentials and their sums, and roots, which are positive whatever a model is."""
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def assumptions(decisions: Iterable[Decision]) -> set[str]:
    """Assumptions on symbols, such as "x > 0", except real symbols and ``POSITIVE``."""
    return {
        f"{family} {RELATIONS[fact]}"
        for decision in decisions
        for symbol, fact in decision.assumptions.items()
        if fact in RELATIONS and (family := _family(symbol)) not in POSITIVE
    }


def sizes(decisions: Iterable[Decision]) -> set[int]:
    """The numbers above 1 of rows, of columns and of numbered symbols of one name."""
    indices: dict[tuple[str, int], set[str]] = defaultdict(set)
    for decision in decisions:
        for symbol in map(str, decision.symbols):
            if entry := re.fullmatch(r"(\w*?[^\W\d])_?(\d+_)?(\d)(\d)?", symbol):
                name, number, *places = entry.groups()
                for axis, index in enumerate(places):
                    indices[f"{name}{number or ''}", axis].add(index or "0")
    return {len(found) for found in indices.values()} - {1}


def _family(symbol: str) -> str:
    """The letters that a name begins with, which the entries of a matrix share."""
    return re.split(r"[^A-Za-z]", symbol)[0] or symbol


def named(given: Sequence[str]) -> set[str]:
    """The assumptions that ``given`` names, one by one; ValueError for words without any."""
    found = set()
    for text in given:
        listed = re.fullmatch(r"([\w, ]+) ([<>!]=?) 0(: .+)?", text)
        if not listed:
            raise ValueError(f"given {text!r} names no assumption; write 'x, y > 0: what they are'")
        found |= {f"{name} {listed[2]} 0" for name in listed[1].split(", ")}
    return found


def hold(given: Sequence[str], scope: str, decisions: Sequence[Decision]) -> None:
    """Raises ValueError if ``given`` or ``scope`` says less than was assumed or decided."""
    words = {WORDS.index(x) if x in WORDS else x for x in re.findall(r"\w+", scope.lower())}
    if missing := sorted(assumptions(decisions) - named(given)):
        raise ValueError(f"assumed and not said: {', '.join(missing)}; name it in given=[...]")
    if unsaid := [n for n in sorted(sizes(decisions)) if not {n, str(n)} & words]:
        raise ValueError(
            f"decided of {', '.join(map(str, unsaid))} entries of a name, which scope={scope!r} "
            "does not say"
        )

"""Rounds numbers so that printed parts add up to printed sums."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from lrp_axioms.numeric.auditing.draft import WORD
from lrp_axioms.numeric.auditing.meanings import OF_LEAVES

DIGITS = 4
UNITS = 10**DIGITS
Key = TypeVar("Key")
OFF = 2  # digits that a part may be off, so that all its sums add up
SUMS_TO = 10**9  # causes add up to a residual to one part in so many


def signed(number: float) -> str:
    """Writes a number with its sign and the digits that all numbers of an audit have; never -0."""
    return _write(round(number * UNITS))


def accounts(facts: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Writes every cause of the residual, and the relevance that ends in every leaf.

    The causes add up to the residual, and the leaves to the relevance passed on by the last layer.
    Words receive the logit minus the residual, if other leaves can take the difference.  A number
    in two sums reads alike in both, and is off by less than three digits.
    """
    leaves, amounts = facts["leaves"], facts["causes"]
    logit, residual = (round(facts[name] * UNITS) for name in ("logit", "residual"))
    words = {n: x["relevance"] for n, x in enumerate(leaves) if x["role"] == WORD}
    others = {n: x["relevance"] for n, x in enumerate(leaves) if n not in words}
    passed = round(sum(leaf["relevance"] for leaf in leaves) * UNITS)
    received = (logit - residual if others else passed) if words else 0
    scale = max(map(abs, (logit, residual, passed)))
    ends = _by_key(words, received, scale) | _by_key(others, passed - received, scale)
    causes: dict[str, int] = {}
    for n in others:
        name = OF_LEAVES[leaves[n]["role"]]
        causes[name] = causes.get(name, 0) + ends[n]
    absorbed = {name: x for name, x in amounts.items() if name not in causes}
    causes |= _by_key(absorbed, residual - sum(causes.values()), scale)
    return {name: _write(causes[name]) for name in amounts}, [
        _write(ends[n]) for n in range(len(leaves))
    ]


def by_kind(facts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Writes absorbed relevance by kind of operation and cause: kinds add up to the causes."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in facts["kinds"]}
    for cause, shown in accounts(facts)[0].items():
        column = {kind: row[cause] for kind, row in facts["kinds"].items() if cause in row}
        if column:
            total = round(float(shown) * UNITS)
            for kind, units in _by_key(column, total, abs(total)).items():
                found[kind][cause] = _write(units)
    return found


def balance(arrived: float, absorbed: Mapping[str, float]) -> tuple[str, dict[str, str], str]:
    """Writes relevance that arrived, was absorbed by cause, and passed on; the parts add up.

    A stage passes on exactly the number that arrives at the next, in all digits.
    """
    before = round(arrived * UNITS)
    after = round((arrived - sum(absorbed.values())) * UNITS)
    shares = _by_key(absorbed, before - after, before)
    return _write(before), {cause: _write(x) for cause, x in shares.items()}, _write(after)


def _by_key(amounts: Mapping[Key, float], total: int, scale: int) -> dict[Key, int]:
    return dict(zip(amounts, _shares([*amounts.values()], total, abs(scale)), strict=True))


def _shares(parts: Sequence[float], total: int, scale: float) -> list[int]:
    """Rounds ``parts`` to units that sum to ``total``, which they may miss by OFF units.

    scale: the largest number around; a float knows about 15 of its digits
    """
    cut = [math.floor(x * UNITS) for x in parts]
    missing = total - sum(cut)
    beyond = missing - sorted((0, missing, len(parts)))[1]
    if (abs(beyond) > OFF and abs(beyond) * SUMS_TO > scale) or (not parts and missing):
        raise ValueError(f"{list(parts)} do not sum to {total / UNITS} in {DIGITS} digits")
    if beyond:
        cut[max(range(len(parts)), key=lambda i: abs(cut[i]))] += beyond
    by_rest = sorted(range(len(parts)), key=lambda i: cut[i] - parts[i] * UNITS)
    for i in by_rest[: missing - beyond]:
        cut[i] += 1
    return cut


def _write(units: int) -> str:
    sign = "-" if units < 0 else "+"  # whole numbers throughout: floats end at 16 digits
    return f"{sign}{abs(units) // UNITS}.{abs(units) % UNITS:0{DIGITS}d}"

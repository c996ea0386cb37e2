"""Numbers as they are shown: rounded so that what adds up does so in the digits that are seen."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from numeric.auditing.draft import WORD
from numeric.auditing.meanings import OF_LEAVES

DIGITS = 4
UNITS = 10**DIGITS
Key = TypeVar("Key")
OFF = 2  # digits by which a part may be off so that all sums that it is in add up
SUMS_TO = 10**9  # causes add up to a residual to one part in so many


def signed(number: float) -> str:
    """``number`` with its sign and as many digits as all numbers of an audit; never -0."""
    return _written(round(number * UNITS))


def accounts(facts: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Every cause of the residual, and what ends in every leaf, as written.

    The causes add up to the residual, the leaves to what the last layer passes on, and what ends in
    words is the logit minus the residual, where other leaves can take the difference.  A number
    of two sums reads the same in both, and is off by less than three digits.
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
    return {name: _written(causes[name]) for name in amounts}, [
        _written(ends[n]) for n in range(len(leaves))
    ]


def by_kind(facts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What each kind of operation absorbed by cause, as written: kinds add up to the causes."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in facts["kinds"]}
    for cause, shown in accounts(facts)[0].items():
        column = {kind: row[cause] for kind, row in facts["kinds"].items() if cause in row}
        if column:
            total = round(float(shown) * UNITS)
            for kind, units in _by_key(column, total, abs(total)).items():
                found[kind][cause] = _written(units)
    return found


def balance(arrived: float, absorbed: Mapping[str, float]) -> tuple[str, dict[str, str], str]:
    """What arrived, was absorbed by cause, and passed on: as written, arrived = absorbed + passed.

    Over consecutive stages, what passes one is what arrives at the next, in all digits.
    """
    before = round(arrived * UNITS)
    after = round((arrived - sum(absorbed.values())) * UNITS)
    shares = _shares(list(absorbed.values()), before - after, abs(before))
    return (
        _written(before),
        dict(zip(absorbed, map(_written, shares), strict=True)),
        _written(after),
    )


def _by_key(amounts: Mapping[Key, float], total: int, scale: int) -> dict[Key, int]:
    return dict(zip(amounts, _shares([*amounts.values()], total, abs(scale), OFF), strict=True))


def _shares(parts: Sequence[float], total: int, scale: float, off: int = 0) -> list[int]:
    """``scale``: the largest number around; a float knows about 15 of its digits.

    off: units by which ``parts`` may miss ``total``, because others were rounded before
    """
    cut = [math.floor(x * UNITS) for x in parts]
    missing = total - sum(cut)
    beyond = missing - sorted((0, missing, len(parts)))[1]
    if (abs(beyond) > off and abs(beyond) * SUMS_TO > scale) or (not parts and missing):
        raise ValueError(f"{list(parts)} do not sum to {total / UNITS} in {DIGITS} digits")
    if beyond:
        cut[max(range(len(parts)), key=lambda i: abs(cut[i]))] += beyond
    by_rest = sorted(range(len(parts)), key=lambda i: cut[i] - parts[i] * UNITS)
    for i in by_rest[: missing - beyond]:
        cut[i] += 1
    return cut


def _written(units: int) -> str:
    sign = "-" if units < 0 else "+"  # whole numbers throughout: floats end at 16 digits
    return f"{sign}{abs(units) // UNITS}.{abs(units) % UNITS:0{DIGITS}d}"

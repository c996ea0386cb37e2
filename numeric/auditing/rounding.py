"""Numbers as they are shown: rounded so that what adds up does so in the digits that are seen."""

import math
from collections.abc import Collection, Mapping, Sequence

DIGITS = 4
UNITS = 10**DIGITS
SUMS_TO = 10**9  # causes add up to a residual to one part in so many


def signed(number: float) -> str:
    """``number`` with its sign and as many digits as all numbers of an audit; never -0."""
    return _written(round(number * UNITS))


def adding_up(parts: Sequence[float], total: float, elsewhere: Collection[float] = ()) -> list[str]:
    """``parts`` rounded so that as written they sum to ``signed(total)``; none moves by a digit.

    Those cut off most are rounded up first; of numbers so large that floats are coarser than the
    digits, the largest takes the difference.  Parts that stand in a sum ``elsewhere``, too, are
    rounded to the nearest digit, so that they read the same there; another part may move by a
    digit for each of them.  Raises ValueError if the parts do not sum to ``total``.
    """
    units = {n: round(x * UNITS) for n, x in enumerate(parts) if x in elsewhere}
    others = [n for n in range(len(parts)) if n not in units] or [*units]
    missing = round(total * UNITS) - sum(x for n, x in units.items() if n not in others)
    shares = _shares([parts[n] for n in others], missing, abs(total * UNITS), len(units))
    units |= dict(zip(others, shares, strict=True))
    return [_written(units[n]) for n in range(len(parts))]


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


def _shares(parts: Sequence[float], total: int, scale: float, off: int = 0) -> list[int]:
    """``scale``: the largest number around, of which a float knows 15 digits or so.

    off: units by which ``parts`` may miss ``total`` because others were rounded before
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

"""Numbers that contain an eps > 0 smaller than every fraction: they are ordered, and have limits.

A rule that is 0/0 at eps = 0 is computed with such an eps, and the limit is taken at the end.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import TypeAlias

from axioms.own_rules.quotients import Quotient, Undecided

Coefficients: TypeAlias = tuple[int, ...]  # of 1, eps, eps^2 ...; the last one is not 0


class NearZero:
    """A quotient of two polynomials in eps with whole coefficients."""

    __slots__ = ("above", "below")

    def __init__(self, above: Coefficients, below: Coefficients = (1,)):
        if not below:
            raise ZeroDivisionError("a divisor is 0 at every small eps")
        self.above, self.below = above, below

    def __add__(self, other: "Value") -> "NearZero":
        other = _near_zero(other)
        if self.below == other.below:
            return NearZero(_sum(self.above, other.above), self.below)
        above = _sum(_product(self.above, other.below), _product(other.above, self.below))
        return NearZero(above, _product(self.below, other.below))

    __radd__ = __add__

    def __neg__(self) -> "NearZero":
        return NearZero(tuple(-c for c in self.above), self.below)

    def __sub__(self, other: "Value") -> "NearZero":
        return self + -other

    def __rsub__(self, other: "Value") -> "NearZero":
        return -self + other

    def __mul__(self, other: "Value") -> "NearZero":
        other = _near_zero(other)
        return NearZero(_product(self.above, other.above), _product(self.below, other.below))

    __rmul__ = __mul__

    def __truediv__(self, other: "Value") -> "NearZero":
        other = _near_zero(other)
        return NearZero(_product(self.above, other.below), _product(self.below, other.above))

    def __rtruediv__(self, other: "Value") -> "NearZero":
        return _near_zero(other) / self

    def __pow__(self, power: int) -> "NearZero":
        found = NearZero((1,))
        for _ in range(abs(power)):
            found = found * self
        return found if power >= 0 else 1 / found

    def __bool__(self) -> bool:
        return bool(self.above)

    def __abs__(self) -> "NearZero":
        return self if self.sign() > 0 else -self

    def __lt__(self, other: "Value") -> bool:
        return (self - other).sign() < 0

    def __gt__(self, other: "Value") -> bool:
        return (other - self).sign() < 0

    def sign(self) -> int:
        """+1 or -1 at every small eps > 0; +1 for 0."""
        if not self.above:
            return 1
        return 1 if (_first(self.above) > 0) == (_first(self.below) > 0) else -1

    def limit(self) -> Fraction:
        """As eps -> 0; ZeroDivisionError where it is infinite."""
        if not self.above or _order(self.above) > _order(self.below):
            return Fraction(0)
        if _order(self.above) < _order(self.below):
            raise ZeroDivisionError("it is infinite in the limit")
        return Fraction(_first(self.above), _first(self.below))


Value: TypeAlias = NearZero | Fraction | int
EPS = NearZero((0, 1))


def _near_zero(value: Value) -> NearZero:
    if isinstance(value, NearZero):
        return value
    if isinstance(value, Quotient):
        raise Undecided("roots beside a small eps")
    return NearZero((value.numerator,) if value else (), (value.denominator,))


def _order(coefficients: Coefficients) -> int:
    """The least power of eps."""
    return next(k for k, c in enumerate(coefficients) if c)


def _first(coefficients: Coefficients) -> int:
    return coefficients[_order(coefficients)]


def _sum(one: Coefficients, other: Coefficients) -> Coefficients:
    return _trimmed([a + b for a, b in zip_longest(one, other, fillvalue=0)])


def _product(one: Coefficients, other: Coefficients) -> Coefficients:
    if len(one) == len(other) == 1:
        return (one[0] * other[0],)
    found = [0] * (len(one) + len(other))
    for k, a in enumerate(one):
        for n, b in enumerate(other):
            found[k + n] += a * b
    return _trimmed(found)


def _trimmed(coefficients: Sequence[int]) -> Coefficients:
    last = len(coefficients)
    while last and not coefficients[last - 1]:
        last -= 1
    return tuple(coefficients[:last])

"""Rational functions of real symbols as products of powers, which sums and products keep short.

SymPy's expressions decide the same; here a proof takes a tenth of the time, because factors that
cancel are never multiplied out.  A sign is a symbol whose square is 1, so that what holds for it
holds in both cases, and what is divided by must be 0 in none of them.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from math import gcd, isqrt, lcm, prod
from typing import TypeAlias

import sympy as sp

Monomial: TypeAlias = tuple[int, ...]  # symbols in order, each as often as its power says
Polynomial: TypeAlias = frozenset[tuple[Monomial, int]]  # primitive, its least monomial above 0
Terms: TypeAlias = Mapping[Monomial, int]

LARGE = 4000  # pairs of terms that are multiplied
CASES = 8  # signs in one divisor, at most, that are split into cases
POSITIVE, SIGN = 1, 2  # what the last two bits of a symbol say of it
ROOTS: dict[int, int] = {}  # symbols for square roots of numbers, and these numbers
VALUES: dict[int, tuple[str, "Quotient"]] = {}
"""Symbols for other numbers, of which no digits are computed: a function and its argument."""
DIGITS = 10**40  # by which roots are told apart
_NUMBERS = itertools.count()


class Undecided(ArithmeticError):
    """The arithmetic here does not tell: what it is asked is too large, or not even defined."""


@cache
def _symbol(name: Hashable, fact: int) -> int:
    return 4 * next(_NUMBERS) + fact


class Quotient:
    """A number times powers of polynomials; 0 has no powers."""

    __slots__ = ("number", "powers")

    def __init__(self, number: Fraction | int, powers: Mapping[Polynomial, int] | None = None):
        self.number = number
        self.powers: Mapping[Polynomial, int] = (powers or {}) if number else {}

    @classmethod
    def of(cls, symbol: sp.Symbol) -> "Quotient":
        """A real symbol, which may be assumed to be positive."""
        return _named(symbol, POSITIVE if symbol.is_positive else 0)

    def __mul__(self, other: "Quotient | Fraction | int") -> "Quotient":
        if not isinstance(other, Quotient):
            return Quotient(self.number * other, self.powers)
        powers = dict(self.powers)
        for factor, power in other.powers.items():
            powers[factor] = powers.get(factor, 0) + power
            if not powers[factor]:
                del powers[factor]
        return Quotient(self.number * other.number, powers)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> "Quotient":
        """Raises Undecided for a divisor that is 0 for some signs, and ZeroDivisionError for 0."""
        if power < 0:
            _check_divisors(self.powers)
        number = Fraction(self.number) ** power
        return Quotient(number, {f: n * power for f, n in self.powers.items()} if power else {})

    def __truediv__(self, other: "Quotient | Fraction | int") -> "Quotient":
        return self * (other if isinstance(other, Quotient) else Quotient(other)) ** -1

    def __rtruediv__(self, other: Fraction | int) -> "Quotient":
        return self**-1 * other

    def __neg__(self) -> "Quotient":
        return Quotient(-self.number, self.powers)

    def __add__(self, other: "Quotient | Fraction | int") -> "Quotient":
        if not other:
            return self
        return _sum((self, other if isinstance(other, Quotient) else Quotient(other)))

    __radd__ = __add__

    def __sub__(self, other: "Quotient | Fraction | int") -> "Quotient":
        return self + -other

    def __rsub__(self, other: Fraction | int) -> "Quotient":
        return -self + other

    def __bool__(self) -> bool:
        return bool(self.number)

    def __abs__(self) -> "Quotient":
        """Factor by factor, which also holds where one of them is 0."""
        size = self if self.number >= 0 else -self
        for factor, power in self.powers.items():
            if power % 2 and not _is_positive(factor):
                size = size * _sign_of(factor)
        return size

    def sign(self) -> "Quotient":
        """Its sign almost everywhere, as a symbol where it is not known.

        Raises Undecided for 0, and for what is 0 for some signs: there it would not be that of a
        multiple.
        """
        if not self.number or any(map(_vanishes, self.powers)):
            raise Undecided("the sign of what is 0")
        odd = [f for f, power in self.powers.items() if power % 2 and not _is_positive(f)]
        number = Quotient(1 if self.number > 0 else -1)
        if not odd:
            return number
        terms = _expanded(dict.fromkeys(odd, 1))
        content, factor = _primitive(terms)
        return (number if content > 0 else -number) * _sign_of(factor)

    def is_zero(self) -> bool:
        """Whether it is 0, which the product of (1 + s) and (1 - s) is for a sign s."""
        return not self.number or not _expanded({f: n for f, n in self.powers.items() if n > 0})

    def differs_from_zero(self) -> bool:
        """Whether it is a number for certain, and not 0."""
        try:
            signs = [_sign_by_digits(f) for f in self.powers if _is_number(f)]
        except Undecided:
            return False
        return bool(self.number) and len(signs) == len(self.powers)

    def at_zero(self, symbol: sp.Symbol) -> "Quotient":
        """Its limit as a positive symbol -> 0, at almost all points; errors as for powers."""
        (((gone,), _),) = next(iter(Quotient.of(symbol).powers))
        found = Quotient(self.number)
        for factor, power in self.powers.items():
            kept = {m: c for m, c in factor if gone not in m}
            same = len(kept) == len(factor)
            found = found * (Quotient(1, {factor: 1}) if same else _of(kept)) ** power
        return found


def root(value: "Fraction | Quotient") -> "Fraction | Quotient":
    """The square root of what is above 0, one symbol for that of equal values."""
    if isinstance(value, Quotient):
        return _named(("root", value.number, frozenset(value.powers.items())), POSITIVE)
    if value <= 0:
        raise Undecided(f"the root of {value}")
    whole = value.numerator * value.denominator
    if isqrt(whole) ** 2 == whole:
        return Fraction(isqrt(whole), value.denominator)
    found = _named(("root", whole), POSITIVE)
    (((symbol,), _),) = next(iter(found.powers))
    ROOTS[symbol] = whole
    return found * Fraction(1, value.denominator)


def value_of(function: str, at: "Fraction | Quotient | int", *, positive: bool) -> Quotient:
    """What a function that is not rational is at a number, one symbol for equal arguments.

    Equal symbols are equal numbers.  Of different ones nothing is known, so that what contains
    such a number is found equal or left open.
    """
    at = at if isinstance(at, Quotient) else Quotient(Fraction(at))
    fact = POSITIVE if positive else 0
    found = _named((function, at.number, frozenset(at.powers.items())), fact)
    if all(s in ROOTS or s in VALUES for factor in at.powers for m, _ in factor for s in m):
        (((symbol,), _),) = next(iter(found.powers))
        VALUES[symbol] = function, at
    return found


def _named(name: Hashable, fact: int) -> Quotient:
    return Quotient(1, {frozenset({((_symbol(name, fact),), 1)}): 1})


@cache
def _sign_of(factor: Polynomial) -> Quotient:
    if _is_number(factor):
        return Quotient(_sign_by_digits(factor))
    if all(s in ROOTS or s in VALUES for m, _ in factor for s in m):
        raise Undecided("the sign of a number without digits")
    return _named(factor, SIGN)


def _is_number(factor: Polynomial) -> bool:
    return all(s in ROOTS for m, _ in factor for s in m)


def _sign_by_digits(factor: Polynomial) -> int:
    """That of a number, from bounds of its roots."""
    lowest = highest = Fraction(0)
    for monomial, c in factor:
        low = high = Fraction(1)
        for s in monomial:
            bound = Fraction(isqrt(ROOTS[s] * DIGITS**2), DIGITS)
            low, high = low * bound, high * (bound + Fraction(1, DIGITS))
        lowest, highest = lowest + min(c * low, c * high), highest + max(c * low, c * high)
    if lowest <= 0 <= highest:
        raise Undecided("the sign of what may be 0")
    return 1 if lowest > 0 else -1


@cache
def _is_positive(factor: Polynomial) -> bool:
    return all(c > 0 and all(s & POSITIVE for s in m) for m, c in factor)


def _sum(values: Iterable[Quotient]) -> Quotient:
    """Over their common denominator, times their common factors."""
    values = [value for value in values if value.number]
    factors = {f for value in values for f in value.powers}
    common = {f: min(value.powers.get(f, 0) for value in values) for f in factors}
    scale = lcm(*(Fraction(value.number).denominator for value in values))
    found: Counter[Monomial] = Counter()
    for value in values:
        number = int(value.number * scale)
        rest = {f: value.powers.get(f, 0) - n for f, n in common.items()}
        for monomial, c in _expanded(rest).items():
            found[monomial] += number * c
    return _of(found) * Quotient(Fraction(1, scale), {f: n for f, n in common.items() if n})


def _expanded(powers: Mapping[Polynomial, int]) -> Terms:
    """A product multiplied out; Undecided for one that is large."""
    terms: Terms = {(): 1}
    for factor, power in powers.items():
        for _ in range(power):
            terms = _product(terms, factor)
    return terms


def _product(terms: Terms, factor: Polynomial) -> Terms:
    if len(terms) * len(factor) > LARGE:
        raise Undecided(f"a product of more than {LARGE} pairs of terms")
    found: Counter[Monomial] = Counter()
    for (one, a), (other, b) in itertools.product(terms.items(), factor):
        monomial, square = _times(one, other)
        found[monomial] += a * b * square
    return {monomial: c for monomial, c in found.items() if c}


def _times(one: Monomial, other: Monomial) -> tuple[Monomial, int]:
    """A product without the squares of signs and roots, and what these come to."""
    if not one or not other:
        return one or other, 1
    twice = [s for s in one if (s & SIGN or s in ROOTS) and s in other]
    left = sorted(s for s in one + other if s not in twice)
    return tuple(left), prod(ROOTS.get(s, 1) for s in twice)


def _of(terms: Terms) -> Quotient:
    """A sum of terms, with the symbols that all of them share as factors."""
    terms = {monomial: c for monomial, c in terms.items() if c}
    if not terms:
        return Quotient(0)
    if len(terms) == 1:
        ((monomial, c),) = terms.items()
        return Quotient(c, Counter(frozenset({((s,), 1)}) for s in monomial))
    shared = Counter(next(iter(terms)))
    for monomial in terms:
        shared &= Counter(monomial)
    if shared:
        rest = {tuple(sorted((Counter(m) - shared).elements())): c for m, c in terms.items()}
        return _of(rest) * _of({tuple(shared.elements()): 1})
    content, factor = _primitive(terms)
    return Quotient(content, {factor: 1})


def _primitive(terms: Terms) -> tuple[int, Polynomial]:
    content = gcd(*terms.values())
    if terms[min(terms)] < 0:
        content = -content
    return content, frozenset((m, c // content) for m, c in terms.items())


def _check_divisors(powers: Mapping[Polynomial, int]) -> None:
    for factor, power in powers.items():
        if power > 0 and _vanishes(factor):
            raise Undecided("a divisor is 0 for some signs")


@cache
def _vanishes(factor: Polynomial) -> bool:
    """Whether it is 0, identically in all else, for some signs."""
    alone = Counter(tuple(s for s in m if not s & SIGN) for m, _ in factor)
    if 1 in alone.values():  # a term that no other one can cancel
        return False
    signs = sorted({s for m, _ in factor for s in m if s & SIGN})
    if len(signs) > CASES:
        raise Undecided(f"more than {CASES} signs in one divisor")
    for case in itertools.product((1, -1), repeat=len(signs)):
        value_of, found = dict(zip(signs, case, strict=True)), Counter[Monomial]()
        for monomial, c in factor:
            for s in monomial:
                c *= value_of.get(s, 1)
            found[tuple(s for s in monomial if s not in value_of)] += c
        if not any(found.values()):
            return True
    return False

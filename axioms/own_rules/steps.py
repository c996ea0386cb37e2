"""The formula of a rule as a list of steps, to be computed with any exact numbers.

A rule that is asked at each point anew spends its time in SymPy.  Its formula is read once, each
part of it once, and then takes Fractions and Quotients alike.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, reduce
from operator import add, mul
from typing import Any, TypeAlias

import sympy as sp

from axioms.own_rules.quotients import Quotient, Undecided
from axioms.own_rules.rules import Nested, Rule, flat, for_symbols
from axioms.own_rules.signs import Sign

Number: TypeAlias = Any  # an int, a Fraction, a NearZero or a Quotient
Places: TypeAlias = "int | list[Places]"


def sign_of(value: Number, *, eps: Number) -> Number:
    """Its sign, +1 for 0; in the limit eps = 0 that of 0 is Undecided."""
    if not value:
        if not eps:
            raise Undecided("the sign of 0 in the limit")
        return 1
    return value.sign() if isinstance(value, Quotient) else 1 if value > 0 else -1


def over(one: Number, other: Number) -> Number:
    """A quotient; that of whole numbers, too, is exact."""
    return Fraction(one, other) if isinstance(one, int) and isinstance(other, int) else one / other


def larger(one: Number, other: Number) -> Number:
    """The maximum of two numbers."""
    if isinstance(one, Quotient) or isinstance(other, Quotient):
        return over(one + other + abs(one - other), 2)
    return max(one, other)


def _largest(*values: Number) -> Number:
    return reduce(larger, values)


def _smallest(*values: Number) -> Number:
    return -_largest(*(-value for value in values))


def exact(number: sp.Rational) -> int | Fraction:
    """The same number of Python's."""
    return int(number) if number.is_Integer else Fraction(int(number.p), int(number.q))


class Formula:
    """Nested expressions of symbols, which can be computed at numbers."""

    def __init__(self, symbols: Sequence[sp.Symbol], found: Nested):
        self.places = {symbol: k for k, symbol in enumerate(symbols)}
        self.steps: list[tuple[Callable[..., Any] | None, list[int]]] = []
        self.first = len(symbols)
        self.found = self._places(found)

    def _places(self, found: Nested) -> Places:
        return [self._places(x) for x in found] if isinstance(found, list) else self._place(found)

    def _place(self, part: sp.Expr) -> int:
        """Where the value of a part will be; Undecided for one that is computed otherwise."""
        if part not in self.places:
            self.steps.append(self._step(part))
            self.places[part] = self.first + len(self.steps) - 1
        return self.places[part]

    def _step(self, part: sp.Expr) -> tuple[Callable[..., Any] | None, list[int]]:
        if part.is_Rational:
            number = exact(part)
            return lambda: number, []
        if part.is_Pow and part.exp.is_Integer:
            power = int(part.exp)
            computed = (lambda x: x**power) if power > 0 else (lambda x: over(1, x) ** -power)
            return computed, [self._place(part.base)]
        if part.func not in COMPUTED:
            raise Undecided(f"{part} is no rational function")
        return COMPUTED[part.func], [self._place(x) for x in part.args]

    def at(self, values: Sequence[Number], eps: Number) -> Any:
        """The value of everything, nested; Undecided, ZeroDivisionError where one is undefined."""
        known = list(values)
        for compute, operands in self.steps:
            given = [known[k] for k in operands]
            known.append(compute(*given) if compute else sign_of(*given, eps=eps))

        def filled(places: Places) -> Any:
            return [filled(x) for x in places] if isinstance(places, list) else known[places]

        return filled(self.found)


COMPUTED: dict[type[sp.Expr], Callable[..., Number] | None] = {
    sp.Add: lambda *terms: reduce(add, terms),
    sp.Mul: lambda *factors: reduce(mul, factors),
    sp.Abs: abs,
    sp.Max: _largest,
    sp.Min: _smallest,
    Sign: None,  # which also depends on the stabiliser
}


@cache
def formula(rule: Rule, count: int | None) -> Formula:
    """That of a rule for lists of ``count``; RuleError, and Undecided if it is not rational."""
    given, messages = for_symbols(rule, count)
    return Formula(flat(given), messages)


@cache
def number(value: sp.Expr) -> Number:
    """That of Python for a rational number, a Quotient of symbols; Undecided for what is none."""
    if value.is_Rational:
        return exact(value)
    symbols = sorted(value.free_symbols, key=str)
    found: Number = Formula(symbols, value).at([Quotient.of(x) for x in symbols], 1)
    return found

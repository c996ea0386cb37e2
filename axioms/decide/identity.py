"""Decides equalities between rational functions.

Every expression that is compared lives in a field of rational functions: ``sign(z)`` is split
into cases, ``exp(z)`` is a positive symbol, and a square root is a symbol of its own.  There a
difference multiplied out is 0 or not, so a check is a proof or a disproof, not a heuristic.

Each decision is written into the open record, as ``axioms.decide.decisions`` says.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import prod
from typing import TypeAlias

import sympy as sp
from sympy import QQ, sring
from sympy.core.evalf import PrecisionExhausted
from sympy.polys.rings import PolyRing

from lrp_axioms.axioms.decide.decisions import DIFFER_AT, IDENTICAL
from lrp_axioms.axioms.decide.polynomials import is_zero
from lrp_axioms.axioms.decide.records import Unknown, decided, free_signs, sign_case

Number: TypeAlias = sp.Expr | int  # exact, or symbols for it
Sides: TypeAlias = sp.Matrix | Number  # one side of an equality
Point: TypeAlias = Mapping[sp.Symbol, Number]

LARGE = 4000  # terms; `cancel` takes a second there, and soon after it does not come back


def generic(name: str, rows: int, cols: int, **assumptions: bool) -> sp.Matrix:
    """A matrix of different symbols, real unless ``assumptions`` say otherwise."""
    assumptions = assumptions or {"real": True}
    return sp.Matrix(rows, cols, lambda i, j: sp.Symbol(f"{name}{i}{j}", **assumptions))


def sign_cases(rows: int, cols: int) -> Iterator[sp.Matrix]:
    """Every matrix of signs: one case each for ``sign(z)``, with sign(0) = +1."""
    if (symbols := free_signs(rows, cols)) is not None:  # for a certificate, which has all at once
        yield symbols
        return
    for signs in itertools.product((1, -1), repeat=rows * cols):
        with sign_case(signs):
            yield sp.Matrix(rows, cols, signs)


def is_rational_function(expression: sp.Expr) -> bool:
    """Whether only symbols, rational numbers, sums, products and integer powers occur."""
    return all(
        part.is_Symbol
        or part.is_Rational
        or part.is_Add
        or part.is_Mul
        or (part.is_Pow and part.exp.is_Integer)
        for part in sp.preorder_traversal(expression)
    )


def is_large(expression: sp.Expr, *, than: int = LARGE) -> bool:
    """Whether a rational function, as one expanded fraction, may have more terms than ``than``."""
    above, below = _terms(expression)
    return above + _expanded_size(below) > than


@cache
def _terms(expression: sp.Expr) -> tuple[int, Counter[sp.Expr]]:
    """A bound on the terms of the expanded numerator, and the powers in the denominator."""
    parts = [_terms(part) for part in expression.args]
    if expression.is_Add:
        common: Counter[sp.Expr] = Counter()
        for _, below in parts:
            common |= below
        return sum(above * _expanded_size(common - below) for above, below in parts), common
    if expression.is_Mul:
        return prod(above for above, _ in parts), sum((below for _, below in parts), Counter())
    if not expression.is_Pow:
        return 1, Counter()
    above, below = parts[0]
    power = abs(int(expression.exp))
    scaled = Counter({base: times * power for base, times in below.items()})
    if expression.exp > 0:
        return above**power, scaled
    return _expanded_size(scaled), Counter({expression.base: power})


def _expanded_size(powers: Counter[sp.Expr]) -> int:
    return prod(_terms(base)[0] ** times for base, times in powers.items())


def lowest_terms(expression: sp.Expr) -> sp.Expr:
    """Reduces a rational function to lowest terms; a large expression is returned unchanged."""
    if expression.is_Rational or not is_rational_function(expression) or is_large(expression):
        return expression
    above, below = expression.as_numer_denom()
    ring = _ring(frozenset(above.free_symbols | below.free_symbols))
    above, below = ring.from_expr(above).cancel(ring.from_expr(below))
    return above.as_expr() / below.as_expr()


@cache
def _ring(symbols: frozenset[sp.Symbol]) -> PolyRing:
    """Returns the ring of some symbols, whose polynomials are faster than ``expand``."""
    found, _ = sring([sp.S.One, *symbols], domain=QQ)
    return found


def identical(lhs: Sides, rhs: Sides) -> bool:
    """Whether two rational functions, or two matrices of them, are the same.

    Raises ValueError outside the rational functions, where no decision would be a proof.
    """
    if isinstance(lhs, sp.MatrixBase) or isinstance(rhs, sp.MatrixBase):
        if getattr(lhs, "shape", None) != getattr(rhs, "shape", None):
            raise ValueError(f"shapes differ: {lhs} and {rhs}; compare entries of equal shapes")
        return all(identical(a, b) for a, b in zip(*map(sp.flatten, (lhs, rhs)), strict=True))
    lhs, rhs = sp.sympify(lhs), sp.sympify(rhs)
    return decided(IDENTICAL, lhs, rhs, now=_same(lhs, rhs))


def _same(lhs: sp.Expr, rhs: sp.Expr) -> bool:
    gap = lhs - rhs
    if not is_rational_function(gap):
        raise ValueError(
            f"{gap} is not a rational function; split signs into cases and name exponentials "
            "and roots by symbols"
        )
    if gap.is_Rational:
        return bool(gap == 0)
    # One point where the two sides differ disproves the equality at once; expanding them may not.
    symbols = sorted(gap.free_symbols, key=str)
    value = gap.xreplace({x: sp.Integer(sp.prime(k + 5)) for k, x in enumerate(symbols)})
    if value.is_Rational and value != 0:
        return False
    try:
        return is_zero(gap)
    except ZeroDivisionError:  # 0/0 everywhere, which proves nothing
        return False


def limit(side: Sides, eps: sp.Symbol) -> sp.Matrix | sp.Expr:
    """Limit of a rational function, or of a matrix of them, as ``eps`` -> 0 at almost all points.

    The limit is the value at 0 wherever no divisor is 0 there.  Raises ValueError for a divisor
    that is 0 everywhere.
    """
    if isinstance(side, sp.MatrixBase):
        return side.applyfunc(lambda entry: limit(entry, eps))
    side = sp.sympify(side)
    for power in side.atoms(sp.Pow):
        if power.exp.is_negative and _same(power.base.subs(eps, 0), sp.Integer(0)):
            raise ValueError(f"{power.base} is 0 at {eps} = 0; cancel it in {side} first")
    return side.subs(eps, 0)


def where(
    *pairs: tuple[sp.Symbol, Number] | tuple[sp.Matrix, Iterable[Number]],
) -> dict[sp.Symbol, sp.Expr]:
    """A point from pairs of a symbol and its value, or of a matrix of symbols and their values."""
    point: dict[sp.Symbol, Number] = {}
    for symbols, values in pairs:
        several = isinstance(symbols, sp.MatrixBase)
        point |= zip(symbols, sp.flatten(values), strict=True) if several else {symbols: values}
    return {x: sp.sympify(value) for x, value in point.items()}


def value_at(side: Number, point: Point) -> sp.Expr:
    """The exact value of an expression at a rational point: a real number, such as 1/2 or tanh(1).

    Raises ValueError for a point that the symbols rule out, that leaves one of them open, or at
    which the expression has no such value.
    """
    side, exact = sp.sympify(side), {x: sp.sympify(value) for x, value in point.items()}
    for x, value in exact.items():
        if not value.is_Rational:
            raise ValueError(f"{x} = {point[x]}: a point is made of exact rationals; give one")
        facts = x.assumptions0.items()
        if any(getattr(value, f"is_{fact}") not in (None, holds) for fact, holds in facts):
            raise ValueError(
                f"{x} = {value}: what is assumed of {x} rules this out; choose another point"
            )
    value = side.xreplace(exact)
    missing = sorted(map(str, side.free_symbols - exact.keys()))
    if missing or not value.is_real or value.has(sp.Float):
        raise ValueError(
            f"{value} is not an exact real number (free: {missing}); an inequality needs exact "
            "rationals for every symbol, where both sides are defined"
        )
    return value


def differ_at(lhs: Number, rhs: Number, witness: Point) -> bool:
    """Whether an exact rational point separates ``lhs`` from ``rhs``; errors as ``value_at``."""
    lhs, rhs = sp.sympify(lhs), sp.sympify(rhs)
    unknown = (lhs - rhs).has(Unknown)
    differ = not unknown and apart(value_at(lhs, witness), value_at(rhs, witness))
    return decided(DIFFER_AT, lhs, rhs, now=differ, point=witness)


def apart(one: sp.Expr, other: sp.Expr) -> bool:
    """Whether two exact real numbers differ for certain: False where no digit of the gap is."""
    return sign_of_number(one - other) in (1, -1)


def sign_of_number(number: sp.Expr) -> int | None:
    """Returns -1, 0 or 1, or None where rounding hides the sign, as it may for sqrt(2)**2 - 2."""
    try:
        value = number if number.is_Rational else number.evalf(2, strict=True)
    except PrecisionExhausted:
        return None
    return int(sp.sign(value)) if value.is_extended_real else None

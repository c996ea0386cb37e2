"""Rational functions by FLINT, a library of polynomials that shares no code with SymPy."""

from collections.abc import Iterable

import sympy as sp
from flint import Ordering, fmpq, fmpq_mpoly, fmpq_mpoly_ctx

Fraction = tuple[fmpq_mpoly, fmpq_mpoly]  # numerator and denominator, without a common factor


def same(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether two expressions are one rational function of their symbols."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    context = fmpq_mpoly_ctx.get([f"x{n}" for n in range(len(symbols))], Ordering.degrevlex)
    values = {s: (g, g * 0 + 1) for s, g in zip(symbols, context.gens(), strict=True)}
    one = context.constant(1)
    above, below = (fraction(side, values, one) for side in (left, right))
    return above[0] * below[1] == below[0] * above[1]


def fraction(expression: sp.Expr, values: dict[sp.Symbol, Fraction], one: fmpq_mpoly) -> Fraction:
    """The expression, part by part.

    Raises TypeError for any other function, and ZeroDivisionError for a divisor of 0.
    """
    if expression.is_Symbol:
        return values[expression]
    if expression.is_Rational:
        return one * fmpq(int(expression.p), int(expression.q)), one
    parts = [fraction(part, values, one) for part in expression.args if part.is_commutative]
    if expression.is_Add:
        return _sum(parts, one)
    if expression.is_Mul:
        return _product(parts, one)
    if expression.is_Pow and expression.exp.is_Integer:
        (above, below), n = parts[0], int(expression.exp)
        return _lowest(above**n, below**n) if n >= 0 else _lowest(below**-n, above**-n)
    raise TypeError(f"{expression} is no rational function")


def _sum(parts: Iterable[Fraction], one: fmpq_mpoly) -> Fraction:
    above, below = 0 * one, one
    for a, b in parts:
        above, below = _lowest(above * b + a * below, below * b)
    return above, below


def _product(parts: Iterable[Fraction], one: fmpq_mpoly) -> Fraction:
    above, below = one, one
    for a, b in parts:
        above, below = _lowest(above * a, below * b)
    return above, below


def _lowest(above: fmpq_mpoly, below: fmpq_mpoly) -> Fraction:
    if below == 0:
        raise ZeroDivisionError("a denominator is 0")
    common = above.gcd(below)
    return above / common, below / common

"""Signs, sizes and maxima of symbols, and how they are written in a rational function."""

from collections.abc import Callable

import sympy as sp

from axioms.algebra.decide import Number, sign_of_number
from axioms.algebra.denotation import named, same_value
from axioms.algebra.rules import sign_of
from axioms.invariance.witness import NEAR_0

UNDEFINED = (sp.zoo, sp.nan, sp.oo)


class Sign(sp.Function):  # type: ignore[misc]  # SymPy has no types
    """+1 where its argument is >= 0 and -1 where it is < 0."""

    is_real = True

    @classmethod
    def eval(cls, z: sp.Expr) -> sp.Expr:
        """A number where the sign is known; ``written`` finds the factors of what is left."""
        found = _sign(z)
        if found is not None:
            return found
        number, rest = z.as_coeff_Mul()
        return cls(rest if number > 0 else -rest, evaluate=False)


def sign(z: Number) -> sp.Expr:
    """+1 where z >= 0 and -1 where z < 0; where ``z`` is symbolic, its sign unevaluated."""
    return Sign(sp.sympify(z))


def _sign(z: sp.Expr) -> sp.Expr | None:
    """+1, -1 or nan; None where it depends on symbols."""
    if z.free_symbols == {NEAR_0}:
        z = _lowest(z)
    try:
        return sp.Integer(sign_of(z))
    except ValueError:
        if z.has(*UNDEFINED):
            return sp.nan
        if not z.free_symbols:  # an irrational number that SymPy does not compare with 0
            known = 0 if same_value(z, 0) else sign_of_number(z)
            return sp.nan if known is None else sp.Integer(-1 if known < 0 else 1)
        return None


def _lowest(z: sp.Expr) -> sp.Expr:
    """A number with the sign that ``z`` has at every small enough eps > 0; nan if it has none."""
    try:
        sides = sp.fraction(sp.cancel(written(z)))
        return sp.prod(sp.Poly(side, NEAR_0).EC() for side in sides)
    except (sp.PolynomialError, ZeroDivisionError):
        return sp.nan


def _factors(z: sp.Expr) -> tuple[sp.Rational, sp.Expr]:
    """The rational number in front of ``z``, and the product of all else that is not positive."""
    number, rest = sp.factor(z).as_coeff_Mul()
    return number, sp.Mul(*(f for f in sp.Mul.make_args(rest) if not f.is_positive))


def written(value: sp.Expr) -> sp.Expr:
    """The value with a symbol for every sign, by which sizes and maxima are written too."""
    for function, other in WRITTEN.items():
        value = value.replace(function, other) if value.has(function) else value
    return value


def _size_of(z: sp.Expr) -> sp.Expr:
    """|z| factor by factor, which also holds where a factor is 0."""
    size = sp.Integer(1)
    for factor in sp.Mul.make_args(sp.factor(z)):
        base, power = factor.as_base_exp()
        if base.could_extract_minus_sign():  # |x| and |-x| alike
            base = -base
        size *= (base * sign(base)) ** power
    return size


def _maximum(first: sp.Expr, *rest: sp.Expr) -> sp.Expr:
    for other in rest:
        first = (first + other + _size_of(first - other)) / 2
    return first


def _named_sign(z: sp.Expr) -> sp.Expr:
    """A symbol for the sign of a primitive argument; that of -z is minus that of z."""
    number, primitive = _factors(z)
    return named("sign", primitive if number > 0 else -primitive)


WRITTEN: dict[type[sp.Function], Callable[..., sp.Expr]] = {  # in this order
    sp.Min: lambda *args: -sp.Max(*(-a for a in args)),
    sp.Max: _maximum,
    sp.Abs: _size_of,
    Sign: _named_sign,
}
"""Functions that a message may hold, and how they are written in a rational function."""

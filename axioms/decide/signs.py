"""Signs of symbols; sizes, maxima and cases without branches at a small enough eps > 0."""

from functools import reduce

import sympy as sp
from sympy.printing.str import StrPrinter

from lrp_axioms.axioms.decide.denotation import same_value
from lrp_axioms.axioms.decide.identity import Number, sign_of_number
from lrp_axioms.axioms.rules.rule import sign_of
from lrp_axioms.axioms.scoreboard.witness import NEAR_0

UNDEFINED = (sp.zoo, sp.nan, sp.oo)
CASES = (sp.Max, sp.Min, sp.Abs, sp.Piecewise)


class Sign(sp.Function):  # type: ignore[misc]  # SymPy has no types
    """+1 where its argument is >= 0 and -1 where it is < 0."""

    is_real = True

    @classmethod
    def eval(cls, z: sp.Expr) -> sp.Expr | None:
        """A number where the sign is known; a positive factor is dropped."""
        found = _sign(z)
        if found is not None:
            return found
        number, rest = z.as_coeff_Mul()
        primitive = rest if number > 0 else -rest
        return None if primitive == z else cls(primitive, evaluate=False)


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
    """A number with the sign of ``z`` at every small enough eps > 0; nan if there is none."""
    try:
        sides = sp.fraction(sp.cancel(resolved(z)))
        return sp.prod(sp.Poly(side, NEAR_0).EC() for side in sides)
    except (sp.PolynomialError, ZeroDivisionError):
        return sp.nan


def resolved(value: sp.Expr) -> sp.Expr:
    """A number that depends on a small eps > 0 alone, without sizes, maxima and cases."""
    return value.replace(lambda part: isinstance(part, CASES), _resolve) if value.args else value


def _resolve(part: sp.Expr) -> sp.Expr:
    if isinstance(part, sp.Abs):
        return part.args[0] * sign(part.args[0])
    if isinstance(part, sp.Piecewise):
        return next((value for value, case in part.args if _holds(case)), sp.nan)
    up = isinstance(part, sp.Max)
    return reduce(lambda one, other: one if (sign(one - other) > 0) == up else other, part.args)


def _holds(case: sp.Basic) -> bool:
    """Whether a case holds at every small enough eps > 0."""
    if not isinstance(case, sp.core.relational.Relational):
        return bool(case.func(*(sp.sympify(_holds(x)) for x in case.args)) if case.args else case)
    gap = _lowest(case.lhs - case.rhs)
    return bool(case.func(0 if same_value(gap, 0) else sign(gap), 0))


def by_sizes(value: sp.Expr) -> sp.Expr:
    """An expression with sizes in place of maxima and minima, as equal ones then cancel."""

    def extreme(part: sp.Expr) -> sp.Expr:
        up = 1 if isinstance(part, sp.Max) else -1
        return reduce(lambda a, b: (a + b + up * sp.Abs(a - b)) / 2, part.args)

    return value.replace(lambda part: isinstance(part, sp.Max | sp.Min), extreme)


class _Printer(StrPrinter):  # type: ignore[misc]  # SymPy has no types
    def _print_Abs(self, part: sp.Expr) -> str:
        return f"|{self._print(part.args[0])}|"

    def _print_Sign(self, part: sp.Expr) -> str:
        return f"sign({self._print(part.args[0])})"

    def _print_Symbol(self, part: sp.Symbol) -> str:
        return "eps" if part.name == "epsilon" else str(part.name)


def shown(value: sp.Expr) -> str:
    """An expression in a line of text."""
    return str(_Printer().doprint(value))

"""The solver's facts hold of real numbers, and its models are confirmed."""

from dataclasses import dataclass, field, replace
from unittest import mock

import pytest
import sympy as sp
import z3

from axioms.decide import equality
from axioms.decide.equality import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNDEFINED,
    Part,
    Undecided,
    at_every_eps,
    at_zero_eps,
    solved,
)
from axioms.decide.limits import in_cells
from axioms.decide.reals import EPS, Reals, number, point, solver
from axioms.decide.signs import by_sizes, shown, sign

X, Y, Z, R = sp.symbols("x y z R", real=True)
POINTS = [(a, b) for a in (-2, -1, 0, sp.Rational(1, 2), 1) for b in (-1, 0, 1, 3)]


@dataclass(frozen=True)
class Sides(Part):
    one: sp.Expr
    other: sp.Expr
    given: list = field(default_factory=list)
    also: list = field(default_factory=list)

    def messages(self):
        return self.also

    def pairs(self):
        return [(self.one, self.other)]

    def facts(self):
        return self.given


def test_a_difference_in_any_pair_counts_and_has_a_small_point():
    class Two(Sides):
        def pairs(self):
            return [(X, X), *super().pairs()]

    found = at_every_eps(Two(X**2, X))
    assert (found.status, found.point) == (DIFFERENT, {X: 2})


def test_cells_at_epsilon_0_are_of_arguments_at_epsilon_0():
    assert at_zero_eps(Sides(X, X, also=[R / sp.Max(X - EPS, 0)])).status == UNDEFINED


@pytest.mark.parametrize("expression", [
    sp.Max(X, Y, X * Y) - sp.Min(X, 1),
    sp.Abs(X - Y) + sp.Abs(X) * Y**3,
    sign(X - Y) * X + sign(Y - X),
    sp.Piecewise((X, X > Y), (Y**2, sp.And(X <= 0, sp.Ne(Y, 0))), (5, True)),
    sp.sqrt(X**2 + 1) * sp.Abs(Y) + 1 / sp.sqrt(Y**2 + 4),
    sum(
        sp.Piecewise((2**k, join(X > 0, Y > 0, X + Y > 1)), (0, True))
        for k, join in enumerate((sp.And, sp.Or, sp.Xor, sp.Equivalent, sp.ITE))
    ),
])  # fmt: skip
def test_a_term_has_the_value_of_its_expression_ties_included(expression):
    reals = Reals()
    term = reals.term(expression)
    for x, y in POINTS:
        at = [reals.term(X) == reals.term(sp.Rational(x)), reals.symbols[Y] == int(y)]
        nonzero = [z3.Not(divisor.vanishes) for divisor in reals.divisors]
        found = solver([*reals.facts, *nonzero, *at], 10**6)
        assert found.check() == z3.sat
        value = number(found.model().eval(term, model_completion=True))
        assert sp.simplify(value - expression.subs({X: x, Y: y})) == 0


def test_divisors_are_listed_with_the_case_that_they_are_in():
    reals = Reals()
    reals.term(1 / (X + Y) + sp.Piecewise((1 / X, X > 0), (0, True)))
    assert {x.expression for x in reals.divisors} == {X + Y, X}
    (guarded,) = (x for x in reals.divisors if x.expression == X)
    assert solver([guarded.vanishes], 10**6).check() == z3.unsat  # X = 0 is in the other case


def test_an_exponential_is_positive_and_turns_sums_into_products():
    assert at_every_eps(Sides(sp.exp(X + 2 * Y), sp.exp(X) * sp.exp(Y) ** 2)).status == EQUAL
    assert at_every_eps(Sides(sp.Abs(sp.exp(X)), sp.exp(X))).status == EQUAL
    assert not Reals().symbols
    reals = Reals()
    reals.term(sp.exp(X))
    assert reals.unknown == [sp.exp(X)]


def test_algebraic_numbers_of_a_model_are_exact():
    reals = Reals()
    square = reals.term(X**2)
    found = solver([square == 2, reals.symbols[X] < 0], 10**6)
    assert found.check() == z3.sat
    assert sp.simplify(point(found.model(), reals.symbols)[X] + sp.sqrt(2)) == 0


EQUALITIES = [
    (sp.Max(X, Y) + sp.Min(X, Y), X + Y, EQUAL),
    (sp.Abs(X), X * sign(X), EQUAL),
    (sign(-X), -sign(X), DIFFERENT),  # at 0
    (X**2 / X**2 * Y, Y, EQUAL),
    (Y * (X - Y) / (X - Y), Y, EQUAL),
    (X / (sp.Max(X, 0) + sp.Max(Y, 0)), X / (sp.Max(X, 0) + sp.Max(Y, 0)), UNDEFINED),
    (Y / (sp.Max(X, 0) + sp.Max(sp.Max(X, 0), 0)), Y / (2 * sp.Max(X, 0)), UNDEFINED),
    (Y / (sp.Abs(X) - X), Y / (sp.Abs(X) - X), UNDEFINED),
    (Y / (sp.Abs(X) + X**2), Y / (sp.Abs(X) + X**2), EQUAL),
    *[(Y * f, Y * f, UNDEFINED) for f in (sp.sqrt(X), sp.log(X), X ** sp.Rational(-1, 3))],
    (Y * sp.log(X**2 + 1), Y * sp.log(1 + X**2), EQUAL),
    (sp.sqrt(X**4 + 2 * X**2 + 1), X**2 + 1, EQUAL),
    (*(sp.Piecewise((sp.sqrt(X), X > 0), (n * X, True)) for n in (1, 2)), DIFFERENT),
    (Y * sp.exp(1 / sp.Max(X, 0)), Y * sp.exp(1 / sp.Max(X, 0)), UNDEFINED),
]


@pytest.mark.parametrize(("one", "other", "status"), EQUALITIES)
def test_sides_are_equal_wherever_they_are_defined_or_differ_or_are_0_over_0(one, other, status):
    assert at_every_eps(Sides(one, other)).status == status


def test_facts_restrict_what_is_decided():
    assert at_every_eps(Sides(sp.Abs(X), X)).status == DIFFERENT
    assert at_every_eps(Sides(sp.Abs(X), X, [X >= 0])).status == EQUAL
    for divisor in (Z - X * Y, sp.Max(Z - X * Y, 0)):
        zero = Sides(R / divisor, R / divisor, [sp.Eq(Z, X * Y)])
        assert at_every_eps(zero).status == at_zero_eps(zero).status == UNDEFINED


def test_divisors_that_may_be_0_are_told():
    assert at_every_eps(Sides(Y / (X + Y), Y / (Y + X) + 0 * X)).divisors == (X + Y,)
    assert at_every_eps(Sides(Y / (X**2 + 1), Y / (1 + X**2))).divisors == ()
    with mock.patch.object(equality, "QUICK", 1):  # steps, so that z3 gives up: it may be 0
        assert at_every_eps(Sides(Y / (X + Y), Y / (X + Y))).divisors == (X + Y,)
    stabilised = Y / (X + EPS * sign(X))
    assert at_every_eps(Sides(stabilised, stabilised)).divisors == ()
    assert len(at_zero_eps(Sides(stabilised, stabilised)).divisors) == 1
    cubed = X + EPS * sign(X) - EPS * sign(X) ** 3
    for divisor in (X - EPS * sign(X), -X + EPS * sign(X), X + Y + EPS * sign(X), cubed):
        assert at_every_eps(Sides(Y / divisor, Y / divisor)).divisors == (divisor,)


@pytest.mark.parametrize(("one", "other", "status"), [
    (X * Y / (X + EPS * sign(X)), Y, EQUAL),
    (X * Y / (X + EPS), Y, EQUAL),
    (Y * sign(EPS - sp.Rational(1, 10**9)), -Y, EQUAL),
    (Y * sign(X + EPS), Y * sign(X), EQUAL),
    (X * Y / (X + EPS), 2 * Y, DIFFERENT),
    (Y * sp.Max(X, 0) / (sp.Max(X, 0) + EPS), Y, UNDEFINED),
    (Y / EPS, Y, UNDEFINED),
    (Y + EPS * sp.exp(1 / EPS), Y, OPEN),  # which grows
    (Y * sign(sp.Max(X, 0) - EPS), Y, UNDEFINED),  # -1 where X is negative, and 1 at eps = 0
])  # fmt: skip
def test_at_eps_0_sides_have_their_limit_but_where_that_is_0_over_0(one, other, status):
    assert at_zero_eps(Sides(one, other)).status == status


@pytest.mark.parametrize(("one", "other", "status"), [
    (Y * sp.Max(X, 0) / (sp.Max(X, 0) + EPS), Y * (1 + sign(X)) / 2, EQUAL),
    (Y * (sp.Max(X, 0) + EPS) / (sp.Max(X, 0) + EPS * 2), Y, DIFFERENT),
    (Y * (sp.Max(X, 0) + EPS) / (sp.Max(X, 0) + EPS + EPS**2), Y, EQUAL),
    (Y * (sp.Max(X, 0) + EPS**2) / (sp.Max(X, 0) + EPS), Y, DIFFERENT),
    (Y / (sp.Max(X, 0) + EPS), Y / (sp.Max(X, 0) + EPS) + 1 / EPS, UNDEFINED),
    (Y * sign(EPS * X), Y * sign(X), EQUAL),
])  # fmt: skip
def test_where_eps_0_is_0_over_0_the_limit_is_taken_in_every_cell(one, other, status):
    found = in_cells(Sides(one, other))
    assert found.status == status
    if found.status == DIFFERENT:
        near = {**found.point, EPS: sp.Rational(1, 10**9)}
        assert abs((one - other).subs(near)) > sp.Rational(1, 10**6)


@pytest.mark.parametrize("divisor", [
    sp.Max(X, 0), sp.Max(X, 0) ** 2, sp.Max(X, 0) - sp.Max(X, Y, 0), Z - X * Y, sp.Max(Z - X * Y, 0)
])  # fmt: skip
def test_a_message_that_divides_by_0_in_a_cell_has_no_limit_though_the_sides_are_equal(divisor):
    where = [sp.Eq(Z, X * Y)]
    assert in_cells(Sides(Y, Y, where, [1 / (X + EPS), R / divisor])).status == UNDEFINED
    assert in_cells(Sides(Y, Y, where, [R / (divisor + EPS), R / (X + EPS)])).status == EQUAL


def test_only_cells_where_the_facts_hold_count():
    share = Sides(Y * sp.Abs(X) / (X + EPS), Y)
    assert in_cells(share).status == DIFFERENT
    assert in_cells(replace(share, given=[X > 0])).status == EQUAL


def test_points_where_a_sign_jumps_or_no_case_holds_are_left_out():
    jump = Y * sign(X - EPS) + sp.Piecewise((1 / X, X > EPS), (0, True))
    found = at_zero_eps(Sides(jump, jump))
    assert (found.status, {*found.divisors}, found.is_almost) == (EQUAL, {X - EPS, EPS - X}, False)
    cases = sp.Piecewise((Y, X > 0), (Y, X < 0))
    found = at_every_eps(Sides(cases, cases))
    assert (found.status, found.divisors, found.is_almost) == (EQUAL, (), True)


def test_a_solver_that_gives_up_proves_nothing():
    gives_up = mock.Mock(**{"return_value.check.return_value": z3.unknown})
    for one, other, status in EQUALITIES:
        with mock.patch.object(equality, "solver", gives_up):
            assert at_every_eps(Sides(one, other)).status == OPEN
        for bound in ("LONG", "CELLS") if status == UNDEFINED else ():
            with mock.patch.object(equality, bound, int(bound == "LONG")):
                assert at_every_eps(Sides(one, other)).status == OPEN
    with mock.patch.object(equality, "solver", gives_up), pytest.raises(Undecided):
        equality._possible([])


def test_facts_put_formulas_for_symbols_of_one_another():
    facts = [sp.Eq(Z, X * Y), sp.Eq(R, Z + X), X > 0]
    assert solved(R + Z, facts) == solved(R + Z, facts[::-1]) == 2 * X * Y + X
    assert solved(X + 2 * Y, [sp.Eq(X + Y, 1)]) == 2 - X


CANCEL = [
    (sp.Abs(2 * X - 2 * Y), 2 * sp.Abs(Y - X)),
    (sp.Max(X, Y) + sp.Min(X, Y), X + Y),
    (sign(X) * Y / X + Z, (Y * sign(2 * X) + X * Z) / X),
    (sp.sqrt((X + 1) ** 2 + Y), sp.sqrt(X**2 + 2 * X + 1 + Y)),
]
DO_NOT = [
    *((sp.Abs(X), other) for other in (X, -X, 2 * sp.Abs(X), sp.Abs(Y))),
    *((sp.Abs(3 * X), other) for other in (sp.Abs(X), 2 * sp.Abs(X))),
    *((sign(X), other) for other in (sign(-X), -sign(-X), sign(Y), sp.Abs(X))),
    *((sp.sqrt(X**2 + 1), other) for other in (sp.sqrt(X**2 + 2), sp.sqrt(X**2), X)),
    (sp.zoo * X, sp.zoo * X),
    (X + EPS * Y, X),
]


def test_equal_formulas_of_sizes_and_signs_cancel_and_no_others():
    for one, other in CANCEL:
        assert equality._cancels(one, other, {})
        assert not equality._cancels(one, other + EPS, {})
        assert equality._cancels(one, other + EPS, {EPS: sp.Integer(0)})
    for one, other in DO_NOT:
        assert not equality._cancels(one, other, {})


def test_maxima_are_written_by_sizes():
    for x, y in POINTS:
        value = sp.Max(X, Y, 0) + sp.Min(X, 2 * Y)
        assert by_sizes(value).subs({X: x, Y: y}) == value.subs({X: x, Y: y})
    assert shown(sp.Abs(X) + EPS * sign(Y)) == "eps*sign(y) + |x|"

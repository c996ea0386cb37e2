"""The limit of a relevance is its value at epsilon = 0 only where that is defined."""

import pytest
import sympy as sp

from axioms.decide.identity import LARGE, is_large, limit
from axioms.rules.linear import z_plus

EPS, P, N = sp.symbols("epsilon p n", positive=True)


def test_a_limit_is_the_value_at_0_where_no_divisor_is_0():
    assert limit(P / (P + EPS), EPS) == 1
    assert limit(EPS**2 + P, EPS) == P
    assert limit(sp.Matrix([EPS / P, 3]), EPS) == sp.Matrix([0, 3])


@pytest.mark.parametrize("divisor", [EPS, EPS * P, (P + 1) ** 2 - P**2 - 2 * P - 1 + EPS])
def test_a_divisor_that_vanishes_with_epsilon_is_an_error(divisor):
    with pytest.raises(ValueError, match="is 0 at epsilon = 0; cancel it"):
        limit(EPS / divisor + P / divisor, EPS)


def test_where_nothing_is_positive_z_plus_tends_to_nothing_and_has_no_value_at_0():
    layer = sp.Matrix([[1]]), sp.Matrix([[-N]]), sp.Matrix([[P]])
    assert limit(z_plus(*layer, eps=EPS)[0], EPS) == sp.zeros(1, 1)
    with pytest.raises(ZeroDivisionError):
        z_plus(*layer, eps=0)


def test_what_is_large_has_more_terms_than_that_over_one_denominator():
    x, y = sp.symbols(f"x:{LARGE + 1}", real=True), sp.symbols("y:99", real=True)
    assert is_large(sp.Add(*x))
    assert not is_large(sp.Add(*x[:-2]))  # and the denominator is one more
    for n in (2, 3, 4):  # a power has the terms of its factors, multiplied
        few = sp.Add(*x[:9]) ** n
        assert (
            is_large(few)
            == is_large(1 / few + 1)
            == is_large(y[0] + few / y[1] ** n)
            == (9**n > LARGE)
        )
    for terms, large in ((50, True), (30, False)):
        factors = [sp.Add(*x[:100]), sp.Add(*y[:terms])]
        for expression in (sp.Mul(*factors), factors[0] / factors[1] + 1, 1 / sp.Mul(*factors)):
            assert is_large(expression) == (large and not expression.is_Add), expression
        assert is_large(factors[0] / factors[1] + factors[1] / factors[0]) is True
    for share, large in ((2, False), (1, True)):  # S / (S + y) has the terms of S twice
        some = sp.Add(*x[: LARGE * 2 // (3 * share)])
        assert is_large(1 / (1 + y[0] / some)) == large

"""A rational function is told from 0 however it is written, and however little it differs."""

import itertools
import operator
import random

import pytest
import sympy as sp

from axioms.decide.identity import identical
from axioms.decide.polynomials import is_zero

SYMBOLS = sp.symbols("x y z", real=True)
OPERATIONS = (operator.add, operator.sub, operator.mul, operator.truediv)


def expressions(seed):
    """Ever larger ones, each of two before it."""
    chance, found = random.Random(seed), [*SYMBOLS, sp.Rational(2, 3), sp.Integer(-1)]
    for _ in range(12):
        one, other = chance.sample(found, 2)
        found.append(chance.choice(OPERATIONS)(one, other if sp.cancel(other) != 0 else one + 1))
    return [e for e in found if e.free_symbols]


@pytest.mark.parametrize("seed", range(20))
def test_an_expression_is_its_fraction_in_lowest_terms_and_nothing_beside_it(seed):
    for e in expressions(seed):
        fraction = sp.cancel(sp.together(e))
        assert is_zero(e) == (fraction == 0)
        assert is_zero(e - fraction)
        assert is_zero(e**2 * (e + 1) - fraction**3 - fraction**2)
        for small in (sp.Rational(1, 10**9), SYMBOLS[0] ** 9, 1 / (SYMBOLS[1] + 10)):
            assert not is_zero(e - fraction + small)


def test_a_divisor_that_is_0_everywhere_proves_nothing():
    x, y, z = SYMBOLS
    nothing = (x + y) ** 2 - x**2 - 2 * x * y - y**2
    for divisor, above in itertools.product((nothing, nothing / z, nothing * z), (1, x)):
        with pytest.raises(ZeroDivisionError, match="0 everywhere"):
            is_zero(above / divisor)
        assert not identical(above / divisor, 0)
        assert not identical(nothing * above / divisor**2, x)


def test_terms_over_different_denominators_are_added_up_in_the_end():
    x, y, z = SYMBOLS
    assert is_zero(1 / (x - y) + 1 / (x + y) - 2 * x / (x**2 - y**2))
    assert is_zero(z / (1 / x + 1 / y) - x * y * z / (x + y))
    assert is_zero(1 / (2 * x - 2 * y) + 1 / (2 * y - 2 * x))
    assert identical((x**2 - 121) / (x - 11), x + 11)  # 0/0 at 11 alone, the first number put in
    assert not is_zero(1 / (x - y) + 1 / (x + y) - 2 * y / (x**2 - y**2))

"""FLINT and SymPy decide alike whether two expressions are one rational function."""

import pytest
import sympy as sp
from hypothesis import example, given
from hypothesis import strategies as st

from axioms.decide.identity import identical
from tests.support.flint_fractions import same

X, Y = sp.symbols("x y")
LEAVES = st.sampled_from([X, Y, sp.Integer(2), sp.Rational(-1, 3)])


def grown(parts):
    pairs = st.tuples(parts, parts)
    return (
        pairs.map(lambda ab: ab[0] + ab[1])
        | pairs.map(lambda ab: ab[0] * ab[1])
        | pairs.map(lambda ab: ab[0] / (ab[1] ** 2 + 1))
    )


EXPRESSIONS = st.recursive(LEAVES, grown, max_leaves=6)


@given(EXPRESSIONS, EXPRESSIONS)
@example(X * (X - 1) * (X - 2), sp.Integer(0))
@example(X / Y, Y / X)
@example(1 / (X - Y), 1 / (Y - X))
@example(sp.Rational(1, 3), sp.Rational(333333333333, 10**12))
def test_both_engines_decide_alike(one, other):
    assert same(one, other) == identical(one, other)
    assert same(one, sp.expand(one))
    assert same(one + other, sp.together(one + other))
    assert not same(one, one + X / (X**2 + 7))


@pytest.mark.parametrize("one", [sp.exp(X), sp.sqrt(X), sp.Abs(X), sp.zoo])
def test_what_is_no_rational_function_is_refused(one):
    with pytest.raises(TypeError, match="no rational function"):
        same(one, X)


def test_a_denominator_of_0_is_refused():
    nothing = sp.Add(X, -X, Y, -Y, evaluate=False)
    with pytest.raises(ZeroDivisionError, match="a denominator is 0"):
        same(sp.Pow(nothing, -1, evaluate=False), X)

"""Rules that are given the signs of their outputs use these, each at its own output."""

import pytest
import sympy as sp

from axioms.decide.identity import generic
from axioms.rules import norms
from axioms.rules.attention import value_only
from axioms.rules.linear import add, epsilon, epsilon_without_bias, gamma, linear_map
from axioms.rules.products import bilinear_epsilon, chain_epsilon
from axioms.rules.rule import sign_of

E = sp.Rational(1, 4)
X, W = sp.Matrix([[1, -2, 3], [2, 1, 1]]), sp.Matrix([[1, 2], [3, -1], [1, 4]])
R, B = sp.Matrix([[3, 5], [7, -2]]), sp.Matrix([[5, -20]])
NORM = (sp.Matrix([[1, 2, 4], [-1, 1, 5]]), sp.Matrix([[1, -2, 3]]), sp.Matrix([[-1, 2, 3]]))
STD, WIDE = [sp.Integer(2), sp.Integer(3)], sp.Matrix([[3, 5, 2], [7, -2, 1]])
ROW = (X[:1, :], W, R[:1, :])

# name: (the rule at given signs, its outputs whose signs these are)
CASES = {
    "epsilon": (lambda **o: epsilon(X, W, R, bias=B, **o), linear_map(X, W, B)),
    "without bias": (lambda **o: epsilon_without_bias(X, W, R, bias=B, **o), linear_map(X, W)),
    "add": (lambda **o: add([X, 3 * X], WIDE, **o), 4 * X),
    "bilinear": (lambda **o: bilinear_epsilon(X, W, R, **o), X * W),
    "value only": (lambda **o: value_only(X, W, R, **o)[1:], X * W),
    "held": (lambda **o: norms.held_deviation(*NORM, WIDE, deviation=STD, **o),
        norms.layer_norm(*NORM, norm_eps=0, deviation=STD)),
    "gamma": (lambda **o: gamma(*ROW, strength=0, **o), X[:1, :] * W),
    "chain": (lambda **o: chain_epsilon([X, W], R, **o), X * W),
}  # fmt: skip


def check(name):
    """Raises AssertionError unless each output is pushed by the symbol of its own sign."""
    rule, z = CASES[name]
    signs = generic("s", *z.shape)
    true = dict(zip(signs, z.applyfunc(sign_of), strict=True))
    symbolic, decided = rule(eps=E, sign=signs), rule(eps=E)
    assert {s for part in symbolic for s in part.free_symbols} == set(signs)
    for part, expected in zip(symbolic, decided, strict=True):
        assert part.subs(true) == expected


def check_all():
    """Every rule that takes signs."""
    for name in CASES:
        check(name)


@pytest.mark.parametrize("name", CASES)
def test_a_given_sign_is_used_at_its_output(name):
    check(name)

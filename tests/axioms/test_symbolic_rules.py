"""Further symbolic rules of a layer, entry by entry against their equations as loops.

Small integers at eps = 1/4: contributions of both signs and of 0 occur, and an output without any
positive one, so that every other convention gives different numbers.
"""

from fractions import Fraction

import pytest
import sympy as sp

from axioms.rules import norms
from axioms.rules.linear import alpha_beta, gamma, z_plus
from axioms.rules.products import bilinear_epsilon, chain_epsilon

EPS = Fraction(1, 4)
X = [2, -1, 3]
W = [[1, -2, 1], [0, 1, -1], [1, -1, -1]]  # nothing positive reaches the second output
B = [1, -3, 2]
R = [3, 5, 7]
INPUTS, OUTPUTS = range(3), range(3)


def sign(z):
    return 1 if z >= 0 else -1


def entries(matrix):
    return [Fraction(int(value.p), int(value.q)) for value in map(sp.nsimplify, matrix)]


def positive(c):
    return max(c, 0)


def linear_messages(part):
    """Eq. 1 over ``part`` of every contribution c."""

    def message(i, j):
        z = sum(part(X[k] * W[k][j]) for k in INPUTS) + part(B[j])
        return part(X[i] * W[i][j]) * R[j] / (z + EPS * sign(z))

    return [sum(message(i, j) for j in OUTPUTS) for i in INPUTS]


def alpha_beta_messages():
    above, below = linear_messages(positive), linear_messages(lambda c: min(c, 0))
    return [2 * p - n for p, n in zip(above, below, strict=True)]


E = sp.Rational(1, 4)
LAYER = {
    "x": sp.Matrix([X]), "w": sp.Matrix(W), "relevance": sp.Matrix([R]), "eps": E,
    "bias": sp.Matrix([B]),
}  # fmt: skip


CASES = {  # name: (the rule, the same by loops)
    "z_plus": (lambda: z_plus(**LAYER)[0], lambda: linear_messages(positive)),
    "gamma": (lambda: gamma(**LAYER, strength=sp.Rational(1, 2))[0],
        lambda: linear_messages(lambda c: c + positive(c) / Fraction(2))),
    "alpha_beta": (lambda: alpha_beta(**LAYER, alpha=2, beta=1)[0], alpha_beta_messages),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_rule_is_its_equation_entry_by_entry(name):
    rule, loop = CASES[name]
    assert entries(rule()) == loop()


def test_a_product_of_two_matrices_is_eq_3():
    a, b, r = (sp.Matrix(value) for value in ([[1, 2]], [[3], [-1]], [[5]]))
    eps = sp.Rational(1, 4)
    assert chain_epsilon((a, b), r, eps=eps) == bilinear_epsilon(a, b, r, eps=eps)


def test_rms_norm_by_gradient_is_input_times_derivative_row_by_row():
    """Its own root mean squares, in two rows of different size; norm_eps is 0 unless given."""
    x, w, r = sp.Matrix([[1, 2], [7, 1]]), sp.Matrix([[3, 5]]), sp.Matrix([[1, 4], [2, 3]])
    a, b = sp.symbols("a b", positive=True)

    def expected(n, i, norm_eps):
        rms = sp.sqrt((a**2 + b**2) / 2 + norm_eps)
        z = [a * w[0] / rms, b * w[1] / rms]
        at = {a: x[n, 0], b: x[n, 1]}
        shares = (sp.diff(z[k], (a, b)[i]) * r[n, k] / z[k] for k in range(2))
        return sp.nsimplify((x[n, i] * sum(shares)).subs(at))

    for options, norm_eps in (({}, 0), ({"norm_eps": sp.Rational(1, 2)}, sp.Rational(1, 2))):
        (found,) = norms.rms_norm_gradient(x, w, r, **options)
        difference = found - sp.Matrix(2, 2, lambda n, i, e=norm_eps: expected(n, i, e))
        assert difference.applyfunc(sp.simplify) == sp.zeros(2, 2)


def test_a_held_root_mean_square_is_that_of_the_row_without_norm_eps():
    x, w, r = sp.Matrix([[1, 7]]), sp.Matrix([[3, 5]]), sp.Matrix([[2, 4]])  # rms is 5
    (found,) = norms.held_root_mean_square(x, w, r, eps=1)
    z = [sp.Rational(3, 5), sp.Integer(7)]
    assert found == sp.Matrix([[2 * z[0] / (z[0] + 1), 4 * z[1] / (z[1] + 1)]])


@pytest.mark.parametrize(("options", "deviation"), [({}, 3), ({"norm_eps": 16}, 5)])
def test_a_held_deviation_is_the_deviation_of_the_row_and_norm_eps(options, deviation):
    x, w, bias, r = [1, 7], [3, 5], [2, -1], [2, 4]  # the variance is 9
    given = (sp.Matrix([row]) for row in (x, w, bias, r))
    (found,) = norms.held_deviation(*given, eps=sp.Rational(1, 4), **options)

    def message(i, k):
        z = [Fraction(x[j] * w[k] * (2 * (j == k) - 1), 2 * deviation) for j in range(2)]
        out = sum(z) + bias[k]
        return z[i] * r[k] / (out + EPS * sign(out))

    sums = [sum(message(i, k) for k in range(2)) for i in range(2)]
    assert list(found) == [sp.Rational(x.numerator, x.denominator) for x in sums]

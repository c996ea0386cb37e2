"""Linear layers: conservation and absorption by the epsilon rule, its match to leave-one-out."""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import (
    differ_at,
    generic,
    identical,
    limit,
    sign_cases,
    where,
)
from lrp_axioms.axioms.rules.effects import leave_one_out
from lrp_axioms.axioms.rules.linear import add, epsilon, epsilon_without_bias, linear_map

THEMES = {6: ["Linear layers, sums and activations", "Conservation", "Leave-One-Out and patching"]}
DERIVATIONS = {6: ["linear", "linear without bias", "add"]}
MEANINGS = {
    6: "For one linear output, Eq. 1 is Leave-One-Out as epsilon -> 0, if the bias is in the "
    "denominator. What the inputs miss is exactly what bias and stabiliser absorb.",
}

EPS = sp.Symbol("epsilon", positive=True)
X, W, B, R = generic("x", 1, 2), generic("w", 2, 2), generic("b", 1, 2), generic("r", 1, 2)
S = generic("s", 1, 1)  # a sign, by a symbol: so in both cases


@pytest.mark.theorem(
    6,
    "With the bias in the denominator, the inputs of a linear layer receive exactly R_j (z_j - "
    "b_j)/(z_j + epsilon s_j) of output j; bias and stabiliser absorb the rest.",
    "proved",
    scope="2 inputs and 2 outputs; every sign case",
)
def test_epsilon_rule_conserves_all_but_the_shares_of_bias_and_stabiliser():
    z = linear_map(X, W, B)
    for s in sign_cases(1, 2):
        (r_x,) = epsilon(X, W, R, eps=EPS, bias=B, sign=s)
        d = [z[j] + EPS * s[j] for j in range(2)]
        assert identical(sum(r_x), sum(R[j] * (z[j] - B[j]) / d[j] for j in range(2)))
        absorbed = sum(R[j] * (B[j] + EPS * s[j]) / d[j] for j in range(2))
        assert identical(sum(r_x) + absorbed, sum(R))
        for i in range(2):
            assert identical(r_x[i], sum(X[i] * W[i, j] * R[j] / d[j] for j in range(2)))


@pytest.mark.theorem(
    6,
    "Without the bias in the denominator, the inputs of a linear layer receive exactly R_j "
    "u_j/(u_j + epsilon s_j) of output j, u = xW: all of it as epsilon -> 0.",
    "proved",
    scope="2 inputs and 2 outputs; every sign case",
)
def test_epsilon_rule_without_bias_conserves_all_but_the_share_of_the_stabiliser():
    u = linear_map(X, W)
    for s in sign_cases(1, 2):
        (r_x,) = epsilon_without_bias(X, W, R, eps=EPS, bias=B, sign=s)
        expected = sum(R[j] * u[j] / (u[j] + EPS * s[j]) for j in range(2))
        assert identical(sum(r_x), expected)
        assert identical(limit(expected, EPS), sum(R))


@pytest.mark.theorem(
    6,
    "For one output without bias, the epsilon rule gives R_i = LOO_i |z|/(|z| + epsilon), hence "
    "R_i = x_i W_i = LOO_i as epsilon -> 0.",
    "proved",
    scope="2 inputs; both signs",
)
def test_one_linear_output_gets_leave_one_out_shrunk_by_the_stabiliser():
    w = W[:, 0]
    z = linear_map(X, w)
    loo = leave_one_out(z[0], {x: x for x in X})
    for s in sign_cases(1, 1):
        size = z[0] * s[0]  # |z|
        (r_x,) = epsilon(X, w, z, eps=EPS, sign=s)
        for i, x in enumerate(X):
            assert identical(r_x[i], loo[x] * size / (size + EPS))
            assert identical(limit(r_x[i], EPS), loo[x])
            assert identical(loo[x], x * w[i])


@pytest.mark.theorem(
    6,
    "In a linear layer f(x) = xW, relevance by Eq. 1 equals leave-one-out at finite epsilon.",
    "refuted",
)
def test_epsilon_rule_is_not_leave_one_out_at_finite_epsilon(record_property):
    x, w = generic("x", 1, 2, positive=True), generic("w", 2, 1, positive=True)
    (r_x,) = epsilon(x, w, linear_map(x, w), eps=EPS)
    loo = leave_one_out(linear_map(x, w)[0], {e: e for e in x})
    point = where((x, [1, 1]), (w, [1, 2]), (EPS, sp.Rational(1, 4)))
    assert all(differ_at(r, loo[e], point) for r, e in zip(r_x, x, strict=True))
    record_property("witness", "x = (1, 1), W = (1, 2), eps = 1/4: 12/13, 24/13 versus 1, 2")


@pytest.mark.theorem(
    6,
    "For one output with a bias, as epsilon -> 0, R_i = LOO_i when the bias is in the denominator.",
    "proved",
    scope="2 inputs",
)
def test_a_bias_in_the_denominator_keeps_leave_one_out():
    w, b = W[:, 0], B[:, 0]
    z = linear_map(X, w, b)
    loo = leave_one_out(z[0], {x: x for x in X})
    (r_x,) = epsilon(X, w, z, eps=EPS, bias=b, sign=S)
    assert all(identical(limit(r_x[i], EPS), loo[x]) for i, x in enumerate(X))


@pytest.mark.theorem(
    6,
    "For one output with a bias, as epsilon -> 0, R_i = LOO_i when the bias is left out of the "
    "denominator.",
    "refuted",
)
def test_a_bias_outside_the_denominator_loses_leave_one_out(record_property):
    w, b = W[:, 0], B[:, 0]
    z = linear_map(X, w, b)
    (r_x,) = epsilon_without_bias(X, w, z, eps=EPS, bias=b, sign=S)
    loo = leave_one_out(z[0], {x: x for x in X})
    point = where((X, [1, 3]), (w, [1, 1]), (b, [2]))
    assert all(differ_at(limit(r, EPS), loo[x], point) for r, x in zip(r_x, X, strict=True))
    record_property("witness", "x = (1, 3), W = (1, 1), b = 2: 3/2, 9/2 versus 1, 3")


@pytest.mark.theorem(
    6,
    "The operands of a sum z receive R z/(z + epsilon sign z) in all, each its own R x/(z + "
    "epsilon sign z): all of R as epsilon -> 0.",
    "proved",
    scope="three operands; both signs",
)
def test_a_sum_conserves_all_but_the_share_of_the_stabiliser():
    operands = [generic(name, 1, 1) for name in ("word", "position", "type")]
    r, z = R[:, :1], sum(operands[1:], operands[0])
    for s in sign_cases(1, 1):
        received = add(operands, r, eps=EPS, sign=s)
        for x, r_x in zip(operands, received, strict=True):
            assert identical(r_x[0], r[0] * x[0] / (z[0] + EPS * s[0]))
        total = sum(r_x[0] for r_x in received)
        assert identical(total, r[0] * z[0] / (z[0] + EPS * s[0]))
        assert identical(limit(total, EPS), r[0])

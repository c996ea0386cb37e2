"""Norms: the identity rule against the linear map that a norm is at its deviation."""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, limit, where
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.linear import epsilon
from lrp_axioms.axioms.rules.norms import (
    held_deviation,
    held_root_mean_square,
    rms_norm,
    rms_norm_gradient,
)

EPS, S = sp.symbols("epsilon S", positive=True)  # S: sqrt(var(x) + norm-epsilon), held
WIDTH = 3
X, W, B, R = (generic(name, 1, WIDTH) for name in "xwbr")
SIGNS = generic("s", 1, WIDTH)


def centre(d):
    """The linear map x -> x - mean(x)."""
    return sp.eye(d) - sp.ones(d, d) / d


@pytest.mark.theorem(
    13,
    "As epsilon -> 0, LayerNorm with its deviation held gets the same relevance as centring "
    "followed by scaling and shifting, both by Eq. 1.",
    "proved",
    scope="3 channels",
)
def test_held_deviation_is_invariant_under_decomposition():
    (whole,) = held_deviation(X, W, B, R, eps=0, deviation=[S])
    centred = X * centre(WIDTH)
    (r_centred,) = epsilon(centred, sp.diag(*W) / S, R, eps=0, bias=B)
    (parts,) = epsilon(X, centre(WIDTH), r_centred, eps=0)
    assert identical(whole, parts)


@pytest.mark.theorem(
    13,
    "LayerNorm by the identity rule gets the same relevance as centring, by Eq. 1, followed by "
    "scaling by the identity rule, as epsilon -> 0.",
    "refuted",
)
def test_the_identity_rule_is_not_invariant_under_decomposition(record_property):
    x, r = X[:, :2], R[:, :2]
    (whole,) = identity(r)
    (parts,) = epsilon(x, centre(2), identity(r)[0], eps=0)
    assert identical(sum(whole), sum(parts))  # both conserve
    point = where((x, [1, 3]), (r, [1, 2]))
    assert all(differ_at(a, b, point) for a, b in zip(whole, parts, strict=True))
    record_property("witness", "x = (1, 3), R = (1, 2): 1, 2 versus -3/2, 9/2")


@pytest.mark.theorem(
    13,
    "RMSNorm with its root mean square held gives channel k exactly R_k y_k/(y_k + epsilon s_k) by "
    "Eq. 1, all but the share of the stabiliser: the identity rule is its limit as epsilon -> 0.",
    "proved",
    scope="3 channels; either sign",
)
def test_the_identity_rule_is_the_limit_for_rms_norm():
    y = rms_norm(X, W, norm_eps=0, rms=[S])
    (found,) = held_root_mean_square(X, W, R, eps=EPS, rms=[S], sign=SIGNS)
    assert identical(found, epsilon(X, sp.diag(*W) / S, R, eps=EPS, sign=SIGNS)[0])
    for k in range(WIDTH):
        assert identical(found[k], R[k] * y[k] / (y[k] + EPS * SIGNS[k]))
    assert identical(limit(found, EPS), identity(R)[0])


@pytest.mark.theorem(
    13,
    "Gradient x input before RMSNorm sums to the share h/rms^2 of what arrives at its outputs, "
    "with h the norm-epsilon inside rms^2: where h = 0 it vanishes.",
    "proved",
    scope="3 channels",
)
def test_gradient_x_input_before_rms_norm_is_the_share_of_norm_epsilon(record_property):
    h = S**2 - sum(x**2 for x in X) / sp.Integer(WIDTH)  # S is rms
    (r_x,) = rms_norm_gradient(X, W, R, rms=[S])
    assert identical(sum(r_x), sum(R) * h / S**2)
    record_property("method", "S = sqrt(mean(x^2) + h)")

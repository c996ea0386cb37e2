"""Norms: the identity rule against the linear map that a norm is at its deviation.

Main statements
  13  the identity rule conserves everything, the share of the norm's bias included, at every eps
  13  it is not invariant when LayerNorm is written as centring and then scaling; the
      held-deviation rule is, as eps -> 0
  13  for RMSNorm, which only scales, the identity rule is Eq. 1 without stabiliser
"""

import pytest
import sympy as sp

from axioms.decide import differ_at, generic, identical
from axioms.rules import epsilon, held_deviation, identity, layer_norm

EPS, S = sp.symbols("epsilon S", positive=True)  # S: sqrt(var(x) + norm-epsilon), held
WIDTH = 3
X, W, B, R = (generic(name, 1, WIDTH) for name in "xwbr")
SIGNS = generic("s", 1, WIDTH)


def centre(d):
    """The linear map x -> x - mean(x)."""
    return sp.eye(d) - sp.ones(d, d) / d


@pytest.mark.theorem(
    13,
    "By the identity rule LayerNorm hands on the relevance of every channel, that of its bias "
    "included: R_k b_k/(y_k + epsilon s_k) of output k more than with its deviation held, and the "
    "stabiliser's share.",
    "proved",
)
def test_the_identity_rule_keeps_what_the_bias_would_absorb(record_property):
    y = layer_norm(X, W, B, norm_eps=0, deviation=[S])
    (held,) = held_deviation(X, W, B, R, eps=EPS, deviation=[S], sign=SIGNS)
    (kept,) = identity(R)
    more = sum(R[k] * (B[k] + EPS * SIGNS[k]) / (y[k] + EPS * SIGNS[k]) for k in range(WIDTH))
    assert identical(sum(kept), sum(R))
    assert identical(sum(kept) - sum(held), more)
    record_property("method", f"cancel over {WIDTH} generic channels and generic signs")


@pytest.mark.theorem(
    13,
    "As epsilon -> 0, LayerNorm with its deviation held gets the same relevance as centring "
    "followed by scaling and shifting, both by Eq. 1.",
    "proved",
)
def test_held_deviation_is_invariant_under_decomposition(record_property):
    (whole,) = held_deviation(X, W, B, R, eps=0, deviation=[S])
    centred = X * centre(WIDTH)
    (r_centred,) = epsilon(centred, sp.diag(*W) / S, R, eps=0, bias=B)
    (parts,) = epsilon(X, centre(WIDTH), r_centred, eps=0)
    assert identical(whole, parts)
    record_property("method", f"cancel over {WIDTH} generic channels, weights and biases")


@pytest.mark.theorem(
    13,
    "LayerNorm by the identity rule gets the same relevance as centring, by Eq. 1, followed by "
    "scaling by the identity rule, as epsilon -> 0.",
    "refuted",
)
def test_the_identity_rule_is_not_invariant_under_decomposition(record_property):
    x, r = sp.Matrix([[1, 3]]), sp.Matrix([[1, 2]])
    (whole,) = identity(r)
    (parts,) = epsilon(x, centre(2), identity(r)[0], eps=0)
    assert sum(whole) == sum(parts)  # both conserve
    assert all(differ_at(a, b, {}) for a, b in zip(whole, parts, strict=True))
    record_property("witness", f"x = {list(x)}, R = {list(r)}: {list(whole)} versus {list(parts)}")


@pytest.mark.theorem(
    13,
    "RMSNorm with its root mean square held gives channel k exactly R_k y_k/(y_k + epsilon s_k) by "
    "Eq. 1: the identity rule is its limit as epsilon -> 0.",
    "proved",
)
def test_the_identity_rule_is_the_limit_for_rms_norm(record_property):
    scale = sp.diag(*W) / S
    y = X * scale
    (found,) = epsilon(X, scale, R, eps=EPS, sign=SIGNS)
    for k in range(WIDTH):
        assert identical(found[k], R[k] * y[k] / (y[k] + EPS * SIGNS[k]))
    assert identical(found.subs(EPS, 0), identity(R)[0])
    record_property("method", f"cancel over {WIDTH} generic channels and generic signs")

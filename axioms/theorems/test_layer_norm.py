"""LayerNorm: conservation by the held-deviation rule, and vanishing gradient x input before it."""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.rules.norms import held_deviation, layer_norm, layer_norm_jacobian

THEMES = {13: ["Norms", "Conservation", "Gradients"], 23: ["Norms", "Conservation", "Gradients"]}
DERIVATIONS = {13: ["LayerNorm, deviation held", "RMSNorm, root mean square held"]}
MEANINGS = {
    13: "With its deviation held, LayerNorm is a linear map: only its bias and the stabiliser "
    "absorb relevance, and as epsilon -> 0 it can be written in several steps. The identity rule "
    "conserves more, and depends on the steps.",
    23: "LayerNorm hardly reacts to the scale of its input. Plain gradient x input therefore sums "
    "to zero in front of it as norm-epsilon -> 0. Integrated Gradients of a linear readout stay "
    "complete, but no step away from the baseline shows it.",
}

EPS = sp.Symbol("epsilon", positive=True)
S = sp.Symbol("S", positive=True)  # sqrt(var(x) + norm-epsilon)
WIDTH = 3
X, W, B, R = (generic(name, 1, WIDTH) for name in "xwbr")
MEAN = sum(X) / WIDTH
VARIANCE = sum((x - MEAN) ** 2 for x in X) / WIDTH
NORM_EPS = S**2 - VARIANCE  # eliminates the square root, so that all stays rational
Y = layer_norm(X, W, B, norm_eps=0, deviation=[S])


@pytest.mark.theorem(
    13,
    "With its deviation held, LayerNorm passes exactly R_k (y_k - b_k)/(y_k + epsilon s_k) of "
    "output k to its input; its bias and the stabiliser absorb the rest.",
    "proved",
    scope="3 channels; either sign",
)
def test_held_deviation_conserves_all_but_the_shares_of_bias_and_stabiliser():
    s = generic("s", 1, WIDTH)  # the identity holds whatever the signs are, so in every case
    d = Y + EPS * s
    r = R.multiply_elementwise(d)  # R is relevance per unit of stabilised output, as generic
    (r_x,) = held_deviation(X, W, B, r, eps=EPS, deviation=[S], sign=s)
    assert identical(sum(r_x), sum(r[k] * (Y[k] - B[k]) / d[k] for k in range(WIDTH)))
    absorbed = sum(r[k] * (B[k] + EPS * s[k]) / d[k] for k in range(WIDTH))
    assert identical(sum(r_x) + absorbed, sum(r))


@pytest.mark.theorem(
    23,
    "For every continuously differentiable function f, gradient times input of f(LayerNorm(x)), "
    "summed over the channels of x, is exactly h/(var + h) sum_k (y_k - b_k) df/dy_k, where h is "
    "norm-epsilon: 0 as h -> 0 where the channels of x differ.",
    "proved",
    scope="3 channels",
)
def test_gradient_x_input_before_layer_norm_is_a_fraction_set_by_norm_epsilon():
    g = generic("g", 1, WIDTH)  # df/dy, arbitrary: so f is
    jacobian = layer_norm_jacobian(X, W, S)
    total = sum(X[i] * jacobian[i, k] * g[k] for i in range(WIDTH) for k in range(WIDTH))
    assert identical(total, NORM_EPS / S**2 * sum((Y[k] - B[k]) * g[k] for k in range(WIDTH)))
    # and its slopes are derivatives: S**2 = var(x) + h, so dS/dx_i = (dvar/dx_i) / (2 S) at fixed h
    for i in range(WIDTH):
        for k in range(WIDTH):
            along = sp.diff(VARIANCE, X[i]) / (2 * S)
            assert identical(jacobian[i, k], sp.diff(Y[k], X[i]) + sp.diff(Y[k], S) * along)


T = sp.Symbol("t", real=True)  # position on the path t x, where S^2 = t^2 var(x) + h


@pytest.mark.theorem(
    23,
    "As norm-epsilon -> 0, the integrand of Integrated Gradients from zero, summed over the "
    "channels of LayerNorm's input, vanishes at every step of the path but the baseline, if these "
    "channels differ.",
    "proved",
    scope="3 channels, any step t > 0",
)
def test_integrated_gradients_find_nothing_before_layer_norm_at_any_step():
    jacobian, h = layer_norm_jacobian(T * X, W, S), S**2 - T**2 * VARIANCE
    for k in range(WIDTH):
        integrand = sum(X[i] * jacobian[i, k] for i in range(WIDTH))
        assert identical(integrand, h / S**3 * W[k] * (X[k] - MEAN))
    # the identity for each dy_k suffices: the integrand of f is their sum weighted by df/dy_k


@pytest.mark.theorem(
    23,
    "For a linear readout f of LayerNorm(x), exact Integrated Gradients from zero sum to f(x) - "
    "f(0) at every norm-epsilon > 0: they are complete.",
    "proved",
    scope="3 channels",
)
def test_exact_integrated_gradients_before_layer_norm_are_complete(record_property):
    # S^2 = t^2 var + h, so dS/dt = t var / S; the integral over t is 0 at the baseline t = 0
    jacobian = layer_norm_jacobian(T * X, W, S)
    for k in range(WIDTH):
        integral = W[k] * (X[k] - MEAN) * T / S
        derivative = sp.diff(integral, T) + sp.diff(integral, S) * T * VARIANCE / S
        assert identical(derivative, sum(X[i] * jacobian[i, k] for i in range(WIDTH)))
        assert identical(integral.subs(T, 1), Y[k] - B[k])
    record_property("method", "an antiderivative of the integrand of each channel, cancel")


@pytest.mark.theorem(
    23,
    "Exact Integrated Gradients from zero, summed over the channels of LayerNorm's input, tend to "
    "0 as norm-epsilon -> 0, as every sum over steps t > 0 does.",
    "refuted",
)
def test_the_steps_and_the_integral_disagree_in_the_limit(record_property):
    size, w = sp.Symbol("size", positive=True), W[:, :2]
    x = sp.Matrix([[size, -size]])  # var = size^2, so S = t size where h = 0
    y = layer_norm(x, w, sp.zeros(1, 2), norm_eps=0, deviation=[size])  # the integrals: complete
    steps = [sp.Rational(2 * step + 1, 20) for step in range(10)]
    slopes = [layer_norm_jacobian(t * x, w, t * size)[:, 0] for t in steps]
    by_steps = sum((x * slope)[0] for slope in slopes) / 10
    assert identical(by_steps, 0)
    assert differ_at(y[0], by_steps, where((w, [1, 1])))
    record_property("witness", "x = (4, -4), w = 1, f = y_1, h -> 0: integral 1, ten steps 0")

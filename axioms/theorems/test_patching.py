"""Estimates of activation patching by LRP's coefficients, and by plain gradients.

Patching replaces an activation x by that of another run, x', and its effect is what the logit
loses.  Attribution patching estimates it by coefficients c of the run that is patched, <c, x - x'>:
the gradient, or R/x, the relevance per unit of activation.  S and S' are the deviations of x and
x', and N, N' their rows after the norm, which any linear map w reads.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.rules.norms import (
    held_deviation,
    held_root_mean_square,
    layer_norm,
    layer_norm_gradient,
    rms_norm,
    rms_norm_gradient,
)
from lrp_axioms.axioms.rules.products import equal_split

THEMES = {
    57: ["Leave-One-Out and patching", "Linear layers, sums and activations", "Norms", "Gradients"],
    58: [
        "Products",
        "Linear layers, sums and activations",
        "Leave-One-Out and patching",
        "Gradients",
    ],
}
MEANINGS = {
    57: "Replacing an activation before a norm has the effect that coefficients with the "
    "deviation held predict if the patch keeps the deviation. Before an RMSNorm that has no "
    "weights, the gradient sees a patch that only stretches, and the change of length and of "
    "direction decides which of both is closer.",
    58: "Equal split predicts the removal of both factors of a product.",
}

WIDTH = 3
S, T = sp.symbols("S T", positive=True)  # the deviations of both runs
X, PATCH, W, B, READ = (generic(name, 1, WIDTH) for name in ("x", "p", "w", "b", "r"))
Y = layer_norm(X, W, B, norm_eps=0, deviation=[S])
PATCHED = layer_norm(PATCH, W, B, norm_eps=0, deviation=[T])


def estimate(relevance, x, patch):
    """Relevance per unit of activation, times the change of the activation."""
    return sum(r / v * (v - p) for r, v, p in zip(relevance, x, patch, strict=True))


def read(y):
    return (y * READ.T)[0]


def covariance(x, y):
    d = sp.Integer(x.cols)
    return (x * y.T)[0] / d - sum(x) * sum(y) / d**2


@pytest.mark.theorem(
    57,
    "Patching the input of a LayerNorm that is read linearly has the effect that the coefficients "
    "with its deviation S held predict, plus (S'/S - 1) times what is read of the patched row "
    "without its bias: the prediction is exact if the patch keeps the deviation.",
    "proved",
    given=["T > 0: the deviation of the other run"],
    scope="3 channels",
)
def test_the_held_deviation_is_exact_where_the_patch_keeps_it():
    (relevance,) = held_deviation(
        X, W, B, READ.multiply_elementwise(Y), eps=0, norm_eps=0, deviation=[S]
    )
    missed = read(Y - PATCHED) - estimate(relevance, X, PATCH)
    assert identical(missed, (T / S - 1) * read(PATCHED - B))
    assert identical(missed.subs(T, S), 0)


@pytest.mark.theorem(
    57,
    "Of a patch x' of the input x of a LayerNorm that is read linearly, gradient times change "
    "predicts less than the coefficients with the deviation S held, by (var(x) - cov(x, x'))/S^2 "
    "times what is read of the row x after the norm without its bias.",
    "proved",
    scope="3 channels",
)
def test_the_gradient_takes_off_the_part_along_the_row():
    relevance = READ.multiply_elementwise(Y)
    (held,) = held_deviation(X, W, B, relevance, eps=0, norm_eps=0, deviation=[S])
    (slope,) = layer_norm_gradient(X, W, B, relevance, deviation=[S])
    gap = estimate(held, X, PATCH) - estimate(slope, X, PATCH)
    along = (covariance(X, X) - covariance(X, PATCH)) / S**2
    assert identical(gap, along * read(Y - B))


def squared_errors():
    """Squared errors at RMSNorm of the gradient and of the held rule, summed over the outputs."""
    ones = sp.ones(1, WIDTH)
    y, patched = (rms_norm(x, ones, norm_eps=0, rms=[s]) for x, s in ((X, S), (PATCH, T)))
    slope, held = sp.Integer(0), sp.Integer(0)
    for k in range(WIDTH):
        relevance = sp.zeros(1, WIDTH)
        relevance[k], effect = y[k], y[k] - patched[k]
        (by_slope,) = rms_norm_gradient(X, ones, relevance, rms=[S])
        (by_held,) = held_root_mean_square(X, ones, relevance, eps=0, rms=[S])
        slope += (effect - estimate(by_slope, X, PATCH)) ** 2
        held += (effect - estimate(by_held, X, PATCH)) ** 2
    return slope, held


@pytest.mark.theorem(
    57,
    "Before an RMSNorm over d channels with weights 1 and norm-epsilon 0, the squared error of "
    "gradient times change less that of the held coefficients, summed over the channels, is d (1 - "
    "u k)(1 - (2 - u) k), where k is the cosine of x and x' and u = 1 + |S'/S - 1|.",
    "proved",
    given=["T > 0: the root mean square of the other run"],
    scope="3 channels",
)
def test_which_one_is_closer_depends_on_length_and_direction():
    # Where k >= 0, the gradient is closer if and only if u k > 1: if the length changes by more
    # than the direction.
    m, k = (X * X.T)[0] / (WIDTH * S**2), (X * PATCH.T)[0] / (WIDTH * S * T)  # m is 1 without h
    shape = lambda m, k, s: WIDTH * (m - s * k) * (m * (m - s * k) + 2 * (s - 1) * k)
    slope, held = squared_errors()
    assert identical(slope - held, shape(m, k, T / S))
    u, cosine = sp.symbols("u k", real=True)
    for ratio in (u, 2 - u):  # longer, and shorter
        want = WIDTH * (1 - u * cosine) * (1 - (2 - u) * cosine)
        assert identical(shape(1, cosine, ratio), want)


@pytest.mark.theorem(
    57,
    "One of the gradient and the coefficients with the deviation held is at least as close to the "
    "effect of a patch as the other, whatever the patch.",
    "refuted",
)
def test_either_of_the_gradient_and_the_held_deviation_can_be_closer(record_property):
    slope, held = squared_errors()
    for values, closer in (
        (([1, 1, 1], [2, 2, 2], 1, 2), "gradient"),
        (([1, 1, 5], [5, 1, 1], 3, 3), "held"),
    ):
        point = where(*zip((X, PATCH, S, T), values, strict=True))
        assert differ_at(slope, held, point)
        errors = {"gradient": value_at(slope, point), "held": value_at(held, point)}
        assert min(errors.values()) == 0 == errors[closer] < max(errors.values())
    record_property(
        "witness",
        "x = (1, 1, 1), x' = 2 x, which has no effect: squared errors 0 versus 3; "
        "x = (1, 1, 5), x' = (5, 1, 1): 256/243 versus 0",
    )


A, C, A2, C2, G = sp.symbols(
    "a c a2 c2 g", real=True
)  # both factors in both runs, and the weight that reads the product


def split(a, c, a2, c2):
    """Equal-split relevance of both factors per unit, times their changes."""
    first, second = equal_split(2, sp.Matrix([[G * a * c]]))
    return first[0] / a * (a - a2) + second[0] / c * (c - c2)


@pytest.mark.theorem(
    58,
    "Patching both factors of a product has an effect that the equal split of the relevance "
    "predicts up to its prediction from the other run: their sum is exact, so one alone is if the "
    "factors of the other run are 0.",
    "proved",
    scope="two numbers in two runs",
)
def test_the_equal_splits_of_both_runs_are_exact_together():
    effect = G * (A * C - A2 * C2)
    back = -split(A2, C2, A, C)
    assert identical(effect - split(A, C, A2, C2), back)
    assert identical(back, G * (C2 * (A - A2) + A2 * (C - C2)) / 2)
    assert identical((effect - split(A, C, A2, C2)).subs({A2: 0, C2: 0}), 0)

"""BatchNorm after a linear layer, and both in one: one function, several graphs."""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.linear import epsilon, epsilon_without_bias, linear_map, z_plus
from lrp_axioms.axioms.theorems.test_linear_folding import B1, R1, W1, R, X, two_layers

THEMES = {16: ["Implementation invariance", "Linear layers, sums and activations"]}
MEANINGS = {
    16: "As epsilon -> 0, BatchNorm can be folded into the linear layer before it without a "
    "change of the explanation, if both follow Eq. 1. Folding changes the explanation by "
    "the z+ rule, and if relevance is handed through BatchNorm while biases are in the "
    "denominators.",
}

GAMMA, BETA, MEAN = (generic(name, 1, 2) for name in ("g", "h", "m"))
SIGMA = generic("d", 1, 2)


def scale_and_shift(gamma, beta, mean, sigma):
    """BatchNorm at inference as a linear layer: its diagonal weight and its bias."""
    slope = [gamma[k] / sigma[k] for k in range(gamma.cols)]
    shift = [beta[k] - mean[k] * slope[k] for k in range(gamma.cols)]
    return sp.diag(*slope), sp.Matrix([shift])


@pytest.mark.theorem(
    16,
    "As epsilon -> 0, a linear layer followed by BatchNorm and the folded layer get the same "
    "relevance by Eq. 1, whether or not the biases are in the denominators.",
    "proved",
    scope="2 inputs and 2 channels",
)
@pytest.mark.parametrize("rule", [epsilon, epsilon_without_bias], ids=lambda rule: rule.__name__)
def test_folding_batch_norm_changes_nothing_in_the_limit(rule, record_property):
    slope, shift = scale_and_shift(GAMMA, BETA, MEAN, SIGMA)
    # inputs, weights and biases of the norm are generic, its output one channel at a time
    for k in range(2):
        point = (X, W1[:, k], sp.Matrix([[slope[k, k]]]), R[:, k])
        biases = (B1[:, k], shift[:, k])
        assert identical(*two_layers(rule, eps=0, biases=biases, point=point))
    record_property("method", "BatchNorm as a diagonal linear layer")


@pytest.mark.theorem(
    16,
    "If BatchNorm passes its relevance on unchanged, folding it into the linear layer before it "
    "leaves relevance by Eq. 1 with the bias in the denominator as it is, as epsilon -> 0.",
    "refuted",
)
def test_folding_a_batch_norm_with_the_identity_rule_changes_relevance(record_property):
    x, w, b, r, *norm = (m[:1, :1] for m in (X, W1, B1, R, GAMMA, BETA, MEAN, SIGMA))
    slope, shift = scale_and_shift(*norm)
    (r_z,) = identity(r)
    (unfolded,) = epsilon(x, w, r_z, eps=0, bias=b)
    (folded,) = epsilon(x, w * slope, r, eps=0, bias=linear_map(b, slope, shift))
    values = zip((x, w, b, r, *norm), (1, 2, 0, 6, 2, 4, 1, 2), strict=True)
    assert differ_at(unfolded[0], folded[0], where(*((m, [value]) for m, value in values)))
    record_property("witness", "x = 1, W = 2, y = z + 3, R = 6: 6 versus 12/5")


@pytest.mark.theorem(
    16,
    "By the z+ rule, a linear layer followed by BatchNorm and the folded layer get the same "
    "relevance as epsilon -> 0.",
    "refuted",
)
def test_folding_batch_norm_changes_relevance_by_z_plus(record_property):
    size, gap = sp.symbols("size gap", positive=True)
    x, w = sp.ones(1, 2), sp.Matrix([size, -size - gap])
    slope, shift = scale_and_shift(*(sp.Matrix([[value]]) for value in (-1, 0, 0, 1)))
    (r_z,) = z_plus(linear_map(x, w), slope, R1, eps=0, bias=shift)
    (unfolded,) = z_plus(x, w, r_z, eps=0)
    (folded,) = z_plus(x, w * slope, R1, eps=0, bias=shift)
    point = where((size, 1), (gap, 2), (R1, [1]))
    assert all(differ_at(a, b, point) for a, b in zip(unfolded, folded, strict=True))
    record_property("witness", "x = (1, 1), W = (1, -3), y = -z, R = 1: 1, 0 versus 0, 1")

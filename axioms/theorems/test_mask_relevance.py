"""Mask relevance: how far one backward pass sees the effect of leaving a token out.

Leaving token j out takes key j from every row of every attention layer.  The mask relevance of j
is the sum over layers, heads and rows i of A_ij / (1 - A_ij) <v_j - O_i, c_i>, where c_i is the
gradient of the logit at O_i (theorem 20 for one row).
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.rules.attention import value_only
from lrp_axioms.axioms.rules.effects import leave_key_out, mask_relevance

THEMES = {
    54: ["Mask relevance", "Leave-One-Out and patching", "Gradients"],
    55: ["Mask relevance", "Leave-One-Out and patching", "Gradients"],
    56: ["Mask relevance", "Leave-One-Out and patching", "Gradients"],
}
MEANINGS = {
    54: "Relevance of the attention mask is Leave-One-Out in one layer that is read linearly, and "
    "without its factors the derivative by the mask in a stack. In one row it shares what theorem "
    "18 says of Leave-One-Out, and it does not conserve.",
    55: "Across two layers, mask relevance misses Leave-One-Out by little where the token itself "
    "is attended to little, if the weights of the second layer are given and the token's own row "
    "does not count.",
    56: "CP-LRP can give a key the sign that Leave-One-Out does not have. Theorem 59 has the "
    "difference.",
}

N, P = 3, 2  # keys and channels
E, V = generic("e", 1, N, positive=True), generic("v", N, P)
A, O = E / sum(E), E * V / sum(E)
ONE = sp.ones(1, 1)


@pytest.mark.theorem(
    54,
    "In one attention layer whose outputs are read by any linear map, the mask relevance of a key, "
    "summed over all rows, is what leaving the key out takes from the logit.",
    "proved",
    scope="2 rows of 3 keys and 2 channels",
)
def test_mask_relevance_is_leave_one_out_in_one_layer():
    rows = [generic(f"e{n}", 1, N, positive=True) for n in "ab"]
    read = [generic(f"c{n}", P, 1) for n in "ab"]
    found = sum(map(mask_relevance, rows, [V, V], read), sp.zeros(N, 1))
    effect = sum((leave_key_out(e, V) * c for e, c in zip(rows, read, strict=True)), sp.zeros(N, 1))
    assert identical(found, effect)


@pytest.mark.theorem(
    54,
    "The derivative of a row's output by the mask of key j, on which its logits and values may "
    "depend as well, is A_j (v_j - O) plus what comes through these: so in a stack of layers mask "
    "relevance without its factors 1/(1 - A_ij), over all rows, is the derivative of the logit.",
    "proved",
    scope="3 keys; any stack of layers by the chain rule",
)
def test_without_its_factor_it_is_the_derivative_by_the_mask():
    m, values = sp.Symbol("m", real=True), V[:, :1]
    steeper, moved = generic("s", 1, N), generic("w", N, 1)  # slopes by the mask

    def row(mask, below):
        """The row at a mask of the last key, where the layers below have another one."""
        exp_z = (E + (below - 1) * steeper).copy()
        exp_z[N - 1] *= mask  # a mask multiplies the exponential of its key
        return (exp_z * (values + (below - 1) * moved))[0] / sum(exp_z)

    derivative = sp.diff(row(m, m), m).subs(m, 1)
    through_the_row_below = sp.diff(row(1, m), m).subs(m, 1)
    own = mask_relevance(E, values, ONE)[N - 1] * (1 - A[N - 1])
    assert identical(own, A[N - 1] * (values[N - 1] - O[0]))
    assert identical(derivative, own + through_the_row_below)


@pytest.mark.theorem(54, "The mask relevances of the keys of one row sum to its output.", "refuted")
def test_mask_relevance_does_not_conserve(record_property):
    found = mask_relevance(E[:, :2], V[:2, :1], ONE)
    output = (E[:, :2] * V[:2, :1])[0] / sum(E[:, :2])
    assert differ_at(sum(found), output, where((E[:, :2], [1, 1]), (V[:2, :1], [1, 3])))
    record_property("witness", "A = 1/2 each, v = (1, 3): -1 and 1 sum to 0, and the output is 2")


# A second layer reads the states H with given attention weights A; leaving token j out of the first
# takes D of them.
H, D = generic("h", N, 1), generic("d", N, 1)


def effect(j):
    """Leave-one-out of token j: the second layer's row, less its row from H without token j."""
    left = (A * (H - D))[0] - leave_key_out(E, H - D)[j]
    return (A * H)[0] - left


@pytest.mark.theorem(
    55,
    "In two attention layers, the second with given weights A, leave-one-out of token j minus its "
    "mask relevance over the rows i != j of the first is A_j times the mean of the effects D_i on "
    "these rows, weighted by A_i/(1 - A_j): in size it is at most A_j max |D_i|.",
    "proved",
    scope="3 tokens",
)
def test_the_error_across_two_layers_is_of_second_order(record_property):
    for j in range(N):
        others = [i for i in range(N) if i != j]
        # row i of the first layer is read with the gradient A_i, and gives A_i D_i (theorem 20)
        found = mask_relevance(E, H, ONE)[j] + sum(A[i] * D[i] for i in others)
        weights = [A[i] / (1 - A[j]) for i in others]
        mean = sum(w * D[i] for w, i in zip(weights, others, strict=True))
        assert identical(effect(j) - found, A[j] * mean)
        assert identical(sum(weights), 1)
    record_property("method", "the weights of the mean sum to 1")


@pytest.mark.theorem(
    55,
    "In two attention layers, the second with given weights A, counting row j of the first layer "
    "too adds A_j D_j to the mask relevance of token j, although leave-one-out does not depend on "
    "the effect D_j on this row.",
    "proved",
    given=["f > 0: exponentials of the logits of row j"],
    scope="3 tokens",
)
def test_the_own_row_of_a_token_must_not_count():
    for j in range(N):
        assert identical(sp.diff(effect(j), D[j]), 0)
        exp_z, v, c = generic("f", 1, N, positive=True), generic("v", N, 1), A[:, j]
        own = mask_relevance(exp_z, v, c)[j]  # of row j, which is read with the gradient A_j
        assert identical(own, A[j] * leave_key_out(exp_z, v)[j])


@pytest.mark.theorem(
    56,
    "Value-only relevance has the sign of leave-one-out.",
    "refuted",
)
def test_value_only_can_have_the_wrong_sign(record_property):
    v = V[:, :1]
    point = where((E, [1, 1, 1]), (v, [1, 2, 6]))
    by_value, loo = value_only(A, v, A * v, eps=0)[1][0], leave_key_out(E, v)[0]
    assert differ_at(by_value, loo, point)
    assert value_at(by_value * loo, point) < 0
    record_property("witness", "A = 1/3 each, v = (1, 2, 6): 1/3 for the first key versus -1")

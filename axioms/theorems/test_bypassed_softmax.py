"""The exact effect of bypassing the softmax: CP-LRP and AttnLRP against leave-one-out of a row.

O = sum A_i v_i over the keys of one row, which gives its relevance f = O to them.  CP-LRP (the
value-only rule) gives key i A_i v_i, and AttnLRP gives its value and its logit, by Eqs. 3 and 5,
A_i v_i/2 + z_i A_i (v_i - O)/2.  O_without_i is the row's output when key i is left out.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.rules.attention import softmax, taylor, value_only
from lrp_axioms.axioms.rules.effects import leave_key_out
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.norms import held_deviation, layer_norm
from lrp_axioms.axioms.rules.products import bilinear_epsilon
from lrp_axioms.axioms.theorems.test_attention_loo import ROWS, C, N, by_value_only

THEMES = {59: ["Softmax and attention"]}
MEANINGS = {
    59: "What CP-LRP misses of Leave-One-Out at a key is its weight times the output without it. "
    "Where attention is flat, both rank keys alike, as each is an affine map of the other with "
    "correlation 1, though they differ and can have opposite signs; AttnLRP may rank keys the "
    "other way round.",
}


def by_cp_lrp(e, v):
    return by_value_only(e / sum(e), v)


def by_attnlrp(z, e, v):
    """Relevance of a key: of its value, and of its logit."""
    a = softmax(z, exp_z=e)
    weights, values = bilinear_epsilon(a, v, a * v, eps=0)
    return values + taylor(z, weights, exp_z=e)[0].T


def without(e, v, i):
    """The output of the row without key i."""
    others = [k for k in range(v.rows) if k != i]
    return (e[:, others] * v[others, :]) / sum(e[:, others])


@pytest.mark.theorem(
    59,
    "As epsilon -> 0 and where O is not 0, leave-one-out of key i is (R_i - A_i f)/(1 - A_i) of "
    "its relevance R_i by CP-LRP, which adds up to f: so the two differ by A_i/(1 - A_i) |R_i - "
    "f|.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_leave_one_out_from_value_only_relevance():
    for _, e, v in ROWS:
        a, relevance, loo = e / sum(e), by_cp_lrp(e, v), leave_key_out(e, v)
        f = sum(relevance)
        for i in range(v.rows):
            assert identical(loo[i], (relevance[i] - a[i] * f) / (1 - a[i]))
            assert identical(loo[i] - relevance[i], a[i] / (1 - a[i]) * (relevance[i] - f))


@pytest.mark.theorem(
    59,
    "As epsilon -> 0 and where O is not 0, CP-LRP misses exactly -A_i O_without_i of "
    "leave-one-out: in size at most A_i max |v_k| over the keys k != i, attained where these have "
    "one value.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_what_the_bypass_misses_is_the_output_without_the_key(record_property):
    for _, e, v in ROWS:
        a, gap = e / sum(e), leave_key_out(e, v) - by_cp_lrp(e, v)
        for i in range(v.rows):
            assert identical(gap[i], -a[i] * without(e, v, i)[0])
        # a mean of the other values is at most the largest, and equal to it where all are one
        equal = sp.Matrix([v[0], *[v[1]] * (v.rows - 1)])
        gap = leave_key_out(e, equal) - by_cp_lrp(e, equal)
        assert identical(gap[0], -a[0] * v[1])
    record_property("method", "a mean is at most its largest value")


def missed(heads, stream, norm, i, s, t):
    """Leave-one-out of key i less its relevance by CP-LRP, behind heads, a stream and a LayerNorm.

    ``norm`` is the weight, the bias and the reading vector of the LayerNorm; s and t are its
    deviations with and without the key.
    """
    weight, bias, reading = norm
    read = [e * v / sum(e) for e, v in heads]
    output = sum(read, stream)
    left = output - sum((leave_key_out(e, v)[i, :] for e, v in heads), 0 * stream)
    y, y_left = (
        layer_norm(x, weight, bias, norm_eps=0, deviation=[size])
        for x, size in ((output, s), (left, t))
    )
    arriving = y.multiply_elementwise(reading)
    (r,) = held_deviation(output, weight, bias, arriving, eps=0, norm_eps=0, deviation=[s])
    _, *parts = add([stream, *read], r, eps=0)
    of_key = (
        sum(value_only(e / sum(e), v, part, eps=0)[1][i, :])
        for (e, v), part in zip(heads, parts, strict=True)
    )
    return ((y - y_left) * reading.T)[0] - sum(of_key)


@pytest.mark.theorem(
    59,
    "Behind heads h, a residual stream and a LayerNorm, whose weighted channels are read along w, "
    "w less its mean being c, CP-LRP misses -sum_h A_i^h <c, O_without_i^h>/s + <c, y> (1/s - 1/t) "
    "of leave-one-out, y being the stream without key i and s, t the deviations with and without "
    "it.",
    "proved",
    given=["s, t > 0: the deviations"],
    scope="1 and 2 heads of 3 keys and 2 and 3 channels",
)
def test_errors_of_heads_add_up_and_a_layer_norm_adds_its_deviation():
    s, t = sp.symbols("s t", positive=True)
    for heads, channels in ((1, 2), (2, 3)):
        values = [
            (generic(f"e{h}", 1, N, positive=True), generic(f"v{h}", N, channels))
            for h in "ab"[:heads]
        ]
        stream, *norm = (generic(name, 1, channels) for name in "xgbw")
        w = norm[0].multiply_elementwise(norm[2])
        c = w - sp.ones(1, channels) * sum(w) / channels
        for i in range(N):
            left = [(e[i] / sum(e), without(e, v, i)) for e, v in values]
            y = sum((read for _, read in left), stream)
            expected = -sum(a * (read * c.T)[0] for a, read in left) / s
            expected += (y * c.T)[0] * (1 / s - 1 / t)
            assert identical(missed(values, stream, norm, i, s, t), expected)


@pytest.mark.theorem(
    59,
    "AttnLRP, the value's relevance plus the logit's, is half of CP-LRP plus z_i (1 - A_i)/2 times "
    "leave-one-out.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_attnlrp_mixes_value_only_relevance_and_leave_one_out():
    for z, e, v in ROWS:
        a, found, values, loo = (
            e / sum(e),
            by_attnlrp(z, e, v),
            by_cp_lrp(e, v),
            leave_key_out(e, v),
        )
        for i in range(v.rows):
            assert identical(found[i], values[i] / 2 + z[i] * (1 - a[i]) * loo[i] / 2)


@pytest.mark.theorem(
    59,
    "At equal logits c of n keys, leave-one-out is (n R_i - f)/(n - 1) of CP-LRP's R_i, so that "
    "their correlation is 1 for any values that differ, and AttnLRP is (1 + c)/2 R_i - c f/(2n), "
    "so that its correlation is 1 for c > -1 and -1 for c < -1.",
    "proved",
    scope="n = 2, 3 and 4 keys",
)
def test_at_equal_logits_the_bypass_does_no_harm(record_property):
    for n in range(2, N + 2):
        z, e, v = C * sp.ones(1, n), sp.ones(1, n), generic("v", n, 1)
        values, loo = by_cp_lrp(e, v), leave_key_out(e, v)
        f = sum(values)
        assert identical(loo, (n * values - f * sp.ones(n, 1)) / (n - 1))
        assert identical(
            by_attnlrp(z, e, v), (1 + C) / 2 * values - C * f / (2 * n) * sp.ones(n, 1)
        )
    record_property("method", "an affine map keeps |r| = 1")


def stacked(attend, weights, x):
    """Relevance of the states x, from row 0 of two times h -> h + A h, as epsilon -> 0.

    At logits 0 nothing comes through the weights.
    """
    states = [x]
    for _ in range(2):
        states.append(states[-1] + weights * states[-1])
    relevance = sp.Matrix([states[-1][0], *[0] * (x.rows - 1)])
    for h in reversed(states[:-1]):
        read = weights * h
        share = sp.Matrix([r / y for r, y in zip(relevance, h + read, strict=True)])
        relevance = h.multiply_elementwise(share)
        relevance += attend(weights, h, read.multiply_elementwise(share), eps=0)[1]
    return relevance


@pytest.mark.theorem(
    59,
    "Behind two layers h -> h + A h at logits 0, AttnLRP orders tokens as CP-LRP does.",
    "refuted",
)
def test_depth_turns_the_order_of_tokens(record_property):
    x, half = generic("x", 2, 1), sp.ones(2, 2) / 2
    point = where((x, [1, 2]))
    attn, cp = (stacked(attend, half, x) for attend in (bilinear_epsilon, value_only))
    assert differ_at(attn[1] - attn[0], cp[1] - cp[0], point)
    assert value_at(attn[1] - attn[0], point) < 0 < value_at(cp[1] - cp[0], point)
    record_property(
        "witness",
        "A = 1/2 each, x = (1, 2), the second token over the first: AttnLRP -3/8, CP-LRP 1/2",
    )

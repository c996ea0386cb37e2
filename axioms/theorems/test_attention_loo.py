"""One attention readout: the relevance of a key by its rules, and the effect of leaving it out.

O = sum A_i v_i over the keys of one row, LOO_i = O - O_without_i (theorem 20).  Relevance is
compared where that of O is O: value-only gives key i A_i v_i, and AttnLRP gives its logit
z_i A_i (v_i - O)/2, by Eq. 5 from the half that Eq. 3 gives the attention weights.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.rules.attention import softmax, taylor, value_only
from lrp_axioms.axioms.rules.effects import leave_key_out
from lrp_axioms.axioms.rules.products import bilinear_epsilon

THEMES = {
    18: ["Softmax and attention", "Leave-One-Out and patching"],
    19: ["Softmax and attention"],
}
DERIVATIONS = {18: ["value only"], 19: ["softmax"]}
MEANINGS = {
    18: "CP-LRP gives relevance to keys that can be left out without any effect. No attribution "
    "to keys both sums to the output and, like Leave-One-Out, ignores a shift of all values.",
    19: "What AttnLRP gives an attention logit is the Leave-One-Out of its key times a factor "
    "that can have either sign and any size.",
}

N = 3
Z, E, V = generic("z", 1, N), generic("e", 1, N, positive=True), generic("v", N, 1)
C, EXP_C = sp.Symbol("c", real=True), sp.Symbol("exp_c", positive=True)
ROWS = [(Z[:, :n], E[:, :n], V[:n, :]) for n in (2, N)]
"""Logits, exponentials and values: of two keys, one standing for any number, and of three."""
A = E / sum(E)
UNIFORM = sp.ones(1, N) / N  # attention weights at equal logits
EQUAL, EXP_EQUAL = C * sp.ones(1, N), sp.ones(1, N)  # but for a factor that drops out


def by_value_only(a, v):
    return value_only(a, v, a * v, eps=0)[1]


def by_logits(z, exp_z, v):
    """Relevance of the logits by Eq. 5, from the relevance of the weights by Eq. 3 as eps -> 0."""
    a = softmax(z, exp_z=exp_z)
    half, _ = bilinear_epsilon(a, v, a * v, eps=0)
    return taylor(z, half, exp_z=exp_z)[0]


@pytest.mark.theorem(
    18,
    "Where all values of a row are equal to v, leaving any key out changes nothing, and the "
    "value-only rule gives key i A_i v: all of the output in sum.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_equal_values_have_relevance_but_no_effect():
    for _, e, v in ROWS:
        a, equal = e / sum(e), C * sp.ones(v.rows, 1)
        assert identical(leave_key_out(e, equal), 0 * equal)
        assert identical(by_value_only(a, equal), C * a.T)
        assert identical(sum(by_value_only(a, equal)), C)


@pytest.mark.theorem(
    18,
    "Adding c to every value of a row leaves every leave-one-out as it is, and adds A_i c to the "
    "relevance of key i by the value-only rule.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_leave_one_out_does_not_see_a_shift_of_the_values():
    for _, e, v in ROWS:
        a, moved = e / sum(e), v + C * sp.ones(v.rows, 1)
        assert identical(leave_key_out(e, moved), leave_key_out(e, v))
        assert identical(by_value_only(a, moved), by_value_only(a, v) + C * a.T)


@pytest.mark.theorem(
    18,
    "No attribution to the keys of a readout both sums to the output and is, as leave-one-out, "
    "invariant when every value is shifted by c, at no c but 0: the output moves by c.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_no_conserving_attribution_is_invariant_under_a_shift(record_property):
    # Whatever it is, invariant it has one sum before and after; conserving, that is the output.
    for z, e, v in ROWS:
        a = softmax(z, exp_z=e)
        before, after = (sum(a * (v + shift * sp.ones(v.rows, 1))) for shift in (0, C))
        assert identical(after - before, C)
    record_property("method", "two sums that differ")


@pytest.mark.theorem(
    18,
    "The leave-one-outs of the keys of one row, each weighted by 1 - A_i, sum to zero.",
    "proved",
    scope="3 keys",
)
def test_weighted_leave_one_outs_cancel():
    loo = leave_key_out(E, V)
    assert identical(sum((1 - A[i]) * loo[i] for i in range(N)), 0)


@pytest.mark.theorem(
    18,
    "At uniform logits, the value-only rule spreads relevance evenly over the keys.",
    "refuted",
)
def test_at_uniform_logits_value_only_follows_the_values(record_property):
    found = by_value_only(UNIFORM, V)
    assert identical(found, V / N)
    assert differ_at(found[0], found[2], where((V, [0, 1, 5])))
    record_property("witness", "A = 1/3 each, v = (0, 1, 5): the first key 0, the last 5/3")


@pytest.mark.theorem(
    19,
    "What AttnLRP gives logit i by Eqs. 3 and 5 as epsilon -> 0, R_i = z_i A_i (v_i - O)/2, is (1 "
    "- A_i) z_i/2 times the leave-one-out of key i: of the other sign where z_i < 0.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_the_first_order_of_eq_5_is_leave_one_out_times_a_known_factor():
    for z, e, v in ROWS:
        a, relevance, loo = e / sum(e), by_logits(z, e, v), leave_key_out(e, v)
        for i in range(v.rows):
            assert identical(relevance[i], z[i] * a[i] * (v[i] - sum(a * v)) / 2)
            assert identical(2 * relevance[i], loo[i] * (1 - a[i]) * z[i])


@pytest.mark.theorem(
    19,
    "Where v_i is not O, the ratio of leave-one-out to the relevance of a logit z_i > 0 by Eqs. 3 "
    "and 5, 2/((1 - A_i) z_i), grows without bound as A_i -> 1, also where all other logits stay, "
    "and as z_i -> 0 at fixed weights.",
    "proved",
    given=["z > 0: the logit", "more > 0: what exp(z) exceeds z^2/2 by"],
    scope="any number of keys, as one beside all others",
)
def test_the_ratio_to_leave_one_out_diverges(record_property):
    z, e, rest = sp.symbols("z e rest", positive=True)  # one key, and all others as one
    v, other = sp.symbols("v other", real=True)
    exp_z, values = sp.Matrix([[e, rest]]), sp.Matrix([v, other])
    loo = leave_key_out(exp_z, values)[0]
    relevance = by_logits(sp.Matrix([[z, 0]]), exp_z, values)[0]
    assert identical(relevance / loo, rest * z / (e + rest) / 2)  # rest / (e + rest) is 1 - A
    # and with z tied to the weights: e = exp(z) = z^2/2 + more, the others at logit 0
    more = sp.Symbol("more", positive=True)
    ratio = (loo / relevance).subs({e: z**2 / 2 + more, rest: 1})
    assert identical(ratio, z + 2 * (more + 1) / z)
    record_property("method", "the ratio 2/((1 - A) z) by cancel; where exp(z) > z^2/2, above z")


@pytest.mark.theorem(
    19,
    "Adding c to all logits of a row, which changes no leave-one-out, makes the relevance of logit "
    "i by Eqs. 3 and 5 larger by c A_i (v_i - O)/2: without bound as c grows, at any attention "
    "weights, where v_i is not O.",
    "proved",
    scope="2 and 3 keys; any number, as all other keys count as one of their sum and mean",
)
def test_large_similar_logits_inflate_eq_5(record_property):
    for z, e, v in ROWS:
        a, moved = e / sum(e), z + C * sp.ones(1, v.rows)
        assert identical(leave_key_out(EXP_C * e, v), leave_key_out(e, v))
        plain, shifted = by_logits(z, e, v), by_logits(moved, EXP_C * e, v)
        for i in range(v.rows):
            assert identical(shifted[i] - plain[i], C * a[i] * (v[i] - sum(a * v)) / 2)
    record_property("method", "the growth is linear in c")


@pytest.mark.theorem(
    19,
    "When logits are large but similar, the relevance of a logit by Eq. 5 is smaller than the "
    "effect of leaving its key out.",
    "refuted",
)
def test_eq_5_exceeds_the_effect_of_removal_at_large_similar_logits(record_property):
    relevance, loo = by_logits(EQUAL, EXP_EQUAL, V), leave_key_out(EXP_EQUAL, V)
    # setting the logit to 0, where Eq. 5 is expanded to, moves the output by less than leaving
    # the key out: the latter move times a factor between 0 and 1, e being exp(-c) < 1
    e = sp.Symbol("exp_minus_c", positive=True)
    to_zero = sum(V) / N - (e * V[0] + V[1] + V[2]) / (e + 2)
    assert identical(to_zero, loo[0] * 2 * (1 - e) / (2 + e))
    point = where((C, 100), (V, [1, 2, 6]))
    for r, effect in zip(relevance, loo, strict=True):
        assert differ_at(r, effect, point)
        assert abs(value_at(r, point)) > 10 * abs(value_at(effect, point))
    record_property("witness", "logits 100, v = (1, 2, 6): -100/3, -50/3, 50 versus -1, -1/2, 3/2")

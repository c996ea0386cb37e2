"""The softmax rule of Eq. 5, and the effect of leaving a key out on attention."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import Node, attend, leaf
from lrp_axioms.axioms.rules.attention import softmax, taylor, value_only
from lrp_axioms.axioms.rules.effects import leave_key_out
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {
    10: ["Softmax and attention"],
    20: ["Softmax and attention", "Leave-One-Out and patching"],
}
DERIVATIONS = {10: ["softmax"]}
MEANINGS = {
    10: "The softmax rule of Eq. 5 does not conserve relevance. It also reacts to a constant that "
    "is added to all logits, although no attention weight does.",
    20: "Leaving a key out also changes the weights of the others. This is why its effect is not "
    "the share that CP-LRP gives it.",
}

N = 3
Z, R = generic("z", 1, N), generic("r", 1, N)
E = generic("e", 1, N, positive=True)  # exp(z): independent of z as far as rational functions go
C, EXP_C = sp.Symbol("c", real=True), sp.Symbol("exp_c", positive=True)
EQUAL, EXP_EQUAL = C * sp.ones(1, N), EXP_C * sp.ones(1, N)  # logits of one row


@pytest.mark.theorem(
    10,
    "Eq. 5 returns the sum over i of R_i (z_i - zbar) in all, where zbar is the mean of the logits "
    "under the attention weights.",
    "proved",
    scope="3 logits",
)
def test_the_softmax_rule_returns_a_covariance_of_relevance_and_logits():
    a = softmax(Z, exp_z=E)
    (r_z,) = taylor(Z, R, exp_z=E)
    mean = sum(a.multiply_elementwise(Z))
    assert identical(sum(r_z), sum(R[i] * (Z[i] - mean) for i in range(N)))
    for i in range(N):
        assert identical(r_z[i], Z[i] * (R[i] - E[i] / sum(E) * sum(R)))


@pytest.mark.theorem(
    10,
    "When all logits of a row equal c, Eq. 5 returns c (R_i - mean R) to logit i: nothing in all.",
    "proved",
    scope="3 equal logits",
)
def test_at_equal_logits_the_softmax_rule_loses_all_relevance():
    (r_z,) = taylor(EQUAL, R, exp_z=EXP_EQUAL)
    assert identical(sum(r_z), 0)
    assert all(identical(r_z[i], C * (R[i] - sum(R) / N)) for i in range(N))


@pytest.mark.theorem(
    10,
    "Eq. 5 conserves relevance: what the logits receive is what arrived at the attention weights.",
    "refuted",
)
def test_the_softmax_rule_does_not_conserve_relevance(record_property):
    (r_z,) = taylor(EQUAL, R, exp_z=EXP_EQUAL)
    assert differ_at(sum(r_z), sum(R), where((C, 0), (R, [1, 2, 3])))
    record_property("witness", "logits 0, relevance (1, 2, 3): 0 of 6 left")


@pytest.mark.theorem(
    10,
    "Eqs. 3, 4 and 5 together conserve relevance locally, from the output of an attention step to "
    "its queries, keys and values, as epsilon -> 0.",
    "refuted",
)
def test_an_attention_step_at_equal_logits_conserves_only_half(record_property):
    scores = Node(kinds.SCORES, (leaf("q"), leaf("k")))
    output = attend(scores, leaf("v"))
    q, k, v = generic("q", 1, 1), generic("k", 1, 1), generic("v", 2, 1)
    equal = {"q": q, "k": sp.Matrix.vstack(k, k), "v": v}  # two keys with the same logit
    o = evaluate(output, equal)[output][0]
    totals = {name: sum(r) for name, r in explain(output, equal, ATTNLRP).items()}
    for name, share in (("q", 0), ("k", 0), ("v", o / 2)):
        assert identical(totals[name], share)
    assert differ_at(sum(totals.values()), o, where((q, [1]), (k, [1]), (v, [1, 2])))
    record_property("witness", "q = 1, k = (1, 1), v = (1, 2): 3/4 of the output 3/2, all to v")


@pytest.mark.theorem(
    10,
    "Adding c to all logits, which changes no attention weight, adds c (R_i - A_i sum R) to the "
    "relevance of logit i by Eq. 5, and nothing to the total.",
    "proved",
    scope="3 logits",
)
def test_a_shift_of_the_logits_moves_relevance_between_them():
    a = softmax(Z, exp_z=E)
    (plain,) = taylor(Z, R, exp_z=E)
    (shifted,) = taylor(Z + EQUAL, R, exp_z=EXP_C * E)
    for i in range(N):
        assert identical(shifted[i], plain[i] + C * (R[i] - a[i] * sum(R)))
    assert identical(sum(shifted), sum(plain))


@pytest.mark.theorem(
    10,
    "The same relevance at the same attention weights gives logits the same relevance by Eq. 5.",
    "refuted",
)
def test_the_shares_of_the_softmax_rule_are_not_shift_invariant(record_property):
    (plain,) = taylor(0 * EQUAL, R, exp_z=sp.ones(1, N))
    (shifted,) = taylor(EQUAL, R, exp_z=EXP_EQUAL)
    for i in (0, 2):
        assert differ_at(plain[i], shifted[i], where((C, 1), (R, [1, 2, 3])))
    record_property(
        "witness", "relevance (1, 2, 3): logits 0 get (0, 0, 0), logits 1 get (-1, 0, 1)"
    )


@pytest.mark.theorem(
    20,
    "Leaving key i out of one row of attention changes its output by exactly O - O_without_i = "
    "A_i/(1 - A_i) (v_i - O), for any number of keys.",
    "proved",
    scope="any number of keys, as one beside all others, of which only sum and mean count",
)
def test_leaving_one_key_out_moves_the_output_away_from_its_value(record_property):
    # All other keys enter through two numbers: the sum of their exponentials and the mean of
    # their values.  So as one key they stand for any number of them.
    e, rest = sp.symbols("e rest", positive=True)
    v, mean = sp.symbols("v mean", real=True)
    exp_z, values = sp.Matrix([[e, rest]]), sp.Matrix([v, mean])
    a = softmax(exp_z, exp_z=exp_z)
    o = (a * values)[0]
    assert identical(leave_key_out(exp_z, values)[0], a[0] / (1 - a[0]) * (v - o))
    record_property("method", "cancel; all other keys as one, of their sum and mean")


@pytest.mark.theorem(
    20,
    "Leaving key i out of one row of attention changes its output by A_i v_i, what the value-only "
    "rule attributes to it.",
    "refuted",
)
def test_leaving_one_key_out_is_not_removing_its_summand(record_property):
    v, a = generic("v", N, 1), softmax(Z, exp_z=E)
    _, summands = value_only(a, v, a * v, eps=0)
    point = where((E, [1] * N), (v, [1, 2, 6]))
    assert differ_at(leave_key_out(E, v)[0], summands[0], point)
    record_property("witness", "A = 1/3 each, v = (1, 2, 6): -1 versus 1/3")

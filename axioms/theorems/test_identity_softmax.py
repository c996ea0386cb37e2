"""The identity rule at the softmax, R_Z = R_A, in the place of Eq. 5.

One row of attention with query q, keys K and values V, whose output O is its relevance.  Eqs. 3
and 4 share it before and after the softmax.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.attention import softmax, taylor
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.products import bilinear_epsilon

THEMES = {77: ["Softmax and attention"]}
MEANINGS = {
    77: "With R_Z = R_A at the softmax, attention conserves relevance, and a key with its value "
    "gets 3/4 of its CP-LRP relevance; but logits near 0 amplify single channels, and a number "
    "added to all logits of a row, which the weights do not see, changes the explanation.",
}
CHANNELS = 2
Q = generic("q", 1, CHANNELS)
C = sp.Symbol("c", real=True)  # added to all logits of a row
EXP_C = sp.Symbol("s", positive=True)
ROWS = [(generic("k", n, CHANNELS), generic("e", 1, n, positive=True), generic("v", n, 1))
        for n in (2, 3)]  # fmt: skip
"""Keys, exponentials of their logits, and values."""


def shared(e, v):
    """Weights, their relevance and relevance of the values, by Eq. 3."""
    a = e / sum(e)
    return a, *bilinear_epsilon(a, v, a * v, eps=0)


def by_identity(z, a, relevance):
    return identity(relevance)[0]


def by_taylor(z, a, relevance):
    return z.multiply_elementwise(relevance - a * sum(relevance))


@pytest.mark.theorem(
    77,
    "With the identity rule at the softmax, as epsilon -> 0, values get half of the row's "
    "relevance, and keys and query a quarter each: key i gets A_i v_i/4 over its channels and its "
    "value A_i v_i/2, together 3/4 of its relevance by CP-LRP.",
    "proved",
    scope="2 and 3 keys of 2 channels",
)
def test_a_key_with_its_value_gets_three_quarters_of_cp_lrp():
    for k, e, v in ROWS:
        a, weights, values = shared(e, v)
        query, keys = bilinear_epsilon(Q, k.T, by_identity(Q * k.T, a, weights), eps=0)
        for i in range(v.rows):
            assert identical(sum(keys[:, i]), a[i] * v[i] / 4)
            assert identical(sum(keys[:, i]) + values[i], sp.Rational(3, 4) * a[i] * v[i])
        assert identical(sum(query), (a * v)[0] / 4)


@pytest.mark.theorem(
    77,
    "Channel r of the query gets the sum over keys i of q_r k_ir A_i v_i/(4 z_i) by the identity "
    "rule, where z_i is the logit, and of q_r k_ir A_i (v_i - O)/4 by Eq. 5, "
    "which no logit divides.",
    "proved",
    scope="2 and 3 keys of 2 channels",
)
def test_only_the_identity_rule_divides_by_logits():
    for k, e, v in ROWS:
        a, weights, _ = shared(e, v)
        z, o = Q * k.T, (a * v)[0]
        by = {rule: bilinear_epsilon(Q, k.T, rule(z, a, weights), eps=0)[0]
              for rule in (by_identity, by_taylor)}  # fmt: skip
        for r in range(CHANNELS):
            part = [Q[r] * k[i, r] * a[i] / 4 for i in range(v.rows)]
            divided = sum(p * x / y for p, x, y in zip(part, v, z, strict=True))
            assert identical(by[by_identity][r], divided)
            assert identical(
                by[by_taylor][r], sum(p * (x - o) for p, x in zip(part, v, strict=True))
            )


def below_a_sum(z, relevance):
    """Returns relevance of the logits z below the sum z + c, by Eq. 1."""
    return add((z, C * sp.ones(*z.shape)), relevance, eps=0)[0]


@pytest.mark.theorem(
    77,
    "A number added to all logits of a row, which leaves the weights, also leaves the relevance of "
    "the logits by Eq. 5, with Eq. 1 at the sum as epsilon -> 0.",
    "proved",
    given=["s > 0: the exponential of the number"],
    scope="2 and 3 keys",
)
def test_eq_5_does_not_see_a_number_that_is_added_to_a_row():
    for _, e, v in ROWS:
        z = generic("z", 1, v.rows)
        a, weights, _ = shared(e, v)
        added = taylor(z + C * sp.ones(*z.shape), weights, exp_z=e)[0]
        assert identical(below_a_sum(z, added), taylor(z, weights, exp_z=e)[0])
        assert identical(softmax(z, exp_z=e * EXP_C), a)


@pytest.mark.theorem(
    77,
    "A number added to all logits of a row, which leaves the weights, also leaves the relevance of "
    "the logits by the identity rule.",
    "refuted",
    scope="2 keys",
)
def test_the_identity_rule_sees_a_number_that_is_added_to_a_row(record_property):
    _, e, v = ROWS[0]
    z = generic("z", 1, 2)
    a, weights, _ = shared(e, v)
    direct, below = by_identity(z, a, weights), below_a_sum(z, by_identity(z, a, weights))
    at = where((z, [1, 1]), (e, [1, 1]), (v, [1, 1]), (C, 1))
    assert differ_at(direct[0], below[0], at)
    record_property(
        "witness", "logits 1 and 1, values 1 and 1, c = 1: a logit gets 1/4, and 1/8 below the sum"
    )

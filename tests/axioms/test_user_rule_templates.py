"""Rewrites of a user's rule are decided on every side, at every neuron, and in longer rows."""

import pytest
import sympy as sp

from axioms.decide.signs import sign
from axioms.own_rules.rules import rule
from axioms.own_rules.verdicts import verdict
from axioms.verdict import PROVED, REFUTED
from tests.support.own_rules import halves


def test_weights_of_heads_that_change_places_come_from_a_softmax():
    @rule("readout")
    def of_positive(a, v, o, R, eps):
        above = [sp.Max(p, 0) for p in a]
        return [0 for _ in a], [u * R / sum(above) for u in above]

    found = verdict(of_positive, "permute heads")
    assert (found.status, found.witness) == (PROVED, "")


@pytest.mark.parametrize("rewrite", ["distribute products", "factor sums"])
def test_a_rule_that_reads_one_side_of_a_product_is_refuted_on_the_other(rewrite):
    @rule("product")
    def by_the_left(x, y, z, R, eps):
        return R * x**2 / (1 + x**2), R / (1 + x**2)

    @rule("product")
    def by_the_right(x, y, z, R, eps):
        return R / (1 + y**2), R * y**2 / (1 + y**2)

    assert [verdict(own, rewrite).status for own in (by_the_left, by_the_right)] == [REFUTED] * 2


@rule("linear")
def in_equal_parts(x, w, b, z, R, eps):
    return [R / len(x) for _ in x]


def clamped_at(most):
    @rule("linear")
    def clamped(x, w, b, z, R, eps):
        return [sp.Max(-most, sp.Min(R, most)) / len(x) for _ in x]

    return clamped


@pytest.mark.parametrize("rewrite", ["fold linear", "split linear", "duplicate neuron"])
def test_a_rule_that_is_not_linear_in_relevance_is_decided_for_one_output(rewrite):
    found = verdict(clamped_at(1), rewrite)  # its two outputs would pass on more than their sum
    assert (found.status, found.scope) == (REFUTED, "at the witness")
    found = verdict(clamped_at(10**6), rewrite)  # no small point shows it
    assert found.status == PROVED
    assert found.scope.endswith("with one output")
    found = verdict(in_equal_parts, rewrite)
    assert found.status == PROVED
    assert "output" not in found.scope


def test_every_neuron_may_be_the_one_that_is_duplicated():
    @rule("linear")
    def first_twice(x, w, b, z, R, eps):
        first, *rest = (p * q * R / (z + eps * sign(z)) for p, q in zip(x, w, strict=True))
        return [2 * first, *rest]

    assert verdict(first_twice, "duplicate neuron").status == REFUTED


def test_rewrites_of_rows_are_tried_with_longer_rows_and_name_their_scope():
    @rule("product")
    def of_two_channels(x, y, z, R, eps):  # the same in a LayerNorm of two channels, for 1/sqrt(h)
        return R, R * (x**2 * y**2 + y**2 - 1)

    @rule("activation")
    def of_relu(x, y, slope, R, eps):
        return R + R**2 * sp.Max(-y, 0)

    assert verdict(of_two_channels, "decompose LayerNorm").status == REFUTED
    found = verdict(of_relu, "duplicate neuron")
    assert (found.status, found.scope) == (
        PROVED,
        "for 2 channels or keys, with relu, with one output",
    )
    assert verdict(halves, "commute products").scope == "for all operands"

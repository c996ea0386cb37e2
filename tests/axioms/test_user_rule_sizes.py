"""What a user's rule is said to do is said for numbers of inputs, and tried at more."""

import pytest

from axioms.invariance import scoreboard
from axioms.invariance.scoreboard import PROVED, REFUTED
from axioms.own_rules import rule
from axioms.own_rules.messages import rule_set
from axioms.own_rules.report import text
from axioms.own_rules.verdicts import (
    IN_LIMIT,
    UNDECIDED,
    Finding,
    decide,
    judge_claims,
    tried_at_more,
)
from tests.support.own_rules import halves, with_bias


@rule("bilinear")
def nothing(a, v, o, R, eps):
    return [0] * len(a), [0] * len(v)


@rule("linear")
def half_to_each(x, w, b, z, R, eps):
    return [R / 2 for _ in x]


@rule("softmax")
def all_to_the_middle(z, a, R, eps):
    return [sum(R) if 2 * k + 1 == len(z) else 0 for k in range(len(z))]


@rule("linear")
def twice_to_many(x, w, b, z, R, eps):
    return [(2 if len(x) > 5 else 1) * r for r in with_bias.function(x, w, b, z, R, eps)]


@rule("softmax")
def twice_to_seven(z, a, R, eps):
    return [r * (2 if len(z) == 7 else 1) for r in R]


@pytest.mark.parametrize(
    ("own", "claim", "witness"),
    [
        # true of two inputs alone
        (half_to_each, 0, "x = 1, w = 1: 1/2 versus 1"),
        (all_to_the_middle, 2, "z = [1 1 1]"),
        # true of up to five inputs, and of all numbers but seven
        (twice_to_many, 0, "is lost"),
        (twice_to_seven, 0, "194 versus 97"),
    ],
)
def test_what_fails_for_some_number_of_inputs_is_refuted(own, claim, witness):
    finding = judge_claims(own, rule_set(own))[claim]
    assert finding.verdict == REFUTED
    assert witness in finding.detail


def test_a_rewrite_is_tried_at_more_inputs_than_it_is_proved_for():
    for own, verdict in ((with_bias, PROVED), (twice_to_many, REFUTED)):
        cell = decide(rule_set(own), "insert identity layer", scoreboard.LIMIT)
        assert cell.verdict == PROVED
        assert tried_at_more(rule_set(own), cell).verdict == verdict


@pytest.mark.parametrize(
    ("own", "name", "verdict", "line"),
    [
        (with_bias, "duplicate neuron", PROVED, "duplicate neuron, for 2 and 3 inputs"),
        (nothing, "factorize attention", IN_LIMIT, "factorize attention, for 2 inputs"),
        (twice_to_seven, "conserves", UNDECIDED, "[undecided] conserves, for 1, 2 and 3 inputs"),
        (twice_to_seven, "conserves", REFUTED, "[refuted] conserves"),
        (halves, "commute products", PROVED, "[proved] the same if you commute products"),
    ],
)
def test_a_proof_says_for_how_many_inputs_it_is(own, name, verdict, line):
    said = text(own, [Finding(claim=name, verdict=verdict, detail="")])
    assert said.endswith(f"{line}\n")

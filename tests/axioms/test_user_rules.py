"""A user's own rules get the verdicts that are known for them."""

from functools import cache
from pathlib import Path

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite
from axioms.invariance import scoreboard
from axioms.invariance.rule_sets import RuleSet, absolute_split, z_plus
from axioms.invariance.scoreboard import PROVED, REFUTED, STABILISERS
from axioms.invariance.witness import NEAR_0
from axioms.own_rules.messages import rule_set
from axioms.own_rules.rules import ARGUMENTS, load, rule
from axioms.own_rules.signs import sign
from axioms.own_rules.verdicts import (
    IN_LIMIT,
    TRIED,
    UNDECIDED,
    decide,
    judge,
    judge_claims,
    rewrites_of,
)
from tests.support.own_rules import (
    above_a_hundred,
    above_a_threshold,
    alpha_beta,
    alpha_beta_less_bias,
    by_names,
    by_size,
    clamped_above,
    eq3,
    eq5,
    gamma,
    gradient,
    halves,
    hidden_zero,
    identity,
    none,
    nothing,
    passed_on,
    positive,
    positive_weights,
    shares,
    undefined,
    unstabilised,
    value_only,
    w_square,
    with_bias,
    without_bias,
)


@cache
def judged(own):
    return judge(own)


def claimed(own):
    """What is found of the operation alone, without the rewrites."""
    return judge_claims(own, rule_set(own))


def at(own, claim):
    return next(finding for finding in judged(own) if claim in finding.claim)


def with_rule(kind, name):
    return RuleSet(name=name, composite=Composite(name, {**ATTNLRP.rules, kind: name}))


ATTN = RuleSet(name="AttnLRP", composite=ATTNLRP)
SAME_AS = {  # what the project states in its own words, and the scoreboard decides
    halves: ATTN,
    shares: ATTN,
    with_bias: ATTN,
    eq3: ATTN,
    rule("scores")(eq3.function): ATTN,
    rule("readout")(eq3.function): ATTN,
    eq5: ATTN,
    identity: ATTN,
    nothing: with_rule(kinds.SCORES, CP_LRP.rules[kinds.SCORES]),
    none: with_rule(kinds.SOFTMAX, CP_LRP.rules[kinds.SOFTMAX]),
    value_only: with_rule(kinds.READOUT, CP_LRP.rules[kinds.READOUT]),
    without_bias: with_rule(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS),
    by_size: RuleSet(name="abs", composite=ATTNLRP, instead={kinds.ADD: absolute_split}),
    positive: RuleSet(name="z+", composite=ATTNLRP, instead={kinds.LINEAR: z_plus}),
}


def test_the_known_rules_cover_every_kind():
    assert {own.kind for own in SAME_AS} == set(ARGUMENTS)
    assert {own.kind for own, known in SAME_AS.items() if known is ATTN} == set(ARGUMENTS)


@cache
def known_cell(own, name, eps):
    """AttnLRP's cells are shared by the rules that restate it."""
    same = next(other for other, known in SAME_AS.items() if known is SAME_AS[own])
    if same is not own:
        return known_cell(same, name, eps)
    return scoreboard.decide(SAME_AS[own], name, eps, points_tried=TRIED)


# Templates of several linear layers, which take most of the time: one rule for these is enough.
WIDE = ("duplicate neuron", "permute neurons", "rescale Q and K", "permute channels of Q and K")


@pytest.mark.parametrize("own", SAME_AS, ids=lambda own: f"{own.kind}: {own.name}")
def test_a_rule_of_the_project_gets_the_verdicts_and_witnesses_of_the_scoreboard(own):
    stated = rule_set(own)
    names = rewrites_of(tuple(stated.instead))
    assert names
    for name in names:
        if own in (without_bias, positive) and name in WIDE:
            continue
        for eps in STABILISERS:
            cell, known = decide(stated, name, eps), known_cell(own, name, eps)
            if known.verdict == scoreboard.OPEN:  # signs split into cases prove more
                assert cell.verdict in (PROVED, scoreboard.OPEN), (name, eps)
            else:
                assert cell.verdict == known.verdict, (name, eps)
                # In the limit a formula has values at points where the rule itself says 0/0.
                both = eps == scoreboard.LIMIT and cell.witness and known.witness
                assert both or cell.witness == known.witness, (name, eps)


def test_only_rewrites_in_which_a_kind_carries_relevance_concern_it():
    assert rewrites_of((kinds.BILINEAR,)) == ["factorize attention"]
    assert rewrites_of((kinds.SOFTMAX,)) == ["decompose softmax"]
    assert "commute sums" not in rewrites_of((kinds.PRODUCT,))


KNOWN = {  # claims that no rewrite of the scoreboard makes
    without_bias: [IN_LIMIT, PROVED, PROVED],
    unstabilised: [REFUTED, PROVED, PROVED],
    eq5: [REFUTED, PROVED, PROVED, REFUTED],
    passed_on: [PROVED, PROVED, PROVED, PROVED],
    eq3: [IN_LIMIT, PROVED, PROVED, PROVED],
    identity: [PROVED, PROVED],
    gradient: [REFUTED, PROVED],
    shares: [IN_LIMIT, PROVED],
    clamped_above: [IN_LIMIT, PROVED, PROVED],  # not for eps > 1
    undefined: [UNDECIDED] * 3,  # 0/0 everywhere
    hidden_zero: [UNDECIDED] * 4,  # and no witness is rounding noise
    above_a_threshold: [REFUTED, PROVED, PROVED],
}


@pytest.mark.parametrize("own", KNOWN, ids=lambda own: own.name)
def test_known_rules_get_their_known_claims(own):
    found = claimed(own)
    assert [finding.verdict for finding in found] == KNOWN[own]


def test_what_absorbs_relevance_is_named():
    def conserves(own):
        return claimed(own)[0].detail

    assert conserves(without_bias).startswith("the stabiliser absorbs R*eps")
    assert conserves(unstabilised).startswith("the bias absorbs R*b/(")
    assert conserves(shares).startswith("the stabiliser absorbs R*eps")
    lost = conserves(eq5)
    assert "is lost" in lost
    assert lost.endswith("eps -> 0, z = 1, R = 1: 0 versus 1")


def test_the_smallest_witness_is_found():
    own, *_ = load(Path(__file__).parents[2] / "docs" / "my_rules.py")
    assert at(own, "re-associate products").detail == (
        "eps -> 0, a = 1, b = 1, c = 1: `(a·b)·c` gives a 1/4, b 1/4, c 1/2; "
        "`a·(b·c)` gives a 1/2, b 1/4, c 1/4"
    )


def test_every_claim_is_refuted_for_some_rule():
    """Uneven, unsymmetric and unscaled rules: no claim holds for all of them."""

    def weighted(*values):
        return [(n + 1) * value**2 for n, value in enumerate(values)]

    def product(a, v, o, R, eps):
        return weighted(*[x * R for x in a]), weighted(*v)

    uneven = {
        kinds.PRODUCT: lambda x, y, z, R, eps: weighted(x * R, y),
        kinds.ADD: lambda x, y, z, R, eps: weighted(x * R, y),
        kinds.LINEAR: lambda x, w, b, z, R, eps: weighted(*[xi * R + b + w[0] for xi in x]),
        **dict.fromkeys((kinds.BILINEAR, kinds.SCORES, kinds.READOUT), product),
        kinds.SOFTMAX: lambda z, a, R, eps: weighted(*[x + r for x, r in zip(z, R, strict=True)]),
        kinds.ACTIVATION: lambda x, y, slope, R, eps: x**2 * R + slope * y,
    }
    assert set(uneven) == set(ARGUMENTS)
    for kind, function in uneven.items():
        found = claimed(rule(kind)(function))
        assert {finding.verdict for finding in found} == {REFUTED}, found


def test_what_is_neither_proved_nor_refuted_is_undecided():
    @rule("product")
    def only_at_small_integers(x, y, z, R, eps):
        gap = sp.prod([x - k for k in range(-9, 10)])
        return R / 2, R / 2 + gap

    assert claimed(only_at_small_integers)[0].verdict == UNDECIDED


def test_signs_are_split_into_cases():
    @rule("add")
    def by_magnitude_of_either(x, y, z, R, eps):
        return R * sign(x) ** 2, sp.sign(y) * abs(y) * R - y * R

    assert claimed(by_magnitude_of_either)[0].verdict == PROVED
    x, y = sp.symbols("x y", real=True)
    assert sign(2 * x) == sign(x)
    assert sign(-x) != sign(x)
    assert sign(x * y) == sign(y * x)
    assert [sign(value) for value in (0, -3, sp.Rational(1, 2))] == [1, -1, 1]


def test_signs_in_the_limit_are_those_of_every_small_enough_eps():
    tiny, e = sp.Rational(1, 10**31), sp.E
    one = e / (e + e**2) + e**2 / (e + e**2)
    negative = (NEAR_0 - tiny, NEAR_0**2 - NEAR_0, abs(NEAR_0 - tiny) - tiny, e - 3 + NEAR_0)
    positive = (tiny - NEAR_0, sp.Max(NEAR_0, tiny) - NEAR_0, 1 / NEAR_0 - 10**31, one - 1)
    assert [sign(value) for value in (*negative, one - 1 - NEAR_0)] == [-1] * 5
    assert [sign(value) for value in positive] == [1] * 4
    assert sign(sp.sqrt(NEAR_0) - 1) is sp.nan


def test_a_rule_without_a_limit_is_refuted_at_finite_eps():
    @rule("product")
    def no_limit(x, y, z, R, eps):
        return R / eps, R / 2

    finding = claimed(no_limit)[0]
    assert finding.verdict == REFUTED
    assert "eps = 1/4" in finding.detail


def test_maxima_are_decided():
    @rule("add")
    def positive_part(x, y, z, R, eps):
        up = sp.Max(x, 0)
        return R * up / (up + abs(y)), R * abs(y) / (up + abs(y))

    assert claimed(positive_part)[0].verdict == PROVED
    assert decide(rule_set(positive_part), "commute sums", scoreboard.LIMIT).verdict == REFUTED


@pytest.mark.parametrize(
    ("own", "claim", "verdict", "witness"),
    [
        # no positive part, or no part of one sign: an open set where eps = 0 is 0/0
        (positive_weights, 0, REFUTED, "eps -> 0, b = 1, R = 1, x = -1, w = 1: 0 versus 1"),
        (alpha_beta_less_bias, 0, REFUTED, "eps -> 0, b = 1, R = 1, x = 1, w = 1: 2 versus 1"),
        (above_a_hundred, 0, REFUTED, "undecided as eps -> 0"),
    ],
)
def test_what_fails_on_an_open_set_is_refuted(own, claim, verdict, witness):
    finding = claimed(own)[claim]
    assert finding.verdict == verdict
    assert witness in finding.detail


@pytest.mark.parametrize(
    ("own", "rewrite", "eps", "verdict"),
    [
        (alpha_beta, "distribute linear", scoreboard.LIMIT, REFUTED),
        (alpha_beta, "fold batch norm", scoreboard.LIMIT, REFUTED),
        (alpha_beta, "permute neurons", scoreboard.FINITE, PROVED),
        (w_square, "duplicate neuron", scoreboard.LIMIT, REFUTED),
        # alpha R on one positive input, of which eps = 0 only says 2 - 0/0
        (alpha_beta, "insert identity layer", scoreboard.LIMIT, REFUTED),
        (alpha_beta, "insert identity layer", scoreboard.FINITE, REFUTED),
        (gamma, "fold linear", scoreboard.LIMIT, REFUTED),
        (gamma, "permute neurons", scoreboard.LIMIT, PROVED),
        (by_names, "commute products", scoreboard.FINITE, scoreboard.OPEN),
    ],
)
def test_rules_of_several_fractions_get_a_verdict(own, rewrite, eps, verdict):
    assert decide(rule_set(own), rewrite, eps).verdict == verdict

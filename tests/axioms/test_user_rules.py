"""A user's own rules get the verdicts that are known for them."""

from functools import cache
from pathlib import Path

import pytest
import sympy as sp

import axioms
from axioms.decide.equality import DIFFERENT, EQUAL, UNDEFINED, Undecided, at_every_eps
from axioms.decide.signs import resolved, sign
from axioms.own_rules.files import load
from axioms.own_rules.rules import rule
from axioms.own_rules.verdicts import OfGraphs, decisions, rewrites_of, verdict
from axioms.pages.scoreboard import SHORT
from axioms.rewrites.rewrites import REWRITES
from axioms.scoreboard import scoreboard
from axioms.scoreboard.witness import NEAR_0
from axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED, Judged, Verdict
from tests.support.own_rules import (
    LITERATURE,
    SAME_AS,
    above_a_hundred,
    alpha_beta_less_bias,
    eq5,
    halves,
    identity,
    positive,
    shares,
    unstabilised,
    value_only,
    with_bias,
    without_bias,
)
from tests.support.scoreboard import marks

# Templates of several linear layers, which take most of the time: one rule for these is enough.
WIDE = ("duplicate neuron", "permute neurons", "rescale Q and K", "permute channels of Q and K")


COLUMNS = {"AttnLRP": "AttnLRP", "abs": "AttnLRP, abs split"}  # of these rules on the page
VERDICTS = {mark: verdict for verdict, mark in SHORT.items()}


@cache
def known_cell(rule_set, name, eps):
    """The verdict: on the page, which another test computes, or decided here."""
    if rule_set.name in COLUMNS and name in REWRITES:
        return VERDICTS[marks(COLUMNS[rule_set.name])[name][eps]]
    return scoreboard.decide(rule_set, name, eps, points_tried=60).verdict


@pytest.mark.parametrize("own", SAME_AS, ids=lambda own: f"{own.kind}: {own.name}")
def test_a_rule_of_the_project_gets_the_verdicts_of_the_scoreboard(own):
    """The scoreboard decides otherwise: by identities of symbols, and by points it tries."""
    names = rewrites_of(own.kinds)
    assert names
    for name in names:
        if own in (without_bias, positive) and name in WIDE:
            continue
        limit, finite = (
            known_cell(SAME_AS[own], name, eps) for eps in (scoreboard.LIMIT, scoreboard.FINITE)
        )
        found = verdict(own, name).status
        if finite == scoreboard.PROVED:
            assert found == PROVED, name
        elif limit == scoreboard.PROVED:
            assert found in (IN_LIMIT, *([PROVED] * (finite == scoreboard.OPEN))), name
        elif limit == scoreboard.REFUTED:
            assert found == REFUTED, name


@rule("add")
def by_positive_parts(x, y, z, R, eps):
    p, q = sp.Max(x, 0), sp.Max(y, 0)
    return R * p / (p + q), R * q / (p + q)


@rule("add")
def damped(x, y, z, R, eps):
    kept = R * z / (z + eps * sign(z))
    return x / z * kept, y / z * kept


@rule("add")
def by_the_sign_of_relevance(x, y, z, R, eps):
    p, q, m, n = (sp.Max(part, 0) for part in (x, y, -x, -y))
    each = ((p / (p + q), m / (m + n)), (q / (p + q), n / (m + n)))
    return [R * sp.Piecewise((up, R > 0), (down, True)) for up, down in each]


@rule("add")
def by_the_smaller(x, y, z, R, eps):
    m = sp.Min(abs(x), abs(y))
    return R * m / (2 * m), R * m / (2 * m)


@rule("add")
def by_the_larger(x, y, z, R, eps):
    return R * (1 + sign(x - y)) / 2, R * (1 - sign(x - y)) / 2


@pytest.mark.parametrize(("own", "rewrite", "status", "witness"), [
    (by_positive_parts, "add zero", REFUTED, "undefined"),  # 0/0 on an open set
    (damped, "re-associate sums", IN_LIMIT, "eps"),  # 0/0 at z = 0, which has cancelled
    (by_the_sign_of_relevance, "add zero", REFUTED, "undefined"),  # in one case, p / p cancelled
    (by_the_smaller, "add zero", REFUTED, "undefined"),  # where SymPy has cancelled m / m
    (by_the_larger, "commute sums", REFUTED, "eps -> 0, a = [1 1], b = [1 1]"),  # at a tie
    (LITERATURE["w_square"], "duplicate neuron", REFUTED, ""),
    (LITERATURE["alpha_2_beta_1"], "insert identity layer", REFUTED, "eps -> 0"),
    (LITERATURE["gamma"], "fold linear", REFUTED, ""),
    (LITERATURE["gamma"], "permute neurons", PROVED, ""),
])  # fmt: skip
def test_rewrites_that_need_signs_get_a_verdict(own, rewrite, status, witness):
    found = decisions(own)[rewrite]()
    assert found.status == status
    assert witness in found.witness


def test_what_absorbs_relevance_is_named():
    def reason(own):
        return verdict(own, "conserves relevance").reason

    assert reason(without_bias) == (
        "the stabiliser absorbs R*eps*sign(-b + z)/(-b + eps*sign(-b + z) + z)"
    )
    assert reason(unstabilised) == "the bias absorbs R*b/z"
    assert reason(shares).startswith("the stabiliser absorbs R*eps")
    assert reason(eq5) == "sum of R*sum of a*z + sum of R - sum of R*z is lost"
    assert reason(with_bias) == "bias and stabiliser absorb R*(b + eps*sign(z))/(eps*sign(z) + z)"


def test_every_verdict_says_where_it_holds():
    def scope(own, claim="conserves relevance"):
        return verdict(own, claim).scope

    any_number = "for any number of inputs, if the formula goes on as for 1 to 10"
    assert scope(LITERATURE["flat"]) == any_number
    assert scope(LITERATURE["w_square"]) == f"{any_number}, where sum of w**2 != 0"
    assert scope(value_only) == f"{any_number}, where o != 0"
    assert scope(LITERATURE["ratio_based"]) == "where |x| + |y| != 0"
    assert scope(identity) == "for every activation"
    assert scope(halves) == "for all operands"
    assert scope(halves, "multiply by one") == "at the witness"
    assert scope(with_bias, "duplicate neuron").startswith("for 2 and 3 inputs")


@pytest.mark.parametrize("divisor", ["y", "y + eps * sign(y)"])
def test_a_proof_of_a_rule_that_may_be_0_over_0_says_so_in_the_limit_too(divisor):
    @rule("product")
    def own(x, y, z, R, eps):
        return R * x / x * y / eval(divisor), 0

    found = decisions(own)["conserves relevance"]()
    assert found.status == (IN_LIMIT if "eps" in divisor else PROVED)
    assert found.scope.endswith(", where the rule itself is not 0/0")


def test_activations_of_which_a_claim_holds_are_named():
    @rule("activation")
    def by_signs(x, y, slope, R, eps):
        return R * sign(x) * sign(y)

    found = verdict(by_signs, "conserves relevance")
    assert found.status == REFUTED
    assert found.witness == "x = -1, y = 1, slope = 1, R = 1: -1 versus 1"
    assert found.reason.endswith("activations with the sign of their input, where f(x) != 0")


def test_no_readout_is_refuted_at_weights_that_no_softmax_gives():
    @rule("readout")
    def squared(a, v, o, R, eps):
        return [R * p**2 for p in a], [0 for _ in v]

    found = verdict(squared, "conserves relevance")
    assert found.status == REFUTED
    assert found.witness == "a = [1/2 1/2], v = [1 1], R = 1: 1/2 versus 1"


def test_judging_in_python_gives_the_verdicts_as_data():
    own, *_ = load(Path(__file__).parents[2] / "docs" / "my_rules.py")
    found = axioms.judge(own)
    assert [each.claim for each in found[:2]] == ["conserves relevance", "is linear in relevance"]
    (refuted,) = (x for x in found if x.claim == "the same if you re-associate products")
    assert refuted.witness == (
        "eps -> 0, a = 1, b = 1, c = 1, R = 1: `(a·b)·c` gives a 1/4, b 1/4, c 1/2; "
        "`a·(b·c)` gives a 1/2, b 1/4, c 1/4"
    )


def test_a_rule_that_fails_on_an_open_set_of_the_limit_alone_is_refuted():
    for own, witness in ((alpha_beta_less_bias, "eps -> 0"), (above_a_hundred, "")):
        found = verdict(own, "conserves relevance")
        assert found.status == REFUTED
        assert witness in found.witness


def test_signs_in_the_limit_are_those_of_every_small_enough_eps():
    tiny, e = sp.Rational(1, 10**31), sp.E
    one = e / (e + e**2) + e**2 / (e + e**2)
    negative = (NEAR_0 - tiny, NEAR_0**2 - NEAR_0, abs(NEAR_0 - tiny) - tiny, e - 3 + NEAR_0)
    positive = (tiny - NEAR_0, sp.Max(NEAR_0, tiny) - NEAR_0, 1 / NEAR_0 - 10**31, one - 1)
    assert [sign(value) for value in (*negative, one - 1 - NEAR_0)] == [-1] * 5
    assert [sign(value) for value in positive] == [1] * 4
    assert sign(sp.sqrt(NEAR_0) - 1) is sp.nan
    x = sp.Symbol("x", real=True)
    assert sign(2 * x) == sign(x)
    assert sign(-x) != -sign(x)  # at 0
    cases = sp.Piecewise((1, NEAR_0 > tiny), (2, sp.Or(NEAR_0 < 0, sp.Ne(NEAR_0, 0))))
    assert resolved(cases) == 2
    assert resolved(sp.Min(NEAR_0, tiny)) == NEAR_0


def test_every_rewrite_is_compared_for_symbols_of_every_template():
    """A graph is equal to itself, differs from another, and is 0/0 where its rule is."""
    statuses = {
        (own, name): {at_every_eps(OfGraphs(own, name, t)).status for t in REWRITES[name].templates}
        for own, name in (
            (halves, "commute products"),
            (halves, "multiply by one"),
            (by_positive_parts, "commute sums"),
        )
    }
    assert list(statuses.values()) == [{EQUAL}, {DIFFERENT}, {UNDEFINED}]


def test_numbers_too_close_to_compare_end_no_verdict_on_a_rule():
    """At x = -101 the solver asks for Max(1/2 - erf(101/sqrt 2)/2, 0), which SymPy refuses."""

    @rule("product")
    def far_below(x, y, z, R, eps):
        part = sp.Max(x, 0) / (sp.Max(x, 0) + sp.Max(y, 0) + eps)
        lost = sp.Piecewise((R / 1000, sp.And(x < -100, y < -100)), (0, True))
        return R * part, R * (1 - part) - lost

    found = verdict(far_below, "decompose GELU")
    assert found.status in (REFUTED, UNDECIDED)
    with pytest.raises(Undecided, match="not comparable"):
        far_below(*map(sp.sympify, (sp.erfc(101 / sp.sqrt(2)).rewrite(sp.erf), 1, 0, 1, 1)))


def test_verdicts_are_told_in_short_lines_and_counted_by_status():
    told = [
        Verdict("conserves", REFUTED, "at the witness", "x = 1", "R is lost"),
        Verdict("is linear", IN_LIMIT, "for all operands", "x = 2"),
        *(Verdict(f"the same if you {x}", REFUTED, "at the witness", "x = 1") for x in "ab"),
        Verdict("the same if you c", UNDECIDED, "", reason="word " * 40),
    ]
    own = Judged("mine", "product", "f.py:2", told)
    first, place, *lines = own.text().splitlines()
    assert (first, place) == (own.heading, "  at f.py:2")
    assert lines[:5] == [
        *("  [refuted] conserves, at the witness", "    R is lost", "    x = 1"),
        *("  [proved as eps -> 0] is linear, for all operands", "    but not at x = 2"),
    ]
    assert lines[-4] == "  [undecided] the same if you c"
    assert all(line.startswith("    word ") and len(line) <= 80 for line in lines[-3:])
    assert own.summary() == [
        "3 refuted, 1 proved as eps -> 0, 1 undecided",
        "refuted: conserves; the same if you a, b",
        "undecided: the same if you c",
    ]

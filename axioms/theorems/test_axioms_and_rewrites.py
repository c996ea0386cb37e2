"""Axioms and rewrites in one table: sets that exclude each other once every rewrite is an axiom.

A local rule gives of the relevance R of z = x y the part R S(x, z) to the left factor, and R (1 -
S(x, z)) to the right one if it conserves, where S reads values alone; sums and linear layers follow
Eq. 1; what an input gets is the sum over its uses.  Of 37 axioms, 31 are rewrites of
docs/SCOREBOARD.md; 13 can be part of a conflict (14 sets), and no other axiom is part of one.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import leaf, linear, parameter
from lrp_axioms.axioms.rewrites.channels import batch_norm
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.rules.effects import leave_key_out
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.scoreboard.axiom_cells import AXIOMS as NO_REWRITES
from lrp_axioms.axioms.scoreboard.axiom_cells import FUNCTIONALS, by_rules, decide_axiom
from lrp_axioms.axioms.scoreboard.rule_sets import MASK_RELEVANCE, RULE_SETS
from lrp_axioms.axioms.scoreboard.scoreboard import AT_EXPONENTIALS, FIRST, LIMIT, PROVED, decide
from lrp_axioms.axioms.theorems.axiom_rules import AXIOM_RULES
from lrp_axioms.axioms.theorems.axiom_sets import largest_without, smallest_not_had
from lrp_axioms.axioms.theorems.excluded import EXCLUDED
from lrp_axioms.axioms.theorems.test_product_rules import named

THEMES = {67: ["Characterisation"]}
MEANINGS = {
    67: "With every rewrite as an axiom of its own, 14 sets of axioms exclude each other, and all "
    "other sets are obeyed by one of seven methods. A rule that works operation by operation, "
    "conserves and treats factors alike cannot survive a product with a sum, or another unit, and "
    "also another bracketing or a factor 1. The table is docs/AXIOMS.md.",
}

R = sp.Symbol("R", real=True)
A, B, C = (leaf(name) for name in "abc")
POINT = {name: sp.Symbol(name, real=True) for name in "abcwdst"}
a, b, c = (POINT[name] for name in "abc")
RULE = Composite(
    "local",
    {kinds.PRODUCT: kinds.EQUAL_SPLIT, kinds.ADD: kinds.EPSILON, kinds.LINEAR: kinds.EPSILON},
)
SHARE = named("S")
NUMBER = sp.Symbol("c", real=True)


def local(share):
    """The message of a local rule that conserves, from the share S(x, z) of the left factor."""

    def messages(node, xs, r, options):
        left, right = (x[0] for x in xs)
        part = share(left, sp.factor(left * right))
        return [r * part, r * (1 - part)]

    return {kinds.PRODUCT: messages}


def relevance(root, share, at=None):
    return explain(root, {**POINT, **(at or {})}, RULE, relevance=R, instead=local(share))


def gaps(rewrite, root, share, at=None):
    """Relevance of each input before a rewrite less its relevance afterwards, at R = 1."""
    before = relevance(root, share, at)
    for other in REWRITES[rewrite](root):
        after = relevance(other, share, at)
        yield {name: (before[name] - after[name]) / R for name in before}


@pytest.mark.theorem(
    67,
    "A local rule that conserves survives the distribution of products over sums, or the factoring "
    "of sums, on both sides only if S(x, z) is one number: S(a, a(b + c)) = S(a, ab) and S(b + c, "
    "a(b + c)) = S(b, ab).",
    "proved",
    scope="3 inputs, unknown shares",
)
@pytest.mark.parametrize("left", [True, False])
def test_distribution_leaves_one_share(left):
    whole, terms = (A * (B + C), A * B + A * C) if left else ((B + C) * A, B * A + C * A)
    for rewrite, root, sign in (("distribute products", whole, 1), ("factor sums", terms, -1)):
        found = [gap["b"] for gap in gaps(rewrite, root, SHARE)]
        if left:
            expected = SHARE(a, a * b) - SHARE(a, a * (b + c))
        else:
            expected = SHARE(b + c, a * (b + c)) - SHARE(b, a * b)
        assert any(identical(gap, sign * b / (b + c) * expected) for gap in found)


@pytest.mark.theorem(
    67,
    "A local rule whose share is one number c, R c to the left and R (1 - c) to the right, "
    "survives distribution, factoring and every change of units.",
    "proved",
    scope="3 inputs",
)
def test_every_number_survives_distribution_and_units():
    share = lambda x, z: NUMBER
    for rewrite, root in (
        ("distribute products", A * (B + C)),
        ("distribute products", (B + C) * A),
        ("factor sums", A * B + A * C),
        ("factor sums", B * A + C * A),
    ):
        for gap in gaps(rewrite, root, share):
            assert all(identical(value, 0) for value in gap.values())
    unit = sp.Symbol("u", positive=True)
    for scaled in ({"a": unit * a}, {"b": unit * b}):
        found, before = relevance(A * B, share, scaled), relevance(A * B, share)
        assert all(identical(found[name], before[name]) for name in before)


@pytest.mark.theorem(
    67,
    "Of a local rule with one share c, re-association asks c^2 = c, the order of factors c = 1/2, "
    "a factor 1 c = 1, and symmetry c = 1/2 and c^2 + c = 1: so the order excludes re-association, "
    "and a factor 1, and symmetry excludes itself.",
    "proved",
    scope="3 inputs",
)
def test_one_share_for_all_products_is_not_enough(record_property):
    share = lambda x, z: NUMBER
    (nested,) = gaps("re-associate products", (A * B) * C, share)
    (turned,) = gaps("commute products", A * B, share)
    one = relevance(A, share)["a"] - relevance(REWRITES["multiply by one"](A)[0], share)["a"]
    pair, triple = relevance(A * B, share), relevance((A * B) * C, share)
    equal, last = (pair["a"] - pair["b"]) / R, (triple["a"] - triple["c"]) / R
    assert identical(nested["a"], NUMBER**2 - NUMBER)
    assert identical(turned["a"], 2 * NUMBER - 1)
    assert identical(one / R, 1 - NUMBER)
    assert identical(equal, 2 * NUMBER - 1)
    assert identical(last, NUMBER**2 + NUMBER - 1)
    # none of these combinations of gaps is 0, though each gap should be
    quarter = -sp.Rational(1, 4)
    assert identical(nested["a"] - turned["a"] ** 2 / 4, quarter)
    assert identical(one / R + turned["a"] / 2, 2 * -quarter)
    assert identical(last - (NUMBER / 2 + 3 * -quarter) * equal, quarter)
    record_property("method", "cancel: a combination of the gaps, each 0 by an axiom, is a number")


@pytest.mark.theorem(
    67,
    "A local rule that conserves survives the folding of batch norm, (x w + d) s + t, only if the "
    "left factor gets all: with shares that read any values, neither the order of factors nor "
    "symmetry allows it.",
    "proved",
    scope="one input and one channel, unknown shares",
)
def test_folding_batch_norm_leaves_nothing_to_the_right_factor(record_property):
    layer = linear(A, "w", "d")
    root = batch_norm(layer, parameter("s"), parameter("t"))
    rule = Composite("local", {**RULE.rules, kinds.BILINEAR: kinds.BILINEAR_EPSILON})
    x, w, d, s, t = (POINT[name] for name in "awdst")
    z = x * w + d
    (folded,) = REWRITES["fold batch norm"](root)
    before, after = (
        explain(graph, POINT, rule, relevance=R, instead=local(SHARE))["a"]
        for graph in (root, folded)
    )
    share = SHARE(z, sp.factor(z * s))
    assert identical(before - after, R * x * w * s / (z * s + t) * (share - 1))
    # Where both factors are equal, their order and symmetry ask for 1/2.
    equal = relevance(A * B, SHARE, {"b": a})
    half = (equal["a"] - equal["b"]) / R
    assert identical(SHARE(a, a**2) - 1 - half / 2, -sp.Rational(1, 2))
    record_property("method", "S = 1 by folding, 1/2 of equal factors")


@pytest.mark.theorem(
    67,
    "An attribution to the keys of a softmax row that is leave-one-out, and adds up what the "
    "copies of a key get, gives a key the same when all keys are given twice.",
    "refuted",
)
def test_leave_one_out_of_copies_does_not_add_up(record_property):
    e, v = generic("e", 1, 2, positive=True), generic("v", 2, 1)
    once = leave_key_out(e, v)[0]
    twice = leave_key_out(sp.Matrix.hstack(e, e), sp.Matrix.vstack(v, v))
    added = twice[0] + twice[2]
    share = e[0] / sum(e)
    output = (e * v)[0] / sum(e)
    expected = (v[0] - output) * share**2 / ((1 - share) * (2 - share))
    assert identical(once - added, expected)
    assert differ_at(once, added, where((e, [1, 1]), (v, [1, 3])))
    record_property("witness", "A = 1/2 each, v = (1, 3): -1 for a key, -2/3 for its copies")


CONFLICTS = frozenset().union(*EXCLUDED)
SEVEN = FUNCTIONALS | {rules.name: by_rules(rules) for rules in AXIOM_RULES}
RULES = {rules.name: rules for rules in (*RULE_SETS, MASK_RELEVANCE, *AXIOM_RULES)}


def survives(name, rewrite):
    """As the scoreboard decides it; outside of attention mask relevance is gradient x input."""
    keys = rewrite == "duplicate keys"
    rules = RULES["gradient x input" if name == MASK_RELEVANCE.name and not keys else name]
    tried = AT_EXPONENTIALS if keys else FIRST
    return decide(rules, rewrite, LIMIT, first=tried, attacks=0).verdict == PROVED


def obeyed(name):
    """The axioms of CONFLICTS that a method obeys."""
    found = {x for x in NO_REWRITES if decide_axiom(x, SEVEN[name]).verdict == PROVED}
    rewrites = sorted(CONFLICTS - set(NO_REWRITES))  # decisions come in one order everywhere
    return found | {x for x in rewrites if survives(name, x)}


@pytest.mark.theorem(
    67,
    "Of the 13 axioms that are part of an excluded set, every set that holds none of the 14 is "
    "obeyed by gradient x input, Integrated Gradients, leave-one-out, mask relevance, or one of "
    "three local rules: the first factor takes all, shares by logarithms, equal shares.",
    "proved",
    given=["x > 0: the inputs", "t > 0: the place on a path"],
    scope="one template of each axiom, of 3 inputs or 2 keys of 2 channels at most; all 8192 sets",
)
def test_whatever_is_not_excluded_is_obeyed_by_one_of_seven_methods(record_property):
    attained = [frozenset(obeyed(name)) for name in SEVEN]
    assert set(attained) == largest_without(EXCLUDED, CONFLICTS)
    assert smallest_not_had(attained, CONFLICTS) == set(EXCLUDED)
    axioms = sorted(CONFLICTS)
    for n in range(len(axioms) + 1):
        for chosen in map(frozenset, itertools.combinations(axioms, n)):
            assert any(bad <= chosen for bad in EXCLUDED) != any(chosen <= x for x in attained)
    record_property("method", f"all {2 ** len(axioms)} sets; axioms by cancel, as the scoreboard")

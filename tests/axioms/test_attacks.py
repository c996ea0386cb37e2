"""A check mark is attacked at random exact points in wider shapes; a witness refutes it."""

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.rewrites.rewrites import REWRITES
from axioms.rules.linear import add
from axioms.scoreboard import scoreboard
from axioms.scoreboard.rule_sets import RULE_SETS, RuleSet
from axioms.scoreboard.scoreboard import LIMIT, REFUTED, attack, decide
from axioms.scoreboard.witness import disagreement, explained
from tests.support.scoreboard import marks

BY_NAME = {rule_set.name: rule_set for rule_set in RULE_SETS}


def published(rewrite):
    """(rule set, regime) of every check mark of a rewrite, one for equal rules."""
    found = {}
    for name, rule_set in BY_NAME.items():
        for eps, mark in marks(name)[rewrite].items():
            if "✓" in mark and rule_set.composite:
                rules = scoreboard._rules_in_use(rule_set, rewrite)
                found.setdefault((eps, *rules), (rule_set, eps))
    return list(found.values())


@pytest.mark.parametrize("rewrite", REWRITES)
def test_no_random_point_in_wider_shapes_refutes_a_check_mark(rewrite):
    for rule_set, eps in published(rewrite):
        assert not attack(rule_set, rewrite, eps, tries=2, seed=1), (rule_set.name, eps)


def squares_of_weights(node, xs, r, options):
    """A linear layer shares by w squared: alike for one channel, however it is written."""
    squares = xs[1].multiply_elementwise(xs[1])
    totals = sp.ones(1, squares.rows) * squares
    return [r.multiply_elementwise(totals.applyfunc(lambda v: 1 / v)) * squares.T]


WRONG = [  # published as proved once
    (BY_NAME["z+"], "add zero"),
    (BY_NAME["z+"], "insert identity layer"),
    (RuleSet(name="w2", composite=ATTNLRP, instead={kinds.LINEAR: squares_of_weights}),
        "duplicate neuron"),
]  # fmt: skip


@pytest.mark.parametrize(("rule_set", "rewrite"), WRONG, ids=lambda x: getattr(x, "name", x))
def test_an_attack_refutes_what_is_false(rule_set, rewrite):
    assert attack(rule_set, rewrite, LIMIT, tries=3)
    assert decide(rule_set, rewrite, LIMIT).verdict == REFUTED


def test_a_sum_that_cancels_by_accident_refutes_no_limit():
    (template,) = REWRITES["re-associate sums"].templates
    point = {name: sp.Matrix([[value]]) for name, value in {"a": 1, "b": -1, "c": 1}.items()}
    given = (BY_NAME["AttnLRP"], "re-associate sums", template.root, point)
    assert not disagreement(*given, 0)
    assert disagreement(*given, sp.Rational(1, 10**6))


def first_of_equals(node, xs, r, options):
    """Eq. 1, but where both terms are equal the first takes all: a thin set."""
    return [r, 0 * r] if xs[0] == xs[1] else add(xs, r, eps=options["eps"])


def with_a_pole(node, xs, r, options):
    return [r, sp.zoo * r]


def test_a_difference_at_a_point_alone_refutes_no_limit_and_one_pole_leaves_all_undefined():
    (template,) = REWRITES["commute sums"].templates
    point = {name: sp.ones(1, 1) for name in "ab"}
    alone, pole = (
        RuleSet(name=message.__name__, composite=ATTNLRP, instead={kinds.ADD: message})
        for message in (first_of_equals, with_a_pole)
    )
    given = (alone, "commute sums", template.root, point)
    assert not disagreement(*given, 0)
    assert disagreement(*given, 0, nearby=False)
    assert disagreement(*given, sp.Rational(1, 4))
    assert explained(pole, template.root, point, sp.Rational(1, 4)) is None

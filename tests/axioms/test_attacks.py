"""What is said to hold is attacked at random exact points in wider shapes; a witness refutes it."""

from pathlib import Path

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.invariance import scoreboard
from axioms.invariance.rule_sets import RULE_SETS, RuleSet
from axioms.invariance.scoreboard import FINITE, LIMIT, REFUTED, attack, decide
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import disagreement

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SCOREBOARD.md"
BY_NAME = {rule_set.name: rule_set for rule_set in RULE_SETS}


def published():
    """(rewrite, rule set, regime) of every check mark of the document, one per set of rules."""
    table = DOCUMENT.read_text().split("<!-- scoreboard -->")[1].split("<!-- /scoreboard -->")[0]
    head, _, *rows = (
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in table.strip().splitlines()
    )
    found = {}
    for rewrite, *marks in rows:
        for name, mark in zip(head[1:], marks, strict=True):
            both = mark.split(" / ")  # one mark stands for both regimes
            for eps, shown in ((LIMIT, both[0]), (FINITE, both[-1])):
                key = (rewrite, eps, *scoreboard._rules_in_use(BY_NAME[name], rewrite))
                if "✓" in shown:
                    found.setdefault(key, (rewrite, name, eps))
    return list(found.values())


@pytest.mark.parametrize("rewrite", TEMPLATES)
def test_no_random_point_in_wider_shapes_refutes_a_check_mark(rewrite):
    for other, name, eps in published():
        if other == rewrite and BY_NAME[name].composite:
            assert not attack(BY_NAME[name], rewrite, eps, tries=4), (name, eps)


def squares_of_weights(node, xs, r, options):
    """A linear layer shares by w squared: alike for one channel, however it is written."""
    squares = xs[1].multiply_elementwise(xs[1])
    totals = sp.ones(1, squares.rows) * squares
    return [r.multiply_elementwise(totals.applyfunc(lambda v: 1 / v)) * squares.T]


WRONG = [  # published as proved once
    (BY_NAME["z+"], "add zero"),
    (BY_NAME["z+"], "insert identity layer"),
    (
        RuleSet(name="w2", composite=ATTNLRP, instead={kinds.LINEAR: squares_of_weights}),
        "duplicate neuron",
    ),
]


@pytest.mark.parametrize(("rule_set", "rewrite"), WRONG, ids=lambda x: getattr(x, "name", x))
def test_an_attack_refutes_what_is_false(rule_set, rewrite):
    assert attack(rule_set, rewrite, LIMIT, tries=3)
    assert decide(rule_set, rewrite, LIMIT).verdict == REFUTED


def test_a_sum_that_cancels_by_accident_refutes_no_limit():
    (template,) = TEMPLATES["re-associate sums"]
    point = {name: sp.Matrix([[value]]) for name, value in {"a": 1, "b": -1, "c": 1}.items()}
    given = (BY_NAME["AttnLRP"], "re-associate sums", template.root, point)
    assert not disagreement(*given, 0)
    assert disagreement(*given, sp.Rational(1, 10**6))

"""The checker's own arithmetic and rules are those of the project, on every small graph."""

import itertools
import random
from fractions import Fraction

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra import rules
from axioms.algebra.propagate import evaluate, propagate
from axioms.check import Run, completed
from axioms.composites import ATTNLRP, CP_LRP, Composite
from axioms.graph import TRANSPOSE, Node, leaf, parameter, topological
from axioms.proofs.references import RULES, sweep
from tests.support.random_graphs import relu

X, Y = leaf("x"), leaf("y")
W, B = parameter("w"), parameter("b")
OUTSIDE = Composite("outside", {**ATTNLRP.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS})
REGIMES = [*itertools.product((ATTNLRP, CP_LRP, OUTSIDE), (sp.Rational(1, 4), 0))]
ONE = (
    lambda x: Node(kinds.LINEAR, (x, W)),
    lambda x: Node(kinds.LINEAR, (x, W, B)),
    lambda x: Node(TRANSPOSE, (x,)),
    relu,
)
TWO = (
    *(lambda *xs, op=op: Node(op, xs) for op in (kinds.ADD, kinds.PRODUCT, kinds.BILINEAR)),
    lambda *xs: Node(kinds.READOUT, xs),
    lambda *xs: Node(kinds.SCORES, xs, attributes={"scale": sp.Rational(1, 2)}),
)
SMALL = [f(X) for f in ONE] + [f(X, y) for f in TWO for y in (X, Y)]
GRAPHS = [
    *SMALL,
    *(f(x) for f in ONE for x in SMALL),
    *(f(*pair) for f in TWO for x in SMALL for pair in ((X, x), (x, Y), (x, x))),
    *(f(X, Y, x) for f in TWO[:3] for x in SMALL),
]


def numbers(chance, rows, columns):
    return sp.Matrix(rows, columns, lambda *_: chance.choice((-3, -2, -1, 1, 2, 3, 5)))


def written(steps):
    """A graph as the checker has it, where nodes claim a value that they do not have."""
    claimed = {"value": sp.ones(1, 1)}
    rows = lambda matrix: [[str(x) for x in row] for row in matrix.tolist()]
    return [
        (op, rule, operands, {name: rows(m) for name, m in (claimed | more).items()})
        for op, rule, operands, more in steps
    ]


def swept(steps):
    """Values and relevance of every step by the checker, which has no symbol there."""

    def read(rows):
        assert not any(value.powers for row in rows for value in row)
        return [[value.number for value in row] for row in rows]

    run = Run({"graphs": [written(steps)], "shared": []}, {})
    return [{n: read(rows) for n, rows in found.items()} for found in run.sweep(0)]


def as_fractions(matrix):
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in matrix.tolist()]


@pytest.mark.parametrize("n", range(len(REGIMES)))
def test_values_and_relevance_of_small_graphs_are_those_of_the_project(n):
    """At numbers, where it counts for nothing which sign or value somebody claims of a node."""
    (composite, eps), chance, compared = REGIMES[n], random.Random(n), 0
    for k, root in enumerate(GRAPHS[n % 3 :: 3]):
        point = {name: numbers(chance, 2, 2) for name in "xyw"} | {"b": numbers(chance, 1, 2)}
        values = evaluate(root, point)
        given = {"eps": eps} | ({"relevance": numbers(chance, 2, 2)} if k % 2 else {})
        claimed = {node: numbers(chance, 2, 2) for node in values}
        steps, at = sweep(root, point, composite, signs=claimed, **given)
        try:
            expected = propagate(root, point, composite, **given)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                swept(steps)
            continue
        found, relevance = swept(steps)
        for node in topological(root):
            assert found[at[node]] == as_fractions(values[node]), str(root)
            assert relevance[at[node]] == as_fractions(expected[node]), str(root)
        compared += 1
    assert compared > len(GRAPHS) / 5


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_softmax_of_several_rows_is_that_of_the_project(rows):
    chance = random.Random(rows)
    z, r, e = (numbers(chance, rows, 3) for _ in range(3))
    exp_z = e.applyfunc(abs)
    found, relevance = swept(RULES["taylor"](z, r, exp_z=exp_z))
    assert found[1] == as_fractions(rules.softmax(z, exp_z=exp_z))
    assert relevance[0] == as_fractions(rules.taylor(z, r, exp_z=exp_z)[0])


# What may be said of symbols.

FACTS = {"a": "positive", "b": "positive", "n": "nonzero", "x": ""}


def decide(kind, sides, at=None):
    """A run with this decision alone, as the checker completes it."""
    run = {"run": "", "symbols": FACTS, "graphs": [], "shared": []}
    return completed(run | {"decisions": [[kind, sides, [], at or {}, []]]})


@pytest.mark.parametrize("s", FACTS)
def test_a_sign_is_known_of_sums_of_positive_symbols_alone(s):
    """One symbol in one term that is not positive, or one minus, is enough."""
    for e in (["*", s, "1"], ["*", "a", s], ["+", "a", ["*", "b", s]], ["+", ["*", s, "a"], "1"]):
        if FACTS[s] == "positive":
            decide("equal", [["abs", e], e])
            decide("equal", [["abs", ["*", "-2", e]], ["*", "2", e]])
        else:
            with pytest.raises(ValueError, match="is undecided"):
                decide("equal", [["abs", e], e])
    for e in (["+", "a", ["*", "-1", "b"]], ["+", ["*", "-2", "a", "b"], "1"]):
        with pytest.raises(ValueError, match="is undecided"):
            decide("equal", [["abs", e], e])


@pytest.mark.parametrize(("s", "value"), [("a", "0"), ("b", "-1"), ("n", "0")])
def test_a_point_that_is_ruled_out_separates_nothing(s, value):
    decide("apart", ["x", "n"], {"a": "1", "b": "1/2", "n": "-1", "x": "0"})
    with pytest.raises(ValueError, match="rules out the point"):
        decide("apart", ["x", "n"], {"a": "1", "b": "1/2", "n": "-1", "x": "0"} | {s: value})


@pytest.mark.parametrize("power", [1, 2, 3])
def test_every_divisor_is_named_once(power):
    e = ["*", ["^", ["+", "x", "n"], -power], ["^", "n", -1], ["^", "a", power]]
    assert decide("equal", [e, e])["nonzero"] == ["1*n", "1*n + 1*x"]

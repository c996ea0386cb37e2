"""The checker's arithmetic and rules agree with the project's on every small graph."""

import itertools
import random
from fractions import Fraction

import pytest
import sympy as sp

from axioms import kinds
from axioms.check import Run, Value, decided
from axioms.composites import ATTNLRP, CP_LRP, Composite
from axioms.evidence.references import sweep
from axioms.graph import TRANSPOSE, Node, leaf, linear, parameter, relu
from axioms.rules.propagate import evaluate, propagate

X, Y = leaf("x"), leaf("y")
W, B = parameter("w"), parameter("b")
OUTSIDE = Composite("outside", {**ATTNLRP.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS})
REGIMES = [*itertools.product((ATTNLRP, CP_LRP, OUTSIDE), (sp.Rational(1, 4), 0))]
ONE = (lambda x: linear(x, W), lambda x: linear(x, W, B), lambda x: Node(TRANSPOSE, (x,)), relu)
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
    """A graph as the checker reads it, with false claims about values, signs and exponentials."""
    claimed = {"value": sp.ones(1, 1), "sign": sp.zeros(1, 1), "exp": sp.ones(1, 1)}
    rows = lambda m: (
        [[str(x) for x in row] for row in m.tolist()] if hasattr(m, "tolist") else str(m)
    )
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
    return [[*map(read, found)] for found in run.sweep(0)]


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
        for node in at:
            assert found[at[node]] == as_fractions(values[node]), str(root)
            assert relevance[at[node]] == as_fractions(expected[node]), str(root)
        compared += 1
    assert compared > len(GRAPHS) / 5


# Assumptions about symbols.

FACTS = {"a": "positive", "b": "positive", "n": "nonzero", "x": ""}


def flat(e, shared):
    """A formula as a place in ``shared``, after its parts."""
    if not isinstance(e, list):
        return e
    op, *xs = e
    shared.append([op, *(x if op == "^" and n else flat(x, shared) for n, x in enumerate(xs))])
    return len(shared) - 1


def decide(kind, sides, at=None):
    """Runs one decision; returns the expressions that it assumes to be nonzero."""
    shared, Value.steps = [], 0
    places = [flat(side, shared) for side in sides]
    run = {"symbols": FACTS, "graphs": [], "shared": shared}
    return decided(run | {"decisions": [[kind, places, at or {}]]})


@pytest.mark.parametrize("s", FACTS)
def test_a_sign_is_known_of_sums_of_positive_symbols_alone(s):
    """One symbol in one term that is not positive, or one minus, is enough."""
    for e in (["*", s, "1"], ["*", "a", s], ["+", "a", ["*", "b", s]], ["+", ["*", s, "a"], "1"]):
        if FACTS[s] == "positive":
            decide("equal", [["abs", e], e])
            decide("equal", [["abs", ["*", "-2", e]], ["*", "2", e]])
        else:
            with pytest.raises(ValueError, match="are not equal"):
                decide("equal", [["abs", e], e])
        decide("equal", [["*", ["abs", e], ["abs", e]], ["*", e, e]])  # the square of a sign is 1
    for e in (["+", "a", ["*", "-1", "b"]], ["+", ["*", "-2", "a", "b"], "1"]):
        with pytest.raises(ValueError, match="are not equal"):
            decide("equal", [["abs", e], e])


def test_a_sign_is_the_product_of_the_signs_of_factors():
    for e, other in ((["+", "x", "n"], "n"), ("x", ["+", "a", "n"])):
        size = ["*", ["abs", e], ["abs", other]]
        decide("equal", [["abs", ["*", "-3", "a", e, other]], ["*", "3", "a", size]])
        with pytest.raises(ValueError, match="are not equal"):
            decide("equal", [["abs", ["*", e, other]], ["*", e, other]])


@pytest.mark.parametrize(("s", "value"), [("a", "0"), ("b", "-1"), ("n", "0")])
def test_a_point_that_is_ruled_out_separates_nothing(s, value):
    decide("apart", ["x", "n"], {"a": "1", "b": "1/2", "n": "-1", "x": "0"})
    with pytest.raises(ValueError, match="breaks an assumption"):
        decide("apart", ["x", "n"], {"a": "1", "b": "1/2", "n": "-1", "x": "0"} | {s: value})


@pytest.mark.parametrize("power", [1, 2, 3])
def test_every_divisor_is_named_once(power):
    e = ["*", ["^", ["+", "x", "n"], -power], ["^", "n", -1], ["^", "a", power]]
    assert decide("equal", [e, ["*", "1", e]]) == ["1*n", "1*n + 1*x"]

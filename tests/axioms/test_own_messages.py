"""The sweep of a user's rule has the messages of the project, for every relevance and input."""

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.decide import apart
from axioms.algebra.propagate import evaluate, explain
from axioms.composites import ATTNLRP, Composite
from axioms.graph import Node, leaf, parameter, topological
from axioms.invariance import points
from axioms.own_rules import attnlrp, sweep
from axioms.own_rules.messages import rule_set
from axioms.own_rules.properties import OPERATIONS
from axioms.own_rules.quotients import Quotient, Undecided
from axioms.own_rules.rules import rule
from axioms.own_rules.signs import sign
from tests.axioms.test_quotients import value
from tests.support.own_rules import eq3, eq5, gradient, halves, shares, value_only, with_bias

WIDE = dict.fromkeys("xyaqkz", (2, 3)) | dict.fromkeys("wv", (3, 2)) | {"b": (1, 2), "t": (1, 3)}
ATTRIBUTES = {
    kinds.SCORES: {"scale": 3},
    kinds.ACTIVATION: {"function": "reciprocal"},
    kinds.LAYER_NORM: {"norm_eps": 2},
}
NORM = Node(kinds.LAYER_NORM, (leaf("x"), parameter("t"), parameter("t")))


def in_wide_shapes(kind):
    """An operation on matrices, a point, and relevance of all of its outputs."""
    root = NORM if kind == kinds.LAYER_NORM else OPERATIONS[kind][0]
    root, chance = replace(root, attributes=ATTRIBUTES.get(kind, {})), random.Random(0)
    names = {node.name for node in topological(root) if not node.args}
    at = points.random_point(chance, {name: WIDE[name] for name in sorted(names)})
    return root, at, points.random_point(chance, {"R": evaluate(root, at)[root].shape})["R"]


def in_rows(own, root, at, r):
    """What the sweep finds at epsilon = 1/4, with matrices in the place of its rows."""
    found = sweep.explained(own, root, at.rows, Fraction(1, 4), attnlrp.numbers(r))
    return {name: sp.Matrix([list(map(value, row)) for row in found[name]]) for name in found}


def check(found, expected):
    assert found.keys() == expected.keys()
    for name, matrix in expected.items():
        assert not any(itertools.starmap(apart, zip(found[name], matrix, strict=True))), name


@pytest.mark.parametrize("kind", attnlrp.MESSAGES)
def test_the_sweep_has_the_messages_of_attnlrp_for_every_operation(kind):
    root, at, r = in_wide_shapes(kind)
    if kind == kinds.ACTIVATION:
        root = replace(root, attributes={"function": "relu"})
    expected = explain(root, at, ATTNLRP, eps=sp.Rational(1, 4), relevance=r)
    check(in_rows(shares if kind == kinds.PRODUCT else halves, root, at, r), expected)


@rule("scores")
def eq3_of_scores(q, k, z, R, eps):
    each = [x * y * R / (2 * z + eps * sign(z)) for x, y in zip(q, k, strict=True)]
    return each, each


STATED_TWICE = {  # as a rule of a user, and by its name
    halves: kinds.EQUAL_SPLIT,
    shares: kinds.EPSILON,
    with_bias: kinds.EPSILON,
    eq3: kinds.BILINEAR_EPSILON,
    eq3_of_scores: kinds.BILINEAR_EPSILON,
    value_only: kinds.VALUE_ONLY,
    eq5: kinds.TAYLOR,
    gradient: kinds.GRADIENT,
}


@pytest.mark.parametrize("own", STATED_TWICE, ids=lambda own: own.kind)
def test_a_rule_of_the_project_as_a_users_rule_gives_the_same_relevance_of_matrices(own):
    root, at, r = in_wide_shapes(own.kind)
    given = {"eps": sp.Rational(1, 4), "relevance": r}
    composite = Composite("its own", {own.kind: STATED_TWICE[own]})
    expected = explain(root, at, composite, **given)
    check(rule_set(own).explain(root, at, **given), expected)
    if own.kind not in (kinds.SOFTMAX, kinds.ACTIVATION):  # of other numbers than fractions
        check(in_rows(own, root, at, r), expected)


@rule("product")
def of_its_value(x, y, z, R, eps):
    """Halves where the relevance is the value, as it is at the root of a network."""
    return R / 2 + (R - z) / 4, R / 2 - (R - z) / 4


A, B, C = map(leaf, "abc")
ORDERS = (A * B, B * A)
GENERIC = {name: sp.Matrix([[sp.Symbol(name, real=True)]]) for name in "abc"}


def test_graphs_are_alike_for_every_relevance_every_graph_and_every_input():
    r = sp.Matrix([[sp.Symbol("R", real=True)]])

    def compared(own, *graphs, relevance=r):
        return sweep.compare(own, graphs, GENERIC, 0, relevance)

    assert compared(of_its_value, *ORDERS, relevance=None) == "equal"
    assert compared(of_its_value, *ORDERS) == "different"
    assert compared(of_its_value, A * (B * C), A * (C * B)) == "different"  # not for a
    assert compared(halves, *ORDERS, A * B) == "equal"
    assert compared(halves, A * (B * C), A * (C * B), (A * B) * C) == "different"
    assert compared(halves, (A * B) * leaf("a"), leaf("a") * (A * B)) == "equal"


X = {"x": sp.Matrix([[sp.Symbol("x", real=True)]])}


def test_what_is_not_decided_for_symbols_is_never_equal():
    def at_numbers(found):
        def sides(point, eps):
            if isinstance(found, type) or isinstance(point.rows["x"][0][0], Quotient):
                raise Undecided("large")
            return [[0], [found]]

        return sweep.settled(sides, X, 0)

    assert [at_numbers(found) for found in (0, 1, Undecided)] == [None, "different", None]
    negative = lambda point, eps: [[0], [abs(point.rows["x"][0][0]) - point.rows["x"][0][0]]]
    assert sweep.settled(negative, X, 0) == "different"

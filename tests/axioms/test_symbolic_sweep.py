"""Graphs, decisions and the sweep accept valid inputs, and refuse others with a reason."""

import math

import pytest
import sympy as sp
from scipy.special import expit
from scipy.stats import norm

from axioms import kinds
from axioms.composites import ATTNLRP, GRADIENT_X_INPUT, Composite, UnassignedOperation
from axioms.decide.identity import differ_at, identical, lowest_terms, sign_of_number, where
from axioms.graph import (
    CONSTANT,
    TRANSPOSE,
    Node,
    Origin,
    activation,
    attend,
    leaf,
    linear,
    parameter,
    rebuild,
    topological,
)
from axioms.rewrites.canonizers import merge_products
from axioms.rules.activations import ACTIVATIONS
from axioms.rules.effects import leave_key_out
from axioms.rules.propagate import FORWARD, RULES, evaluate, explain, propagate
from axioms.rules.rule import stabilize

X, Y, Z = sp.symbols("x y z", real=True)
SPLIT = Composite("equal split", {kinds.PRODUCT: kinds.EQUAL_SPLIT})


def test_a_graph_deeper_than_the_recursion_limit_is_ordered_written_and_rebuilt():
    node = leaf("x")
    for _ in range(1500):
        node = node * leaf("x")
    assert len(topological(node)) == 3001
    assert str(rebuild(node, lambda n: n)) == str(node)
    assert len(merge_products(node).args) == 1501


def test_a_shared_node_is_visited_once_and_stays_shared():
    node = leaf("x")
    for _ in range(60):  # 2**60 paths
        node = node + node
    renamed = rebuild(node, lambda n: n if n.args else leaf("y"))
    assert len(topological(renamed)) == 61
    assert evaluate(renamed, {"y": 1})[renamed][0] == 2**60


@pytest.mark.parametrize("count", [2, 3, 4])
def test_gradient_times_input_gives_every_matrix_of_a_product_all_of_it(count):
    names = "abcd"[:count]
    product = Node(kinds.BILINEAR, tuple(map(leaf, names)))
    point = {name: sp.Matrix([[X + n, Y], [Z, n - X]]) for n, name in enumerate(names)}
    found = explain(product, point, GRADIENT_X_INPUT, relevance=evaluate(product, point)[product])
    for relevance in found.values():
        assert identical(sum(relevance), sum(evaluate(product, point)[product]))


def test_a_relevance_of_0_is_not_taken_for_none():
    found = explain(leaf("a") * leaf("b"), {"a": 2, "b": 3}, ATTNLRP, relevance=0)
    assert found == {"a": 0, "b": 0}


def test_relevance_of_an_operation_is_in_lowest_terms():
    pair = leaf("x") + leaf("y")
    root = pair + leaf("z")
    start = sp.expand((X + Y + Z) * (X - Z))
    received = propagate(root, {"x": X, "y": Y, "z": Z}, ATTNLRP, relevance=start)
    assert received[pair][0] == lowest_terms((X + Y) * (X - Z))


SCIPY = {
    "relu": lambda x: max(x, 0),
    "tanh": math.tanh,
    "silu": lambda x: x * expit(x),
    "gelu": lambda x: x * norm.cdf(x),
    "soft cap": lambda x: 2 * math.tanh(x / 2),
    "sigmoid": expit,
    "phi": norm.cdf,
    "exp": math.exp,
    "reciprocal": lambda x: 1 / x,
    "reciprocal root": lambda x: x**-0.5,
}


def test_activations_are_those_of_other_libraries():
    assert {*SCIPY} == {*ACTIVATIONS}
    for name, function in SCIPY.items():
        for x in (0.7, 2.5):
            assert float(ACTIVATIONS[name](sp.Float(x))) == pytest.approx(function(x), rel=1e-12)


def test_merging_stops_at_a_sum():
    x, y, z = map(leaf, "xyz")
    merged = merge_products((x * y) * ((x + (y * z)) * z))
    assert [len(node.args) for node in topological(merged) if node.op == kinds.PRODUCT] == [2, 4]
    assert str(merged) == "x·y·(x+(y·z))·z"


def test_each_occurrence_of_a_shared_input_receives_its_own_share():
    x = leaf("x")
    assert explain(x * x, {"x": 3}, SPLIT) == {"x": 9}
    assert explain((x * x) * leaf("x"), {"x": 2}, SPLIT) == {"x": 8}  # two leaves of one name


def test_every_operation_without_a_rule_is_named_at_once():
    x, w = leaf("x"), parameter("w")
    linear = Node(kinds.LINEAR, (x, w), origin=Origin("encoder.dense"))
    root = Node("Conv1d", (linear * (x + x),), origin=Origin("encoder.conv"))
    with pytest.raises(UnassignedOperation) as error:
        propagate(root, {}, SPLIT)
    for part in ("3 of 4", "encoder.dense", "encoder.conv", "Conv1d", "add"):
        assert part in str(error.value)


def test_what_cannot_be_evaluated_is_listed_at_once():
    root = Node("Conv1d", (leaf("x") + leaf("y"),))
    with pytest.raises(LookupError, match="3 of 4") as error:
        evaluate(root, {"z": 1})
    assert all(part in str(error.value) for part in ("Conv1d", "x", "y"))


def test_weights_need_no_rule_and_receive_nothing():
    weight = parameter("a") @ parameter("b")  # a product of weights alone: no relevance passes
    root = linear(leaf("x"), weight)
    received = propagate(root, {"x": 5, "a": 2, "b": 3}, Composite("linear", {"linear": "epsilon"}))
    assert [received[node][0] for node in topological(root)] == [5 * 2 * 3, 0, 0, 0, 30]


def test_the_rule_of_a_layer_overrides_the_rule_of_its_kind():
    halved = Node(kinds.READOUT, (leaf("a"), leaf("v")), attributes={"layer": 1})
    mixed = Composite("mixed", ATTNLRP.rules, layers={1: {kinds.READOUT: kinds.VALUE_ONLY}})
    assert explain(halved, {"a": 2, "v": 3}, ATTNLRP) == {"a": 3, "v": 3}
    assert explain(halved, {"a": 2, "v": 3}, mixed) == {"a": 0, "v": 6}


def test_every_rule_of_every_kind_has_a_message_and_a_value():
    assert set(RULES) == {(kind, rule) for kind, rs in kinds.RULES.items() for rule in rs}
    assert set(FORWARD) == {*kinds.RULES, TRANSPOSE, CONSTANT}


def test_plain_gradients_give_gradient_times_input_through_every_kind_of_operation():
    """One token of two channels through attention over itself, LayerNorm, SiLU and a gate."""
    x, w, one, zero = leaf("x"), parameter("w"), parameter("one"), parameter("zero")
    scores = Node(kinds.SCORES, (x, x), attributes={"scale": sp.Rational(1, 2)})
    read = attend(scores, x)
    norm = Node(kinds.LAYER_NORM, (read, one, zero), attributes={"norm_eps": 1})
    active = activation("silu", norm)
    root = linear(active * (read + x), w)
    weights = {"w": sp.Matrix([1, 2]), "one": sp.Matrix([[1, 3]]), "zero": sp.zeros(1, 2)}
    at = sp.Matrix([[1, 2], [-1, 4]]).applyfunc(lambda e: sp.Float(e, 60))

    def f(x):
        return sum(evaluate(root, {"x": x, **weights})[root])

    found = explain(root, {"x": at, **weights}, GRADIENT_X_INPUT)["x"]
    for i in range(4):
        step = sp.zeros(2, 2)
        step[i] = sp.Float("1e-15", 60)  # central difference: error of order 1e-30
        want = at[i] * (f(at + step) - f(at - step)) / (2 * step[i])
        assert abs(found[i] - want) < sp.Float("1e-25", 60)


REFUSED = {
    "a negative stabiliser": (lambda: stabilize(1, eps=-1), ValueError, "must be >= 0"),
    "an undecided sign": (lambda: stabilize(X, eps=1), ValueError, "sign of x is undecided"),
    "zero without stabiliser": (lambda: stabilize(0, eps=0), ZeroDivisionError, "eps > 0"),
    "a sign in an equality": (lambda: identical(sp.sign(X), 1), ValueError, "split signs"),
    "a root in an equality": (lambda: identical(sp.sqrt(X), X), ValueError, "rational function"),
    "infinity in an equality": (lambda: identical(sp.zoo, 1), ValueError, "rational function"),
    "a float in a side": (lambda: differ_at(X * 0.5, 1, {X: 1}), ValueError, "exact rationals"),
    "a key alone": (lambda: leave_key_out(sp.ones(1), sp.ones(1)), ValueError,
        "leaves no attention; pass at least 2 keys"),
    "a pole at a witness": (lambda: differ_at(1 / X, 1, {X: 0}), ValueError, "exact rationals"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_no_proof_is_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_equality_is_decided_both_ways():
    assert identical((X**2 - Y**2) / (X - Y), X + Y)
    assert not identical(X / (X + Y), X)
    signs = [sign_of_number(x) for x in (sp.sqrt(2) - 2, sp.Integer(0), sp.E, sp.I)]
    assert signs == [-1, 0, 1, None]
    assert differ_at(X / (X + Y), X, {X: 1, Y: 1})
    assert not differ_at(X / (X + Y), X, {X: 0, Y: 1})


def test_a_point_is_made_of_symbols_and_of_matrices_of_them():
    made = where((X, 1), (sp.Matrix([[Y, Z]]), sp.Matrix([2, 3])))
    assert made == {X: 1, Y: 2, Z: 3}
    assert differ_at(X * Y, Z, made)
    with pytest.raises(ValueError, match="zip"):
        where((sp.Matrix([[Y, Z]]), [2]))


def test_zero_counts_as_positive():
    assert [stabilize(z, eps=sp.Rational(1, 4)) * 4 for z in (0, 1, -1)] == [1, 5, -5]

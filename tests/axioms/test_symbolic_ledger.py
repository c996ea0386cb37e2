"""The ledger of absorbed relevance: wrong lemmas, wrong rules and wrong sweeps do not balance."""

import itertools
from dataclasses import replace
from unittest import mock

import pytest
import sympy as sp
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sympy import Rational

from axioms import kinds
from axioms.composites import (
    ATTNLRP,
    BIAS,
    CONSTANT,
    CP_LRP,
    GRADIENT_X_INPUT,
    STABILISER,
    TAYLOR,
    Composite,
    UnassignedOperation,
)
from axioms.decide.identity import identical
from axioms.graph import (
    MOVE,
    TRANSPOSE,
    Node,
    attend,
    constant,
    leaf,
    linear,
    parameter,
    topological,
)
from axioms.rules import norms, propagate
from axioms.rules.ledger import causes, ledger, unknown_messages
from axioms.rules.propagate import RULES, evaluate
from axioms.theorems.test_conservation import check_lemma
from tests.support.random_graphs import matrices

EPS = Rational(1, 4)
LINEAR = (kinds.LINEAR, kinds.EPSILON)
OUTSIDE = (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS)
READOUT = (kinds.READOUT, kinds.BILINEAR_EPSILON)
VALUE_ONLY = (kinds.READOUT, kinds.VALUE_ONLY)
SOFTMAX = (kinds.SOFTMAX, kinds.TAYLOR)


def changed(key, **fields):
    """The rule with other fields."""
    return mock.patch.dict(RULES, {key: replace(RULES[key], **fields)})


ABSORBED = RULES[LINEAR].absorbs
WRONG_LEMMAS = {
    "a linear layer without its bias": (LINEAR, {STABILISER: RULES[LINEAR].absorbs[STABILISER]}),
    "a linear layer without its stabiliser": (LINEAR, {BIAS: RULES[LINEAR].absorbs[BIAS]}),
    "a bias that is called a stabiliser":
        (LINEAR, {BIAS: ABSORBED[STABILISER], STABILISER: ABSORBED[BIAS]}),
    "a bias that is not in the denominator": (OUTSIDE, RULES[LINEAR].absorbs),
    "Eq. 3 with the stabiliser of Eq. 1": (READOUT, RULES[VALUE_ONLY].absorbs),
    "a softmax that conserves": (SOFTMAX, {}),
    "a product that the gradient conserves": ((kinds.PRODUCT, kinds.GRADIENT), {}),
    "a norm that the gradient conserves": ((kinds.RMS_NORM, kinds.GRADIENT), {}),
    "a gradient that the stabiliser reaches": ((kinds.LINEAR, kinds.GRADIENT),
        {BIAS: RULES[LINEAR].absorbs[BIAS]}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_LEMMAS)
def test_a_wrong_lemma_is_rejected(name):
    key, lemma = WRONG_LEMMAS[name]
    with changed(key, absorbs=lemma), pytest.raises(AssertionError):
        check_lemma(*key, 2)


@pytest.mark.parametrize(
    ("key", "places"), [(SOFTMAX, (0,)), (READOUT, (0,)), (VALUE_ONLY, (1,)), (LINEAR, (0,))]
)
def test_an_operand_that_receives_is_not_passed_by(key, places):
    with changed(key, passes_by=places), pytest.raises(AssertionError):
        check_lemma(*key, 2)


# Graphs


def products_of_two(operations):
    """Every graph of so many products of two operands, each a leaf or an earlier product."""
    graphs = [[leaf("x"), leaf("y")]]
    for _ in range(operations):
        graphs = [
            [*nodes, a * b] for nodes in graphs for a, b in itertools.product(nodes, repeat=2)
        ]
    return [nodes[-1] for nodes in graphs]


def check_sweep(root):
    """Raises AssertionError unless unknown messages, kept or absorbed, add up to R."""
    R = sp.Symbol("R", real=True)
    kept, absorbed = unknown_messages(root, R)
    assert sp.expand(kept + sum(absorbed)) == R


@pytest.mark.parametrize("operations", [1, 2, 3])
def test_every_small_graph_balances_whatever_the_messages(operations):
    graphs = products_of_two(operations)
    assert len(graphs) == [4, 36, 576][operations - 1]
    for root in graphs:
        check_sweep(root)


def test_a_sweep_that_visits_an_operation_too_early_does_not_balance():
    x = leaf("x")
    shared = x * x
    root = (shared * x) * shared
    assert ledger(root, {"x": 1}, ATTNLRP).gap == 0

    def early(root):  # the shared operation hands on before all has arrived
        x, shared, *others = topological(root)
        return [x, others[0], shared, *others[1:]]

    def ones(root, point):
        return {node: sp.ones(1, 1) for node in topological(root)}

    with (
        mock.patch.multiple(propagate, topological=early, evaluate=ones),
        mock.patch("axioms.rules.ledger.evaluate", ones),
    ):
        assert ledger(root, {"x": 1}, ATTNLRP).gap != 0


def network():
    """A layer, a residual, a product, an operand that is a parameter, and a transpose."""
    x, position = leaf("x"), parameter("position")
    hidden = linear(x + position, "w", "b")
    turned = Node(TRANSPOSE, (Node(TRANSPOSE, (hidden,)),))
    fixed = linear(parameter("b"), "w", "b")
    return ((turned * x + hidden) + fixed) + constant("ones", x)


POINT = {
    "x": sp.Matrix([[1, 2]]),
    "position": sp.Matrix([[3, -1]]),
    "w": sp.Matrix([[1, 2], [1, -1]]),
    "b": sp.Matrix([[1, 3]]),
}


def test_the_ledger_of_a_network_balances():
    books = ledger(network(), POINT, ATTNLRP, eps=EPS)
    assert books.gap == 0
    kept = {node.name or node.op for node in books.kept if books.kept[node] != 0}
    assert kept == {"x", "position", kinds.LINEAR, "ones"}
    found = {(kinds.LINEAR, BIAS), (kinds.LINEAR, STABILISER), (kinds.ADD, STABILISER)}
    assert set(books.by_kind()) == found
    assert all(amount != 0 for amount in books.by_kind().values())
    assert sum(books.by_kind().values()) == sum(books.absorbed.values())


@pytest.mark.parametrize("key", [LINEAR, (kinds.ADD, kinds.EPSILON)])
def test_the_ledger_of_a_network_does_not_balance_with_a_wrong_lemma(key):
    twice = {x: lambda *args, of=of: 2 * of(*args) for x, of in RULES[key].absorbs.items()}
    with changed(key, absorbs=twice):
        assert ledger(network(), POINT, ATTNLRP, eps=EPS).gap != 0


@st.composite
def operations(draw, kind):
    """An operation on numbers in drawn shapes, with a relevance of its output and an epsilon."""
    tokens, n, m, k = (draw(st.integers(1, 3)) for _ in range(4))
    shapes = {
        kinds.LINEAR: [(tokens, n), (n, m), (1, m)][: draw(st.integers(2, 3))],
        kinds.ADD: [(tokens, n)] * (k + 1),
        kinds.PRODUCT: [(tokens, n)] * (k + 1),
        kinds.SCORES: [(tokens, n), (m, n)],
        kinds.READOUT: [(tokens, n), (n, m)],
        kinds.BILINEAR: [(tokens, n), (n, m), (m, n)][: draw(st.integers(2, 3))],
        kinds.LAYER_NORM: [(tokens, n), (1, n), (1, n)],
        kinds.RMS_NORM: [(tokens, n), (1, n)],
    }.get(kind, [(tokens, n)])
    whole = kind in (kinds.LINEAR, kinds.LAYER_NORM, kinds.RMS_NORM)
    leaves = [(parameter if whole and j else leaf)(f"x{j}") for j in range(len(shapes))]
    entries = st.sampled_from((1, 2, 3, 5, 7, -1, -3, -4))
    point = {
        x.name: draw(matrices(entries, *shape)) for x, shape in zip(leaves, shapes, strict=True)
    }
    attributes = {"function": "reciprocal", "scale": draw(st.sampled_from((1, Rational(1, 2))))}
    if kind in (kinds.LAYER_NORM, kinds.RMS_NORM):  # tokens of a token, once or twice its size
        base, sizes = point["x0"][0, :], [draw(st.integers(1, 2)) for _ in range(tokens)]
        point["x0"] = sp.Matrix([draw(st.permutations(list(base * size))) for size in sizes])
        squared = norms.deviations if kind == kinds.LAYER_NORM else norms.root_mean_squares
        v = squared(base, norm_eps=0)[0] ** 2  # v + h and 4 v + h are the squares of numbers
        attributes = {"norm_eps": ((3 * v - 1) / 2) ** 2 - v}
    if kind == kinds.SOFTMAX:
        point["x0"] = point["x0"].applyfunc(lambda x: sp.log(abs(x)))
    root = Node(kind, tuple(leaves), attributes=attributes)
    return root, point, draw(matrices(entries, *evaluate(root, point)[root].shape))


@pytest.mark.parametrize("key", RULES)
def test_the_ledger_of_an_operation_balances_in_every_shape(key):
    kind, rule = key

    @settings(max_examples=8)
    @given(operations(kind), st.sampled_from((0, EPS)), st.data())
    def test(drawn, eps, data):
        root, point, relevance = drawn
        signs = matrices(st.sampled_from((1, -1)), *relevance.shape)  # whatever signs are given
        options = {"signs": data.draw(st.sampled_from((None, {root: data.draw(signs)})))}
        composite = Composite("one", {kind: rule})
        try:
            books = ledger(root, point, composite, eps=eps, relevance=relevance, **options)
        except ZeroDivisionError:  # at epsilon = 0
            reject()
        assert sp.expand(books.gap) == 0

    test()


def test_an_operation_without_a_rule_is_refused_by_name():
    left = {key: rule for key, rule in RULES.items() if key[1] != kinds.GRADIENT}
    with mock.patch.dict(RULES, left, clear=True):
        refused = r"6 of 6 (.|\n)*linear .*'gradient' is not implemented here"
        with pytest.raises(UnassignedOperation, match=refused):
            ledger(network(), POINT, GRADIENT_X_INPUT)
        with pytest.raises(UnassignedOperation, match=r"product .*'gradient' is not implemented"):
            causes(network(), GRADIENT_X_INPUT)


# Causes, read off the graph


def attention(*bias):
    x = leaf("x")

    def dense(name):
        return linear(x, name, *bias)

    return attend(Node(kinds.SCORES, (dense("q"), dense("k"))), dense("v"))


def test_causes_are_those_that_the_rules_reach():
    halves = {(kinds.SCORES, STABILISER), (kinds.READOUT, STABILISER), (kinds.SOFTMAX, TAYLOR)}
    linear = {(kinds.LINEAR, STABILISER)}
    assert causes(attention(), ATTNLRP) == halves | linear
    assert causes(attention(), CP_LRP) == {(kinds.READOUT, STABILISER)} | linear
    assert causes(attention(parameter("b")), CP_LRP) == causes(attention(), CP_LRP) | {
        (kinds.LINEAR, BIAS)
    }


def test_what_only_moves_relevance_passes_it_on_to_causes():
    for move in (TRANSPOSE, MOVE):
        moved = Node(move, (linear(leaf("x"), "w", "b"),))
        assert causes(moved, ATTNLRP) == {(kinds.LINEAR, BIAS), (kinds.LINEAR, STABILISER)}


def test_what_nothing_passes_to_is_no_cause():
    layer = Node(kinds.LINEAR, (leaf("q"), parameter("w")))
    scores = Node(kinds.SCORES, (layer, leaf("k") + leaf("k")))
    assert causes(scores, CP_LRP) == {(kinds.SCORES, CONSTANT)}
    assert causes(scores, ATTNLRP) == {(kind, STABILISER) for kind in ("scores", "linear", "add")}
    assert causes(leaf("x") + constant("ones", layer), ATTNLRP) == {(kinds.ADD, STABILISER)}


def test_a_softmax_that_is_held_constant_is_a_cause_where_it_is_reached():
    held = Composite("held", ATTNLRP.rules | {kinds.SOFTMAX: kinds.CONSTANT})
    found = causes(attention(), held)
    assert (kinds.SOFTMAX, CONSTANT) in found
    assert (kinds.SCORES, STABILISER) not in found


def test_no_other_cause_absorbs():
    """In numbers, whatever the ledger holds outside the causes of the graph is 0."""
    point = {"x": sp.Matrix([[1, 2], [3, -1]])} | {
        name: sp.Matrix([[1, n], [n, -1]]) for n, name in enumerate("qkv", start=2)
    }
    point["k"] *= sp.log(2)  # so that exponentials are rational
    for composite in (ATTNLRP, CP_LRP):
        amounts = ledger(attention(), point, composite, eps=EPS).by_kind()
        for key, amount in amounts.items():
            rational = sp.sympify(amount).subs(sp.log(2), sp.Symbol("log_2", positive=True))
            assert identical(rational, 0) == (key not in causes(attention(), composite))

"""A graph of a certificate has the relevance and the values that the rules have found."""

from functools import partial

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from axioms import check, kinds
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite
from axioms.decide.denotation import as_rational
from axioms.decide.identity import generic
from axioms.decide.records import replacing
from axioms.evidence.references import RULES, References, _instead
from axioms.evidence.writer import Uncertified, Writer
from axioms.graph import TRANSPOSE, Node, activation, constant, leaf, linear, parameter, relu
from axioms.rules import attention, products
from axioms.rules import linear as linear_rules
from axioms.rules.propagate import evaluate, propagate

EPS, R = sp.Symbol("epsilon", positive=True), sp.Symbol("R", real=True)
sizes = st.integers(1, 3)


def compared(function, *args, **options):
    """Compares a rule with the checker on its graph; returns the graph's steps."""
    found, references = function(*args, **options), References()
    with replacing(partial(_instead, references), ()):
        functions = function(*args, **options)
    writer = Writer(references)
    check.Value.facts, check.Value.steps = writer.facts, 0
    writer.learn()
    parts = [functions] if isinstance(functions, sp.MatrixBase) else functions
    wanted = [found] if isinstance(found, sp.MatrixBase) else found
    keys = parts if isinstance(parts, dict) else range(len(parts))
    for key in keys:
        for one, other in zip(parts[key], wanted[key], strict=True):
            sides = (writer.formula(as_rational(side)) for side in (one, other))
            a, b = map(writer.free.value, sides)
            assert not check.total(a, check.Value(-1) * b).number, (key, other)
    return [graph.steps for graph in references.graphs]


@st.composite
def calls(draw, name):
    """The arguments of a rule in drawn shapes, with and without optional ones."""
    n, m, k = draw(sizes), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    x, w, r = generic("x", m, n), generic("w", n, k), generic("r", m, k)
    stabilised = draw(st.booleans())
    options = {"eps": EPS, "sign": generic("s", m, k)} if stabilised else {"eps": 0}
    if name in ("epsilon", "epsilon_without_bias"):
        return (x, w, r), options | draw(st.sampled_from(({}, {"bias": generic("b", 1, k)})))
    if name == "add":
        return ([generic(f"x{j}_", m, k) for j in range(n)], r), options
    if name == "bilinear_epsilon":
        return (x, w, r), options | draw(st.sampled_from(({}, {"scale": sp.Symbol("c")})))
    if name == "chain_epsilon":
        others = [generic(f"m{j}_", k, k) for j in range(draw(st.integers(0, 1)))]
        return ([x, w, *others], r), options
    if name == "value_only":
        return (x, w, r), options
    if name == "equal_split":
        return (n, r), {}
    named = {"exp_z": generic("e", m, k, positive=True)}
    return ((r,) if name == "softmax" else (generic("z", m, k), r)), named


FORMULAS = {
    name: f for file in (attention, linear_rules, products) for name, f in vars(file).items()
}


@pytest.mark.parametrize("name", RULES)
def test_the_graph_of_a_rule_has_its_messages_in_every_shape(name):
    @settings(max_examples=8)
    @given(calls(name))
    def test(call):
        args, options = call
        assert len(compared(FORMULAS[name], *args, **options)) == 1

    test()


X, Y, W, B = leaf("x"), leaf("y"), parameter("w"), parameter("b")
LAYER = linear(X, W, B)
SCORES = Node(kinds.SCORES, (LAYER, Y), attributes={"scale": sp.Rational(1, 2)})
WEIGHTS = Node(kinds.SOFTMAX, (leaf("z"),))
SIGMOID = activation("sigmoid", X)
GRAPHS = {
    "attention": Node(kinds.READOUT, (WEIGHTS, Y), attributes={"layer": 1}),
    "shared logits": Node(kinds.READOUT, (WEIGHTS, *WEIGHTS.args)),
    "scores": SCORES,
    "sums": X + relu(Y) + constant("ones", X) + parameter("p"),
    "products": Node(kinds.PRODUCT, (X, Y, SIGMOID)),
    "matrices": Node(kinds.BILINEAR, (LAYER, Node(TRANSPOSE, (Y,)), X)),
    "weights": W @ parameter("p"),
    "shared": (X * X) @ (SIGMOID + Y),
    "norm": Node(kinds.LAYER_NORM, (X, B, B), attributes={"norm_eps": 1}) * Y,
}
POINT = {
    "x": sp.Matrix([[2, 3], [1, 5]]),
    "y": sp.Matrix([[1, 4], [3, 1]]),
    "z": generic("z", 2, 2),
    "w": sp.Matrix([[1, 2], [3, 4]]),
    "b": sp.Matrix([[1, 2]]),
    "p": sp.Matrix([[1, 2], [sp.Symbol("t", positive=True), 1]]),
}
COMPOSITES = {
    "AttnLRP": Composite("AttnLRP", {**ATTNLRP.rules, kinds.LAYER_NORM: kinds.IDENTITY}),
    "CP-LRP": Composite("CP-LRP", {**CP_LRP.rules, kinds.LAYER_NORM: kinds.IDENTITY}),
    "a softmax held alone": Composite("held", ATTNLRP.rules | {kinds.SOFTMAX: kinds.CONSTANT}),
    "a layer of its own": Composite("mixed", ATTNLRP.rules,
        layers={1: {kinds.READOUT: kinds.VALUE_ONLY}}),
    "bias outside": Composite("outside",
        ATTNLRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}),
    "gradient": GRADIENT_X_INPUT,
}  # fmt: skip
NO_GRAPH = {(name, "norm") for name in COMPOSITES if name not in ("AttnLRP", "CP-LRP")}
NO_GRAPH |= {("gradient", "sums"), ("gradient", "products"), ("gradient", "shared")}
"""Pairs that the checker has no rule for: norms by deviation, slopes of nonlinear functions."""


CASES = [("AttnLRP", 0), *((name, EPS) for name in COMPOSITES)]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("name", "eps"), CASES)
def test_the_graph_of_a_sweep_has_the_relevance_of_every_node(name, eps, graph):
    root = GRAPHS[graph]
    values = evaluate(root, POINT)
    start = sp.Matrix(*values[root].shape, lambda i, j: (2 * i + j + 1) * R)
    given = {} if graph == "sums" else {"relevance": start}
    signs = {
        node: value.applyfunc(
            lambda z: sp.Symbol(f"sign {z}") if as_rational(z).free_symbols else 1
        )
        for node, value in values.items()
    }  # of symbols alone: the checker knows the signs of numbers, which are positive here
    steps = compared(propagate, root, POINT, COMPOSITES[name], eps=eps, signs=signs, **given)
    assert len(steps) == ((name, graph) not in NO_GRAPH)


def test_a_rule_that_is_given_as_a_function_has_no_graph():
    half = {kinds.PRODUCT: lambda node, xs, r, options: [r / 2, r / 2]}
    assert compared(propagate, X * Y, POINT, ATTNLRP, instead=half) == []
    assert len(compared(propagate, X * Y, POINT, ATTNLRP)) == 1


A, B = map(check.symbol, "ab")
POWERS = {
    "a number": check.Value(1) * check.Value(sp.Rational(-2, 3)),
    "one": check.Value(1),
    "a symbol": A,
    "a power": A**-2,
    "two": A * B,
    "a product": check.Value(-3) * A * B**2,
    "an exponential": check.exponential(A),
    "several": check.Value(5) * check.exponential(A * B) ** -2 * A**3,
}


@pytest.mark.parametrize("name", POWERS)
def test_what_stands_for_a_sign_or_an_exponential_is_written_once_as_the_checker_has_it(name):
    s, t = sp.symbols("s t")
    writer = Writer(References(), known={s: POWERS[name], t: POWERS[name]})
    check.Value.facts, check.Value.steps = writer.facts, 0
    for formula, times in ((s, check.Value(1)), (t, check.Value(1)), (s * sp.Symbol("b"), B)):
        assert not check.minus(writer.value(formula), times * POWERS[name]).number
    assert len(writer.shared) == len({*map(str, writer.shared)})


def test_symbols_of_one_name_are_told_apart_by_what_is_assumed_of_them():
    facts = ({}, {"positive": True}, {"negative": True}, {"nonzero": True})
    writer = Writer(References())
    names = [writer.name(sp.Symbol("x 1", **fact)) for fact in facts]
    assert names == ["x_1", "x_1'", "x_1''", "x_1'''"]
    assert [writer.facts[name] for name in names] == ["", "positive", "", "nonzero"]
    assert writer.formula(sp.Symbol("x 1", positive=True)) == names[1]
    with pytest.raises(Uncertified, match="it has e, which is no formula of symbols"):
        Writer(References(), known={R: check.exponential(check.Value(1))}).formula(R)

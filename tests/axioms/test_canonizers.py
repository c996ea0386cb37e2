"""Canonizers repair the rewrites that the scoreboard names, on random graphs, and no others."""

from dataclasses import replace
from itertools import permutations

import pytest
import sympy as sp
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.decide.denotation import denoted, same_function, same_value
from axioms.decide.identity import generic
from axioms.graph import (
    TRANSPOSE,
    Node,
    constant,
    leaf,
    linear,
    parameter,
    rebuild,
    relu,
    topological,
)
from axioms.rewrites.canonizers import canonize
from axioms.rewrites.channels import copied_rows, copies_of, in_rows, repeated_row
from axioms.rewrites.products import bracketings
from axioms.rewrites.rewrites import REWRITES
from axioms.rules.propagate import evaluate, explain
from axioms.scoreboard.scoreboard import FINITE, LIMIT
from tests.support.random_graphs import graphs, picked, points
from tests.support.scoreboard import marks

EPS = {LIMIT: sp.Integer(0), FINITE: sp.Rational(1, 4)}


CLAIMED = marks("AttnLRP, canonized")
REPAIRED = [(name, eps) for name in REWRITES for eps in EPS if CLAIMED[name][eps] != "✗"]
SHAPES = dict.fromkeys(("x", "y", "w", "u"), (2, 2)) | dict.fromkeys(("b", "s", "t"), (1, 2))
W, U, B, S, T = map(parameter, ("w", "u", "b", "s", "t"))


ENTRIES = st.sampled_from((-3, 1, 2, 4, 5, 7))
NEVER = {name for name, mark in marks("AttnLRP").items() if mark[FINITE] == "✓"}
"""Rewrites that change no explanation, canonized or not."""


def explained(graph, point, eps):
    """The relevance of every input as exact numbers; None where it is undefined."""
    if not all(value.is_Rational for value in evaluate(graph, point)[graph]):
        return None  # a deviation of 0
    try:
        return explain(graph, point, ATTNLRP, eps=EPS[eps])
    except ZeroDivisionError:
        return None


def with_rational_deviations(node):
    """Norms without a stabiliser, whose deviations are |x0 - x1| / 2 for two channels."""
    return replace(node, attributes={"norm_eps": 0}) if node.op == kinds.LAYER_NORM else node


@pytest.mark.parametrize(("name", "eps"), REPAIRED)
def test_a_rewrite_that_is_claimed_repaired_changes_no_explanation_of_random_graphs(name, eps):
    changed = []

    @settings(max_examples=10, phases=[Phase.generate])  # shrinking takes minutes
    @given(graphs(name, entries=ENTRIES), st.integers(0, 99))
    def check(drawn, number):
        graph, point = drawn
        graph = rebuild(graph, with_rational_deviations)
        other = picked(REWRITES[name](graph), number)
        one, two = (explained(canonize(x), point, eps) for x in (graph, other))
        assume(one and two)
        assert one == two, (str(graph), str(other), point)
        changed.append(explained(graph, point, FINITE) != explained(other, point, FINITE))

    check()
    assert any(changed) == (name not in NEVER)


def bracketed(op, operands, choice):
    """One operation of n operands as a random tree of operations of two."""
    if len(operands) == 1:
        return operands[0]
    cut = choice.randrange(1, len(operands))
    halves = (operands[:cut], operands[cut:])
    return Node(op, tuple(bracketed(op, half, choice) for half in halves))


@settings(max_examples=100, phases=[Phase.generate])
@given(
    op=st.sampled_from((kinds.PRODUCT, kinds.ADD)),
    operands=st.lists(
        st.sampled_from(
            [leaf("x"), leaf("y"), W, linear(leaf("x"), W, B), relu(linear(leaf("y"), W))]
            + [in_rows(row, leaf("x")) for row in (S, T)]
        ),
        min_size=2,
        max_size=5,
    ),
    point=points(SHAPES, entries=ENTRIES),
    choice=st.randoms(use_true_random=False),
    eps=st.sampled_from(list(EPS)),
)
def test_every_bracketing_of_every_order_of_n_operands_has_one_explanation(
    op, operands, point, choice, eps
):
    expected = explained(canonize(Node(op, tuple(operands))), point, eps)
    tree = bracketed(op, choice.sample(operands, len(operands)), choice)
    assert same_function(tree, canonize(tree), point)
    assert explained(canonize(tree), point, eps) == expected


Z = linear(leaf("x"), W, B)
ROWS = [in_rows(row, Z) for row in (S, T)]


def orders(op, *operands):
    return [bracketings(p, lambda *two: Node(op, two)) for p in permutations(operands)]


@pytest.mark.parametrize("stretch", [1, 2])
def test_a_batch_norm_in_any_order_becomes_part_of_its_layer(stretch):
    """Scale and shift, either alone, and several of each."""
    scaled = [graph for trees in orders(kinds.PRODUCT, Z, *ROWS[:stretch]) for graph in trees]
    shifted = [
        g
        for z in (Z, scaled[-1])
        for trees in orders(kinds.ADD, z, *ROWS[-stretch:])
        for g in trees
    ]
    point = {name: generic(name, *shape) for name, shape in SHAPES.items()}
    for graph in scaled + shifted:
        layer = canonize(graph)
        assert layer.op == kinds.LINEAR
        assert layer.args[0].name == "x"
        assert same_function(graph, layer, point)


def test_what_is_no_batch_norm_of_one_layer_stays_beside_it():
    x, y, (scale, shift) = leaf("x"), leaf("y"), ROWS
    point = {name: generic(name, *shape) for name, shape in SHAPES.items()}
    for graph, op in (
        (Z * scale * relu(y), kinds.LINEAR),  # of the product of both
        (Z * linear(y, U) * scale, kinds.LINEAR),
        (x * scale, kinds.LINEAR),
        (relu(x) * scale + shift, kinds.LINEAR),
        (Z * W, kinds.PRODUCT),  # a number per token and channel, not per channel
        (Z * in_rows(leaf("r"), Z), kinds.PRODUCT),  # a scale with relevance of its own
        (Z + in_rows(leaf("r"), Z), kinds.ADD),
        (Z * (constant("column", Z, factor=2) @ S), kinds.PRODUCT),
        (Z * (constant("ones", Z) @ W), kinds.PRODUCT),
        (Z + shift + relu(y), kinds.ADD),
        (Z + U, kinds.ADD),
        (x + shift, kinds.ADD),
        (scale + shift, kinds.ADD),
        (scale * shift, kinds.PRODUCT),
    ):
        assert canonize(graph).op == op
        assert same_function(graph, canonize(graph), point | {"r": generic("r", 1, 2)})


@given(st.integers(1, 3))
def test_a_repeated_row_is_the_product_of_what_is_repeated(n):
    factors = [parameter(f"f{k}") for k in range(n)]
    found = repeated_row(Node(kinds.BILINEAR, (constant("column", leaf("x")), *factors)))
    shapes = {f"f{k}": (1 + (k > 0), 2) for k in range(n)}
    at = {"x": sp.ones(3, 1)} | {x: generic(x, *shape) for x, shape in shapes.items()}
    assert denoted(in_rows(found, leaf("x")), at) == sp.Matrix.vstack(*[denoted(found, at)] * 3)
    assert same_value(denoted(found, at), sp.prod(at[x.name] for x in factors))
    assert not any(repeated_row(x) for x in (*factors, factors[0] * factors[-1]))


def test_copied_rows_are_told_from_all_else_that_is_like_them():
    x, twice = leaf("x"), constant("twice", leaf("x"))
    at = {"x": generic("x", 2, 3), "w": generic("w", 2, 2)}
    copied = copied_rows(x)
    assert denoted(copied, at) == at["x"].col_join(at["x"])
    assert denoted(copied, at).T == at["x"].T * evaluate(copied, at)[copies_of(copied)]
    turned = [Node(TRANSPOSE, (other,)) for other in (x, linear(x, W), x @ twice)]
    turned.append(Node(TRANSPOSE, (linear(x, constant("identity", x)),)))
    assert not any(map(copies_of, (x, linear(x, twice), *turned)))


def test_what_a_canonizer_drops_is_exactly_neutral():
    x = leaf("x")
    kept = [
        x * constant("ones", x, factor=2),
        x + constant("ones", x),
        linear(x, constant("reversal", x)),
        linear(x, constant("identity", x), B),
        x * constant("zeros", x),
    ]
    at = {"x": sp.Matrix([[1, 2]]), "b": sp.Matrix([[3, 4]])}
    for graph in kept:
        assert len(topological(canonize(graph))) == len(topological(graph))
    dropped = [
        x * constant("ones", x),
        x + constant("zeros", x),
        linear(x, constant("identity", x)),
    ]
    for graph in dropped:
        assert canonize(graph) is x
        assert same_function(graph, x, at)
    assert canonize(constant("ones", x) * constant("ones", x)).op == "constant"

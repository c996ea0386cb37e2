"""Canonizers on random graphs: the rewrites that they repair, and those that they do not."""

from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
import sympy as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.algebra.decide import generic
from axioms.algebra.denotation import same_function
from axioms.algebra.propagate import evaluate, explain
from axioms.composites import ATTNLRP
from axioms.graph import TRANSPOSE, Node, constant, leaf, parameter, topological
from axioms.invariance.canonizers import canonize, merge_products
from axioms.invariance.channels import batch_norm, in_rows
from axioms.invariance.rewrites import REWRITES, bracketings
from axioms.invariance.scoreboard import FINITE, LIMIT

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SCOREBOARD.md"
EPS = {LIMIT: sp.Integer(0), FINITE: sp.Rational(1, 4)}


def marks(column):
    """Rewrite -> its marks by regime in a column of the scoreboard, which is tested elsewhere."""
    table = DOCUMENT.read_text().split("scoreboard -->")[1]
    head, _, *rows = (line.strip("| ").split(" | ") for line in table.strip().splitlines()[:-1])
    cells = {row[0]: row[head.index(column)].split(" / ") for row in rows}
    return {name: dict(zip(EPS, mark * 2, strict=False)) for name, mark in cells.items()}


CLAIMED = marks("AttnLRP, canonized")
REPAIRED = [(name, eps) for name in REWRITES for eps in EPS if CLAIMED[name][eps] != "✗"]
SHAPES = dict.fromkeys(("x", "y", "w", "u"), (2, 2)) | dict.fromkeys(("b", "s", "t"), (1, 2))
W, U, B, S, T = map(parameter, ("w", "u", "b", "s", "t"))


def linear(*operands):
    return Node(kinds.LINEAR, operands)


def relu(x):
    return Node(kinds.ACTIVATION, (x,), attributes={"function": "relu"})


def norm(x):
    """With rational deviations: |x0 - x1| / 2 for two channels."""
    return Node(kinds.LAYER_NORM, (x, S, T), attributes={"norm_eps": 0})


def head(a, v, w):
    return linear(Node(kinds.READOUT, (a, v)), w)


ONE = (
    lambda x: linear(x, W, B),
    lambda x: linear(x, W @ U),
    lambda x: linear(linear(x, W), U, B),
    lambda x: linear(relu(linear(x, W, B)), U),
    lambda x: batch_norm(linear(x, W, B), S, T),
    lambda x: linear(x, W) * in_rows(S, x),
    relu,
    lambda x: Node(TRANSPOSE, (x,)),
)
TWO = (
    lambda x, y: linear(x + y, W, B),
    lambda x, y: batch_norm(linear(x, W), S, T) + y,
    lambda x, y: batch_norm(linear(x, W), S, T) * y,
    lambda x, y: Node(kinds.SCORES, (linear(x, W, B), linear(y, U))),
)
THREE = (
    lambda x, y, z: (x * y) * z,
    lambda x, y, z: (x + y) + z,
    lambda x, y, z: (x @ y) @ z,
    lambda x, y, z: x * y + z,
    lambda x, y, z: head(x, y, W) + head(y, z, U),
)
PATTERNS = [(n, f) for n, fs in enumerate((ONE, TWO, THREE), start=1) for f in fs]


def grown(graphs):
    return st.one_of(*(st.builds(f, *[graphs] * n) for n, f in PATTERNS))


leaves = st.sampled_from([leaf("x"), leaf("y")])
inner = leaves | grown(leaves)
points = st.fixed_dictionaries(
    {
        name: st.lists(st.sampled_from((-3, 1, 2, 4, 5, 7)), min_size=r * c, max_size=r * c).map(
            lambda e, r=r, c=c: sp.Matrix(r, c, e)
        )
        for name, (r, c) in SHAPES.items()
    }
)
ON_RANDOM_GRAPHS = settings(max_examples=8, phases=[Phase.generate])  # shrinking takes minutes
CHECKED, CHANGED = Counter(), Counter()


def explained(graph, point, eps):
    """The relevance of every input as exact numbers; None where it is undefined."""
    if not all(value.is_Rational for value in evaluate(graph, point)[graph]):
        return None  # a deviation of 0
    try:
        return explain(graph, point, ATTNLRP, eps=EPS[eps])
    except ZeroDivisionError:
        return None


def check_random_graph(graph, point, choice):
    canonized = {eps: explained(canonize(graph), point, eps) for eps in EPS}
    plain = explained(graph, point, FINITE)
    for name in REWRITES:
        found = REWRITES[name](graph) if (name, LIMIT) in REPAIRED else []
        for other in choice.sample(found, min(len(found), 1)):
            CHANGED[name] += explained(other, point, FINITE) != plain
            for eps in EPS:
                result = (name, eps) in REPAIRED and explained(canonize(other), point, eps)
                if result and canonized[eps]:
                    CHECKED[name, eps] += 1
                    assert result == canonized[eps], (name, eps, str(graph), str(other), point)


def test_random_graphs_keep_their_explanation_under_every_rewrite_that_is_claimed_repaired():
    CHECKED.clear()
    CHANGED.clear()
    randoms = st.randoms(use_true_random=False)
    for n, pattern in [*PATTERNS, (1, norm)]:
        given_graphs = given(st.builds(pattern, *[inner] * n), points, randoms)
        ON_RANDOM_GRAPHS(given_graphs(check_random_graph))()
    assert {key: CHECKED[key] for key in REPAIRED if CHECKED[key] < 5} == {}
    # without canonizers the same rewrites do change explanations, but for those that never do
    same = {name for name, mark in marks("AttnLRP").items() if mark[FINITE] == "✓"}
    assert {name for name, _ in REPAIRED if not CHANGED[name]} == same & {x for x, _ in REPAIRED}


def bracketed(op, operands, choice):
    """One operation of n operands as a random tree of operations of two."""
    if len(operands) == 1:
        return operands[0]
    cut = choice.randrange(1, len(operands))
    halves = (operands[:cut], operands[cut:])
    return Node(op, tuple(bracketed(op, half, choice) for half in halves))


@settings(ON_RANDOM_GRAPHS, max_examples=100)
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
    point=points,
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
        (Z * scale * relu(y), kinds.PRODUCT),
        (Z * linear(y, U) * scale, kinds.PRODUCT),
        (x * scale, kinds.LINEAR),
        (relu(x) * scale + shift, kinds.LINEAR),
        (Z * W, kinds.PRODUCT),  # a number per token and channel, not per channel
        (Z * in_rows(leaf("r"), Z), kinds.PRODUCT),  # a scale with relevance of its own
        (Z + in_rows(leaf("r"), Z), kinds.ADD),
        (Z * constant("column", Z, factor=2) @ S, kinds.BILINEAR),
        (Z + shift + relu(y), kinds.ADD),
        (Z + U, kinds.ADD),
        (x + shift, kinds.ADD),
        (scale + shift, kinds.ADD),
        (scale * shift, kinds.PRODUCT),
    ):
        assert canonize(graph).op == op
        if op != kinds.BILINEAR:
            assert same_function(graph, canonize(graph), point | {"r": generic("r", 1, 2)})


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


def test_a_chain_longer_than_the_recursion_limit_is_merged():
    node = leaf("x")
    for _ in range(1500):
        node = node * leaf("x")
    assert len(merge_products(node).args) == 1501


def test_what_is_not_repaired_in_the_limit_is_not_at_a_finite_epsilon():
    in_the_limit = {name for name, eps in REPAIRED if eps == LIMIT}
    assert {name for name, _ in REPAIRED} == in_the_limit < set(REWRITES)

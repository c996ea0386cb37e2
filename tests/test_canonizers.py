"""Canonizers on random graphs: the rewrites that they repair, and those that they do not."""

from collections import Counter

import pytest
import sympy as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.canonizers import canonize, merge_products
from axioms.composites import ATTNLRP
from axioms.denotation import same_function
from axioms.graph import TRANSPOSE, Node, constant, leaf, parameter, topological
from axioms.propagate import explain
from axioms.rewrites import REWRITES, batch_norm
from axioms.rule_sets import RULE_SETS
from axioms.scoreboard import FINITE, REFUTED, decide

REPAIRED = (
    "commute products",
    "commute sums",
    "re-associate products",
    "re-associate sums",
    "fold linear",
    "split linear",
    "multiply by one",
    "add zero",
    "insert identity layer",
    "factorize attention",
)
NOT_REPAIRED = ("distribute products", "factor sums", "decompose LayerNorm", "decompose softmax")
SHAPES = dict.fromkeys(("x", "y", "w", "u"), (2, 2)) | dict.fromkeys(("b", "s", "t"), (1, 2))
W, U, B, S, T = map(parameter, ("w", "u", "b", "s", "t"))


def linear(*operands):
    return Node(kinds.LINEAR, operands)


def grown(graphs):
    one = (
        lambda x: linear(x, W, B),
        lambda x: linear(x, W @ U),
        lambda x: linear(linear(x, W), U, B),
        lambda x: Node(kinds.ACTIVATION, (x,), attributes={"function": "relu"}),
        lambda x: Node(TRANSPOSE, (x,)),
    )
    three = (
        lambda x, y, z: (x * y) * z,
        lambda x, y, z: (x + y) + z,
        lambda x, y, z: (x @ y) @ z,
        lambda x, y, z: x * y + z,
    )
    return st.one_of(
        *(graphs.map(f) for f in one), *(st.builds(f, graphs, graphs, graphs) for f in three)
    )


leaves = st.sampled_from([leaf("x"), leaf("y")])
graphs = grown(leaves) | grown(grown(leaves) | leaves)
points = st.fixed_dictionaries(
    {
        name: st.lists(st.sampled_from((-2, -1, 1, 2, 3)), min_size=r * c, max_size=r * c).map(
            lambda e, r=r, c=c: sp.Matrix(r, c, e)
        )
        for name, (r, c) in SHAPES.items()
    }
)
EPS = sp.Rational(1, 4)
CHECKED, UNREPAIRED = Counter(), Counter()


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graph=graphs, point=points, choice=st.randoms(use_true_random=False))
def check_random_graph(graph, point, choice):
    expected = explain(canonize(graph), point, ATTNLRP, eps=EPS)
    plain = explain(graph, point, ATTNLRP, eps=EPS)
    for name in REPAIRED:
        found = REWRITES[name](graph)
        for other in choice.sample(found, min(len(found), 2)):
            CHECKED[name] += 1
            UNREPAIRED[name] += explain(other, point, ATTNLRP, eps=EPS) != plain
            assert explain(canonize(other), point, ATTNLRP, eps=EPS) == expected, (name, str(other))


def test_random_graphs_keep_their_explanation_under_every_repaired_rewrite():
    CHECKED.clear()
    UNREPAIRED.clear()
    check_random_graph()
    assert set(CHECKED) == set(REPAIRED)
    # without canonizers the same rewrites do change explanations, but for the order of operands
    assert {name for name in REPAIRED if not UNREPAIRED[name]} == {
        "commute products",
        "commute sums",
    }


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


@pytest.mark.parametrize("name", NOT_REPAIRED)
def test_the_other_rewrites_are_not_repaired(name):
    canonized = next(rule_set for rule_set in RULE_SETS if rule_set.prepare is canonize)
    assert decide(canonized, name, FINITE).verdict == REFUTED


def test_a_batch_norm_written_in_another_order_is_not_recognised():
    """The limit of a canonizer that matches a pattern: it repairs nothing around the pattern."""
    graph = batch_norm(linear(leaf("x"), W, B), S, T)
    assert canonize(graph).op == kinds.LINEAR
    for other in REWRITES["commute sums"](graph) + REWRITES["commute products"](graph):
        assert canonize(other).op == kinds.ADD

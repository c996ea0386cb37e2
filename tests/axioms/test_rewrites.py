"""Rewrites preserve the function, exactly, on random graphs; wrong ones are found out."""

from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.decide.denotation import same_function
from axioms.decide.identity import generic
from axioms.graph import Node, attend, leaf, linear, topological
from axioms.rewrites.canonizers import canonize
from axioms.rewrites.points import symbols
from axioms.rewrites.rewrites import EVERY_REWRITE, REWRITES
from axioms.scoreboard.witness import rewritten
from tests.support.random_graphs import graphs


def picture(root):
    """Everything that a graph consists of, to see that it was not changed."""
    return [(id(n), n.op, n.args, n.name, dict(n.attributes)) for n in topological(root)]


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_and_the_canonizers_preserve_the_value_of_random_graphs(name):
    @settings(max_examples=10)
    @given(graphs(name, entries=st.integers(-2, 3)))
    def check(drawn):
        graph, point = drawn
        before, found = picture(graph), REWRITES[name](graph)
        assert found
        for other in (*found, canonize(graph)):
            assert same_function(graph, other, point), f"{graph} is not {other}"
        assert graph not in found
        assert picture(graph) == before

    check()


@pytest.mark.parametrize("name", EVERY_REWRITE)
def test_every_rewrite_preserves_the_function_of_its_templates_for_all_inputs(name):
    for template in EVERY_REWRITE[name].templates:
        found = rewritten(name, template.root) + rewritten(name, template.root, symbolic=True)
        assert found
        assert all(same_function(template.root, other, symbols(template)) for other in found)


X = Node(kinds.ADD, tuple(leaf(f"x{k}") for k in range(3)))
SUMS = {  # of three terms, where templates have two
    "distribute linear": [linear(X, leaf("w"), leaf("b"))],
    "distribute products": [X * leaf("z0"), leaf("z0") * X],
    "factor sums": [
        replace(X, args=tuple(x * leaf("z0") for x in X.args)),
        replace(X, args=tuple(leaf("z0") * x for x in X.args)),
    ],
    "distribute a readout": [Node(kinds.READOUT, (leaf("z0"), X))],
    "split head": [attend(leaf("z0"), X)],
    "permute heads": [replace(X, args=tuple(
        linear(Node(kinds.READOUT, (leaf("w"), x)), leaf(v))
        for x, v in zip(X.args, "uvw", strict=True)
    ))],
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_a_rewrite_of_a_sum_takes_all_of_its_terms(name):
    shapes = dict.fromkeys(("w", "u", "v", "x0", "x1", "x2", "z0"), (2, 2)) | {"b": (1, 2)}
    point = {symbol: generic(f"{symbol}_", *shape) for symbol, shape in shapes.items()}
    for graph in SUMS[name]:
        found = EVERY_REWRITE[name](graph)
        assert found
        assert all(same_function(graph, other, point) for other in found)
        assert graph not in found


@pytest.mark.parametrize(
    "name", ["decompose LayerNorm", "decompose RMSNorm", "LayerNorm by RMSNorm"]
)
@pytest.mark.parametrize("attributes", [{}, {"norm_eps": 0}, {"norm_eps": sp.Rational(5, 2)}])
def test_a_rewrite_of_a_norm_keeps_its_epsilon_which_is_0_unless_given(name, attributes):
    (template,) = EVERY_REWRITE[name].templates
    norm = replace(template.root, attributes=attributes)
    (other,) = EVERY_REWRITE[name](norm)
    assert same_function(norm, other, symbols(template))

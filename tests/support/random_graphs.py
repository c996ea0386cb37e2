"""Draws random graphs that a rewrite changes, and points for them.

Each is a template of the rewrite with random graphs for its inputs, inside of a larger graph, so
that the draws for one rewrite do not depend on the other rewrites.
"""

import operator

import sympy as sp
from hypothesis import strategies as st

from axioms.graph import (
    INPUT,
    LEAVES,
    TRANSPOSE,
    Node,
    leaf,
    linear,
    parameter,
    rebuild,
    relu,
    scores,
    topological,
)
from axioms.rewrites.rewrites import REWRITES

W, B = parameter("w"), parameter("b")

ONE = (relu, lambda x: linear(x, W, B), lambda x: Node(TRANSPOSE, (x,)))
TWO = (operator.mul, operator.add, operator.matmul)
AROUND = (
    lambda x, _: x,
    lambda x, y: x * y,
    lambda x, y: y + x,
    lambda x, _: linear(x, W, B),
    scores,
)
leaves = st.sampled_from([leaf("x"), leaf("y")])
inputs = leaves | st.one_of(
    *(st.builds(f, leaves) for f in ONE), *(st.builds(f, leaves, leaves) for f in TWO)
)


def shape(node):
    """Inputs and weights are square; biases, scales and shifts are rows."""
    return (2, 2) if node.op == INPUT or node.name.startswith("w") else (1, 2)


@st.composite
def graphs(draw, rewrite, *, entries):
    """A graph that the rewrite changes, and a point of ``entries``."""
    root = draw(st.sampled_from(REWRITES[rewrite].templates)).root
    inner = {node.name: draw(inputs) for node in topological(root) if node.op == INPUT}
    graph = rebuild(root, lambda node: inner[node.name] if node.op == INPUT else node)
    graph = draw(st.sampled_from(AROUND))(graph, draw(leaves))
    shapes = {node.name: shape(node) for node in topological(graph) if node.op in LEAVES}
    return graph, draw(points(shapes, entries=entries))


def points(shapes, *, entries):
    """A matrix for every leaf, by name."""
    return st.fixed_dictionaries({name: matrices(entries, *x) for name, x in shapes.items()})


def matrices(entries, rows, columns):
    size = rows * columns
    drawn = st.lists(entries, min_size=size, max_size=size)
    return drawn.map(lambda values: sp.Matrix(rows, columns, values))


def picked(found, number):
    """One of several, by a number that was drawn before it was known how many there are."""
    return found[number % len(found)]

"""Critical pairs of a rewrite and the passes of ``canonize``: both look at one node.

A pass asks of an operand which of ``OPERANDS`` it is, and nothing else.  So two graphs overlap with
the passes in the operands at their variables, in weights that may be identities, and in the node
above them, which is one of ``AROUND``.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.identity import generic
from lrp_axioms.axioms.graph import (
    INPUT,
    LEAVES,
    PARAMETER,
    TRANSPOSE,
    Node,
    constant,
    leaf,
    linear,
    parameter,
    rebuild,
    topological,
)
from lrp_axioms.axioms.rewrites.channels import batch_norm, in_rows, is_fixed
from lrp_axioms.axioms.rewrites.points import LeafMatrices

a, b, c, x, z = map(leaf, "abcxz")
w, u, v, d, e, s, t, r, q = map(parameter, "wuvdestrq")
m, n = parameter("m"), parameter("n")
SQUARES, ROWS = "wuvmn", "destrq"
SYMBOLS: LeafMatrices = {
    **{name: sp.zeros(2, 2) for name in ("x", "z", "a", "aa", "b", "bb", "c", "cc")},
    **{name: generic(name, 2, 2) for name in SQUARES},
    **{name: generic(name, 1, 2) for name in ROWS},
}
"""Generic weights and rows.  Inputs are 0: only graphs and fixed parts are compared."""

Given: TypeAlias = dict[tuple[str, str], Node]  # nodes in place of leaves, by their kind and name


def _number(fill: str) -> Node:
    return constant(fill, x)


def _two(name: str) -> tuple[Node, Node]:
    return leaf(name), leaf(2 * name)


LIVE: dict[str, Callable[[str], Node]] = {
    "input": leaf,
    "product": lambda name: _two(name)[0] * _two(name)[1],
    "sum": lambda name: _two(name)[0] + _two(name)[1],
    "matrix product": lambda name: _two(name)[0] @ _two(name)[1],
    "layer": lambda name: linear(leaf(name), v),
    "layer with bias": lambda name: linear(leaf(name), v, r),
    "identity layer": lambda name: linear(_two(name)[0] * _two(name)[1], _number("identity")),
    "scaled": lambda name: leaf(name) * in_rows(q, x),
    "shifted": lambda name: leaf(name) + in_rows(q, x),
    "scaled layer": lambda name: linear(leaf(name), v) * in_rows(q, x),
    "shifted layer": lambda name: linear(leaf(name), v, r) + in_rows(q, x),
}
FIXED: dict[str, Callable[[str], Node]] = {
    "ones": lambda name: _number("ones"),
    "zeros": lambda name: _number("zeros"),
    "identity": lambda name: _number("identity"),
    "row": lambda name: in_rows(q, x),
    "weight": lambda name: v,
}
OPERANDS = LIVE | FIXED
"""Kinds of operands that a pass tells apart, each as a graph of inputs with a given name."""

OF_FIXED = "the layer of a weight"
AROUND: dict[str, Callable[[Node], Node]] = {
    "nothing": lambda g: g,
    "a product": lambda g: g * z,
    "a scale": lambda g: g * in_rows(q, x),
    "a sum": lambda g: g + z,
    "a shift": lambda g: in_rows(q, x) + g,
    "a sum of layers": lambda g: g + linear(z, v, r),
    "a matrix product": lambda g: g @ z,
    "a layer": lambda g: linear(g, v, r),
    "an identity layer": lambda g: linear(g, _number("identity")) * z,
    "another operation": lambda g: Node(TRANSPOSE, (g,)),
    OF_FIXED: lambda g: linear(z, g),
}
"""Every kind of node that may stand above a graph, the last one above a fixed graph alone."""

LEFT: dict[str, Node] = {
    "commute products": a * b,
    "commute sums": a + b,
    "re-associate products": (a * b) * c,
    "re-associate sums": (a + b) + c,
    "factorize attention": (a @ b) @ c,
    "factorize attention, row": in_rows(s, x) @ w,
    "multiply by one": a,
    "add zero": a,
    "insert identity layer": a,
    "fold linear": linear(linear(a, w), u),
    "fold linear, first bias": linear(linear(a, w, d), u),
    "fold linear, last bias": linear(linear(a, w), u, e),
    "fold linear, biases": linear(linear(a, w, d), u, e),
    "split linear": linear(a, w @ u),
    "split linear, bias": linear(a, w @ u, e),
    "fold batch norm": batch_norm(linear(a, w), s, t),
    "fold batch norm, bias": batch_norm(linear(a, w, d), s, t),
    "permute heads": Node(
        kinds.ADD,
        (linear(Node(kinds.READOUT, (a, a)), v), linear(Node(kinds.READOUT, (b, b)), v)),
    ),
}
"""Left sides of the rewrites of ``rewrites.ALIKE``, the name of a rewrite before the comma."""


def critical_pairs(
    left: Node, right: Node, *, around: Sequence[str] = tuple(AROUND)
) -> Iterator[tuple[Node, Node]]:
    """Both sides with one of ``OPERANDS`` at a variable, identities as weights, and ``AROUND``.

    The variables are a, b and c.  Layers and norms have no fixed operand; any other graph may.
    """
    of_live = [name for name in around if name != OF_FIXED]
    names = sorted({node.name for node in topological(left) if node.op in LEAVES})
    weights = [name for name in names if name in ("w", "u")]
    for given in _operands(left, [name for name in names if name in ("a", "b", "c")]):
        for size in range(len(weights) + 1):
            for chosen in itertools.combinations(weights, size):
                identities = {(PARAMETER, name): _number("identity") for name in chosen}
                one, other = (_put(side, {**given, **identities}) for side in (left, right))
                for above in around if is_fixed(one) else of_live:
                    yield AROUND[above](one), AROUND[above](other)


def _operands(left: Node, variables: list[str]) -> Iterator[Given]:
    layered = any(node.op in (kinds.LINEAR, kinds.LAYER_NORM) for node in topological(left))
    if not variables:
        yield {}
    for name in variables:
        for operand in (LIVE if layered else OPERANDS).values():
            yield {(INPUT, name): operand(name)}
        for operand in FIXED.values() if len(variables) > 1 and not layered else ():
            yield {**dict.fromkeys(((INPUT, x) for x in variables), v), (INPUT, name): operand("")}


def _put(graph: Node, given: Given) -> Node:
    return rebuild(graph, lambda node: given.get((node.op, node.name), node))

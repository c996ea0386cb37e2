"""Canonizers: graph to graph, so that implementations of one function become one graph.

What each of them undoes is a theorem of ``theorems/test_canonizers.py``, and so is what all of
them together leave undone: distributivity, decomposed activations, duplicated neurons.
"""

from dataclasses import replace

from axioms import kinds
from axioms.graph import CONSTANT, Node, rebuild
from axioms.rewrites import fold_batch_norm_at, fold_linear_at


def _flatten(op):
    """Nested operations ``op`` as one of all their operands, in the same order."""

    def flatten(node):
        if node.op != op:
            return node
        parts = (arg.args if arg.op == op else (arg,) for arg in node.args)
        return replace(node, args=tuple(operand for part in parts for operand in part))

    return lambda root: rebuild(root, flatten)


def _rewritten(alternatives):
    """The first alternative of every node that has one, operands first."""
    return lambda root: rebuild(root, lambda node: next(alternatives(node), node))


def merge_products(root: Node) -> Node:
    """Every chain of elementwise products as one product of n factors, in the same order."""
    return _flatten(kinds.PRODUCT)(root)


def merge_sums(root: Node) -> Node:
    """Every chain of sums as one sum of n terms, in the same order."""
    return _flatten(kinds.ADD)(root)


def merge_attention(root: Node) -> Node:
    """Every chain of matrix products as one: (QK')V and Q(K'V) become the trilinear QK'V.

    Its rule gives each of n matrices R/n as epsilon -> 0: q/3 + k/3 + v/3.
    """
    return _flatten(kinds.BILINEAR)(root)


def fold_linear(root: Node) -> Node:
    """Every linear layer of a linear layer as one layer with the product of their weights."""
    return _rewritten(fold_linear_at)(root)


def fold_batch_norm(root: Node) -> Node:
    """Every fixed scale and shift per channel after a linear layer as part of that layer."""
    return _rewritten(fold_batch_norm_at)(root)


def _is(node: Node, fill: str) -> bool:
    return (
        node.op == CONSTANT
        and node.attributes["fill"] == fill
        and node.attributes.get("factor", 1) == 1
    )


def drop_identities(root: Node) -> Node:
    """The graph without factors 1, terms 0 and identity layers inserted as constants."""
    neutral = {kinds.PRODUCT: "ones", kinds.ADD: "zeros"}

    def dropped(node):
        if node.op == kinds.LINEAR and len(node.args) == 2 and _is(node.args[1], "identity"):
            return node.args[0]
        if node.op not in neutral:
            return node
        kept = tuple(arg for arg in node.args if not _is(arg, neutral[node.op]))
        if len(kept) == len(node.args):
            return node
        return replace(node, args=kept) if len(kept) > 1 else (*kept, node.args[0])[0]

    return rebuild(root, dropped)


def canonize(root: Node) -> Node:
    """All canonizers, in the order in which each finds what the ones before it uncover."""
    for canonizer in (
        drop_identities,
        fold_batch_norm,
        fold_linear,
        merge_products,
        merge_sums,
        merge_attention,
    ):
        root = canonizer(root)
    return root

"""Canonizers: graph to graph, so that implementations of one function become one graph.

What each of them undoes is a theorem of ``theorems/test_canonizers.py``, and so is what all of
them together leave undone: distributivity, decomposed activations, duplicated neurons.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from axioms import kinds
from axioms.graph import CONSTANT, Node, constant, rebuild
from axioms.invariance.channels import in_rows, is_fixed, repeated_row
from axioms.invariance.rewrites import fold_linear_at

Canonizer: TypeAlias = Callable[[Node], Node]


def _flatten(op: str) -> Canonizer:
    """Nested operations ``op`` as one of all their operands, in the same order."""

    def flatten(node: Node) -> Node:
        if node.op != op:
            return node
        parts = (arg.args if arg.op == op else (arg,) for arg in node.args)
        return replace(node, args=tuple(operand for part in parts for operand in part))

    return lambda root: rebuild(root, flatten)


def _one(op: str, operands: Sequence[Node]) -> Node:
    return operands[0] if len(operands) == 1 else Node(op, tuple(operands))


def _fold_linear(node: Node) -> Node:
    return next(fold_linear_at(node), node)


def _fold_scale(node: Node) -> Node:
    """(x W + b) s as x (W s) + b s, s acting on the columns of W; any other z s as z (I s)."""
    if node.op != kinds.PRODUCT:
        return node
    rows = [repeated_row(x) for x in node.args]
    scaled = [x for x, row in zip(node.args, rows, strict=True) if row is None]
    if len(scaled) != 1 or is_fixed(scaled[0]):
        return node
    scale = _one(kinds.PRODUCT, [row for row in rows if row])
    if scaled[0].op != kinds.LINEAR:
        unit = constant("identity", scaled[0])
        return Node(kinds.LINEAR, (scaled[0], unit * in_rows(scale, unit)))
    x, w, *bias = scaled[0].args
    return replace(scaled[0], args=(x, w * in_rows(scale, w), *(b * scale for b in bias)))


def _gather_shifts(node: Node) -> Node:
    """(x W + b) + t as x W + (b + t); in a sum of several, b and t become one more term."""
    if node.op != kinds.ADD:
        return node
    terms, shifts = [], []
    for term in node.args:
        row = repeated_row(term)
        if term.op == kinds.LINEAR and len(term.args) == 3:
            *layer, row = term.args
            terms.append(replace(term, args=tuple(layer)))
        elif row is None:
            terms.append(term)
        shifts += [row] if row else []
    if not terms or not shifts:
        return node
    shift = _one(kinds.ADD, shifts)
    if len(terms) == 1 and terms[0].op == kinds.LINEAR:
        return replace(terms[0], args=(*terms[0].args, shift))
    return replace(node, args=(*terms, in_rows(shift, terms[0])))


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
    return rebuild(root, _fold_linear)


def fold_batch_norm(root: Node) -> Node:
    """Every fixed scale and shift per channel as part of the linear layer before it, in any order.

    Without a layer before it, a scale is a layer of its own.  A sum of several keeps shifts and
    the biases of its layers as one term, since they could be part of any; in a product of several
    a scale stays a factor.
    """
    return rebuild(root, lambda node: _gather_shifts(_fold_scale(node)))


def fold_layers(root: Node) -> Node:
    """Both at once, operands first: a layer may follow a batch norm, and the other way round."""
    return rebuild(root, lambda node: _gather_shifts(_fold_scale(_fold_linear(node))))


def _is(node: Node, fill: str) -> bool:
    return (
        node.op == CONSTANT
        and node.attributes["fill"] == fill
        and node.attributes.get("factor", 1) == 1
    )


def drop_identities(root: Node) -> Node:
    """The graph without factors 1, terms 0 and identity layers inserted as constants."""
    neutral = {kinds.PRODUCT: "ones", kinds.ADD: "zeros"}

    def dropped(node: Node) -> Node:
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
    """All canonizers, in the order in which each finds what the ones before it uncover.

    Products and sums come before layers, which take what stands beside them in any order.
    """
    for canonizer in (drop_identities, merge_products, merge_sums, merge_attention, fold_layers):
        root = canonizer(root)
    return root

"""Canonizers: graph to graph, so that implementations of one function become one graph.

Theorems of ``theorems/test_canonizers.py`` say which rewrites each canonizer undoes, and that all
together leave distributivity and decomposed activations.  Theorem 64, in ``test_confluence.py``
there, names the graphs where all together are confluent.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import CONSTANT, Node, constant, rebuild
from lrp_axioms.axioms.rewrites.channels import in_rows, is_fixed, repeated_row
from lrp_axioms.axioms.rewrites.layers import fold_linear_at

Canonizer: TypeAlias = Callable[[Node], Node]


NEUTRAL = {kinds.PRODUCT: "ones", kinds.ADD: "zeros", kinds.BILINEAR: "identity"}
"""Operations that chain, and the constant that each ignores as an operand."""


def _flatten(node: Node, ops: Collection[str] = NEUTRAL) -> Node:
    """Nested operations of one kind as one of all their operands, in the same order."""
    if node.op not in ops or all(arg.op != node.op for arg in node.args):
        return node
    parts = (arg.args if arg.op == node.op else (arg,) for arg in node.args)
    return replace(node, args=tuple(operand for part in parts for operand in part))


def _one(op: str, operands: Sequence[Node]) -> Node:
    return operands[0] if len(operands) == 1 else Node(op, tuple(operands))


def _is(node: Node, fill: str) -> bool:
    return (
        node.op == CONSTANT
        and node.attributes["fill"] == fill
        and node.attributes.get("factor", 1) == 1
    )


def _drop(node: Node) -> Node:
    """Without factors 1, terms 0 and identity matrices that were inserted as constants."""
    if node.op == kinds.LINEAR and len(node.args) == 2 and _is(node.args[1], "identity"):
        return node.args[0]
    if node.op not in NEUTRAL:
        return node
    kept = tuple(arg for arg in node.args if not _is(arg, NEUTRAL[node.op]))
    if len(kept) == len(node.args):
        return node
    return replace(node, args=kept) if len(kept) > 1 else (*kept, node.args[0])[0]


def _fold_linear(node: Node) -> Node:
    return next(fold_linear_at(node), node)


def _fold_scale(node: Node) -> Node:
    """(x W + b) s as x (W s) + b s, s acting on the columns of W; any other z s as z (I s)."""
    if node.op != kinds.PRODUCT:
        return node
    rows = [repeated_row(x) for x in node.args]
    factors = [x for x, row in zip(node.args, rows, strict=True) if row is None]
    if len(factors) == len(rows) or all(map(is_fixed, factors)):
        return node
    scale = _one(kinds.PRODUCT, [row for row in rows if row])
    scaled = factors[0] if len(factors) == 1 else replace(node, args=tuple(factors))
    if scaled.op != kinds.LINEAR:
        unit = constant("identity", scaled)
        return Node(kinds.LINEAR, (scaled, unit * in_rows(scale, unit)))
    x, w, *bias = scaled.args
    return replace(scaled, args=(x, w * in_rows(scale, w), *(b * scale for b in bias)))


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
    if len(shifts) == 1 and len(terms) < len(node.args):  # a row, and no bias
        return node
    return replace(node, args=(*terms, in_rows(shift, terms[0])))


def merge_products(root: Node) -> Node:
    """Every chain of elementwise products as one product of n factors, in the same order."""
    return rebuild(root, lambda node: _flatten(node, (kinds.PRODUCT,)))


def merge_attention(root: Node) -> Node:
    """Every chain of matrix products as one: (QK')V and Q(K'V) become the trilinear QK'V.

    Its rule gives each of n matrices R/n as epsilon -> 0: q/3 + k/3 + v/3.
    """
    return rebuild(root, lambda node: _flatten(node, (kinds.BILINEAR,)))


def fold_batch_norm(root: Node) -> Node:
    """Every fixed scale and shift per channel as part of the linear layer before it, in any order.

    Without a layer before it, and after a product of several, a scale is a layer of its own.  A sum
    of several keeps shifts and the biases of its layers as one term, since they could be part of
    any.
    """
    return _apply(root, (_fold_scale, _gather_shifts))


MERGING: tuple[Canonizer, ...] = (_flatten, _drop)
LAYERING: tuple[Canonizer, ...] = (_fold_linear, _fold_scale, _gather_shifts)
"""The steps that each of the two passes of ``canonize`` takes at every node, in this order."""


def _apply(root: Node, steps: Sequence[Canonizer]) -> Node:
    return rebuild(root, lambda node: reduce(lambda done, step: step(done), steps, node))


def merge(root: Node) -> Node:
    """Every chain of products, sums and matrix products as one, without identities.

    All at once, operands first: where a layer drops out, the chains around it become one.
    """
    return _apply(root, MERGING)


def fold_layers(root: Node) -> Node:
    """All at once, operands first: a layer may follow a batch norm, and the other way round."""
    return _apply(root, LAYERING)


def canonize(root: Node) -> Node:
    """Applies all canonizers: first to chains, then to layers, which fold neighbours in any order.

    No rewrite of ``rewrites.ALIKE`` changes the result (theorem 64).
    """
    return fold_layers(merge(root))

"""Rewrites: implementations that denote the same function.

A rewrite yields every graph that differs from a given one by one step: one node replaced by
another way to compute the same values.  The given graph is never changed.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from axioms import kinds
from axioms.graph import CONSTANT, LEAVES, PARAMETER, Node, constant, rebuild, topological
from axioms.rewrites.channels import in_rows, repeated_row

if TYPE_CHECKING:  # graphs need no arithmetic
    import sympy as sp

Rewrite: TypeAlias = Callable[[Node], list[Node]]  # a graph to all that are one step away
Alternatives: TypeAlias = Callable[[Node], Iterator[Node]]  # a node to others of the same value


def bracketings(
    factors: Sequence[Node], combine: Callable[[Node, Node], Node] = operator.mul
) -> list[Node]:
    """All ways to bracket ``factors`` in their order: Catalan(n - 1) binary trees."""
    if len(factors) == 1:
        return list(factors)
    return [
        combine(left, right)
        for cut in range(1, len(factors))
        for left in bracketings(factors[:cut], combine)
        for right in bracketings(factors[cut:], combine)
    ]


def _linear(*operands: Node | None) -> Node:
    return Node(kinds.LINEAR, tuple(x for x in operands if x is not None))


def _activation(function: str, x: Node) -> Node:
    return Node(kinds.ACTIVATION, (x,), attributes={"function": function})


def _parts(linear: Node) -> tuple[Node, Node, Node | None]:
    """Input, weight and bias of a linear layer."""
    x, weight, *bias = linear.args
    return x, weight, bias[0] if bias else None


def _same(a: Node, b: Node) -> bool:
    return a is b or (a.op in LEAVES and (a.op, a.name) == (b.op, b.name))


# One-step alternatives of a node.


def _commute(op: str) -> Alternatives:
    def swapped(node: Node) -> Iterator[Node]:
        for k in range(len(node.args) - 1 if node.op == op else 0):
            before, (a, b), after = node.args[:k], node.args[k : k + 2], node.args[k + 2 :]
            yield replace(node, args=(*before, b, a, *after))

    return swapped


def _reassociate(op: str) -> Alternatives:
    def rotated(node: Node) -> Iterator[Node]:
        if node.op != op or len(node.args) != 2:
            return
        left, right = node.args
        if left.op == op and len(left.args) == 2:
            a, b = left.args
            yield replace(node, args=(a, replace(left, args=(b, right))))
        if right.op == op and len(right.args) == 2:
            b, c = right.args
            yield replace(node, args=(replace(right, args=(left, b)), c))

    return rotated


def _distribute(node: Node) -> Iterator[Node]:
    if node.op == kinds.PRODUCT and len(node.args) == 2:
        left, right = node.args
        if right.op == kinds.ADD:
            yield replace(right, args=tuple(left * term for term in right.args))
        if left.op == kinds.ADD:
            yield replace(left, args=tuple(term * right for term in left.args))


def _factor(node: Node) -> Iterator[Node]:
    if node.op == kinds.ADD and all(x.op == kinds.PRODUCT for x in node.args):
        if any(len(x.args) != 2 for x in node.args):
            return
        for side in (0, 1):
            common = node.args[0].args[side]
            if all(_same(x.args[side], common) for x in node.args):
                total = replace(node, args=tuple(x.args[1 - side] for x in node.args))
                yield common * total if side == 0 else total * common


def _distribute_linear(node: Node) -> Iterator[Node]:
    if node.op == kinds.LINEAR and node.args[0].op == kinds.ADD:
        total, w, b = _parts(node)
        first, *rest = total.args
        yield replace(total, args=(_linear(first, w, b), *(_linear(x, w) for x in rest)))


def fold_linear_at(node: Node) -> Iterator[Node]:
    if node.op == kinds.LINEAR and node.args[0].op == kinds.LINEAR:
        (x, w1, b1), (_, w2, b2) = _parts(node.args[0]), _parts(node)
        yield replace(
            node, args=_linear(x, w1 @ w2, b2 if b1 is None else _linear(b1, w2, b2)).args
        )


def _split_linear(node: Node) -> Iterator[Node]:
    if node.op == kinds.LINEAR and node.args[1].op == kinds.BILINEAR:
        x, w, b = _parts(node)
        if len(w.args) == 2:
            yield replace(node, args=_linear(_linear(x, w.args[0]), w.args[1], b).args)


def fold_batch_norm_at(node: Node) -> Iterator[Node]:
    """(x W + b) s + t as x (W s) + (b s + t), the scale s acting on the columns of W."""
    if node.op != kinds.ADD or len(node.args) != 2 or node.args[0].op != kinds.PRODUCT:
        return
    product, shift = node.args[0], repeated_row(node.args[1])
    if len(product.args) != 2 or product.args[0].op != kinds.LINEAR or shift is None:
        return
    scale = repeated_row(product.args[1])
    if scale is not None:
        x, w, b = _parts(product.args[0])
        yield _linear(x, w * in_rows(scale, w), shift if b is None else b * scale + shift)


def _computed(node: Node) -> bool:
    return node.op not in (PARAMETER, CONSTANT)


def _times_one(node: Node) -> Iterator[Node]:
    if _computed(node):
        yield node * constant("ones", node, name="1")


def _plus_zero(node: Node) -> Iterator[Node]:
    if _computed(node):
        yield node + constant("zeros", node, name="0")


def _insert_linear(node: Node) -> Iterator[Node]:
    if _computed(node):
        yield _linear(node, constant("identity", node, name="I"))


def _hidden(out: str, back: str) -> Alternatives:
    """W1 A and B W2 for W1 and W2, with A B = I and at most a function per neuron in between."""

    def widened(node: Node) -> Iterator[Node]:
        if node.op != kinds.LINEAR:
            return
        between, w2, b2 = _parts(node)
        inner = between.args[0] if between.op == kinds.ACTIVATION else between
        if inner.op != kinds.LINEAR:
            return
        x, w1, b1 = _parts(inner)
        forth = constant(out, w1)
        wide = _linear(x, w1 @ forth, None if b1 is None else b1 @ forth)
        if between is not inner:
            wide = replace(between, args=(wide,))
        yield replace(node, args=_linear(wide, constant(back, w1) @ w2, b2).args)

    return widened


def _projections(
    change_query: Callable[[Node], Node], change_key: Callable[[Node], Node]
) -> Alternatives:
    """Scores of two projections whose weights and biases are changed, each on its own side."""

    def changed(node: Node) -> Iterator[Node]:
        if node.op == kinds.SCORES and all(x.op == kinds.LINEAR for x in node.args):
            projections = (
                replace(x, args=(x.args[0], *map(change, x.args[1:])))
                for x, change in zip(node.args, (change_query, change_key), strict=True)
            )
            yield replace(node, args=tuple(projections))

    return changed


def _scaled(factor: object) -> Callable[[Node], Node]:
    return lambda weight: weight * constant("ones", weight, factor=factor, name=str(factor))


def _reverse_channels(weight: Node) -> Node:
    return weight @ constant("reversal", weight)


def _permute_heads(node: Node) -> Iterator[Node]:
    """The sum over heads of O_h W_h, in the opposite order."""
    if node.op == kinds.ADD and all(
        x.op == kinds.LINEAR and x.args[0].op == kinds.READOUT for x in node.args
    ):
        yield replace(node, args=node.args[::-1])


def _centre_layer_norm(node: Node) -> Iterator[Node]:
    if node.op == kinds.LAYER_NORM:
        x, w, b = node.args
        yield replace(node, args=(_linear(x, constant("centring", x)), w, b))


def _decompose_layer_norm(node: Node) -> Iterator[Node]:
    """Centre, divide by the root of the mean square plus norm-epsilon, scale and shift."""
    if node.op == kinds.LAYER_NORM:
        x, w, b = node.args
        centred = _linear(x, constant("centring", x))
        square = _linear(centred * centred, constant("mean", x))
        padded = square + constant("ones", x, factor=node.attributes.get("norm_eps", 0), name="h")
        scaled = centred * _activation("reciprocal root", padded)
        diagonal = constant("identity", w, name="I") * in_rows(w, constant("identity", w))
        yield _linear(scaled, diagonal, b)


def _decompose_gelu(node: Node) -> Iterator[Node]:
    if node.op == kinds.ACTIVATION and node.attributes["function"] == "gelu":
        yield node.args[0] * _activation("phi", node.args[0])


def _decompose_softmax(node: Node) -> Iterator[Node]:
    """exp, the sum of every row, its reciprocal, and their product."""
    if node.op == kinds.SOFTMAX:
        e = _activation("exp", node.args[0])
        yield e * _activation("reciprocal", _linear(e, constant("square of ones", e)))


def rescale_scores(root: Node, *, factor: "int | sp.Expr" = 2) -> list[Node]:
    """Q times ``factor`` and K divided by it, by their projections; the scores stay."""
    inverse = Fraction(1, factor) if isinstance(factor, int) else 1 / factor
    return everywhere(_projections(_scaled(factor), _scaled(inverse)), root)


def everywhere(alternatives: Alternatives, root: Node) -> list[Node]:
    """Graphs with one node of ``root`` replaced by one of its ``alternatives``, in order."""
    return [exchanged(root, old, new) for old in topological(root) for new in alternatives(old)]


def exchanged(root: Node, old: Node, new: Node) -> Node:
    """The graph with ``new`` in the place of one of its nodes."""
    return rebuild(root, lambda node: new if node is old else node)


def _step(alternatives: Alternatives) -> Rewrite:
    return lambda root: everywhere(alternatives, root)


REWRITES: dict[str, Rewrite] = {
    "commute products": _step(_commute(kinds.PRODUCT)),
    "commute sums": _step(_commute(kinds.ADD)),
    "re-associate products": _step(_reassociate(kinds.PRODUCT)),
    "re-associate sums": _step(_reassociate(kinds.ADD)),
    "distribute products": _step(_distribute),
    "factor sums": _step(_factor),
    "distribute linear": _step(_distribute_linear),
    "fold linear": _step(fold_linear_at),
    "split linear": _step(_split_linear),
    "fold batch norm": _step(fold_batch_norm_at),
    "multiply by one": _step(_times_one),
    "add zero": _step(_plus_zero),
    "insert identity layer": _step(_insert_linear),
    "duplicate neuron": _step(_hidden("repetition", "halving")),
    "permute neurons": _step(_hidden("reversal", "reversal")),
    "rescale Q and K": rescale_scores,
    "permute channels of Q and K": _step(_projections(_reverse_channels, _reverse_channels)),
    "permute heads": _step(_permute_heads),
    "factorize attention": _step(_reassociate(kinds.BILINEAR)),
    "centre before LayerNorm": _step(_centre_layer_norm),
    "decompose LayerNorm": _step(_decompose_layer_norm),
    "decompose GELU": _step(_decompose_gelu),
    "decompose softmax": _step(_decompose_softmax),
}
"""Every rewrite by name: a graph to all graphs that are one such step away."""

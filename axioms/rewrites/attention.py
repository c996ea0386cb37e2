"""Rewrites of softmax attention; all but the last keep the attention weights of every head."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import (
    TRANSPOSE,
    Node,
    attend,
    constant,
    leaf,
    linear,
    parameter,
    readout,
    scores,
)
from lrp_axioms.axioms.rewrites.channels import copied_rows, in_rows, scaled, with_outputs
from lrp_axioms.axioms.rewrites.places import BILINEAR, is_kind, operands, over
from lrp_axioms.axioms.rewrites.products import reassociate
from lrp_axioms.axioms.rewrites.rewrite import (
    ANY_CHANGE,
    ANY_FACTOR,
    OF_ATTENTION,
    Alternatives,
    Canonized,
    Family,
    Rewrite,
    Template,
)
from lrp_axioms.axioms.rewrites.units import decompose_softmax

Fill: TypeAlias = Callable[[Node], Node]  # a square matrix, for the channels of a node


def _is_head(node: Node) -> bool:
    return node.op == kinds.READOUT and node.args[0].op == kinds.SOFTMAX


def _projections(
    change_query: Callable[[Node], Node], change_key: Callable[[Node], Node]
) -> Alternatives:
    """Scores of two projections whose weights and biases are changed, each on its own side."""

    def changed(node: Node) -> Iterator[Node]:
        if node.op == kinds.SCORES and all(x.op == kinds.LINEAR for x in node.args):
            changes = zip(node.args, (change_query, change_key), strict=True)
            yield replace(node, args=tuple(with_outputs(x, change) for x, change in changes))

    return changed


def _rescale(factor: object, inverse: object) -> Alternatives:
    return _projections(scaled(factor), scaled(inverse))


def _reverse_channels(weight: Node) -> Node:
    return weight @ constant("reversal", weight)


def _change_queries_and_keys(forth: Fill, back: Fill) -> Alternatives:
    """The scores of Q M and K M^-T."""
    return _projections(lambda w: w @ forth(w), lambda w: w @ Node(TRANSPOSE, (back(w),)))


def _change_values_and_output(forth: Fill, back: Fill) -> Alternatives:
    """(A (V M)) (M^-1 W_O)."""

    def changed(node: Node) -> Iterator[Node]:
        if node.op == kinds.LINEAR and _is_head(node.args[0]):
            head, w, *bias = node.args
            weights, values = head.args
            if values.op == kinds.LINEAR:
                head = replace(head, args=(weights, with_outputs(values, lambda w: w @ forth(w))))
                yield replace(node, args=(head, back(values.args[1]) @ w, *bias))

    return changed


SUMS: tuple[Fill, Fill] = (partial(constant, "running sums"), partial(constant, "differences"))


def _any_change(step: Callable[[Fill, Fill], Alternatives]) -> Family:
    def changed(matrix: object, inverse: object) -> Alternatives:
        fills = [partial(constant, "identity", factor=m) for m in (matrix, inverse)]
        return step(*fills)

    return ANY_CHANGE, changed


def _drop_bias_of_keys(node: Node) -> Iterator[Node]:
    """Drops the bias of K: it adds one number to all scores of a row."""
    if node.op == kinds.SOFTMAX and node.args[0].op == kinds.SCORES:
        query, key = node.args[0].args
        if key.op == kinds.LINEAR and len(key.args) == 3:
            without = replace(node.args[0], args=(query, replace(key, args=key.args[:2])))
            yield replace(node, args=(without,))


def _move_bias_of_values(node: Node) -> Iterator[Node]:
    """A (V + 1 b) as A V + 1 b."""
    if _is_head(node) and node.args[1].op == kinds.LINEAR and len(node.args[1].args) == 3:
        weights, values = node.args
        x, w, bias = values.args
        head = replace(node, args=(weights, replace(values, args=(x, w))))
        yield head + in_rows(bias, head)


def _split_head(node: Node) -> Iterator[Node]:
    """A (V + V') as two heads with the same scores."""
    if _is_head(node) and node.args[1].op == kinds.ADD:
        weights, values = node.args
        heads = (replace(node, args=(replace(weights), term)) for term in values.args)
        yield replace(values, args=tuple(heads))


def _permute_heads(node: Node) -> Iterator[Node]:
    """The sum over heads of O_h W_h, in the opposite order."""
    if node.op == kinds.ADD and all(
        x.op == kinds.LINEAR and x.args[0].op == kinds.READOUT for x in node.args
    ):
        yield replace(node, args=node.args[::-1])


def _duplicate_keys(node: Node) -> Iterator[Node]:
    """Every key twice, each time with half of its weight."""
    if _is_head(node) and node.args[0].args[0].op == kinds.SCORES:
        (logits,) = node.args[0].args
        query, key = logits.args
        yield attend(replace(logits, args=(query, copied_rows(key))), copied_rows(node.args[1]))


def _two_projections(node: Node) -> list[Node]:
    found = operands(node)
    whole = is_kind(node, kinds.SCORES) and all(is_kind(x, kinds.LINEAR) for x in found)
    return [node, *found] if whole else []


def _chain(node: Node) -> list[Node]:
    """A matrix product over another one."""
    return next(filter(None, (over(kind, *BILINEAR)(node) for kind in BILINEAR)), [])


x, y, z, q, k, v, u = map(leaf, "xyzqkvu")
wq, wk, wv, wo, d, e = map(parameter, ("wq", "wk", "wv", "wo", "d", "e"))
QK = {"x": (1, 2), "y": (1, 2), "wq": (2, 2), "wk": (2, 2), "d": (1, 2), "e": (1, 2)}
CHAIN = {"q": (2, 2), "k": (2, 2), "v": (2, 1)}
PROJECTED = scores(linear(x, wq), linear(y, wk))
WITH_BIASES = scores(linear(x, wq, d), linear(y, wk, e))
# Shapes of attention have two keys: leaving one out of one leaves nothing.
ROW, KEYS = {"z": (1, 2)}, {"x": (1, 1), "y": (2, 1), "v": (2, 1)}


HEADS = {"a1": (1, 2), "a2": (1, 2), "v1": (2, 2), "v2": (2, 2), "w1": (2, 1), "w2": (2, 1)}
HEAD = {"z": (1, 2), "v": (2, 1), "w": (1, 1)}


def _heads(head: Callable[[Node, Node], Node], weights: str) -> Node:
    """The sum of two heads, each with a layer behind it."""
    one, other = (
        linear(head(leaf(f"{weights}{n}"), leaf(f"v{n}")), parameter(f"w{n}")) for n in (1, 2)
    )
    return one + other


REWRITES = (
    Rewrite("rescale Q and K", _rescale(2, Fraction(1, 2)),
            [Template(g, QK, dict.fromkeys(QK, (1, 1))) for g in (PROJECTED, WITH_BIASES)],
            canonized=Canonized.IN_THE_LIMIT, applies=_two_projections,
            family=(ANY_FACTOR, _rescale)),
    Rewrite("permute channels of Q and K", _projections(_reverse_channels, _reverse_channels),
            [Template(PROJECTED, QK)], canonized=Canonized.BESIDE, applies=_two_projections),
    Rewrite("permute heads", _permute_heads,
            [Template(_heads(readout, "a"), HEADS, dict.fromkeys(HEADS, (1, 1)))],
            canonized=Canonized.ALIKE, applies=over(kinds.LINEAR, kinds.READOUT)),
    Rewrite("factorize attention", reassociate(kinds.BILINEAR),
            [Template((q @ Node(TRANSPOSE, (k,))) @ v, CHAIN, dict.fromkeys(CHAIN, (1, 1)))],
            canonized=Canonized.ALIKE, applies=_chain),
    Rewrite("change channels of Q and K", _change_queries_and_keys(*SUMS),
            [Template(attend(PROJECTED, v), KEYS | {"wq": (1, 2), "wk": (1, 2)})],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS,
            family=_any_change(_change_queries_and_keys)),
    Rewrite("change channels of V and O", _change_values_and_output(*SUMS),
            [Template(linear(attend(z, linear(y, wv)), wo),
                      ROW | {"y": (2, 1), "wv": (1, 2), "wo": (2, 1)})],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS,
            family=_any_change(_change_values_and_output)),
    Rewrite("drop bias of K", _drop_bias_of_keys,
            [Template(attend(scores(x, linear(y, wk, d)), v),
                      KEYS | {"y": (2, 2), "wk": (2, 1), "d": (1, 1)})],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS),
    Rewrite("move bias of V", _move_bias_of_values,
            [Template(attend(z, linear(y, wv, d)), ROW | {"y": (2, 2), "wv": (2, 1), "d": (1, 1)})],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS),
    Rewrite("split head", _split_head,
            [Template(attend(z, v + u), ROW | {"v": (2, 1), "u": (2, 1)})],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS),
    Rewrite("permute attention heads", _permute_heads,
            [Template(_heads(attend, "z"), {f"{x}{n}": HEAD[x] for n in (1, 2) for x in HEAD})],
            board=OF_ATTENTION, canonized=Canonized.ALIKE),
    Rewrite("decompose softmax of attention", decompose_softmax,
            [Template(attend(z, v), ROW | {"v": (2, 1)})], board=OF_ATTENTION),
    Rewrite("duplicate keys", _duplicate_keys, [Template(attend(scores(x, y), v), KEYS)],
            board=OF_ATTENTION, canonized=Canonized.OF_HEADS),
)  # fmt: skip

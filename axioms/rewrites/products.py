"""Rewrites of products and sums: order, brackets and common factors."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import LEAVES, Node, leaf
from lrp_axioms.axioms.rewrites.places import over, several
from lrp_axioms.axioms.rewrites.rewrite import Alternatives, Canonized, Rewrite, Template


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


def _commute(op: str) -> Alternatives:
    def swapped(node: Node) -> Iterator[Node]:
        for k in range(len(node.args) - 1 if node.op == op else 0):
            before, (a, b), after = node.args[:k], node.args[k : k + 2], node.args[k + 2 :]
            yield replace(node, args=(*before, b, a, *after))

    return swapped


def reassociate(op: str) -> Alternatives:
    """Moves the brackets of two operations of one kind."""

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


def _same(a: Node, b: Node) -> bool:
    return a is b or (a.op in LEAVES and (a.op, a.name) == (b.op, b.name))


def _factor(node: Node) -> Iterator[Node]:
    if node.op == kinds.ADD and all(x.op == kinds.PRODUCT for x in node.args):
        if any(len(x.args) != 2 for x in node.args):
            return
        for side in (0, 1):
            common = node.args[0].args[side]
            if all(_same(x.args[side], common) for x in node.args):
                total = replace(node, args=tuple(x.args[1 - side] for x in node.args))
                yield common * total if side == 0 else total * common


a, b, c = map(leaf, "abc")
PAIR = {"a": (1, 2), "b": (1, 2)}
SCALARS = dict.fromkeys("abc", (1, 1))

REWRITES = (
    Rewrite("commute products", _commute(kinds.PRODUCT), [Template(a * b, PAIR, SCALARS)],
            canonized=Canonized.ALIKE, applies=several(kinds.PRODUCT)),
    Rewrite("commute sums", _commute(kinds.ADD), [Template(a + b, PAIR, SCALARS)],
            canonized=Canonized.ALIKE, applies=several(kinds.ADD)),
    Rewrite("re-associate products", reassociate(kinds.PRODUCT), [Template((a * b) * c, SCALARS)],
            canonized=Canonized.ALIKE, applies=over(kinds.PRODUCT, kinds.PRODUCT)),
    Rewrite("re-associate sums", reassociate(kinds.ADD), [Template((a + b) + c, SCALARS)],
            canonized=Canonized.ALIKE, applies=over(kinds.ADD, kinds.ADD)),
    Rewrite("distribute products", _distribute,
            [Template(g, SCALARS) for g in (a * (b + c), (b + c) * a)],
            applies=over(kinds.PRODUCT, kinds.ADD)),
    Rewrite("factor sums", _factor,
            [Template(g, SCALARS) for g in (a * b + a * c, b * a + c * a)]),
)  # fmt: skip

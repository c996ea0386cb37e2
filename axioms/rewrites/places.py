"""Where rewrites apply in a captured graph: at an operation, through moves of entries."""

from collections.abc import Callable
from typing import TypeAlias

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import MOVES, PARAMETER, Node

BILINEAR = (kinds.SCORES, kinds.READOUT, kinds.BILINEAR)

Applies: TypeAlias = Callable[[Node], list[Node]]
"""The operations that a rewrite rewrites at a node; none where it does not apply."""


def through(node: Node) -> Node:
    """The operation whose entries ``node`` moves; a choice, such as a maximum, is no such move."""
    while node.op in MOVES and len(node.args) == 1 and not node.attributes.get("chooses"):
        node = node.args[0]
    return node


def operands(node: Node) -> list[Node]:
    """The operands that relevance can reach, through moves."""
    return [through(x) for x in node.args if x.op != PARAMETER]


def is_kind(node: Node, *kinds_: str) -> bool:
    """Whether it is one of these operations, not a fixed factor of each entry alone."""
    return node.op in kinds_ and not node.attributes.get("entrywise")


def over(kind: str, *below: str) -> Applies:
    """A node of ``kind``, and its operands of a kind in ``below`` if any are given."""

    def involved(node: Node) -> list[Node]:
        found = [x for x in operands(node) if is_kind(x, *below)]
        return [node, *found] if is_kind(node, kind) and (found or not below) else []

    return involved


def several(kind: str) -> Applies:
    """A node of ``kind`` with more than one operand."""
    return lambda node: [node] if node.op == kind and len(operands(node)) > 1 else []

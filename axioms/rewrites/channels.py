"""Rows repeated for every token, copies of tokens, and changes of a layer's output channels."""

from collections.abc import Callable
from dataclasses import replace

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import CONSTANT, TRANSPOSE, Node, constant, live, topological


def in_rows(row: Node, like: Node) -> Node:
    """A row repeated once per row of ``like``, as a channel's scale or shift is."""
    return constant("column", like, name="1") @ row


def repeated_row(node: Node) -> Node | None:
    """The row that ``in_rows`` repeats; None for any other node, or if an input reaches the row."""
    if node.op != kinds.BILINEAR:
        return None
    column, *row = node.args
    is_column = column.op == CONSTANT and column.attributes["fill"] == "column"
    if not is_column or column.attributes["factor"] != 1 or not is_fixed(node):
        return None
    return row[0] if len(row) == 1 else replace(node, args=tuple(row))


def is_fixed(node: Node) -> bool:
    """Whether it is part of the model: no input reaches it, except for the shape of a constant."""
    return node not in live(topological(node))


def batch_norm(x: Node, scale: Node, shift: Node) -> Node:
    """BatchNorm at inference: a fixed scale and shift per channel, entry by entry."""
    return x * in_rows(scale, x) + in_rows(shift, x)


def with_outputs(layer: Node, change: Callable[[Node], Node]) -> Node:
    """A linear layer with a change of its outputs, made to its weights and its bias."""
    x, *parameters = layer.args
    return replace(layer, args=(x, *map(change, parameters)))


def scaled(factor: object) -> Callable[[Node], Node]:
    """Multiplies every entry by a number."""
    return lambda w: w * constant("ones", w, factor=factor, name=str(factor))


def copied_rows(node: Node) -> Node:
    """Every row twice: first all of them, then all of them again."""
    columns = Node(TRANSPOSE, (node,))
    copied = Node(kinds.LINEAR, (columns, constant("twice", columns)))
    return Node(TRANSPOSE, (copied,))


def copies_of(node: Node) -> Node | None:
    """The matrix that ``copied_rows`` copies with; None for any other node."""
    if node.op != TRANSPOSE or node.args[0].op != kinds.LINEAR:
        return None
    matrix = node.args[0].args[1]
    return matrix if matrix.op == CONSTANT and matrix.attributes["fill"] == "twice" else None

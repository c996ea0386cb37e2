"""Where rewrites apply in a captured graph: at an operation, through moves of entries."""

from collections.abc import Callable
from typing import TypeAlias

from axioms import kinds
from axioms.graph import MOVES, PARAMETER, Node

BILINEAR = (kinds.SCORES, kinds.READOUT, kinds.BILINEAR)

Applies: TypeAlias = Callable[[Node], list[Node]]
"""The operations that a rewrite rewrites at a node; none where it does not apply."""


def through(node: Node) -> Node:
    """The operation whose entries ``node`` moves."""
    while node.op in MOVES and len(node.args) == 1:
        node = node.args[0]
    return node


def operands(node: Node) -> list[Node]:
    """Those that relevance can reach, through moves."""
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


def _several(kind: str) -> Applies:
    return lambda node: [node] if node.op == kind and len(operands(node)) > 1 else []


def _all_linear(node: Node) -> list[Node]:
    found = operands(node)
    whole = is_kind(node, kinds.SCORES) and all(is_kind(x, kinds.LINEAR) for x in found)
    return [node, *found] if whole else []


def _hidden_layer(node: Node) -> list[Node]:
    inner = [x for x in operands(node) if x.op == kinds.ACTIVATION]
    found = [(x, y) for x in inner for y in operands(x) if is_kind(y, kinds.LINEAR)]
    return (
        [node, *(x for pair in found for x in pair)]
        if is_kind(node, kinds.LINEAR) and found
        else []
    )


def _gelu(node: Node) -> list[Node]:
    is_gelu = node.op == kinds.ACTIVATION and node.attributes.get("function") == "gelu"
    return [node] if is_gelu else []


CHAINS = [over(kind, *BILINEAR) for kind in BILINEAR]
APPLIES: dict[str, Applies] = {
    "commute products": _several(kinds.PRODUCT),
    "commute sums": _several(kinds.ADD),
    "re-associate products": over(kinds.PRODUCT, kinds.PRODUCT),
    "re-associate sums": over(kinds.ADD, kinds.ADD),
    "distribute products": over(kinds.PRODUCT, kinds.ADD),
    "distribute linear": over(kinds.LINEAR, kinds.ADD),
    "fold linear": over(kinds.LINEAR, kinds.LINEAR),
    "split linear": over(kinds.LINEAR),
    "insert identity layer": over(kinds.LINEAR),
    "multiply by one": over(kinds.LINEAR),
    "duplicate neuron": _hidden_layer,
    "permute neurons": _hidden_layer,
    "rescale Q and K": _all_linear,
    "permute channels of Q and K": _all_linear,
    "permute heads": over(kinds.LINEAR, kinds.READOUT),
    "factorize attention": lambda node: next(filter(None, (f(node) for f in CHAINS)), []),
    "centre before LayerNorm": over(kinds.LAYER_NORM),
    "decompose LayerNorm": over(kinds.LAYER_NORM),
    "decompose GELU": _gelu,
    "decompose softmax": over(kinds.SOFTMAX),
}
"""By rewrite of ``axioms.rewrites.rewrites``: where it applies."""

"""Runs the rules of ``rules`` over any captured graph: the oracle for models not written here.

Arrays have any leading axes; values and relevance are in float64.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, assigned
from lrp_axioms.axioms.graph import INPUT, LEAVES, MOVE, Node
from lrp_axioms.numeric.reference import rules
from lrp_axioms.numeric.reference.dispatch import RULES
from lrp_axioms.numeric.reference.lemmas import rows, unmask


def _linear(
    node: Node, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float = 0.0
) -> np.ndarray:
    z: np.ndarray = x * weight if node.attributes.get("entrywise") else x @ weight + bias
    return z


def _layer_norm(node: Node, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    y: np.ndarray = centred / np.sqrt(variance + node.attributes["norm_eps"]) * weight + bias
    return y


def _rms_norm(node: Node, x: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    square = (x**2).mean(axis=-1, keepdims=True)
    y: np.ndarray = x / np.sqrt(square + node.attributes["norm_eps"]) * weight
    return y


FORWARD: dict[str, Callable[..., np.ndarray]] = {
    kinds.LINEAR: _linear,
    kinds.ADD: lambda node, *xs: reduce(np.add, xs),
    kinds.SCORES: lambda node, q, k: node.attributes["scale"] * (q @ k.swapaxes(-1, -2)),
    kinds.SOFTMAX: lambda node, z: rows(node, rules.softmax(rows(node, z))),
    kinds.READOUT: lambda node, a, v: a @ v,
    kinds.BILINEAR: lambda node, a, b: a @ b,
    kinds.PRODUCT: lambda node, *xs: reduce(np.multiply, xs),
    kinds.LAYER_NORM: _layer_norm,
    kinds.RMS_NORM: _rms_norm,
}


def forward(order: list[Node], leaves: Mapping[Node, object]) -> dict[Node, np.ndarray]:
    """Computes the value of every node that is no parameter from the leaves' values."""
    values: dict[Node, np.ndarray] = {}
    for node in order:
        if node.op == INPUT:
            values[node] = array(leaves[node])
        elif node.op not in LEAVES:
            xs, f = operands(node, values, leaves), node.attributes.get("map")
            values[node] = f(*xs) if f else FORWARD[node.op](node, *xs)
    return values


def array(value: object) -> np.ndarray:
    return np.asarray(value, dtype=np.float64)


def operands(
    node: Node, values: Mapping[Node, np.ndarray], leaves: Mapping[Node, object]
) -> list[np.ndarray]:
    """Returns an operation's operands; parameters are widened to float64 only while needed."""
    return [values[x] if x in values else array(leaves[x]) for x in node.args]


def _linear_messages(
    node: Node, rule: Callable[..., np.ndarray], xs: Sequence[np.ndarray], r: np.ndarray, eps: float
) -> Sequence[np.ndarray]:
    if node.attributes.get("entrywise"):
        return rules.add((xs[0] * xs[1],), r, eps=eps)
    bias = xs[2] if len(xs) == 3 else np.zeros(xs[1].shape[1])
    return [rule(*xs[:2], bias, r, eps=eps)]


def _rms_norm_messages(
    node: Node, rule: Callable[..., np.ndarray], xs: Sequence[np.ndarray], r: np.ndarray, eps: float
) -> Sequence[np.ndarray]:
    weight = xs[1] if len(xs) == 2 else np.ones(xs[0].shape[-1])
    return [rule(xs[0], weight, node.attributes["norm_eps"], r, eps=eps)]


MESSAGES: dict[str, Callable[..., Sequence[np.ndarray]]] = {
    kinds.LINEAR: _linear_messages,
    kinds.ADD: lambda node, rule, xs, r, eps: rule(unmask(xs), r, eps=eps),
    kinds.SCORES: lambda n, rule, xs, r, eps: rule(*xs, n.attributes["scale"], r, eps=eps),
    kinds.SOFTMAX: lambda n, rule, xs, r, eps: [rows(n, rule(rows(n, xs[0]), rows(n, r), eps=eps))],
    kinds.READOUT: lambda node, rule, xs, r, eps: rule(*xs, r, eps=eps),
    kinds.BILINEAR: lambda node, rule, xs, r, eps: rule(*xs, r, eps=eps),
    kinds.PRODUCT: lambda node, rule, xs, r, eps: rule(xs, r, eps=eps),
    kinds.LAYER_NORM: lambda n, rule, xs, r, eps: [rule(*xs, n.attributes["norm_eps"], r, eps=eps)],
    kinds.RMS_NORM: _rms_norm_messages,
    kinds.ACTIVATION: lambda node, rule, xs, r, eps: [rule(*xs, r, eps=eps)],
}
"""By kind: passes operands and attributes of a node to a rule; returns their relevance."""


def _messages(
    node: Node, rule: str, xs: Sequence[np.ndarray], r: np.ndarray, eps: float
) -> Sequence[np.ndarray]:
    eps = stabiliser(node, eps)
    try:
        if f := node.attributes.get("map"):
            return RULES[node.op, rule].on_map(f, xs, r, eps=eps)
        return MESSAGES[node.op](node, RULES[node.op, rule].messages, xs, r, eps)
    except ZeroDivisionError as error:
        place = (node.origin.module or "(root)") if node.origin else node.name
        raise ZeroDivisionError(f"{node.op} at {place}: {error}") from error


def stabiliser(node: Node, eps: float) -> float:
    """Returns an operation's stabiliser; 0 for an exact one, such as a scaling by a number."""
    return 0.0 if node.attributes.get("exact") else eps


def _fit(message: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums relevance of an operand that was broadcast over its copies."""
    extra = message.ndim - len(shape)
    message = message.sum(axis=tuple(range(extra)))
    axes = tuple(n for n, size in enumerate(shape) if size == 1 and message.shape[n] != 1)
    fitted: np.ndarray = message.sum(axis=axes, keepdims=True)
    return fitted


def propagate(
    order: list[Node],
    leaves: Mapping[Node, object],
    composite: Composite,
    start: np.ndarray,
    *,
    eps: float,
    values: Mapping[Node, np.ndarray] | None = None,
    sent: dict[Node, float] | None = None,
) -> dict[Node, np.ndarray]:
    """Returns relevance of every node by ``composite``, from ``start`` at the last of them.

    ``leaves``: the value of every input and parameter; ``sent`` is filled with the total that
    each operation hands on.  The rules say how much is absorbed or lost.
    Raises UnassignedOperation that lists the operations without a rule, and ZeroDivisionError
    where the limit eps = 0 does not exist.
    """
    values = forward(order, leaves) if values is None else values
    chosen = assigned(order, composite, RULES)
    received = {node: np.zeros(x.shape) for node, x in values.items()}
    received[order[-1]] = received[order[-1]] + start
    for node in reversed(order):
        if node not in chosen and node.op != MOVE:
            continue
        r, xs = received[node], operands(node, values, leaves)
        if node.op == MOVE:
            messages = node.attributes["map"].back(xs, r)
        else:
            messages = _messages(node, chosen[node], xs, r, eps)
        # there is no message for weights
        handed = [(x, m) for x, m in zip(node.args, messages, strict=False) if x in received]
        for x, message in handed:
            received[x] += _fit(message, received[x].shape)
        if sent is not None:
            sent[node] = float(sum(message.sum() for _, message in handed))
    return received

"""The rules of ``rules`` run over any captured graph: the oracle for models without a text here.

Arrays have any leading axes; values and relevance are in float64.
"""

from collections.abc import Mapping
from functools import reduce

import numpy as np
from scipy.special import erf

from axioms import kinds
from axioms.assignment import assigned
from axioms.composites import Composite
from axioms.graph import INPUT, LEAVES, MOVE, Node
from numeric.reference import rules
from numeric.reference.by_kind import RULES

ACTIVATIONS = {
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}

MOVES = {
    "reshape": lambda shape, x: x.reshape(shape),
    "broadcast": lambda shape, x: np.broadcast_to(x, shape),
    "permute": lambda axes, x: x.transpose(axes),
    "index": lambda index, x: x[index],
    "concatenate": lambda axis, *xs: np.concatenate(xs, axis),
}
"""What only moves, repeats or drops entries."""


def move(node: Node, *xs):
    return MOVES[node.attributes["move"]](*node.attributes["arguments"], *xs)


def masked(z, *mask):
    """Logits in which a mask's lowest numbers are what they stand for, -inf."""
    return np.where(mask[0] < -1e30, -np.inf, z) if mask else z


def _linear(node, x, weight, bias=0.0):
    return x * weight if node.attributes.get("entrywise") else x @ weight + bias


def _layer_norm(node, x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + node.attributes["norm_eps"]) * weight + bias


def _rms_norm(node, x, weight=1.0):
    square = (x**2).mean(axis=-1, keepdims=True)
    return x / np.sqrt(square + node.attributes["norm_eps"]) * weight


FORWARD = {
    MOVE: move,
    kinds.LINEAR: _linear,
    kinds.ADD: lambda node, *xs: reduce(np.add, xs),
    kinds.SCORES: lambda node, q, k: node.attributes["scale"] * (q @ k.swapaxes(-1, -2)),
    kinds.SOFTMAX: lambda node, z, *mask: rules.softmax(masked(z, *mask)),
    kinds.READOUT: lambda node, a, v: a @ v,
    kinds.BILINEAR: lambda node, a, b: a @ b,
    kinds.PRODUCT: lambda node, *xs: reduce(np.multiply, xs),
    kinds.LAYER_NORM: _layer_norm,
    kinds.RMS_NORM: _rms_norm,
    kinds.ACTIVATION: lambda node, x: ACTIVATIONS[node.attributes["function"]](x),
}


def forward(order: list[Node], leaves: Mapping[Node, object]) -> dict[Node, np.ndarray]:
    """The value of every node that is no parameter, from those of the leaves."""
    values: dict[Node, np.ndarray] = {}
    for node in order:
        if node.op == INPUT:
            values[node] = array(leaves[node])
        elif node.op not in LEAVES:
            values[node] = FORWARD[node.op](node, *operands(node, values, leaves))
    return values


def array(value) -> np.ndarray:
    return np.asarray(value, dtype=np.float64)


def operands(node: Node, values, leaves) -> list[np.ndarray]:
    """Those of an operation; parameters are widened to float64 only while they are needed."""
    return [values[x] if x in values else array(leaves[x]) for x in node.args]


def _of_linear(node, rule, xs, r, eps):
    if node.attributes.get("entrywise"):
        return rules.add((xs[0] * xs[1],), r, eps=eps)
    bias = xs[2] if len(xs) == 3 else np.zeros(xs[1].shape[1])
    return [rule(*xs[:2], bias, r, eps=eps)]


def _of_scores(node, rule, xs, r, eps):
    return rule(*xs, node.attributes["scale"], r, eps=eps)


def _of_softmax(node, rule, xs, r, eps):
    return [rule(masked(*xs), r, eps=eps)]


def _of_layer_norm(node, rule, xs, r, eps):
    return [rule(*xs, node.attributes["norm_eps"], r, eps=eps)]


def _of_rms_norm(node, rule, xs, r, eps):
    weight = xs[1] if len(xs) == 2 else np.ones(xs[0].shape[-1])
    return [rule(xs[0], weight, node.attributes["norm_eps"], r, eps=eps)]


MESSAGES = {
    kinds.LINEAR: _of_linear,
    kinds.ADD: lambda node, rule, xs, r, eps: rule(xs, r, eps=eps),
    kinds.SCORES: _of_scores,
    kinds.SOFTMAX: _of_softmax,
    kinds.READOUT: lambda node, rule, xs, r, eps: rule(*xs, r, eps=eps),
    kinds.BILINEAR: lambda node, rule, xs, r, eps: rule(*xs, r, eps=eps),
    kinds.PRODUCT: lambda node, rule, xs, r, eps: rule(xs, r, eps=eps),
    kinds.LAYER_NORM: _of_layer_norm,
    kinds.RMS_NORM: _of_rms_norm,
    kinds.ACTIVATION: lambda node, rule, xs, r, eps: [rule(*xs, r, eps=eps)],
}
"""By kind: how a rule of ``by_kind`` is given what it needs -> relevance of its operands."""


def _messages(node, rule, xs, r, eps):
    try:
        return MESSAGES[node.op](node, rule, xs, r, eps)
    except ZeroDivisionError as error:
        place = (node.origin.module or "(root)") if node.origin else node.name
        raise ZeroDivisionError(f"{node.op} at {place}: {error}") from error


def _moved_back(node, xs, r):
    """Each entry of ``r`` to the one it was copied from."""
    ends = np.cumsum([0, *(x.size for x in xs)])
    numbered = [
        np.arange(a, b).reshape(x.shape) for a, b, x in zip(ends, ends[1:], xs, strict=False)
    ]
    came_from = move(node, *numbered)
    sums = np.bincount(came_from.ravel(), weights=r.ravel(), minlength=ends[-1])
    return [part.reshape(x.shape) for part, x in zip(np.split(sums, ends[1:-1]), xs, strict=True)]


def _fit(message, shape):
    """Relevance of an operand that was broadcast is summed over its copies."""
    extra = message.ndim - len(shape)
    message = message.sum(axis=tuple(range(extra)))
    axes = tuple(n for n, size in enumerate(shape) if size == 1 and message.shape[n] != 1)
    return message.sum(axis=axes, keepdims=True)


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
    """Relevance of every node by the rules of ``composite``, from ``start`` at the last of them.

    ``leaves``: the value of every input and parameter; ``sent`` is filled with the total that
    each operation hands on.  Absorbed or lost: what the rules say.
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
            messages = _moved_back(node, xs, r)
        else:
            messages = _messages(node, RULES[node.op, chosen[node]], xs, r, eps)
        # there is no message for weights
        handed = [(x, m) for x, m in zip(node.args, messages, strict=False) if x in received]
        for x, message in handed:
            received[x] += _fit(message, received[x].shape)
        if sent is not None:
            sent[node] = float(sum(message.sum() for _, message in handed))
    return received

"""Rewrites of gated units, RMSNorm, soft caps and recurrences, each with its template."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

from axioms import kinds
from axioms.graph import Node, constant, leaf, parameter
from axioms.rewrites.channels import in_rows
from axioms.rewrites.rewrites import REWRITES, Rewrite, everywhere
from axioms.rewrites.templates import Template

CAP = 2  # of the activation "soft cap"


def _linear(*operands: Node) -> Node:
    return Node(kinds.LINEAR, operands)


def _activation(function: str, x: Node) -> Node:
    return Node(kinds.ACTIVATION, (x,), attributes={"function": function})


def _is(node: Node, function: str) -> bool:
    return node.op == kinds.ACTIVATION and node.attributes["function"] == function


def _decompose_silu(node: Node) -> Iterator[Node]:
    if _is(node, "silu"):
        yield node.args[0] * _activation("sigmoid", node.args[0])


def _decompose_soft_cap(node: Node) -> Iterator[Node]:
    """c tanh(x / c) in three steps."""
    if _is(node, "soft cap"):
        (x,) = node.args
        inner = _linear(x, constant("identity", x, factor=Fraction(1, CAP)))
        yield _linear(_activation("tanh", inner), constant("identity", x, factor=CAP))


def _scaled(layer: Node, factor: "int | Fraction") -> Node:
    x, *parameters = layer.args
    grown = (w * constant("ones", w, factor=factor, name=str(factor)) for w in parameters)
    return replace(layer, args=(x, *grown))


def _rescale_gate(node: Node) -> Iterator[Node]:
    """relu(x W) (x V) with twice W and half of V."""
    if node.op != kinds.PRODUCT or len(node.args) != 2:
        return
    gate, signal = node.args
    if _is(gate, "relu") and {gate.args[0].op, signal.op} == {kinds.LINEAR}:
        opened = replace(gate, args=(_scaled(gate.args[0], 2),))
        yield replace(node, args=(opened, _scaled(signal, Fraction(1, 2))))


def _diagonal(weight: Node) -> Node:
    return constant("identity", weight, name="I") * in_rows(weight, constant("identity", weight))


def _fold_norm_weight(node: Node) -> Iterator[Node]:
    """The layer behind RMSNorm takes over its weight."""
    if node.op == kinds.LINEAR and node.args[0].op == kinds.RMS_NORM:
        norm, w, *bias = node.args
        x, weight = norm.args
        plain = replace(norm, args=(x, constant("ones", weight)))
        yield _linear(plain, _diagonal(weight) @ w, *bias)


def _decompose_rms_norm(node: Node) -> Iterator[Node]:
    """Divide by the root of the mean square plus norm-epsilon, and scale."""
    if node.op == kinds.RMS_NORM:
        x, weight = node.args
        h = constant("ones", x, factor=node.attributes.get("norm_eps", 0), name="h")
        square = _linear(x * x, constant("mean", x))
        yield _linear(x * _activation("reciprocal root", square + h), _diagonal(weight))


def _layer_norm_by_rms(node: Node) -> Iterator[Node]:
    """Centre, RMSNorm and shift."""
    if node.op == kinds.LAYER_NORM:
        x, weight, bias = node.args
        centred = _linear(x, constant("centring", x))
        norm = Node(kinds.RMS_NORM, (centred, weight), attributes=node.attributes)
        yield _linear(norm, constant("identity", weight, name="I"), bias)


def _readouts(node: Node) -> Iterator[Node]:
    """C (A h) as (C A) h: a recurrence as a matrix of attention."""
    if node.op == kinds.READOUT and node.args[1].op == kinds.READOUT:
        outer, (inner, state) = node.args[0], node.args[1].args
        yield replace(node, args=(Node(kinds.READOUT, (outer, inner)), state))


def _distribute_readout(node: Node) -> Iterator[Node]:
    """C (g + h) as C g + C h."""
    if node.op == kinds.READOUT and node.args[1].op == kinds.ADD:
        weights, total = node.args
        yield replace(total, args=tuple(replace(node, args=(weights, t)) for t in total.args))


OF_UNITS: dict[str, Rewrite] = {
    name: partial(everywhere, alternatives)
    for name, alternatives in {
        "decompose SiLU": _decompose_silu,
        "rescale a ReGLU": _rescale_gate,
        "decompose soft cap": _decompose_soft_cap,
        "fold weight of RMSNorm": _fold_norm_weight,
        "decompose RMSNorm": _decompose_rms_norm,
        "LayerNorm by RMSNorm": _layer_norm_by_rms,
        "recurrence as attention": _readouts,
        "distribute a readout": _distribute_readout,
    }.items()
}
OF_UNITS |= {"re-bracket a SwiGLU": REWRITES["re-associate products"]}
"""Rewrites by name, as ``REWRITES``; the last is one of those, applied to x sigmoid(x) y."""

a, b, c, x, h = map(leaf, "abcxh")
w, v, g, t = map(parameter, "wvgt")
NORM = {"x": (1, 2), "g": (1, 2)}
STATE = {"c": (1, 2), "a": (2, 2), "h": (2, 1)}


def _norm(op: str, *parameters: Node) -> Node:
    return Node(op, (x, *parameters), attributes={"norm_eps": 1})


def _readout(weights: Node, values: Node) -> Node:
    return Node(kinds.READOUT, (weights, values))


UNITS: dict[str, list[Template]] = {
    "decompose SiLU": [Template(root=_activation("silu", a), generic={"a": (1, 1)})],
    "re-bracket a SwiGLU": [
        Template(root=(a * _activation("sigmoid", a)) * b, generic={"a": (1, 1), "b": (1, 1)})
    ],
    "rescale a ReGLU": [
        Template(
            root=_activation("relu", _linear(x, w)) * _linear(x, v),
            generic={"x": (1, 2), "w": (2, 1), "v": (2, 1)},
        )
    ],
    "decompose soft cap": [Template(root=_activation("soft cap", a), generic={"a": (1, 1)})],
    "fold weight of RMSNorm": [
        Template(root=_linear(_norm(kinds.RMS_NORM, g), w), generic=NORM | {"w": (2, 1)})
    ],
    "decompose RMSNorm": [Template(root=_norm(kinds.RMS_NORM, g), generic=NORM)],
    "LayerNorm by RMSNorm": [
        Template(root=_norm(kinds.LAYER_NORM, g, t), generic=NORM | {"t": (1, 2)})
    ],
    "recurrence as attention": [Template(root=_readout(c, _readout(a, h)), generic=STATE)],
    "distribute a readout": [
        Template(root=_readout(c, b + h), generic={"c": (1, 2), "b": (2, 1), "h": (2, 1)})
    ],
}
"""Where each applies; the shapes are the least in which nothing is degenerate."""

"""Rewrites of norms, activations, gated units, soft caps and recurrences."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import Node, activation, constant, leaf, linear, parameter, readout
from lrp_axioms.axioms.rewrites.channels import in_rows, scaled, with_outputs
from lrp_axioms.axioms.rewrites.places import over
from lrp_axioms.axioms.rewrites.products import reassociate
from lrp_axioms.axioms.rewrites.rewrite import OF_UNITS, Alternatives, Canonized, Rewrite, Template

CAP = 2  # of the activation "soft cap"


def _is(node: Node, function: str) -> bool:
    return node.op == kinds.ACTIVATION and node.attributes.get("function") == function


def _centre(node: Node) -> Iterator[Node]:
    if node.op == kinds.LAYER_NORM:
        x, w, b = node.args
        yield replace(node, args=(linear(x, constant("centring", x)), w, b))


def _normalize(x: Node, norm: Node) -> Node:
    """Rows over the root of their mean square plus the norm-epsilon of ``norm``."""
    like = norm.args[0]
    h = constant("ones", like, factor=norm.attributes.get("norm_eps", 0), name="h")
    square = linear(x * x, constant("mean", like))
    return x * activation("reciprocal root", square + h)


def _diagonal(weight: Node) -> Node:
    return constant("identity", weight, name="I") * in_rows(weight, constant("identity", weight))


def _decompose_layer_norm(node: Node) -> Iterator[Node]:
    """Centre, divide, scale and shift."""
    if node.op == kinds.LAYER_NORM:
        x, w, b = node.args
        centred = linear(x, constant("centring", x))
        yield linear(_normalize(centred, node), _diagonal(w), b)


def _decompose_rms_norm(node: Node) -> Iterator[Node]:
    """Divide and scale."""
    if node.op == kinds.RMS_NORM:
        x, w = node.args
        yield linear(_normalize(x, node), _diagonal(w))


def _layer_norm_by_rms(node: Node) -> Iterator[Node]:
    """Centre, RMSNorm and shift."""
    if node.op == kinds.LAYER_NORM:
        x, weight, bias = node.args
        centred = linear(x, constant("centring", x))
        norm = Node(kinds.RMS_NORM, (centred, weight), attributes=node.attributes)
        yield linear(norm, constant("identity", weight, name="I"), bias)


def _fold_norm_weight(node: Node) -> Iterator[Node]:
    """The layer behind RMSNorm takes over its weight."""
    if node.op == kinds.LINEAR and node.args[0].op == kinds.RMS_NORM:
        norm, w, *bias = node.args
        x, weight = norm.args
        plain = replace(norm, args=(x, constant("ones", weight)))
        yield linear(plain, _diagonal(weight) @ w, *bias)


def _times(whole: str, part: str) -> Alternatives:
    """An activation as x times another one of x."""

    def decomposed(node: Node) -> Iterator[Node]:
        if _is(node, whole):
            yield node.args[0] * activation(part, node.args[0])

    return decomposed


def decompose_softmax(node: Node) -> Iterator[Node]:
    """exp, the sum of every row, its reciprocal, and their product."""
    if node.op == kinds.SOFTMAX:
        e = activation("exp", node.args[0])
        yield e * activation("reciprocal", linear(e, constant("square of ones", e)))


def _decompose_soft_cap(node: Node) -> Iterator[Node]:
    """c tanh(x / c) in three steps."""
    if _is(node, "soft cap"):
        (x,) = node.args
        inner = linear(x, constant("identity", x, factor=Fraction(1, CAP)))
        yield linear(activation("tanh", inner), constant("identity", x, factor=CAP))


def _rescale_gate(node: Node) -> Iterator[Node]:
    """relu(x W) (x V) with twice W and half of V."""
    if node.op != kinds.PRODUCT or len(node.args) != 2:
        return
    gate, signal = node.args
    if _is(gate, "relu") and {gate.args[0].op, signal.op} == {kinds.LINEAR}:
        opened = replace(gate, args=(with_outputs(gate.args[0], scaled(2)),))
        yield replace(node, args=(opened, with_outputs(signal, scaled(Fraction(1, 2)))))


def _recurrence(node: Node) -> Iterator[Node]:
    """C (A h) as (C A) h: a recurrence as a matrix of attention."""
    if node.op == kinds.READOUT and node.args[1].op == kinds.READOUT:
        outer, (inner, state) = node.args[0], node.args[1].args
        yield replace(node, args=(readout(outer, inner), state))


def _distribute_readout(node: Node) -> Iterator[Node]:
    """C (g + h) as C g + C h."""
    if node.op == kinds.READOUT and node.args[1].op == kinds.ADD:
        weights, total = node.args
        yield replace(total, args=tuple(replace(node, args=(weights, t)) for t in total.args))


a, b, c, x, h = map(leaf, "abcxh")
w, v, g, t = map(parameter, "wvgt")
# Centred, two channels are one number, but with three the algebra takes minutes: more channels are
# tried at random points.
RMS_SHAPES = {"x": (1, 2), "g": (1, 2)}
RMS_NORM = Node(kinds.RMS_NORM, (x, g), attributes={"norm_eps": 1})
LAYER_NORM = Template(
    Node(kinds.LAYER_NORM, (x, g, t), attributes={"norm_eps": 1}), RMS_SHAPES | {"t": (1, 2)}
)
SCALARS = {"a": (1, 1), "b": (1, 1)}

REWRITES = (
    Rewrite("centre before LayerNorm", _centre, [LAYER_NORM], canonized=Canonized.IN_THE_LIMIT,
            applies=over(kinds.LAYER_NORM)),
    Rewrite("decompose LayerNorm", _decompose_layer_norm, [LAYER_NORM],
            applies=over(kinds.LAYER_NORM)),
    Rewrite("decompose GELU", _times("gelu", "phi"),
            [Template(activation("gelu", a), {"a": (1, 1)})],
            applies=lambda node: [node] if _is(node, "gelu") else []),
    Rewrite("decompose softmax", decompose_softmax,
            [Template(Node(kinds.SOFTMAX, (x,)), {"x": (1, 2)})], applies=over(kinds.SOFTMAX)),
    Rewrite("decompose SiLU", _times("silu", "sigmoid"),
            [Template(activation("silu", a), {"a": (1, 1)})], board=OF_UNITS),
    Rewrite("re-bracket a SwiGLU", reassociate(kinds.PRODUCT),
            [Template((a * activation("sigmoid", a)) * b, SCALARS)], board=OF_UNITS),
    Rewrite("rescale a ReGLU", _rescale_gate,
            [Template(activation("relu", linear(x, w)) * linear(x, v),
                      {"x": (1, 2), "w": (2, 1), "v": (2, 1)})],
            board=OF_UNITS),
    Rewrite("decompose soft cap", _decompose_soft_cap,
            [Template(activation("soft cap", a), {"a": (1, 1)})], board=OF_UNITS),
    Rewrite("fold weight of RMSNorm", _fold_norm_weight,
            [Template(linear(RMS_NORM, w), RMS_SHAPES | {"w": (2, 1)})], board=OF_UNITS),
    Rewrite("decompose RMSNorm", _decompose_rms_norm, [Template(RMS_NORM, RMS_SHAPES)],
            board=OF_UNITS),
    Rewrite("LayerNorm by RMSNorm", _layer_norm_by_rms, [LAYER_NORM], board=OF_UNITS),
    Rewrite("recurrence as attention", _recurrence,
            [Template(readout(c, readout(a, h)), {"c": (1, 2), "a": (2, 2), "h": (2, 1)})],
            board=OF_UNITS),
    Rewrite("distribute a readout", _distribute_readout,
            [Template(readout(c, b + h), {"c": (1, 2), "b": (2, 1), "h": (2, 1)})], board=OF_UNITS),
)  # fmt: skip

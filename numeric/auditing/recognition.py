"""Operations that a model spells out in several steps, recognised by their structure alone."""

import math
from dataclasses import replace
from functools import reduce
from itertools import product

from axioms import kinds
from axioms.graph import MOVE, PARAMETER, Node, rebuild, topological
from numeric.auditing.operations import ERF, INVERSE_ROOT, MEAN, POWER

HIDDEN = -1e30  # a logit below it is one that a mask took out


def recognise(root: Node, values: dict[Node, object]) -> Node:
    """The graph with attention, RMSNorm and GELU as the operations that rules are stated for.

    ``values`` of parameters decide which shift of logits is a mask, and which constants make a
    GELU; parameters that the new nodes need are added to it.
    """
    for step in (_rms_norm, _rms_norm_weight, _gelu, _attention):
        root = rebuild(root, lambda node, step=step: step(node, values) or node)
    return root


def _scalar(node, values):
    """The number that a parameter is, or None."""
    value = values[node] if node.op == PARAMETER else None
    return None if value is None or value.ndim else float(value)


def _factor(node, values):
    """(x, c) of c x with a number c."""
    if node.op != kinds.LINEAR or not node.attributes.get("entrywise"):
        return None, None
    x, factor = node.args
    return x, _scalar(factor, values)


def _shift(node, values):
    """(x, c) of x + c with a number c."""
    if node.op != kinds.ADD or len(node.args) != 2:
        return None, None
    return node.args[0], _scalar(node.args[1], values)


def _rms_norm(node, values):
    """x / root(mean(x²) + small)."""
    if node.op != kinds.PRODUCT or node.args[1].op != INVERSE_ROOT:
        return None
    x, root = node.args
    mean, small = _shift(root.args[0], values)
    if small is None or mean.op != MEAN or mean.args[0].op != POWER:
        return None
    square = mean.args[0]
    if square.attributes["exponent"] != 2 or square.args[0] is not x:
        return None
    return replace(node, op=kinds.RMS_NORM, args=(x,), attributes=_with(node, norm_eps=small))


def _rms_norm_weight(node, values):
    """The weight per channel belongs to the norm."""
    if node.op != kinds.LINEAR or not node.attributes.get("entrywise"):
        return None
    norm, weight = node.args
    if norm.op != kinds.RMS_NORM or len(norm.args) > 1 or values[weight].ndim != 1:
        return None
    return replace(norm, args=(norm.args[0], weight), origin=node.origin)


def _gelu(node, values):
    """x/2 · (1 + f(...)), the GELUs that are spelled out: f is erf or tanh of a polynomial."""
    if node.op != kinds.PRODUCT:
        return None
    x, half = _factor(node.args[0], values)
    f, one = _shift(node.args[1], values)
    if half != 0.5 or one != 1:
        return None
    name = f.op if f.op == ERF else f.attributes.get("function")
    found = _polynomial(f.args[0], x, values) if name in GELUS else None
    called, wanted = GELUS.get(name, ("", {}))
    if not found or found.keys() != wanted.keys():
        return None
    if not all(math.isclose(found[power], wanted[power]) for power in wanted):
        return None
    return replace(node, op=kinds.ACTIVATION, args=(x,), attributes=_with(node, function=called))


SLOPE = math.sqrt(2 / math.pi)
GELUS = {
    "tanh": ("gelu tanh", {1: SLOPE, 3: SLOPE * 0.044715}),
    ERF: ("gelu", {1: math.sqrt(1 / 2)}),
}
"""By the function inside: the name of the GELU, and the coefficients of its polynomial."""


def _polynomial(node, x, values):
    """Power of ``x`` -> coefficient, or None if ``node`` is no polynomial of ``x``."""
    if node is x:
        return {1: 1.0}
    if node.op == PARAMETER:
        number = _scalar(node, values)
        return None if number is None else {0: number}
    is_product = node.op == kinds.PRODUCT or node.attributes.get("entrywise")
    if not (is_product or node.op in (kinds.ADD, POWER)):
        return None
    parts = [_polynomial(part, x, values) for part in node.args]
    if None in parts:
        return None
    if node.op == kinds.ADD:
        return {k: sum(p.get(k, 0) for p in parts) for k in set().union(*parts)}
    if node.op == POWER:
        exponent = node.attributes["exponent"]
        if exponent not in range(1, 4):
            return None
        parts *= int(exponent)
    return reduce(_times, parts)


def _times(p, q):
    found: dict = {}
    for (i, a), (j, b) in product(p.items(), q.items()):
        found[i + j] = found.get(i + j, 0.0) + a * b
    return found


def _attention(node, values):
    """Softmax of masked and scaled scores, and the readout of values by its weights."""
    if node.op == kinds.BILINEAR and node.args[0].op == kinds.SOFTMAX:
        return replace(node, op=kinds.READOUT)
    if node.op != kinds.SOFTMAX or len(node.args) != 1:
        return None
    logits, mask = node.args[0], ()
    if logits.op == kinds.ADD and _is_mask(logits.args[1], values):
        logits, mask = logits.args[0], logits.args[1:]
    scores = _scores(logits, values)
    return replace(node, args=(scores or logits, *mask)) if scores or mask else None


def _is_mask(node, values):
    if node.op != PARAMETER:
        return False
    value = values[node]
    return bool(((value == 0) | (value < HIDDEN)).all())


def _scores(node, values):
    """Scale · Q Kᵀ; the scale is part of Eq. 4, so that the stabiliser acts after it."""
    x, scale = _factor(node, values)
    product, scale = (node, 1.0) if scale is None else (x, scale)
    if product.op != kinds.BILINEAR:
        return None
    q, k_t = product.args
    rank = len(k_t.attributes["shape"])
    axes = (*range(rank - 2), rank - 1, rank - 2)
    if k_t.op == MOVE and k_t.attributes["arguments"] == (axes,):
        k = k_t.args[0]
    else:
        *lead, r, i = k_t.attributes["shape"]
        moved = {"move": "permute", "arguments": (axes,), "shape": (*lead, i, r)}
        k = replace(k_t, op=MOVE, args=(k_t,), attributes={**_with(k_t), **moved})
    return replace(product, op=kinds.SCORES, args=(q, k), attributes=_with(node, scale=scale))


def _with(node, **more):
    kept = {key: node.attributes[key] for key in ("shape", "layer") if key in node.attributes}
    return kept | more


def unknown(root: Node) -> list[Node]:
    """Nodes that are of no kind and no pattern."""
    return [node for node in topological(root) if node.op in (POWER, MEAN, INVERSE_ROOT, ERF)]

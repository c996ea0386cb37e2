"""What can be said of a rule of one kind: that it conserves, and which functions it sees as one.

A claim is a function of a rule ``m`` and of symbols, named by its parameters (c is positive, e0,
e1, ... are exponentials of logits).  It returns two tuples that it says are equal.  Other kinds
that a rewrite needs follow AttnLRP as epsilon -> 0: sums share, products are split in halves.
"""

from collections.abc import Callable

import sympy as sp

from axioms import kinds
from axioms.user_rules import Rule, parts


def called(rule: Rule, eps) -> Callable:
    """The rule at ``eps`` as m(operands..., R), with the output computed from the operands."""
    forward = {
        kinds.PRODUCT: lambda x, y, R: rule(x, y, x * y, R, eps),
        kinds.ADD: lambda x, y, R: rule(x, y, x + y, R, eps),
        kinds.LINEAR: lambda x, w, b, R: rule(x, w, b, _dot(x, w) + b, R, eps),
        kinds.BILINEAR: lambda a, v, R: rule(a, v, _dot(a, v), R, eps),
        kinds.SOFTMAX: lambda z, e, R: rule(z, [x / sum(e) for x in e], R, eps),
        kinds.ACTIVATION: lambda x, y, slope, R: rule(x, y, slope, R, eps),
    }
    return forward[rule.kind]


def _dot(xs, ys):
    return sum(x * y for x, y in zip(xs, ys, strict=True))


def _total(messages, *relevance):
    return (sum(parts(messages)),), (sum(relevance),)


CONSERVES = {
    kinds.PRODUCT: lambda m, x, y, R: _total(m(x, y, R), R),
    kinds.ADD: lambda m, x, y, R: _total(m(x, y, R), R),
    kinds.LINEAR: lambda m, x, y, w, u, b, R: _total(m([x, y], [w, u], b, R), R),
    kinds.BILINEAR: lambda m, a, b, v, u, R: _total(m([a, b], [v, u], R), R),
    kinds.SOFTMAX: lambda m, z0, z1, z2, e0, e1, e2, R0, R1, R2: _total(
        m([z0, z1, z2], [e0, e1, e2], [R0, R1, R2]), R0, R1, R2
    ),
    kinds.ACTIVATION: lambda m, x, y, slope, R: _total(m(x, y, slope, R), R),
}


def _commute(m, x, y, R):
    return m(x, y, R), m(y, x, R)[::-1]


def _regroup(combine):
    def claim(m, x, y, z, R):
        xy, left_z = m(combine(x, y), z, R)
        right_x, yz = m(x, combine(y, z), R)
        return (*m(x, y, xy), left_z), (right_x, *m(y, z, yz))

    return claim


def _share(x, y, R):
    """The epsilon rule of a sum as eps -> 0."""
    return x * R / (x + y), y * R / (x + y)


def _distribute_product(m, x, y, z, R):
    whole, total = m(x, y + z, R)
    xy, xz = _share(x * y, x * z, R)
    (x1, y1), (x2, z2) = m(x, y, xy), m(x, z, xz)
    return (whole, *_share(y, z, total)), (x1 + x2, y1, z2)


def _distribute_sum(m, x, y, z, R):
    """x (y + z) and x y + x z, where products are split in halves."""
    xy, xz = m(x * y, x * z, R)
    return (R / 2, *m(y, z, R / 2)), ((xy + xz) / 2, xy / 2, xz / 2)


def _split_operand(m, x, y, R):
    first, rest = m(x / 2, x / 2 + y, R)
    second, other = m(x / 2, y, rest)
    return m(x, y, R), (first + second, other)


def _reorder_inputs(m, x, y, w, u, b, R):
    return m([x, y], [w, u], b, R), m([y, x], [u, w], b, R)[::-1]


def _two_layers(m, x, hidden, w2, b2, R):
    """Relevance of the inputs ``x`` under hidden neurons (weights, bias), then one output."""
    h = [_dot(x, w) + b for w, b in hidden]
    back = [m(x, w, b, r) for (w, b), r in zip(hidden, m(h, w2, b2, R), strict=True)]
    return tuple(map(sum, zip(*back, strict=True)))


def _fold_biases(m, x, y, w, u, p, q, b, d, R):
    """Hidden neurons of weights (w, u) and (u, w), read out by p and q."""
    hidden = [([w, u], b), ([u, w], d)]
    folded = m([x, y], [w * p + u * q, u * p + w * q], b * p + d * q + b, R)
    return _two_layers(m, [x, y], hidden, [p, q], b, R), tuple(folded)


def _fold(m, x, y, w, u, p, q, R):
    return _fold_biases(m, x, y, w, u, p, q, sp.Integer(0), sp.Integer(0), R)


def _duplicate_neuron(m, x, y, w, u, p, q, b, R):
    first, second = ([w, u], b), ([u, w], b)
    once = _two_layers(m, [x, y], [first, second], [p, q], b, R)
    return once, _two_layers(m, [x, y], [first, first, second], [p / 2, p / 2, q], b, R)


def _rescale_neuron(m, x, y, w, u, p, b, c, R):
    plain = _two_layers(m, [x, y], [([w, u], b)], [p], b, R)
    return plain, _two_layers(m, [x, y], [([c * w, c * u], c * b)], [p / c], b, R)


def _reorder_keys(m, a, b, v, u, R):
    return parts(m([a, b], [v, u], R)), parts([g[::-1] for g in m([b, a], [u, v], R)])


def _transpose(m, a, b, v, u, R):
    return parts(m([a, b], [v, u], R)), parts(m([v, u], [a, b], R)[::-1])


def _split_key(m, a, b, v, u, R):
    (a1, a2, rest_a), (v1, v2, rest_v) = m([a / 2, a / 2, b], [v, v, u], R)
    return parts(m([a, b], [v, u], R)), (a1 + a2, rest_a, v1 + v2, rest_v)


def _regroup_bilinear(m, q, p, k, h, v, u, R):
    """(Q K) V and Q (K V) for Q = (q p), K = ((k h), (h k)), V = (v u)'."""
    columns = [[k, h], [h, k]]  # of K, and its rows too
    qk = [_dot([q, p], column) for column in columns]
    of_qk, left_v = m(qk, [v, u], R)
    of_q = [m([q, p], column, r)[0] for column, r in zip(columns, of_qk, strict=True)]
    left_q = map(sum, zip(*of_q, strict=True))
    kv = [_dot(row, [v, u]) for row in columns]
    right_q, of_kv = m([q, p], kv, R)
    of_v = [m(row, [v, u], r)[1] for row, r in zip(columns, of_kv, strict=True)]
    return (*left_q, *left_v), (*right_q, *map(sum, zip(*of_v, strict=True)))


def _reorder_logits(m, z0, z1, z2, e0, e1, e2, R0, R1, R2):
    reordered = m([z2, z1, z0], [e2, e1, e0], [R2, R1, R0])
    return m([z0, z1, z2], [e0, e1, e2], [R0, R1, R2]), reordered[::-1]


def _shift_logits(m, z0, z1, z2, e0, e1, e2, d, c, R0, R1, R2):
    """``c`` is exp(d)."""
    shifted = m([z0 + d, z1 + d, z2 + d], [c * e0, c * e1, c * e2], [R0, R1, R2])
    return m([z0, z1, z2], [e0, e1, e2], [R0, R1, R2]), shifted


def _compose(m, x, y, z, slope, outer, R):
    return (m(x, z, slope * outer, R),), (m(x, y, slope, m(y, z, outer, R)),)


def _gate(m, x, g, slope, R):
    """f(x) = x g(x), whose slope is g + x g', or a product, which is split in halves."""
    return (m(x, x * g, g + x * slope, R),), (R / 2 + m(x, g, slope, R / 2),)


def _rescale_activation(m, x, slope, c, R):
    return (m(x, slope * x, slope, R),), (m(c * x, c * slope * x, slope, R),)


def _rescale_factors(m, x, y, c, R):
    return m(x, y, R), m(c * x, y / c, R)


def _rescale_bilinear(m, a, b, v, u, c, R):
    return parts(m([a, b], [v, u], R)), parts(m([c * a, c * b], [v / c, u / c], R))


SAME = {
    kinds.PRODUCT: {
        "x y and y x": _commute,
        "(x y) z and x (y z)": _regroup(lambda x, y: x * y),
        "x (y + z) and x y + x z": _distribute_product,
        "x y and (c x) (y / c)": _rescale_factors,
    },
    kinds.ADD: {
        "x + y and y + x": _commute,
        "(x + y) + z and x + (y + z)": _regroup(lambda x, y: x + y),
        "x (y + z) and x y + x z": _distribute_sum,
        "x + y and x/2 + (x/2 + y)": _split_operand,
    },
    kinds.LINEAR: {
        "inputs in another order": _reorder_inputs,
        "two layers without bias and the layer they fold to": _fold,
        "two layers with bias and the layer they fold to": _fold_biases,
        "a hidden neuron and two halves of it": _duplicate_neuron,
        "a hidden neuron and c times it, read out by 1/c": _rescale_neuron,
    },
    kinds.BILINEAR: {
        "keys in another order": _reorder_keys,
        "A V and its transpose": _transpose,
        "(Q K) V and Q (K V)": _regroup_bilinear,
        "a key and two halves of it": _split_key,
        "A V and (c A) (V / c)": _rescale_bilinear,
    },
    kinds.SOFTMAX: {
        "logits in another order": _reorder_logits,
        "logits and logits + d": _shift_logits,
    },
    kinds.ACTIVATION: {
        "f(g(x)) as one operation and as two": _compose,
        "x g(x) as one operation and as a product": _gate,
        "f(x) and f(c x)/c, where f is linear for x > 0": _rescale_activation,
    },
}
"""By kind: two implementations of one function, whose relevance a rule may tell apart."""

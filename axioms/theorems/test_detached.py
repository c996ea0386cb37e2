"""LRP as a gradient: the result of one backward pass through a detached implementation.

A detached implementation computes the same values, and holds some of them constant when it is
differentiated: [y] is a held value y.

    product of n factors       (x1 [x2 ... xn] + ... + [x1 ... x(n-1)] xn) / n
    scores and readout, halved (Q [K]' + [Q] K') / (2 sqrt d)   and   (A [V] + [A] V) / 2
    CP-LRP's readout           [A] V, its scores and softmax held
    LayerNorm                  (x - mean x) w / [s] + b, and RMSNorm x w / [rms]
    activation by identity     x [y / x]
    linear, sum, softmax       as they are
"""

from collections.abc import Callable, Sequence
from functools import reduce

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, CP_LRP, Composite
from lrp_axioms.axioms.decide.denotation import same_value
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import (
    LEAVES,
    Node,
    activation,
    attend,
    leaf,
    linear,
    parameter,
    topological,
)
from lrp_axioms.axioms.rules.attention import softmax
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {61: ["Gradients"], 62: ["Gradients"]}
MEANINGS = {
    61: "LRP needs no message by message propagation: one backward pass through an implementation "
    "that holds deviations, ratios of activations and all but one factor gives the same "
    "relevance. Where a denominator is 0, the two differ.",
    62: "A softmax that gives logits their share along a path from equal weights passes on what "
    "differs from equal weights, and absorbs the rest.",
}

X, Y, Z, W, B = leaf("x"), leaf("y"), leaf("z"), parameter("w"), parameter("b")
EPS, NORM_EPS = sp.symbols("epsilon h", positive=True)
Held = Sequence[sp.Matrix]
Detached = Callable[[Sequence[sp.Matrix], Held, sp.Matrix], sp.Matrix]
"""Value of an operation from its operands, the same held, and its own value held."""


def _entrywise(*factors: sp.Matrix) -> sp.Matrix:
    return reduce(sp.Matrix.multiply_elementwise, factors)


def _one_free(multiply: Callable[..., sp.Matrix], xs: Sequence[sp.Matrix], held: Held) -> sp.Matrix:
    """The mean, over operands, of the product with all other operands held."""
    terms = [multiply(*held[:n], x, *held[n + 1 :]) for n, x in enumerate(xs)]
    return sum(terms[1:], terms[0]) / len(terms)


def _normed(x: sp.Matrix, held: sp.Matrix, *, centred: bool) -> sp.Matrix:
    """Every row divided by its held deviation, or by its root mean square."""
    spread = lambda row: row - (sp.ones(1, row.cols) * sum(row) / row.cols if centred else 0 * row)
    size = lambda row: sp.sqrt(sum(v**2 for v in spread(row)) / row.cols + NORM_EPS)
    rows = range(x.rows)
    return sp.Matrix.vstack(*(spread(x[n, :]) / size(held[n, :]) for n in rows))


_repeated = lambda row, x: sp.ones(x.rows, 1) * row  # a weight of a norm, for every token
_norm = lambda op, *rest: Node(op, (X, W, *rest), attributes={"norm_eps": NORM_EPS})
_identity = lambda xs, held, y: _entrywise(xs[0], y, held[0].applyfunc(lambda v: 1 / v))
_scores = Node(kinds.SCORES, (X, Y), attributes={"scale": sp.Rational(1, 3)})
_readout = Node(kinds.READOUT, (X, Y))
OPERATIONS: dict[str, tuple[Node, Composite, Detached]] = {
    "linear": (linear(X, W, B), ATTNLRP, lambda xs, held, y: xs[0] * xs[1] + xs[2]),
    "sum": (Node(kinds.ADD, (X, Y, Z)), ATTNLRP, lambda xs, held, y: xs[0] + xs[1] + xs[2]),
    "product of 2": (X * Y, ATTNLRP, lambda xs, held, y: _one_free(_entrywise, xs, held)),
    "product of 3": (
        Node(kinds.PRODUCT, (X, Y, Z)),
        ATTNLRP,
        lambda xs, held, y: _one_free(_entrywise, xs, held),
    ),
    "matrix product of 3": (
        Node(kinds.BILINEAR, (X, Y, Z)),
        ATTNLRP,
        lambda xs, held, y: _one_free(lambda a, b, c: a * b * c, xs, held),
    ),
    "scores": (
        _scores,
        ATTNLRP,
        lambda xs, held, y: _one_free(lambda q, k: q * k.T / 3, xs, held),
    ),
    "softmax": (Node(kinds.SOFTMAX, (X,)), ATTNLRP, lambda xs, held, y: softmax(xs[0])),
    "readout": (_readout, ATTNLRP, lambda xs, held, y: _one_free(lambda a, v: a * v, xs, held)),
    "attention of CP-LRP": (
        attend(_scores, Z),
        CP_LRP,
        lambda xs, held, y: softmax(held[0] * held[1].T / 3) * xs[2],
    ),
    "LayerNorm": (
        _norm(kinds.LAYER_NORM, B),
        ATTNLRP,
        lambda xs, held, y: (
            _entrywise(_normed(xs[0], held[0], centred=True), _repeated(xs[1], xs[0]))
            + _repeated(xs[2], xs[0])
        ),
    ),
    "RMSNorm": (
        _norm(kinds.RMS_NORM),
        ATTNLRP,
        lambda xs, held, y: _entrywise(
            _normed(xs[0], held[0], centred=False), _repeated(xs[1], xs[0])
        ),
    ),
    "exponential": (activation("exp", X), ATTNLRP, _identity),
    "reciprocal": (activation("reciprocal", X), ATTNLRP, _identity),
}
"""Each operation as a graph, the composite whose rule it takes, and its detached value."""


def operands(node: Node, n: int) -> dict[str, sp.Matrix]:
    """Generic values of ``n`` channels; 2 tokens, or 1 where roots and exponentials are many."""
    single = (kinds.SOFTMAX, kinds.LAYER_NORM, kinds.RMS_NORM)
    tokens = 1 if node.op in single else 2
    shapes = {"x": (tokens, n), "y": (tokens, n), "z": (tokens, n), "w": (n, n), "b": (1, n)}
    if node.op == kinds.BILINEAR or node is _readout:
        shapes |= {"y": (n, 2), "z": (2, n)}
    if node.op in single:
        shapes["w"] = (1, n)
    if node.op == kinds.LINEAR:
        shapes |= {"x": (1, n)}
    leaves = [node.name for node in topological(node) if node.op in LEAVES]
    return {name: generic(name, *shapes[name]) for name in leaves}


def gradient(detached: Detached, xs: Sequence[sp.Matrix], y: sp.Matrix, g: sp.Matrix) -> Held:
    """Gradient of <g, detached value> by every operand; held values are put in afterwards."""
    held = [generic(f"held{k}", *x.shape) for k, x in enumerate(xs)]
    own = generic("own", *y.shape)
    known = {
        h: v
        for symbols, values in zip((*held, own), (*xs, y), strict=True)
        for h, v in zip(symbols, values, strict=True)
    }
    f = sum(_entrywise(g, detached(xs, held, own)))
    return [x.applyfunc(lambda e: sp.diff(f, e).subs(known)) for x in xs]


@pytest.mark.theorem(
    61,
    "As epsilon -> 0, every rule of AttnLRP and of CP-LRP passes the relevance y g of its output y "
    "on as x times the gradient by x of <g, detached y>, for any g.",
    "proved",
    scope="1, 2 and 3 channels of 1 or 2 tokens; products of matrices and LayerNorm of 2 channels",
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_rule_is_input_times_the_gradient_of_a_detached_operation(name, record_property):
    graph, composite, detached = OPERATIONS[name]
    widths = (2,) if graph.op in (kinds.BILINEAR, kinds.LAYER_NORM) else (1, 2, 3)
    for n in widths:
        point = operands(graph, n)
        y = evaluate(graph, point)[graph]
        g = generic("g", *y.shape)
        found = explain(graph, point, composite, relevance=_entrywise(y, g))
        slopes = gradient(detached, [*point.values()], y, g)
        for (leaf_name, x), slope in zip(point.items(), slopes, strict=True):
            if leaf_name in found:  # weights have no relevance
                assert same_value(found[leaf_name], _entrywise(x, slope))
    record_property("method", f"cancel over generic operands of {widths} channels and a generic g")


def block() -> Node:
    """A product of three, a residual sum and attention; they share most operands."""
    scores = Node(kinds.SCORES, (X, Y), attributes={"scale": 1})
    read = attend(scores, Y)
    stream = X + linear(read, W, B)
    return Node(kinds.PRODUCT, (stream, activation("reciprocal", X), stream))


def detached_block(
    x: sp.Matrix, y: sp.Matrix, held_x: sp.Matrix, held_y: sp.Matrix, *, halved: bool
) -> sp.Matrix:
    """``block`` detached by hand, in one channel: attention by AttnLRP (``halved``) or CP-LRP."""
    weights = lambda q, k: softmax(q * k.T)
    a = weights(held_x, held_y)
    free = (weights(x, held_y) + weights(held_x, y)) / 2
    read = (free * held_y + a * y) / 2 if halved else a * y
    residual = lambda x, read: x + POINT["w"][0] * read + POINT["b"][0] * sp.ones(2, 1)
    stream, held = residual(x, read), residual(held_x, a * held_y)
    active = held_x.applyfunc(lambda v: 1 / v)
    first_or_last, second = _entrywise(stream, active, held), _entrywise(x, active, active)
    return (2 * first_or_last + _entrywise(held, second, held)) / 3


POINT = {"x": generic("x", 2, 1), "y": generic("y", 2, 1)}
POINT |= {"w": generic("w", 1, 1), "b": generic("b", 1, 1)}


@pytest.mark.theorem(
    61,
    "On every graph of these operations, relevance is, as epsilon -> 0 and where no denominator is "
    "0, input times the gradient of the detached graph: one backward pass gives all of it.",
    "proved",
    scope="one graph of 2 tokens; any graph by induction",
)
@pytest.mark.parametrize("composite", [ATTNLRP, CP_LRP], ids=lambda composite: composite.name)
def test_relevance_is_input_times_the_gradient_of_the_detached_graph(composite, record_property):
    graph, (x, y) = block(), (POINT["x"], POINT["y"])
    found = explain(graph, POINT, composite)
    held = [generic(f"held_{name}", 2, 1) for name in "xy"]
    known = dict(zip([*held[0], *held[1]], [*x, *y], strict=True))
    f = sum(detached_block(x, y, *held, halved=composite is ATTNLRP))
    for name, leaf_value in (("x", x), ("y", y)):
        slope = leaf_value.applyfunc(lambda e: sp.diff(f, e).subs(known))
        assert same_value(found[name], _entrywise(leaf_value, slope))
    record_property(
        "method",
        "induction from the output down: relevance arrives as value times g, uses of a value add "
        "up as in the chain rule, and the statement before does one operation; one graph by hand",
    )


@pytest.mark.theorem(
    61,
    "As epsilon -> 0, relevance is input times the gradient of the detached graph also where a sum "
    "is 0.",
    "refuted",
)
def test_at_a_zero_denominator_the_gradient_goes_on_and_relevance_stops(record_property):
    graph, (a, b, g) = X + Y, sp.symbols("a b g", real=True)
    at = {"eps": EPS, "relevance": (a + b) * g, "signs": {graph: sp.ones(1, 1)}}
    found = explain(graph, {"x": a, "y": b}, ATTNLRP, **at)["x"]
    assert identical(found.subs(b, -a), 0)  # at every epsilon
    assert differ_at(found, a * g, where((a, 1), (b, -1), (g, 1), (EPS, sp.Rational(1, 4))))
    record_property(
        "witness", "1 + (-1), g = 1: the first gets 0 at every epsilon, its gradient is 1"
    )


@pytest.mark.theorem(
    61,
    "As epsilon -> 0, relevance by the epsilon rule without the bias in the denominator is input "
    "times the gradient of the detached graph.",
    "refuted",
)
def test_without_the_bias_the_inputs_get_more(record_property):
    x, w, b, g = (generic(name, 1, 1) for name in "xwbg")
    graph = linear(X, W, B)
    rules = {**ATTNLRP.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
    value = x * w + b
    point = {"x": x, "w": w, "b": b}
    found = explain(graph, point, Composite("no bias", rules), relevance=value * g[0])["x"]
    witness = where((x, [2]), (w, [3]), (b, [1]), (g, [1]))
    assert differ_at(found[0], (x * w * g[0])[0], witness)
    record_property("witness", "x = 2, w = 3, b = 1, g = 1: the rule gives 7, the gradient 6")


@pytest.mark.theorem(
    62,
    "Along the straight path from equal weights to z, the shares of the logits in weight A_i, the "
    "sum over k of z_k times the mean slope of A_i by z_k, add up to A_i - 1/n: a softmax that "
    "gives logit k the sum over i of R_i/A_i times its share absorbs exactly R_i/(n A_i).",
    "proved",
    scope="n = 2 and 3 logits",
)
def test_a_softmax_along_a_path_absorbs_what_equal_weights_send():
    t = sp.Symbol("t", positive=True)
    for n in (2, 3):
        z, r = generic("z", 1, n), generic("r", 1, n)
        path = softmax(t * z)
        for i in range(n):
            slopes = (sp.diff(softmax(z)[i], z[k]).subs(dict(zip(z, t * z, strict=True)))
                      for k in range(n))  # fmt: skip
            along = sum(z[k] * slope for k, slope in enumerate(slopes))
            assert same_value(along, sp.diff(path[i], t))
        whole = softmax(z)
        given = sum(r[i] / whole[i] * (path[i].subs(t, 1) - path[i].subs(t, 0)) for i in range(n))
        absorbed = sum(r[i] / (n * whole[i]) for i in range(n))
        assert same_value(given, sum(r) - absorbed)

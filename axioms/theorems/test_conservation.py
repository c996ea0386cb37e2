"""Conservation of whole networks: what the inputs receive is R less what every operation absorbs.

Main statements
  24  on every graph, with any rule, the relevance of the leaves and all that operations absorb
      add up to R: so a graph of operations that conserve conserves
  24  a network may conserve although none of its operations does
  25  in a BERT layer by AttnLRP, biases and stabilisers of linear layers and norms absorb
      R (b + eps s)/(z + eps s), stabilisers of sums R eps s/(z + eps s) and of Eqs. 3 and 4
      R eps s/(2 z + eps s), and Eq. 5 absorbs the sum of R_i (1 - z_i + zbar); activations nothing
  25  as eps -> 0 and without biases only Eq. 5 is left, and by the value-only rule nothing
"""

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP
from axioms.decide import differ_at, identical
from axioms.graph import INPUT, LEAVES, Node, leaf, parameter, topological
from axioms.propagate import evaluate, propagate
from axioms.rules import alpha_beta, epsilon, stabilize

R = sp.Symbol("R", real=True)


def leaky(root):
    """The sweep with a generic message factor for every operand of every operation.

    Returns the relevance of all leaves together and what each operation absorbed.
    """
    order = topological(root)
    received = dict.fromkeys(order, sp.Integer(0)) | {root: R}
    absorbed = []
    for place, node in enumerate(reversed(order)):
        if not node.args:
            continue
        factors = [sp.Symbol(f"f{place}_{k}") for k in range(len(node.args))]
        for arg, factor in zip(node.args, factors, strict=True):
            received[arg] += factor * received[node]
        absorbed.append(received[node] * (1 - sum(factors)))
    return sum(received[node] for node in order if not node.args), absorbed


def shapes():
    """A chain, a tree, an operand used twice, and a diamond with a skip."""
    x, y, z = map(leaf, "xyz")
    shared = x + y
    below = shared * z
    return {
        "chain": Node("f", (Node("g", (Node("h", (x,)),)),)),
        "tree": (x * y) + (z * y),
        "operand used twice": (x + y) * (x + x),
        "diamond with a skip": (below + shared) * (below @ shared) + x,
    }


@pytest.mark.theorem(
    24,
    "Whatever the rules, the relevance of the leaves and what every operation absorbs add up to R: "
    "a finite graph of operations that conserve conserves.",
    "proved",
)
@pytest.mark.parametrize("name", shapes())
def test_relevance_is_received_or_absorbed(name, record_property):
    leaves, absorbed = leaky(shapes()[name])
    assert identical(leaves + sum(absorbed), R)
    assert not identical(leaves, R)
    record_property(
        "method", "induction: a node hands on what it does not absorb; four shapes, any factors"
    )


@pytest.mark.theorem(
    24,
    "A network conserves relevance only if each of its operations does.",
    "refuted",
)
def test_losses_can_cancel(record_property):
    one, r = sp.ones(1, 1), sp.ones(1, 1)
    (after,) = alpha_beta(2 * one, one, r, eps=1, alpha=3, beta=2)
    (before,) = epsilon(one, one, after, eps=0, bias=one)
    assert differ_at(after[0], r[0], {})
    assert differ_at(before[0], after[0], {})
    assert before == r
    record_property(
        "witness",
        f"y = h by alpha-beta (3, 2) at eps = 1, h = x + 1 by Eq. 1, x = 1: R = {r[0]}, "
        f"{after[0]} at h, {before[0]} at x",
    )


LOG_2 = sp.Symbol("log_2", positive=True)  # the only number of the layer that is not rational
WEIGHTS = {
    "q": [[2], [1]],
    "k": [[3], [-1]],
    "v": [[1, -1], [2, 3]],
    "out": [[1, 2], [-1, 1]],
    "up": [[1, 2], [3, -1]],
    "down": [[2, 1], [1, -1]],
    "norm1": [[1, 2]],
    "norm2": [[3, -1]],
}
BIASES = {
    "q": [[1]],
    "k": [[-2]],
    "v": [[1, 2]],
    "out": [[2, -1]],
    "up": [[1, 3]],
    "down": [[-1, 1]],
    "norm1": [[2, 3]],
    "norm2": [[1, 2]],
}


def bert_layer():
    """One layer of BERT with one head: attention and MLP, each with a residual and LayerNorm.

    ReLU stands for GELU, which the identity rule treats alike, to keep all values rational.
    """

    def dense(name, x):
        return Node(kinds.LINEAR, (x, parameter(f"{name} W"), parameter(f"{name} b")))

    def norm(name, x):
        return Node(kinds.LAYER_NORM, (x, parameter(f"{name} W"), parameter(f"{name} b")))

    x = leaf("x")
    weights = Node(kinds.SOFTMAX, (Node(kinds.SCORES, (dense("q", x), dense("k", x))),))
    attended = Node(kinds.READOUT, (weights, dense("v", x)))
    middle = norm("norm1", dense("out", attended) + x)
    active = Node(kinds.ACTIVATION, (dense("up", middle),), attributes={"function": "relu"})
    return norm("norm2", dense("down", active) + middle)


def layer_point(*, bias):
    """Small numbers; the keys are multiples of log 2, so that every exponential is rational."""
    point = {"x": sp.Matrix([[1, -1], [1, 2]])}
    for name, weight in WEIGHTS.items():
        unit = sp.log(2) if name == "k" else 1
        point[f"{name} W"] = sp.Matrix(weight) * unit
        point[f"{name} b"] = sp.Matrix(BIASES[name]) * unit * bias
    return point


def with_bias(node, z, operands, r, eps):
    """Sum of R (b + eps s)/(z + eps s)."""
    b = operands[2]
    return sum(
        r[n, k] * (b[k] + stabilize(z[n, k], eps=eps) - z[n, k]) / stabilize(z[n, k], eps=eps)
        for n in range(z.rows)
        for k in range(z.cols)
    )


def by_stabiliser(factor):
    """Sum of R eps s/(factor z + eps s)."""

    def absorbed(node, z, operands, r, eps):
        pushed = z.applyfunc(lambda e: stabilize(e, eps=eps) - e)
        return sum(c * push / (factor * e + push) for c, push, e in zip(r, pushed, z, strict=True))

    return absorbed


def by_softmax(node, a, operands, r, eps):
    """Sum of R_i (1 - z_i + zbar), zbar the mean logit of the row."""
    (z,) = operands
    return sum(
        r[j, i] * (1 - z[j, i] + sum(a[j, k] * z[j, k] for k in range(z.cols)))
        for j in range(z.rows)
        for i in range(z.cols)
    )


LEMMAS = {
    kinds.LINEAR: with_bias,  # theorem 6
    kinds.LAYER_NORM: with_bias,  # theorem 13
    kinds.ADD: by_stabiliser(1),  # theorem 6
    kinds.READOUT: by_stabiliser(2),  # theorem 7
    kinds.SCORES: by_stabiliser(2),  # theorem 7
    kinds.SOFTMAX: by_softmax,  # theorem 10
    kinds.ACTIVATION: lambda node, z, operands, r, eps: 0,
}
# value-only: nothing reaches the weights, and V receives R O/(O + eps s)  (theorem 7)
VALUE_ONLY_LEMMAS = LEMMAS | {kinds.READOUT: by_stabiliser(1)}


def ledger(composite, lemmas, *, bias, eps):
    """R, what x receives in all, and what every kind of operation absorbs by its lemma."""
    root, point = bert_layer(), layer_point(bias=bias)
    values = evaluate(root, point)
    received = propagate(root, point, composite, eps=eps)
    absorbed = dict.fromkeys(lemmas, sp.Integer(0))
    for node, r in received.items():
        if node.op not in LEAVES:
            operands = [values[arg] for arg in node.args]
            absorbed[node.op] += lemmas[node.op](node, values[node], operands, r, eps)
    (x,) = (node for node in received if node.op == INPUT)
    return [
        rational(amount) for amount in (sum(values[root]), sum(received[x]), *absorbed.values())
    ], list(absorbed)


def rational(amount):
    """The amount with log 2 named by a symbol: what holds for any number holds for it."""
    return sp.cancel(sp.sympify(amount).subs(sp.log(2), LOG_2))


EPS = sp.Rational(1, 4)
TABLES = pytest.mark.parametrize(
    ("composite", "lemmas"),
    [(ATTNLRP, LEMMAS), (CP_LRP, VALUE_ONLY_LEMMAS)],
    ids=["attnlrp", "cp-lrp"],
)


@pytest.mark.theorem(
    25,
    "In a BERT layer, R is what its input receives and what its operations absorb by theorems 6, "
    "7, 10 and 13, at epsilon = 1/4 and with biases everywhere: by AttnLRP and by CP-LRP.",
    "proved",
)
@TABLES
def test_a_bert_layer_loses_what_its_lemmas_say(composite, lemmas, record_property):
    (r, kept, *amounts), names = ledger(composite, lemmas, bias=1, eps=EPS)
    assert identical(kept + sum(amounts), r)
    bypassed = {kinds.SCORES, kinds.SOFTMAX} if composite is CP_LRP else set()
    idle = bypassed | {kinds.ACTIVATION}
    assert {name for name, amount in zip(names, amounts, strict=True) if amount == 0} == idle
    shown = ", ".join(
        f"{name} {float(amount.subs(LOG_2, sp.log(2))):.3g}"
        for name, amount in zip(names, amounts, strict=True)
    )
    record_property("method", f"2 tokens, 2 channels, {composite.name}: of {r}, {shown}")


@pytest.mark.theorem(
    25,
    "As epsilon -> 0 and without biases, the softmax alone absorbs in a BERT layer: by CP-LRP, "
    "which passes it by, the layer conserves exactly.",
    "proved",
)
@TABLES
def test_without_biases_and_stabiliser_only_the_softmax_absorbs(composite, lemmas, record_property):
    (r, kept, *amounts), names = ledger(composite, lemmas, bias=0, eps=0)
    assert identical(kept + sum(amounts), r)
    absorbing = {name for name, amount in zip(names, amounts, strict=True) if amount != 0}
    assert absorbing == ({kinds.SOFTMAX} if composite is ATTNLRP else set())
    record_property("method", f"2 tokens, 2 channels, {composite.name}: {kept} of {r} kept")

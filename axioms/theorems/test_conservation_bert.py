"""Where a BERT layer loses relevance: the lemmas about one operation, composed by a ledger."""

import operator
from functools import reduce

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, BIAS, CP_LRP, STABILISER, TAYLOR
from lrp_axioms.axioms.decide.identity import identical, lowest_terms
from lrp_axioms.axioms.graph import Node, attend, leaf, linear, parameter, relu
from lrp_axioms.axioms.rules.ledger import causes, ledger
from lrp_axioms.axioms.rules.propagate import evaluate

R = sp.Symbol("R", real=True)


# Any graph: the lemmas are computations over generic symbols (test_conservation.py); a graph of any
# size is an induction over its operations, which axioms.rules.ledger carries out.


def bert(layers=1, heads=1):
    """Layers of BERT: attention and MLP, each with a residual and LayerNorm; of no fixed width.

    The output projections of several heads are summed.  ReLU stands for GELU, which the identity
    rule treats alike, to keep all values rational.
    """

    def dense(name, x):
        return linear(x, f"{name} W", f"{name} b")

    def norm(name, x):
        return Node(kinds.LAYER_NORM, (x, parameter(f"{name} W"), parameter(f"{name} b")))

    def head(x):
        logits = Node(kinds.SCORES, (dense("q", x), dense("k", x)))
        return dense("out", attend(logits, dense("v", x)))

    x = leaf("x")
    for _ in range(layers):
        attended = [head(x) for _ in range(heads)]
        middle = norm("norm1", reduce(operator.add, attended) + x)
        active = relu(dense("up", middle))
        x = norm("norm2", dense("down", active) + middle)
    return x


# A BERT layer

ATTNLRP_CAUSES = {
    (kinds.LINEAR, BIAS),
    (kinds.LINEAR, STABILISER),
    (kinds.ADD, STABILISER),
    (kinds.SCORES, STABILISER),
    (kinds.SOFTMAX, TAYLOR),
    (kinds.READOUT, STABILISER),
    (kinds.LAYER_NORM, BIAS),
    (kinds.LAYER_NORM, STABILISER),
}
CP_LRP_CAUSES = {
    (kind, c) for kind, c in ATTNLRP_CAUSES if kind not in (kinds.SCORES, kinds.SOFTMAX)
}
BOTH = pytest.mark.parametrize(
    ("composite", "expected"),
    [(ATTNLRP, ATTNLRP_CAUSES), (CP_LRP, CP_LRP_CAUSES)],
    ids=["attnlrp", "cp-lrp"],
)


@pytest.mark.theorem(
    25,
    "As epsilon -> 0 and without biases, in BERT layers of any width the softmax alone absorbs: by "
    "CP-LRP, which passes it by, they conserve exactly.",
    "proved",
    scope="by the lemmas, any width, number of heads and of layers",
)
@BOTH
def test_without_biases_and_stabiliser_only_the_softmax_absorbs(
    composite, expected, record_property
):
    left = {(kind, c) for kind, c in causes(bert(2, 2), composite) if c not in (BIAS, STABILISER)}
    assert left == ({(kinds.SOFTMAX, TAYLOR)} if composite is ATTNLRP else set())
    r, kept, amounts = instance(composite, bias=0, eps=0)
    assert identical(kept + sum(amounts.values()), r)
    assert {key for key, amount in amounts.items() if amount != 0} == left
    record_property(
        "method",
        f"by the lemmas, where bias and stabiliser are factors; {composite.name} at 2 tokens, 2 "
        f"channels: {kept} of {r} kept",
    )


LOG_2 = sp.Symbol("log_2", real=True)  # the only number of the layer that is not rational
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


def layer_point(*, bias):
    """Small numbers; the keys are multiples of log 2, so that every exponential is rational."""
    point = {"x": sp.Matrix([[1, -1], [1, 2]])}
    for name, weight in WEIGHTS.items():
        unit = sp.log(2) if name == "k" else 1
        point[f"{name} W"] = sp.Matrix(weight) * unit
        point[f"{name} b"] = sp.Matrix(BIASES[name]) * unit * bias
    return point


def rational(amount):
    """The amount with a symbol for log 2: a proof for any number covers it."""
    return lowest_terms(sp.sympify(amount).subs(sp.log(2), LOG_2))


def instance(composite, *, bias, eps):
    """One BERT layer in numbers: R times its output, relevance of x, absorption by cause."""
    root, point = bert(), layer_point(bias=bias)
    relevance = R * evaluate(root, point)[root]
    books = ledger(root, point, composite, eps=eps, relevance=relevance)
    amounts = {key: rational(amount) for key, amount in books.by_kind().items()}
    return rational(books.started), rational(sum(books.kept.values())), amounts


@pytest.mark.theorem(
    25,
    "In a BERT layer with biases at epsilon = 1/4, biases and stabilisers of linear layers and "
    "LayerNorm, stabilisers of residual sums and readout and, by AttnLRP, the stabiliser of scores "
    "and the softmax all absorb relevance, and nothing else does.",
    "proved",
    scope="a layer of 2 tokens, 2 channels and one head, with fixed weights",
)
@BOTH
def test_each_cause_absorbs_in_a_layer_of_numbers(composite, expected, record_property):
    r, kept, amounts = instance(composite, bias=1, eps=sp.Rational(1, 4))
    assert identical(kept + sum(amounts.values()), r)
    assert {key for key, amount in amounts.items() if amount != 0} == expected
    shown = ", ".join(
        f"{kind} {cause} {float(amount.subs({LOG_2: sp.log(2), R: 1})):.3g}"
        for (kind, cause), amount in amounts.items()
        if amount != 0
    )
    record_property("method", f"2 tokens, 2 channels, {composite.name}: of {r}, {shown}")

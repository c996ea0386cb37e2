"""Conservation of whole networks: what the inputs receive is R less what every operation absorbs.

Main statements
  24  on every graph, with any rule, the relevance of the leaves and all that operations absorb
      add up to R: so a graph of operations that conserve conserves
  24  a network may conserve although none of its operations does
  25  of the R of an output entry z, biases absorb R b/(z + eps s), stabilisers R eps s/(z + eps s)
      or, of Eqs. 3 and 4, R eps s/(2 z + eps s), Eq. 5 R (1 - z + zbar), activations nothing;
      test_conservation_bert.py composes these lemmas along graphs
"""

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.decide import differ_at, generic, identical, limit
from axioms.algebra.ledger import LEMMAS, PASSED_BY, ledger, unknown_messages
from axioms.algebra.propagate import evaluate
from axioms.algebra.rules import alpha_beta, epsilon
from axioms.causes import BIAS, STABILISER
from axioms.composites import Composite
from axioms.graph import Node, leaf, parameter

R = sp.Symbol("R", real=True)
OF_RULES = [key for key in LEMMAS if key[1] != kinds.GRADIENT]  # whose lemmas are theorem 73


def shapes():
    """A chain, a tree, an operand used twice, and a diamond with a skip."""
    x, y, z = map(leaf, "xyz")
    shared = x + y
    below = shared * z
    chain = x
    for _ in range(3):
        chain = Node(kinds.ACTIVATION, (chain,), attributes={"function": "relu"})
    return {
        "chain": chain,
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
    leaves, absorbed = unknown_messages(shapes()[name], R)
    assert identical(leaves + sum(absorbed), R)
    assert not identical(leaves, R)
    record_property(
        "method",
        "induction: a node hands on what it does not absorb; the sweep over four shapes with "
        "unknown messages",
    )


@pytest.mark.theorem(
    24,
    "A network conserves relevance only if each of its operations does.",
    "refuted",
)
def test_losses_can_cancel(record_property):
    one, x, r = sp.ones(1, 1), sp.Matrix([[sp.Symbol("x", positive=True)]]), sp.Matrix([[R]])
    h = 2 * x  # x and a bias as large
    (after,) = alpha_beta(h, one, r, eps=x[0], alpha=3, beta=2)
    (before,) = epsilon(x, one, after, eps=0, bias=x)
    assert identical(before, r)
    point = {x[0]: 1, R: 1}
    assert differ_at(after[0], R, point)
    assert differ_at(before[0], after[0], point)
    record_property(
        "witness",
        "y = h by alpha-beta (3, 2) at eps = 1, h = x + 1 by Eq. 1, x = 1: R = 1, 2 at h, 1 at x",
    )


# Theorem 25: the lemmas, one operation at a time

EPS = sp.Symbol("epsilon", positive=True)
DEVIATION = sp.Symbol("S", positive=True)  # sqrt(var(x) + norm-epsilon) of LayerNorm
WIDTHS = (1, 2, 3)  # numbers of terms in the sums that a lemma is about


WITH_PARAMETERS = (kinds.LINEAR, kinds.LAYER_NORM, kinds.RMS_NORM)


def operands(kind, n):
    """Shapes of the operands of one operation whose entries are sums of n terms."""
    return {
        kinds.LINEAR: [(1, n), (n, 2), (1, 2)],
        kinds.ADD: [(1, 2)] * n,
        kinds.SCORES: [(1, n), (2, n)],
        kinds.SOFTMAX: [(1, n)],
        kinds.READOUT: [(1, n), (n, 2)],
        kinds.BILINEAR: [(1, n), (n, 2)],
        kinds.PRODUCT: [(1, 2)] * n,
        kinds.LAYER_NORM: [(1, n)] * 3,
        kinds.RMS_NORM: [(1, n)] * 2,
        kinds.ACTIVATION: [(1, n)],
    }[kind]


def one_operation(kind, n):
    """A graph of one operation, and generic values in which its output is a rational function.

    The norm-epsilon of a norm makes its root S; logits are the logarithms of their exponentials.
    """
    shapes = operands(kind, n)
    inputs = 1 if kind in WITH_PARAMETERS else len(shapes)  # which come before parameters
    leaves = [(leaf if k < inputs else parameter)(f"x{k}_") for k in range(len(shapes))]
    point = {x.name: generic(x.name, *shape) for x, shape in zip(leaves, shapes, strict=True)}
    attributes = {"function": "relu"}
    if kind == kinds.SOFTMAX:
        point["x0_"] = generic("e", 1, n, positive=True).applyfunc(sp.log)
    if kind == kinds.LAYER_NORM:
        x, mean = point["x0_"], sum(point["x0_"]) / sp.Integer(n)
        variance = sum((v - mean) ** 2 for v in x) / sp.Integer(n)
        attributes = {"norm_eps": DEVIATION**2 - variance}
    if kind == kinds.RMS_NORM:
        square = sum(v**2 for v in point["x0_"]) / sp.Integer(n)
        attributes = {"norm_eps": DEVIATION**2 - square}
    return Node(kind, tuple(leaves), attributes=attributes), point


def same(amount, other):
    """Whether two amounts agree whatever the logits are: log(e) becomes a symbol of its own."""
    return identical(sp.sympify(amount).replace(sp.log, lambda e: sp.Symbol(f"log {e}")), other)


def check_lemma(kind, rule, n, **options):
    """Raises AssertionError unless messages and lemma add up to R, for each output entry alone."""
    root, point = one_operation(kind, n)
    composite = Composite("one rule", {kind: rule})
    shape = evaluate(root, point)[root].shape
    signs = {root: generic("s", *shape)}
    for j in range(shape[0] * shape[1]):
        r = sp.zeros(*shape)
        r[j] = R
        books = ledger(root, point, composite, eps=EPS, signs=signs, relevance=r, **options)
        assert same(sum(books.kept.values()) + sum(books.absorbed.values()), R)
        for (_, cause), amount in books.absorbed.items():
            assert cause != STABILISER or same(limit(amount, EPS), 0)
            assert cause != BIAS or same(amount.subs(dict.fromkeys(point["x2_"], 0)), 0)
        for place, x in enumerate(root.args):
            assert place not in PASSED_BY.get((kind, rule), ()) or books.kept[x] == 0


@pytest.mark.theorem(
    25,
    "Of the relevance R of one output entry z, at every epsilon, a bias b, linear or LayerNorm's, "
    "absorbs exactly R b/(z + p), p = epsilon sign z, the stabiliser of n factors (n = 1 in Eq. 1) "
    "R p/(n z + p), the softmax at logit u R (1 - u + ubar), a constant all; LayerNorm's mean and "
    "activations nothing.",
    "proved",
)
@pytest.mark.parametrize(("kind", "rule"), OF_RULES)
def test_each_operation_absorbs_what_its_lemma_says(kind, rule, record_property):
    for n in WIDTHS:
        check_lemma(kind, rule, n)
    record_property(
        "method",
        f"{len(OF_RULES)} lemmas, each by cancel over generic operands, R and signs, for sums of "
        "1, 2 and 3 terms; for more, since a message is a term times a factor common to all terms",
    )

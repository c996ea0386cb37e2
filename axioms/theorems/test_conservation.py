"""Conservation of whole networks: the inputs receive R less the absorption of every operation.

Whatever the rules, what the leaves of a graph receive and what operations absorb add up to R: an
operation hands on what it does not absorb.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, CONSTANT, TAYLOR, Composite
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import Node, leaf, parameter
from lrp_axioms.axioms.rules.ledger import ledger
from lrp_axioms.axioms.rules.linear import alpha_beta, epsilon
from lrp_axioms.axioms.rules.propagate import RULES, evaluate

THEMES = {24: ["Conservation"], 25: ["Conservation"]}
DERIVATIONS = {
    25: [
        "linear",
        "add",
        "readout",
        "scores",
        "value only",
        "softmax",
        "LayerNorm, deviation held",
        "activation",
    ],
}
MEANINGS = {
    24: "A network may conserve relevance although none of its operations does, as losses can "
    "cancel.",
    25: "It is known how much each operation of a BERT layer absorbs. Without biases and as "
    "epsilon -> 0 only the softmax does, and CP-LRP, which passes it by, conserves exactly.",
}

R = sp.Symbol("R", real=True)


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


PRODUCT_RULES = (kinds.BILINEAR_EPSILON, kinds.EQUAL_SPLIT)
WITH_PARAMETERS = (kinds.LINEAR, kinds.LAYER_NORM, kinds.RMS_NORM)


def operands(kind, n):
    """Shapes of the operands of one operation whose entries are sums of n terms."""
    return {
        kinds.LINEAR: [(1, n), (n, 2), (1, 2)],
        kinds.ADD: [(1, 2)] * n,
        kinds.SCORES: [(1, n), (2, n)],
        kinds.SOFTMAX: [(1, n)],
        kinds.READOUT: [(1, n), (n, 2)],
        kinds.BILINEAR: [(1, 2), *[(2, 2)] * n],
        kinds.PRODUCT: [(1, 2)] * n,
        kinds.LAYER_NORM: [(1, n)] * 3,
        kinds.RMS_NORM: [(1, n)] * 2,
        kinds.ACTIVATION: [(1, n)],
    }[kind]


def one_operation(kind, n):
    """A graph of one operation, and generic values that make its output a rational function.

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


def same(*amounts):
    """Whether two amounts agree whatever the logits are: log(e) becomes a symbol of its own."""
    named = (sp.sympify(x).replace(sp.log, lambda e: sp.Symbol(f"log {e}")) for x in amounts)
    return identical(*named)


def stated(kind, rule, cause, node_at, j, s):
    """The amount that a cause absorbs of output entry j with sign s, by theorem 25."""
    root, point = node_at
    xs, p = [point[x.name] for x in root.args], EPS * s
    z = evaluate(root, point)[root][j]
    if cause == TAYLOR:  # of the logit u in the place of the attention weight z
        weights, (u,) = evaluate(root, point)[root], xs
        return R * (1 - u[j] + (weights * u.T)[0])
    if cause == CONSTANT:
        return R
    if cause == BIAS:
        return R * xs[2][j] / (z + p)
    if rule == kinds.EPSILON_WITHOUT_BIAS:
        z -= xs[2][j]
    return R * p / ((len(xs) if rule == kinds.BILINEAR_EPSILON else 1) * z + p)


def check_lemma(kind, rule, n):
    """Raises AssertionError unless messages and lemma add up to R, for each output entry alone."""
    root, point = one_operation(kind, n)
    composite = Composite("one rule", {kind: rule})
    shape = evaluate(root, point)[root].shape
    signs = {root: generic("s", *shape)}
    for j in range(shape[0] * shape[1]):
        r = sp.zeros(*shape)
        r[j] = R
        books = ledger(root, point, composite, eps=EPS, signs=signs, relevance=r)
        assert same(sum(books.kept.values()) + sum(books.absorbed.values()), R)
        for (_, cause), amount in books.absorbed.items():
            if rule != kinds.GRADIENT:  # whose lemmas are theorem 73
                assert same(amount, stated(kind, rule, cause, (root, point), j, signs[root][j]))
        for place, x in enumerate(root.args):
            assert place not in RULES[kind, rule].passes_by or books.kept[x] == 0


def check_lemmas(keys):
    for (kind, rule), n in itertools.product(keys, WIDTHS):
        check_lemma(kind, rule, n)


BY_EQ_1 = [
    (kinds.LINEAR, kinds.EPSILON),
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS),
    (kinds.ADD, kinds.EPSILON),
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION),
    (kinds.RMS_NORM, kinds.HELD_DEVIATION),
    (kinds.READOUT, kinds.VALUE_ONLY),
]
OF_PRODUCTS = [(kind, rule) for kind, rule in RULES if rule in PRODUCT_RULES]
OTHERS = [
    (kind, rule)
    for kind, rule in RULES
    if rule != kinds.GRADIENT and (kind, rule) not in (*BY_EQ_1, *OF_PRODUCTS)
]


@pytest.mark.theorem(
    25,
    "By Eq. 1 at a linear layer, a sum, a norm with its deviation held or a readout with its "
    "weights held, of the relevance R of one output entry z a bias b absorbs exactly R b/(z + p) "
    "and the stabiliser R p/(z + p), p = epsilon sign z, and nothing else does; with the bias left "
    "out of the denominator, the stabiliser R p/(z - b + p) alone.",
    "proved",
    scope="sums of 1, 2 and 3 terms; for more, since a message is a term times a factor common to "
    "all terms",
)
def test_by_eq_1_biases_and_stabilisers_absorb_known_parts():
    check_lemmas(BY_EQ_1)


@pytest.mark.theorem(
    25,
    "Of the relevance R of one output entry z of n multiplied matrices, the stabiliser absorbs "
    "exactly R p/(n z + p), p = epsilon sign z, and nothing else does; so it is of scores and "
    "readouts with n = 2. The equal split of a product entry by entry absorbs nothing.",
    "proved",
    scope="n = 2, 3 and 4, and sums of 1, 2 and 3 terms; for more terms, since a message is a term "
    "times a factor common to all terms, and for any n, since z is linear in each matrix",
)
def test_products_absorb_what_their_stabiliser_takes():
    check_lemmas(OF_PRODUCTS)


@pytest.mark.theorem(
    25,
    "Of the relevance R of one attention weight, Eq. 5 absorbs exactly R (1 - u + ubar), u being "
    "its logit and ubar the mean of the row's logits under the weights. Operations that are held "
    "constant absorb all, and activations and LayerNorm by the identity rule nothing.",
    "proved",
    scope="rows of 1, 2 and 3 logits; for more, since a message is a term times a factor common to "
    "all terms",
)
def test_softmax_and_held_operations_absorb_known_parts():
    check_lemmas(OTHERS)

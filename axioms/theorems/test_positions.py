"""Position in attention: the relevance that each encoding takes, and the share it should take."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, STABILISER
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, limit, where
from lrp_axioms.axioms.graph import LEAVES, Node, leaf, parameter, topological
from lrp_axioms.axioms.rules.attention import taylor
from lrp_axioms.axioms.rules.ledger import causes, ledger, unknown_messages
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.propagate import evaluate, explain
from lrp_axioms.axioms.theorems import positional
from lrp_axioms.axioms.theorems.positional import FAMILIES, total

THEMES = {
    45: ["Position", "Conservation", "Softmax and attention"],
    46: ["Softmax and attention", "Position"],
    47: ["Softmax and attention", "Position"],
}
MEANINGS = {
    45: "In nine encodings of position, content and position together receive everything that "
    "arrives as epsilon -> 0, and only stabilisers absorb any of it.",
    46: "A bias that changes no attention weight receives nothing in total as epsilon -> 0. The "
    "sum of absolute values does not show this.",
    47: "A table that is multiplied into the attention weights receives a quarter of the "
    "relevance as epsilon -> 0, even if it holds ones and changes nothing.",
}

EPS = sp.Symbol("epsilon", positive=True)
N = 3
S, R = generic("s", 1, N), generic("r", 1, N)
E = generic("e", 1, N, positive=True)  # exponentials of logits, independent of them
C = sp.Symbol("c", real=True)


def symbols(root):
    names = [node.name for node in topological(root) if node.op in LEAVES]
    return {name: generic(f"v{n}_", *positional.shape(name)) for n, name in enumerate(names)}


def arriving(root, point):
    """Generic relevance: so much per unit of output, which keeps fractions small."""
    z = evaluate(root, point)[root]
    return z.multiply_elementwise(generic("g", *z.shape))


@pytest.mark.theorem(
    45,
    "As epsilon -> 0, content and position together receive all relevance that arrives at the "
    "logits (or weights, or embedding) where position enters, signed, in each of nine encodings.",
    "proved",
    scope="2 tokens of 2 channels, or as few as an encoding has",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_signed_relevance_of_content_and_position_conserves(family):
    root = FAMILIES[family]()
    point = symbols(root)
    if family == "logit map":  # so that the logits and biases that f acts on are symbols
        point |= dict.fromkeys(("k", "features"), sp.eye(2))
    r = arriving(root, point)
    found = explain(root, point, ATTNLRP, relevance=r)
    content, place = total(found, of_position=False), total(found, of_position=True)
    assert identical(content + place, sum(r))
    assert not identical(place, 0)
    assert not identical(content, 0)


@pytest.mark.theorem(
    45,
    "At finite epsilon, each of nine encodings of position loses to stabilisers alone, operation "
    "by operation.",
    "proved",
    scope="operands of 2 x 2 or fewer entries; any graph by induction",
)
@pytest.mark.parametrize("family", FAMILIES)
def test_only_stabilisers_absorb_where_position_enters(family, record_property):
    root = FAMILIES[family]()
    assert {cause for _, cause in causes(root, ATTNLRP)} <= {STABILISER}
    shapes = {node: value.shape for node, value in evaluate(root, symbols(root)).items()}
    for node in topological(root):
        if node.args:
            check_operation(node, [shapes[arg] for arg in node.args], shapes[node])
    kept, absorbed = unknown_messages(root, C)
    assert identical(kept + sum(absorbed), C)
    record_property(
        "method",
        "what they absorb adds up along the graph, by the sweep with unknown messages",
    )


def check_operation(node, shapes, shape):
    """Raises AssertionError unless stabilisers absorb all that one operation does not hand on."""
    operands = [
        (parameter if k and node.op == kinds.LINEAR else leaf)(f"x{k}_") for k in range(len(shapes))
    ]
    root = Node(node.op, tuple(operands), attributes=node.attributes)
    point = {x.name: generic(x.name, *s) for x, s in zip(operands, shapes, strict=True)}
    signs = {root: generic("sign", *shape)}
    for j in range(shape[0] * shape[1]):
        r = sp.zeros(*shape)
        r[j] = C
        books = ledger(root, point, ATTNLRP, eps=EPS, signs=signs, relevance=r)
        absorbed = sum(books.absorbed.values())
        assert {cause for _, cause in books.absorbed} <= {STABILISER}
        assert identical(sum(books.kept.values()) + absorbed, C)
        assert identical(limit(absorbed, EPS), 0)


def split(scores, bias, r_a, exponentials, *, eps=0):
    """Relevance of scores and bias from the weights' relevance: Eq. 5, then Eq. 1 on the sum."""
    (r_z,) = taylor(scores + bias, r_a, exp_z=exponentials)
    return add((scores, bias), r_z, eps=eps)


@pytest.mark.theorem(
    46,
    "The absolute values of what the entries of a bias receive that is equal along a row of logits "
    "sum to nothing.",
    "refuted",
)
def test_the_absolute_values_of_a_bias_that_changes_nothing_do_not_vanish(record_property):
    _, of_bias = split(C * sp.ones(1, N), C * sp.ones(1, N), R, sp.ones(1, N))
    assert identical(sum(of_bias), 0)
    assert differ_at(sum(map(abs, of_bias)), 0, where((C, 1), (R, [1, 2, 3])))
    record_property(
        "witness",
        "scores and bias 1, relevance of the weights (1, 2, 3): bias (-1, 0, 1), signed 0, "
        "absolute 2",
    )


@pytest.mark.theorem(
    46,
    "Adding c to all entries of a row of bias, which changes no weight, changes neither what the "
    "row receives in total as epsilon -> 0 nor the relevance of any score: a bias that is equal "
    "along a row receives nothing in total.",
    "proved",
    scope="3 keys",
)
def test_the_total_of_a_bias_does_not_depend_on_its_zero():
    bias = generic("b", 1, N)
    of_scores, of_bias = split(S, bias, R, E)
    same_scores, moved = split(S, bias + C * sp.ones(1, N), R, E)
    assert identical(sum(moved), sum(of_bias))
    assert identical(same_scores, of_scores)
    assert identical(sum(split(S, C * sp.ones(1, N), R, E)[1]), 0)


def weighted():
    return Node(kinds.READOUT, (positional.multiplied_weights(), leaf("v")))


@pytest.mark.theorem(
    47,
    "A table multiplied into the attention weights receives a quarter of the readout's relevance "
    "as epsilon -> 0, the weights a quarter, and the values half, whatever they are: also a table "
    "of ones, which changes no weight.",
    "proved",
    scope="2 keys",
)
def test_a_multiplied_table_receives_a_quarter():
    root = weighted()
    point = symbols(root) | {"v": generic("v", 2, 1)}
    r = arriving(root, point)
    found = explain(root, point, ATTNLRP, relevance=r)
    quarter = sum(r) / 4
    assert identical(sum(found["position table"]), quarter)
    assert identical(sum(found["weights"]), quarter)
    assert identical(sum(found["v"]), 2 * quarter)

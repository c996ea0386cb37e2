"""A decomposed pass agrees with sums by hand, and refuses products."""

import itertools
from random import Random

import pytest
import sympy as sp
from sympy import Rational

from axioms import kinds
from axioms.decide.denotation import denoted
from axioms.decide.identity import apart
from axioms.graph import Node, leaf, linear, parameter
from axioms.rewrites.points import random_point
from axioms.theorems.decomposed import BIASES, FORWARD, by_contribution, by_softmax, decomposed

A, B = leaf("a"), leaf("b")
LAYER = linear(A + B, "w", "bias")
AT = {"a": 2, "b": 1, "w": 3, "bias": -6}


def test_a_bias_is_spread_in_proportion():
    found = {name: part[0] for name, part in decomposed(LAYER, AT, spread_biases=True).items()}
    assert found == {"a": 2, "b": 1}
    norm = Node(
        kinds.LAYER_NORM, (A, parameter("w"), parameter("bias")), attributes={"norm_eps": 1}
    )
    for other in (LAYER + parameter("table"), norm):  # which is no bias of a layer
        assert BIASES in decomposed(other, AT | {"table": 5}, spread_biases=True)


def test_a_parameter_in_a_sum_is_a_bias():
    found = decomposed(A + parameter("table"), {"a": 2, "table": 5})
    assert {name: part[0] for name, part in found.items()} == {"a": 2, BIASES: 5}


def test_shares_are_in_proportion_or_by_exponentials():
    assert [4 * x for x in by_contribution([*map(sp.Integer, (6, 3, -5))])] == [6, 3, -5]
    assert by_softmax([0, sp.log(3)]) == [Rational(1, 4), Rational(3, 4)]


X = A + B + parameter("p")
ON_MATRICES = {
    kinds.LINEAR: (X, parameter("w"), parameter("t")),
    kinds.ADD: (X, parameter("p"), A),
    kinds.READOUT: (parameter("q"), X),
    kinds.LAYER_NORM: (X, parameter("g"), parameter("t")),
    kinds.RMS_NORM: (X, parameter("g")),
    kinds.ACTIVATION: (X,),
}
SHAPES = dict.fromkeys("abp", (2, 3)) | dict.fromkeys("gt", (1, 3)) | {"w": (3, 3), "q": (2, 2)}


@pytest.mark.parametrize("kind", ON_MATRICES)
def test_components_of_every_row_and_column_add_up_to_the_value(kind):
    at = random_point(Random(0), SHAPES)
    for more in [{"function": "reciprocal"}] if kind == kinds.ACTIVATION else ({}, {"norm_eps": 2}):
        root = Node(kind, ON_MATRICES[kind], attributes=more)
        parts = decomposed(root, at)
        total = sum(parts.values(), sp.zeros(2, 3))
        assert not any(itertools.starmap(apart, zip(total, denoted(root, at), strict=True)))
        assert all(part != sp.zeros(2, 3) for part in parts.values())
    assert ON_MATRICES.keys() == FORWARD.keys() - {kinds.SCORES, kinds.SOFTMAX}


def test_a_product_is_refused_by_name():
    with pytest.raises(LookupError, match=r"no components of product; the operations are linear"):
        decomposed(A * B, {"a": 1, "b": 1})

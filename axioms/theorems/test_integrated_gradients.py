"""Integrated Gradients from zero, and where merged relevance is the same."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, identical
from lrp_axioms.axioms.graph import Node, leaf, linear
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rules.effects import integrated_gradients
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {21: ["Gradients", "Implementation invariance"]}
MEANINGS = {
    21: "With merged products and as epsilon -> 0, relevance by AttnLRP is Integrated Gradients "
    "for a sum of products of degrees 1 to 3, but in general not for a product of sums.",
}

NAMES = ("x1", "x2", "x3", "x4")
X = {name: sp.Symbol(name, real=True) for name in NAMES}


def value(graph, at=None):
    return evaluate(graph, {**X, **(at or {})})[graph][0]


def polynomial():
    """c1 x1 + c2 x1 x2 + c3 x1^2 x3 + c4 x2 x3 x4, each term a weight on a merged product."""
    x1, x2, x3, x4 = map(leaf, NAMES)
    monomials = [x1, x1 * x2, (x1 * x1) * x3, (x2 * x3) * x4]
    terms = [linear(merge_products(m), f"c{k}") for k, m in enumerate(monomials, start=1)]
    return Node(kinds.ADD, tuple(terms))


@pytest.mark.theorem(
    21,
    "c1 x1 + c2 x1 x2 + c3 x1^2 x3 + c4 x2 x3 x4, its products merged, gets exactly its Integrated "
    "Gradients from zero as epsilon -> 0: unequal degrees of terms do no harm.",
    "proved",
    scope="4 inputs",
)
def test_sums_of_merged_monomials_get_integrated_gradients(record_property):
    graph = polynomial()
    weights = {f"c{k}": sp.Symbol(f"c{k}", real=True) for k in range(1, 5)}
    found = explain(graph, {**X, **weights}, ATTNLRP)
    of_function = integrated_gradients(value(graph, weights), {x: x for x in X.values()})
    for name, x in X.items():
        assert identical(found[name], of_function[x])
    record_property("method", "each monomial gets its value, each factor an nth of it; cancel")


@pytest.mark.theorem(
    21,
    "A product of sums, its products merged, gets its Integrated Gradients as epsilon -> 0.",
    "refuted",
)
def test_a_product_with_a_sum_of_higher_degree_inside_does_not(record_property):
    x1, x2, x3, x4 = map(leaf, NAMES)
    graph = merge_products((x1 + x2 * x3) * x4)
    found, of_function = (
        sp.Matrix(list(explained.values()))
        for explained in (
            explain(graph, X, ATTNLRP),
            integrated_gradients(value(graph), {x: x for x in X.values()}),
        )
    )
    point = dict.fromkeys(X.values(), 2)
    assert differ_at(found[3], of_function[3], point)
    assert identical(sum(found), sum(of_function))
    shown = " versus ".join(str(list(r.subs(point))) for r in (found, of_function))
    record_property("witness", f"(x1 + x2 x3) x4 at 2 each: {shown}")

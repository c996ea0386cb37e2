"""The remaining rules for products: logarithms, degrees, and the merged split.

A local rule that conserves gives of the relevance R of z = x y the part R S(x, z) to the left
factor and the rest to the right one (theorem 60).  An attribution to the inputs of a polynomial is
as in theorem 68.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import identical
from lrp_axioms.axioms.graph import Node, leaf, linear
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rules.effects import integrated_gradients, shapley
from lrp_axioms.axioms.rules.propagate import evaluate, explain
from lrp_axioms.axioms.theorems.test_product_rules import LEFT, RIGHT, R, X, found, named

THEMES = {69: ["Products", "Implementation invariance"]}
MEANINGS = {
    69: "A product rule that no bracket and no order changes shares powers by logarithms, and is "
    "not defined for a product of value 1. Where every input occurs at most once in each term, the "
    "merged split is the only choice. Shares by degrees make it Integrated Gradients for more "
    "graphs.",
}

SHARE = named("S")
POWER = sp.Symbol("x", real=True)
HIGHEST = 6


def chained(q):
    """Gaps, which re-association and the order of factors make 0, at x, x^(q - 1) and x^q."""
    whole = [POWER, POWER ** (q - 1)]
    turned = [found(SHARE, order, 0, whole)[0] / R for order in ((0, 1), (1, 0))]
    factors = [POWER, POWER ** (q - 2), POWER]
    ways = [found(SHARE, range(3), shape, factors)[0] / R for shape in (LEFT, RIGHT)]
    return turned[0] - turned[1], ways[0] - ways[1]


@pytest.mark.theorem(
    69,
    "A local rule that conserves and survives re-association and the order of factors has S(x, "
    "x^q) = 1/q, for q <= 6 by machine and for every q by induction.",
    "proved",
    scope="powers up to 6; any by induction",
)
def test_shares_of_powers_are_those_of_logarithms():
    pair = found(SHARE, range(2), 0, [POWER, POWER])
    assert identical((pair[0] - pair[1]) / R, 2 * SHARE(POWER, POWER**2) - 1)
    for q in range(3, HIGHEST + 1):
        share, before, rest = (
            SHARE(POWER**p, POWER**n) for p, n in ((1, q), (1, q - 1), (q - 1, q))
        )
        turned, bracketed = chained(q)
        assert identical(turned, share + rest - 1)
        assert identical(bracketed, before * rest - share)
        # with S(x, x^(q-1)) = 1/(q-1) both gaps together are q/(q-1) times S(x, x^q) - 1/q
        known = {before: sp.Rational(1, q - 1)}
        both = (turned / (q - 1) - bracketed).subs(known)
        assert identical(both, sp.Rational(q, q - 1) * (share - sp.Rational(1, q)))


@pytest.mark.theorem(
    69,
    "Shares phi(x)/phi(z) survive the order of factors as well only if phi(x y) = phi(x) + phi(y).",
    "proved",
    scope="2 factors, unknown phi",
)
def test_the_order_of_factors_is_cauchys_equation(record_property):
    phi = named("phi")
    x, y = X[:2]
    pair = found(lambda x, z: phi(x) / phi(z), range(2), 0)
    turned = found(lambda x, z: phi(x) / phi(z), (1, 0), 0)
    gap = (phi(x) + phi(y) - phi(x * y)) / phi(x * y)
    assert identical((pair[0] - turned[0]) / R, gap)
    # Its measurable solutions are multiples of log (Banach, 1920; Sierpinski, 1920).
    record_property("method", "then Cauchy's equation in log x")


@pytest.mark.theorem(
    69,
    "No local rule that is defined for all positive factors conserves and survives re-association "
    "and the order of factors: of 1 1 and of 1 1 1 one share c is asked to have c = 1/2 and c^2 = "
    "c.",
    "proved",
    scope="2 and 3 factors",
)
def test_no_such_rule_is_defined_at_one(record_property):
    share = sp.Symbol("c", real=True)
    at_one = lambda x, z: share  # all values are 1
    ones = [sp.S.One] * 3
    pair = found(at_one, range(2), 0, ones[:2])
    nested, direct = (found(at_one, range(3), shape, ones)[0] for shape in (LEFT, RIGHT))
    turned, bracketed = (pair[0] - pair[1]) / R, (nested - direct) / R
    assert identical(turned, 2 * share - 1)
    assert identical(bracketed - turned**2 / 4, -sp.Rational(1, 4))
    record_property("method", "cancel: a combination of the gaps, each 0 by an axiom, is -1/4")


SETS = [s for n in range(1, 5) for s in itertools.combinations(range(4), n)]
INPUTS = sp.symbols("x1:5", real=True)
WEIGHTS = {s: sp.Symbol("w" + "".join(map(str, s)), real=True) for s in SETS}


def merged_terms():
    """A sum of weighted products, each of one operation."""
    leaves = [leaf(str(x)) for x in INPUTS]
    terms = []
    for s, weight in WEIGHTS.items():
        product = sp.prod([leaves[i] for i in s[1:]], start=leaves[s[0]])
        terms.append(linear(merge_products(product), str(weight)))
    return Node(kinds.ADD, tuple(terms))


@pytest.mark.theorem(
    69,
    "On polynomials of at most 4 inputs that are linear in every input and 0 at 0, one attribution "
    "is linear, complete, symmetric and free of units, and gives nothing to an input without "
    "influence: an nth of each term to its n factors. It is the merged split as epsilon -> 0, the "
    "Shapley value and Integrated Gradients.",
    "proved",
    scope="4 inputs, all 15 terms",
)
def test_the_merged_split_is_the_only_one_on_multilinear_polynomials(record_property):
    u = sp.symbols("u1:5", real=True)
    for s in SETS:  # of the term of s, in units where it is 1
        complete, nothing = sum(u) - 1, sum(u[j] for j in range(4) if j not in s)
        for i in s:
            zero = sum(u[i] - u[j] for j in s) + complete - nothing
            assert identical(len(s) * u[i] - 1, zero)
    graph = merged_terms()
    point = {str(x): x for x in (*INPUTS, *WEIGHTS.values())}
    merged = explain(graph, point, ATTNLRP)
    f, at = evaluate(graph, point)[graph][0], {x: x for x in INPUTS}
    for i, x in enumerate(INPUTS):
        terms = [w * sp.prod(INPUTS[j] for j in s) / len(s) for s, w in WEIGHTS.items() if i in s]
        for attribution in (merged[str(x)], shapley(f, at)[x], integrated_gradients(f, at)[x]):
            assert identical(attribution, sum(terms))
    record_property("method", f"cancel; {len(SETS)} terms of 4 generic inputs, generic weights")


def degree(node):
    """Degree of a graph of products, and of sums whose operands have one degree."""
    if not node.args:
        return 1
    degrees = [degree(x) for x in node.args]
    if node.op == kinds.ADD and len(set(degrees)) > 1:
        raise ValueError(f"{node} adds up degrees {degrees}; share by degrees needs equal ones")
    return sum(degrees) if node.op == kinds.PRODUCT else degrees[0]


def by_degrees(node, xs, r, options):
    return [r * sp.Rational(degree(x), degree(node)) for x in node.args]


@pytest.mark.theorem(
    69,
    "Shares by degrees, R p/(p + q) to a factor of degree p beside one of degree q, are Integrated "
    "Gradients from zero on four graphs of products and of sums of equal degrees: (x1 x2 + x3^2) "
    "x4, its distribution, ((x1 + x2) x3 + x4^2) (x1 (x2 + x3)) and x1 (x2 (x3 (x4 x1))).",
    "proved",
    scope="four graphs of 4 inputs",
)
def test_shares_by_degrees_are_integrated_gradients(record_property):
    x1, x2, x3, x4 = (leaf(str(x)) for x in INPUTS)
    graphs = [
        (x1 * x2 + x3 * x3) * x4,
        x4 * (x1 * x2) + (x4 * x3) * x3,
        ((x1 + x2) * x3 + x4 * x4) * (x1 * (x2 + x3)),
        x1 * (x2 * (x3 * (x4 * x1))),
    ]
    point = {str(x): x for x in INPUTS}
    for graph in graphs:
        f = evaluate(graph, point)[graph][0]
        shared = explain(graph, point, ATTNLRP, instead={kinds.PRODUCT: by_degrees})
        integrated = integrated_gradients(f, {x: x for x in INPUTS})
        for x in INPUTS:
            assert identical(shared.get(str(x), 0), integrated[x])
    record_property("method", "in general by Euler")

"""Why R/n: the axioms that leave one way to explain a product of n factors.

An attribution here is a table of shares: for every way to compute x_1 ... x_n by products of two,
what part of R each factor gets.  The axioms are linear equations between those numbers:
conservation (the shares of one graph sum to 1), symmetry (renaming the factors of a graph renames
the shares) and implementation invariance (all graphs have the same shares).
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import leaf, topological
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rewrites.products import bracketings
from lrp_axioms.axioms.rules.linear import add_by_size
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {5: ["Products", "Characterisation"]}
MEANINGS = {
    5: "Conservation, symmetry and implementation invariance force the equal split of a product, "
    "and none of the three can be left out. They do so only for shares that do not depend on the "
    "values of the factors.",
}

CONSERVATION, SYMMETRY, INVARIANCE = AXIOMS = (
    "conservation",
    "symmetry",
    "implementation invariance",
)
R = sp.Symbol("R", real=True)
EQUAL_SPLIT = Composite("equal split", {kinds.PRODUCT: kinds.EQUAL_SPLIT})
GRADIENT = Composite("gradient x input", {kinds.PRODUCT: kinds.GRADIENT})


def graphs(n):
    """Every bracketing of every ordering of n factors: (shape, order of the factors)."""
    shapes = len(bracketings([leaf(f"x{i}") for i in range(n)]))
    return list(itertools.product(range(shapes), itertools.permutations(range(n))))


def tree(graph):
    shape, order = graph
    return bracketings([leaf(f"x{i}") for i in order])[shape]


def renamed(graph, names):
    shape, order = graph
    return shape, tuple(names[i] for i in order)


def swap(n, i, j):
    """The renaming of n factors that exchanges i and j; such swaps generate all others."""
    names = list(range(n))
    names[i], names[j] = j, i
    return names


def equations(n, axiom):
    """Pairs that an axiom says are equal, each a sum of shares or a number, per unit of R."""
    if axiom == CONSERVATION:
        for graph in graphs(n):
            yield [(graph, i) for i in range(n)], 1
    if axiom == SYMMETRY:
        for graph, k in itertools.product(graphs(n), range(n - 1)):
            names = swap(n, k, k + 1)
            for i in range(n):
                yield [(graph, i)], (renamed(graph, names), names[i])
    if axiom == INVARIANCE:
        for one, other in itertools.pairwise(graphs(n)):
            for i in range(n):
                yield [(one, i)], (other, i)


@pytest.mark.theorem(
    5,
    "Conservation, symmetry and implementation invariance leave one table of shares that are "
    "numbers, whatever the factors are, for a product of n <= 4 factors: R/n to each.",
    "proved",
    scope="n = 2, 3 and 4 factors",
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_axioms_force_equal_shares_of_a_product(n, record_property):
    share = {
        key: sp.Symbol(f"share({k})", real=True)
        for k, key in enumerate(itertools.product(graphs(n), range(n)))
    }
    for graph, i in share:
        # each term is 0 by one axiom: R - sum of shares, and share - share of equal value
        terms = [sum(share[graph, j] for j in range(n)) - R]
        for j in range(n):
            names = swap(n, i, j)
            turned = renamed(graph, names)
            terms += [share[graph, i] - share[turned, j], share[turned, j] - share[graph, j]]
        assert identical(n * share[graph, i] - R, sum(terms))
    for graph in graphs(n):  # and that table is the one of merged products
        found = explain(merge_products(tree(graph)), ones(n), EQUAL_SPLIT, relevance=R)
        assert all(identical(r, R / n) for r in found.values())
    record_property("method", "n R_i - R as a sum of what the axioms say is 0, for every graph")


def ones(n):
    return {f"x{i}": 1 for i in range(n)}  # the rules of products read no values


def all_to_x0(node, xs, r, options):
    """R of every product to the operand that x0 is part of."""
    inside = [any(x.name == "x0" for x in topological(arg)) for arg in node.args]
    return [r if found else 0 * r for found in inside]


WITHOUT = {
    CONSERVATION: (GRADIENT, {}),
    SYMMETRY: (EQUAL_SPLIT, {kinds.PRODUCT: all_to_x0}),
    INVARIANCE: (EQUAL_SPLIT, {}),
}
"""For each axiom, a composite and the replacements of its rules: shares obey the other two."""


@pytest.mark.theorem(
    5,
    "Two of the axioms conservation, symmetry and implementation invariance suffice to force R/n "
    "on a product of 3 factors.",
    "refuted",
)
@pytest.mark.parametrize("dropped", AXIOMS)
def test_each_axiom_is_needed(dropped, record_property):
    n, (composite, instead) = 3, WITHOUT[dropped]
    found = {
        graph: explain(tree(graph), ones(n), composite, relevance=R, instead=instead)
        for graph in graphs(n)
    }
    share = {(graph, i): shares[f"x{i}"] for graph, shares in found.items() for i in range(n)}
    for axiom in AXIOMS:
        obeyed = all(
            identical(sum(share[key] for key in keys), R if other == 1 else share[other])
            for keys, other in equations(n, axiom)
        )
        assert obeyed == (axiom != dropped)
    shares = [share[graphs(n)[0], i] for i in range(n)]
    differing = next(r for r in shares if not identical(r, R / n))
    assert differ_at(differing, R / n, {R: 1})
    shown = "/".join(str(r / R) for r in shares)
    record_property("witness", f"without {dropped}: {shown} of R = 1, where R/n is 1/3")


@pytest.mark.theorem(
    5,
    "Conservation, symmetry and implementation invariance force R/n also on shares that may depend "
    "on the values of the factors.",
    "refuted",
)
def test_shares_by_size_obey_the_axioms_too(record_property):
    x = sp.symbols("x1:4", positive=True)
    # by |x|: a function of the factors alone, so of no implementation
    (shares,) = zip(
        *add_by_size([sp.Matrix([[e]]) for e in x], sp.Matrix([[R]]), eps=0), strict=True
    )
    assert identical(sum(shares), R)
    for names in itertools.permutations(range(3)):
        swapped = dict(zip(x, (x[k] for k in names), strict=True))
        assert all(
            identical(shares[i].subs(swapped, simultaneous=True), shares[names[i]])
            for i in range(3)
        )
    witness = dict(zip((*x, R), (1, 2, 3, 1), strict=True))
    assert differ_at(shares[0], R / 3, witness)
    shown = "/".join(str(s.subs(witness)) for s in shares)
    record_property("witness", f"x = (1, 2, 3), R = 1: {shown}, where R/n is 1/3")


@pytest.mark.theorem(
    5,
    "Shares of 3 factors whose logarithm is linear in those of the factors obey the axioms and a "
    "change of any factor's unit, x_i -> t x_i, only as R/3.",
    "proved",
    scope="3 factors",
)
def test_shares_that_know_no_units_are_equal(record_property):
    # log share_i = c_i + sum_k p_ik log x_k, and a new unit of x_k adds log t to log x_k
    c, p, log_x = generic("c", 3, 1), generic("p", 3, 3), generic("log_x", 3, 1)
    log_t = sp.Symbol("log_t", real=True)
    for k in range(3):
        moved = log_x + log_t * sp.eye(3)[:, k]
        change = (c + p * moved) - (c + p * log_x)
        assert identical(change, log_t * p[:, k])  # 0 for every t: p is 0
    # only numbers are left, and the axioms make them R/n, as merged products have it
    merged = merge_products(tree(graphs(3)[0]))
    found = explain(merged, ones(3), EQUAL_SPLIT, relevance=R)
    assert all(identical(r, R / 3) for r in found.values())
    record_property(
        "method", "cancel: a change by p_ik log t leaves p = 0, then the statement before"
    )

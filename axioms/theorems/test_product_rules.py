"""Every rule for a product of two that re-association cannot change, and the axioms it gives up.

A rule here is local and conserves: of the relevance R of z = x y it gives R S(x, z) to the left
factor x and R (1 - S(x, z)) to the right one, all factors being positive.
"""

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.decide.identity import differ_at, identical
from lrp_axioms.axioms.graph import leaf, topological
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rewrites.products import bracketings
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {60: ["Characterisation"]}
MEANINGS = {
    60: "A rule for products of two survives re-association only if its shares solve Sincov's "
    "equation, as shares by logarithms do. With units, order, conservation and locality all "
    "respected there is none: a rule designer has to give up one of five axioms.",
}

R = sp.Symbol("R", real=True)
X = sp.symbols("x0:4", positive=True)
EQUAL_SPLIT = Composite("equal split", {kinds.PRODUCT: kinds.EQUAL_SPLIT})


RIGHT, LEFT = 0, 1  # x0 (x1 x2) and (x0 x1) x2, by their places among the bracketings


def found(share, order, shape, point=X):
    """Relevance of x0, x1, ..., by the left factor's ``share(x, z)`` of each product."""

    def messages(node, xs, r, options):
        left, right = (x[0] for x in xs)
        part = share(left, sp.expand(left * right))
        return [r * part, r * (1 - part)]

    return explained(tree(order, shape), point, {kinds.PRODUCT: messages})


def tree(order, shape):
    return bracketings([leaf(f"x{i}") for i in order])[shape]


def explained(root, point, instead):
    at = {f"x{i}": x for i, x in enumerate(point) if f"x{i}" in names(root)}
    relevance = explain(root, at, EQUAL_SPLIT, relevance=R, instead=instead)
    return [relevance[name] for name in at]


def names(root):
    return {x.name for x in topological(root) if not x.args}


def named(name):
    """An unknown function of positive numbers: a symbol of its own for all that it is asked for."""
    return lambda *at: sp.Symbol(f"{name}_" + "_".join(map(str, at)), real=True)


def log(z):
    """The logarithm of a product, as a sum of unknown logarithms of its factors."""
    powers = sp.sympify(z).as_powers_dict()
    return sum(n * named("log")(x) for x, n in powers.items())


def by_log(x, z):
    return log(x) / log(z)


def by_power(x, z):
    """(1 - x^k)/(1 - z^k), x and z standing for their powers."""
    return (1 - x) / (1 - z)


@pytest.mark.theorem(
    60,
    "A local rule for products of two positive factors that conserves is invariant under "
    "re-association only if S(x, q) S(q, z) = S(x, z) for its left shares; where none of them is "
    "0, S(x, z) = phi(x)/phi(z), with phi(x) = S(x, p) for any fixed p.",
    "proved",
    scope="3 factors, unknown shares",
)
def test_invariance_under_re_association_is_sincovs_equation(record_property):
    share, (x, y, w) = named("S"), X[:3]
    nested, direct = (found(share, range(3), shape)[0] for shape in (LEFT, RIGHT))
    gap = share(x, x * y) * share(x * y, x * y * w) - share(x, x * y * w)
    assert identical(nested - direct, R * gap)
    p, z = sp.Symbol("p", real=True), x * y * w
    solved = share(x, z) - share(x, p) / share(z, p)
    assert identical(solved, (share(x, z) * share(z, p) - share(x, p)) / share(z, p))
    phi = named("phi")
    one, other = (
        found(lambda x, z: phi(x) / phi(z), range(3), shape)[0] for shape in (LEFT, RIGHT)
    )
    assert identical(one, other)
    record_property("method", "then divide by a share that is not 0")


@pytest.mark.theorem(
    60,
    "R log x/log z and R (1 - x^k)/(1 - z^k), the rest to the right factor, are invariant under "
    "re-association of n <= 4 positive factors, no product of which is 1: merging products is not "
    "the only remedy.",
    "proved",
    given=["x > 0: the factors"],
    scope="n = 3 and 4 factors, in every order of multiplication",
)
@pytest.mark.parametrize("share", [by_log, by_power])
@pytest.mark.parametrize("n", [3, 4])
def test_two_local_rules_survive_re_association(share, n, record_property):
    shapes = len(bracketings([leaf(f"x{i}") for i in range(n)]))
    first, *others = (found(share, range(n), shape) for shape in range(shapes))
    assert identical(sum(first), R)
    for other in others:
        assert all(identical(a, b) for a, b in zip(first, other, strict=True))
    record_property("method", f"cancel over {n} generic factors, {shapes} ways to multiply them")


@pytest.mark.theorem(
    60,
    "Shares by logarithms give factor x_i of a product z of three positive factors the part log "
    "x_i/log z of R, however the factors are ordered and multiplied.",
    "proved",
    scope="3 factors in every order",
)
def test_shares_by_logarithms_are_commutative():
    z = sp.prod(X[:3])
    for order, shape in itertools.product(itertools.permutations(range(3)), (LEFT, RIGHT)):
        for x, relevance in zip(X, found(by_log, order, shape), strict=False):
            assert identical(relevance, R * log(x) / log(z))


@pytest.mark.theorem(
    60,
    "Every local rule for products of two that conserves and is invariant under re-association "
    "gives a factor the same on the left and on the right.",
    "refuted",
)
def test_re_association_does_not_imply_commutativity(record_property):
    left, right = (found(by_power, order, 0)[0] for order in ((0, 1), (1, 0)))
    assert differ_at(left, right, {X[0]: 2, X[1]: 3, R: 1})
    record_property("witness", "(1 - x)/(1 - z) at x = 2, y = 3, R = 1: 1/5 in x y, 3/5 in y x")


C = sp.Symbol("c", real=True)


@pytest.mark.theorem(
    60,
    "No local rule for products of two that conserves is invariant under re-association, under the "
    "order of the factors and under every change of their units.",
    "proved",
    scope="2 and 3 factors",
)
def test_five_axioms_of_products_exclude_each_other(record_property):
    # New units of both factors take any S(x, z) to S(1, 1): one number c.
    nested, direct = (found(lambda x, z: C, range(3), shape)[0] for shape in (LEFT, RIGHT))
    assert identical(nested - direct, R * (C**2 - C))
    # The order of the factors asks c = 1 - c, and at c = 1/2 that is not 0.
    assert identical((nested - direct).subs(C, sp.Rational(1, 2)), -R / 4)
    record_property("method", "cancel; the gap R (c^2 - c) is 0 at c = 0 and 1, never at 1/2")


def obeyed(rule):
    """Axioms that hold for every product of three factors; ``rule`` takes (order, shape, point)."""
    orders = list(itertools.permutations(range(3)))
    maps = {(order, shape): rule(order, shape, X) for order in orders for shape in (LEFT, RIGHT)}
    units = (2 * X[0], *X[1:])
    same = lambda one, other: all(identical(a, b) for a, b in zip(one, other, strict=True))
    # the factors of one product exchanged: (x0 x1) x2 and (x1 x0) x2, x0 (x1 x2) and x0 (x2 x1)
    turned = {
        ((i, j, k), shape): ((j, i, k) if shape == LEFT else (i, k, j), shape)
        for (i, j, k), shape in maps
    }
    return {
        "conservation": all(identical(sum(found), R) for found in maps.values()),
        "associativity": all(same(maps[o, LEFT], maps[o, RIGHT]) for o in orders),
        "commutativity": all(same(maps[way], maps[other]) for way, other in turned.items()),
        "freedom of units": all(same(maps[way], rule(*way, units)) for way in maps),
    }


def merged(order, shape, point):
    """R/n to each of n factors, which no product of two can see."""
    return explained(merge_products(tree(order, shape)), point, {})


def everything_to_both(order, shape, point):
    instead = {kinds.PRODUCT: lambda node, xs, r, options: [r, r]}
    return explained(tree(order, shape), point, instead)


WITHOUT: dict[str, Callable[..., list[sp.Expr]]] = {
    "locality": merged,
    "conservation": everything_to_both,
    "associativity": partial(found, lambda x, z: sp.Rational(1, 2)),
    "commutativity": partial(found, lambda x, z: sp.Integer(1)),
    "freedom of units": partial(found, by_log),
}
"""By the axiom that is given up: a rule with all others, local unless that is given up."""


@pytest.mark.theorem(
    60,
    "Four of locality, conservation, associativity, commutativity and freedom of units exclude "
    "each other for products.",
    "refuted",
)
@pytest.mark.parametrize("dropped", WITHOUT)
def test_any_four_of_the_five_axioms_can_hold(dropped, record_property):
    rule = WITHOUT[dropped]
    first = rule(range(3), LEFT, X)[0]
    point = {R: 1, **{named("log")(x): n for n, x in enumerate(X, start=1)}}
    assert differ_at(first, 0, point)  # it explains something
    assert all(holds == (axiom != dropped) for axiom, holds in obeyed(rule).items())
    shown = first.subs(point)
    record_property("witness", f"without {dropped}: x0 of (x0 x1) x2 gets {shown} of 1, not 0")

"""Axioms that leave Integrated Gradients alone on polynomials, and axioms that do not.

An attribution gives a number to every input of a polynomial f that is 0 at 0, however many inputs
it has, at every point x without zeros.  Axioms: it is *linear* in f; *complete*, its parts sum to
f(x); *symmetric*, renaming the inputs renames the parts; *free of units*, the part of f(d1 x1, ...,
dn xn) at x is that of f at (d1 x1, ..., dn xn), for d without zeros; and *uses add up*: where one
input takes the place of two neighbours, it gets the sum of what they get, and the others get what
they got.

Why these five leave Integrated Gradients from zero: f is a sum of monomials x^d, which linearity
takes one by one.  In the units x the point is (1, ..., 1), so what input i gets of x^d is c_i(d)
x^d with a number c_i(d).  Inputs that do not occur in x^d get the same q, by symmetry; if two of
three are joined, the new one gets 2 q and the third one q, so q = 0, and joining two more leaves
nothing for one.  The product of e different inputs is complete and symmetric: each of these gets
1/e.  And x^d is that product for e = |d|, in which x_i stands d_i times: so c_i(d) = d_i/|d|.
Aumann and Shapley's prices have this form (Billera and Heath, 1982; Mirman and Tauman, 1982).
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import GRADIENT_X_INPUT
from lrp_axioms.axioms.decide.identity import differ_at, identical, value_at
from lrp_axioms.axioms.graph import leaf
from lrp_axioms.axioms.rules.effects import integrated_gradients, leave_one_out, shapley
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.theorems.attributions import (
    AXIOMS,
    EXAMPLES,
    C,
    X,
    by,
    by_pace,
    first_in_order,
    is_complete,
    is_symmetric,
    monomial,
    of_monomials,
    rescaled,
    slopes,
)

THEMES = {68: ["Gradients", "Characterisation"]}
MEANINGS = {
    68: "On polynomials, decided by machine for 3 inputs and degree 4 at most, Integrated "
    "Gradients are the only attribution that is linear, complete, symmetric and free of units, if "
    "an input gets the sum of what its uses get. Without the last axiom the Shapley value is "
    "another one, and the straight path is not the only symmetric path, as is often said.",
}

T = sp.Symbol("t", positive=True)
DEGREE = 4  # of the monomials that are checked one by one
MONOMIALS = [d for d in itertools.product(range(DEGREE + 1), repeat=3) if 1 <= sum(d) <= DEGREE]


def shares(degree):
    """Unknown parts of a product of different inputs, of the value 1."""
    return sp.symbols(f"u1:{degree + 1}", real=True)


def symmetric(u, k):
    """Terms that symmetry makes 0; their sum is the number of inputs times u_k, less sum(u)."""
    return sum(u[k] - other for other in u)


def without_influence():
    """The part of one absent input, and terms that sum to it, each 0 because uses add up.

    q_n is the part of each of n absent inputs: of three, two are joined, and then the other two.
    """
    one, two, three = sp.symbols("q1:4", real=True)
    joined, other, last = two - 2 * three, two - three, one - 2 * two
    return one, last + 2 * (2 * other - joined)


def uses(d):
    """For each input, its places in the product of |d| inputs."""
    ends = list(itertools.accumulate(d, initial=0))
    return [range(start, end) for start, end in itertools.pairwise(ends)]


@pytest.mark.theorem(
    68,
    "On polynomials of 3 inputs, of degree at most 4 and 0 at 0, Integrated Gradients from zero "
    "are the only attribution that is linear, complete, symmetric and free of units, and in which "
    "uses add up: each input of x^d gets d_i/|d| of it.",
    "proved",
    scope="3 inputs, the 34 monomials up to degree 4; that the axioms hold, on two polynomials "
    "with 4 coefficients",
)
def test_five_axioms_leave_integrated_gradients(record_property):
    one, terms = without_influence()
    assert identical(one, terms)
    for d in MONOMIALS:
        degree, u = sum(d), shares(sum(d))
        complete = sum(u) - 1  # 0 by completeness
        found = integrated_gradients(monomial(d), {x: x for x in X})
        for x, n, places in zip(X, d, uses(d), strict=True):
            part = sp.Rational(n, degree)
            zero = sum((symmetric(u, k) + complete) / degree for k in places)
            assert identical(sum(u[k] for k in places) - part, zero)
            assert identical(found[x], part * monomial(d))
    assert all(holds(by(integrated_gradients)) for holds in AXIOMS.values())
    record_property(
        "method",
        f"cancel, {len(MONOMIALS)} monomials up to degree {DEGREE}; that Integrated Gradients obey "
        "the axioms, on two polynomials with generic coefficients",
    )


@pytest.mark.theorem(
    68,
    "On polynomials of 3 inputs, of degree at most 4 and 0 at 0, gradient x input is the only "
    "attribution that is linear and free of units, in which uses add up, and that is leave-one-out "
    "on products of different inputs: each input of x^d gets d_i x^d.",
    "proved",
    scope="3 inputs, the 34 monomials up to degree 4",
)
def test_leave_one_out_of_products_leaves_gradient_times_input(record_property):
    names = [str(x) for x in X]
    for d in MONOMIALS:
        factors = [leaf(name) for name, n in zip(names, d, strict=True) for _ in range(n)]
        used = {name: x for name, x, n in zip(names, X, d, strict=True) if n}
        found = explain(sp.prod(factors[1:], start=factors[0]), used, GRADIENT_X_INPUT)
        different = sp.symbols(f"y1:{sum(d) + 1}", positive=True)
        effects = leave_one_out(sp.prod(different), {y: y for y in different})
        place = dict(zip(different, [used[f.name] for f in factors], strict=True))
        for name, places in zip(names, uses(d), strict=True):
            added = sum(effects[different[k]].subs(place, simultaneous=True) for k in places)
            assert identical(found.get(name, 0), added)
    record_property("method", f"cancel, {len(MONOMIALS)} monomials up to degree {DEGREE}")


WITHOUT = {
    "linearity": rescaled,
    "completeness": of_monomials(slopes),
    "symmetry": of_monomials(first_in_order),
    "freedom of units": of_monomials(by_pace),
    "uses add up": by(shapley),
}
"""By the axiom that is given up: an attribution with the other four."""


@pytest.mark.theorem(
    68,
    "Four of linearity, completeness, symmetry, freedom of units and that uses add up leave "
    "Integrated Gradients alone on c1 x1 + c2 x1 x2^2 and c3 x2 + c4 x1 x2 x3^2.",
    "refuted",
)
@pytest.mark.parametrize("dropped", WITHOUT)
def test_each_of_the_five_axioms_is_needed(dropped, record_property):
    attribution, polynomial = WITHOUT[dropped], EXAMPLES[0]
    integrated = by(integrated_gradients)(polynomial, X)
    found = attribution(polynomial, X)
    point = dict(zip((*X, *C), (2, 3, 1, 1, 1, 1, 1), strict=True))
    assert differ_at(found[0], integrated[0], point)
    assert {name: holds(attribution) for name, holds in AXIOMS.items()} == {
        name: name != dropped for name in AXIOMS
    }
    shown = [value_at(side[0], point) for side in (found, integrated)]
    record_property("witness", f"x1 + x1 x2^2 at x = (2, 3): x1 gets {shown[0]}, not {shown[1]}")


@pytest.mark.theorem(
    68,
    "The straight path is the only path whose attributions are symmetric.",
    "refuted",
)
def test_another_path_is_symmetric(record_property):
    # Sundararajan et al. (2017, Theorem 1) say so, which is false of paths whose pace depends on
    # the end point; Lerma and Lucas (2021) and Lundstrom et al. (2022) examine such claims.
    one, two = X[:2]
    path = {one: T, two: 2 * T**2}  # x_i t^x_i at x = (1, 2)
    speed = {x: sp.diff(at, T) for x, at in path.items()}
    found = {x: sp.integrate(sp.diff(one * two, x).subs(path) * speed[x], (T, 0, 1)) for x in path}
    straight = integrated_gradients(one * two, {one: one, two: two})
    closed = of_monomials(by_pace)({(1, 1, 0): 1}, X)
    point = {one: 1, two: 2}
    assert [value_at(part, point) for part in closed[:2]] == list(found.values())
    assert differ_at(closed[0], straight[one], point)
    assert is_symmetric(of_monomials(by_pace))
    assert is_complete(of_monomials(by_pace))
    record_property(
        "witness", "x1 x2 at (1, 2), along (t, 2 t^2): 2/3 and 4/3, where the straight path has 1"
    )


@pytest.mark.theorem(
    68,
    "Attributions that are linear, complete, symmetric and free of units, and give nothing to an "
    "input on which a polynomial does not depend, are Integrated Gradients.",
    "refuted",
)
def test_the_shapley_value_obeys_four_and_is_another(record_property):
    one, two = X[:2]
    found, integrated = (
        method(one * two**2, {one: one, two: two}) for method in (shapley, integrated_gradients)
    )
    nothing = shapley(one * two**2, {x: x for x in X})[X[2]]
    assert identical(nothing, 0)
    assert differ_at(found[one], integrated[one], {one: 1, two: 1})
    record_property("witness", "x1 x2^2 at (1, 1): x1 gets 1/2, and 1/3 by Integrated Gradients")


@pytest.mark.theorem(
    68,
    "What is linear and complete, and gives nothing to an input on which a polynomial does not "
    "depend, is an average over paths that only rise, so that no positive factor of x1 x2 gets "
    "less than 0.",
    "refuted",
)
def test_linear_and_complete_attributions_can_be_negative(record_property):
    # Proposition 2 of Sundararajan et al. (2017) says so.
    one, two = X[:2]
    f, point = one * two, {one: 1, two: 1}
    effects = leave_one_out(f, {one: one, two: two})
    # x2 rises last and gets its effect, or first and gets the rest: twice the one less the other
    last, first = effects[two], f - effects[one]
    found = {two: 2 * last - first, one: f - (2 * last - first)}
    assert differ_at(found[one], integrated_gradients(f, {one: one, two: two})[one], point)
    assert value_at(found[one], point) < 0
    record_property("witness", "x1 x2 at (1, 1): -1 and 2 of 1; the straight path has 1/2")

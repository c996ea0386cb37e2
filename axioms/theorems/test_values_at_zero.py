"""Functions that are not 0 at 0: what they are there as a fixed term of a sum, and as their own.

    f(x) = f(0) + (f(x) - f(0)),  the sum by Eq. 1, the rest, which is 0 at 0, by the identity rule

Main statements
  75  x gets R (f(x) - f(0)) / f(x), whatever numbers are taken out of f; per unit of x that is at
      most L times what arrives per unit of f, if f changes by at most L |x|
  75  by the identity rule on all of f, what x gets per unit of x has no bound near 0, and depends
      on whether a number is added inside of f or beside it
  75  a sigmoid gets one relevance from all its spellings; as a gate of x that is an operation of
      its own it absorbs, and SiLU does not
"""

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.decide import differ_at, identical
from axioms.algebra.propagate import explain
from axioms.algebra.rules import add, epsilon, equal_split, identity
from axioms.composites import ATTNLRP
from axioms.graph import Node, leaf, parameter

F, AT_ZERO, R, C = sp.symbols("f f0 R c", real=True)
A, K, X, SLOPE, SIZE = sp.symbols("a k x slope size", real=True, nonzero=True)
E = sp.Symbol("e", positive=True)  # exp(x)


def number(x):
    return sp.Matrix([[x]])


def beside(fixed, rest, relevance):
    """What a term gets of a sum with a fixed one, as epsilon -> 0."""
    return add([number(fixed), number(rest)], number(relevance), eps=0)[1][0]


def from_zero(f, at_zero, relevance):
    """What x gets of f(x) = f(0) + (f(x) - f(0))."""
    (passed,) = identity(number(beside(at_zero, f - at_zero, relevance)))
    return passed[0]


def scaled(f, by, relevance):
    """What f gets of by * f."""
    return epsilon(number(f), number(by), number(relevance), eps=0)[0][0]


@pytest.mark.theorem(
    75,
    "Of f(x) = f(0) + (f(x) - f(0)), x receives R (f(x) - f(0)) / f(x) and f(0) absorbs the rest, "
    "as epsilon -> 0; so also of k f(x) + a, whether numbers are steps of the function or not.",
    "proved",
)
def test_what_a_function_is_at_zero_absorbs_its_share_however_numbers_are_taken_out(
    record_property,
):
    assert identical(from_zero(F, AT_ZERO, R), R * (F - AT_ZERO) / F)
    whole = from_zero(K * F + A, K * AT_ZERO + A, R)
    in_steps = from_zero(F, AT_ZERO, scaled(F, K, beside(A, K * F, R)))
    assert identical(whole, in_steps)
    x = leaf("x")
    graph = parameter("a") + Node(kinds.ACTIVATION, (x,), attributes={"function": "relu"})
    at = {"x": sp.Symbol("x", positive=True), "a": A}
    assert identical(explain(graph, at, ATTNLRP, relevance=R)["x"], R * at["x"] / (at["x"] + A))
    record_property("method", "cancel over generic f, f(0), k, a, R; the sweep over a + relu")


@pytest.mark.theorem(
    75,
    "If f(x) = f(0) + s x, x receives s times per unit of x what arrives per unit of f(x): at most "
    "L times, where f changes by at most L |x|.",
    "proved",
)
def test_relevance_per_unit_grows_by_no_more_than_the_slope(record_property):
    f = AT_ZERO + SLOPE * X
    assert identical(from_zero(f, AT_ZERO, C * f) / X, SLOPE * C)
    record_property("method", "cancel over generic f(0), slope, x and R = c f(x)")


@pytest.mark.theorem(
    75,
    "By the identity rule on all of f(x) = f(0) + s x with f(0) not 0, x receives per unit of x "
    "any multiple of what arrives per unit of f(x), at some x near 0.",
    "proved",
)
def test_the_identity_rule_has_a_pole_where_a_function_is_not_zero_at_zero(record_property):
    at_zero = sp.Symbol("f0", real=True, nonzero=True)
    f = at_zero + SLOPE * X
    (passed,) = identity(number(C * f))
    near = at_zero / (SIZE - SLOPE)  # the larger the size, the nearer to 0
    assert identical((passed[0] / X).subs(X, near), SIZE * C)
    record_property("method", "cancel at x = f(0) / (size - slope), for a generic size")


@pytest.mark.theorem(
    75,
    "f(x) + a gets the same relevance by the identity rule as one function and as a sum of f(x) "
    "and a number.",
    "refuted",
)
def test_the_identity_rule_tells_a_number_inside_of_a_function_from_one_beside_it(record_property):
    (inside,), outside = identity(number(R)), identity(number(beside(A, F, R)))[0][0]
    at = {R: 1, F: sp.Rational(-3, 4), A: 1}
    assert differ_at(inside[0], outside, at)
    record_property("witness", f"f = -3/4, a = 1, R = 1: 1 versus {outside.subs(at)}")


@pytest.mark.theorem(
    75,
    "The sigmoid gets one relevance as e/(1 + e), as 1/2 + tanh(x/2)/2, and as 1 minus the sigmoid "
    "of -x, if every function's value at 0 is a fixed term.",
    "proved",
)
def test_all_spellings_of_a_sigmoid_get_one_relevance(record_property):
    half, sigmoid, tanh = sp.Rational(1, 2), E / (1 + E), (E - 1) / (E + 1)
    want = from_zero(sigmoid, half, R)
    assert identical(want, from_zero(tanh, 0, scaled(tanh, half, beside(half, half * tanh, R))))
    mirrored = 1 / (1 + E)
    assert identical(want, from_zero(mirrored, half, scaled(mirrored, -1, beside(1, -mirrored, R))))
    record_property("method", "cancel over e = exp(x) > 0 and R")


@pytest.mark.theorem(
    75,
    "SiLU gets the same relevance as one function, which is 0 at 0, and as the product of x and a "
    "sigmoid whose value at 0 is a fixed term.",
    "refuted",
)
def test_silu_as_a_product_by_a_sigmoid_of_its_own_absorbs(record_property):
    gate = E / (1 + E)
    whole = from_zero(X * gate, 0, R)
    r_x, r_gate = equal_split(2, number(R))
    parts = r_x[0] + from_zero(gate, sp.Rational(1, 2), r_gate[0])
    at = {R: 1, E: sp.Rational(1, 3), X: -1}
    assert differ_at(whole, parts, at)
    record_property("witness", f"e = 1/3, R = 1: 1 versus {parts.subs(at)}")

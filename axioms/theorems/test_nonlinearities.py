"""Activations: the identity rule on GELU and in ReLU networks, and the limits of its invariance."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, Composite
from lrp_axioms.axioms.decide.identity import differ_at, identical
from lrp_axioms.axioms.graph import leaf, linear, relu
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.products import equal_split
from lrp_axioms.axioms.rules.propagate import evaluate, explain
from lrp_axioms.axioms.rules.rule import sign_of

THEMES = {
    14: ["Linear layers, sums and activations"],
    15: ["Linear layers, sums and activations", "Implementation invariance"],
}
DERIVATIONS = {14: ["activation"]}
MEANINGS = {
    14: "GELU has several explanations, which depend on how its distribution function is written. "
    "A constant that is spelled out can absorb relevance without bound.",
    15: "In networks of ReLUs, relevance is gradient x input as epsilon -> 0, if biases are in "
    "the denominators. Otherwise two networks for one function can have different explanations.",
}

EPS = sp.Symbol("epsilon", positive=True)
R, PHI = sp.Symbol("R", real=True), sp.Symbol("Phi", positive=True)
BIAS_LEFT_OUT = Composite(
    "biases left out of the denominators",
    {**ATTNLRP.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS},
)


def scalar(value):
    return sp.Matrix([[value]])


def gelu_by_parts(to_phi):
    """Relevance of x under x Phi(x), where x gets ``to_phi(R_Phi)`` through Phi."""
    r_x, r_phi = equal_split(2, scalar(R))
    return (r_x + to_phi(r_phi))[0]


def through_erf(r_phi):
    """Phi = 1/2 + erf(x/sqrt 2)/2, a sum of a constant and of an activation of x, by Eq. 1."""
    half = sp.Rational(1, 2)
    _, r_erf = add([scalar(half), scalar(PHI - half)], r_phi, eps=0)
    return identity(r_erf)[0]


@pytest.mark.theorem(
    14,
    "Of GELU(x) = x Phi(x) with relevance R, x receives as epsilon -> 0 R from one activation, and "
    "from the product R if Phi is one activation, R/2 if Phi is held constant, and R (1 - 1/(4 "
    "Phi)) if Phi is written as 1/2 + erf(x/sqrt 2)/2, whose constant absorbs the rest: without "
    "bound as Phi -> 0.",
    "proved",
    given=["Phi > 0: values of the distribution function", "bound > 0: any bound"],
    scope="any R and Phi",
)
def test_gelu_has_three_explanations():
    assert identical(identity(scalar(R))[0][0], R)
    assert identical(gelu_by_parts(lambda r: identity(r)[0]), R)
    assert identical(gelu_by_parts(lambda r: sp.zeros(1, 1)), R / 2)
    found = gelu_by_parts(through_erf)
    assert identical(found, R * (1 - 1 / (4 * PHI)))
    bound = sp.Symbol("bound", positive=True)  # any: R_x is -bound R where Phi is small enough
    assert identical(found.subs(PHI, 1 / (4 * (1 + bound))), -bound * R)


def maxima():
    """max(a, b) as a + relu(b - a) and as b + relu(a - b)."""
    a, b = leaf("a"), leaf("b")
    return a + relu(b + linear(a, "minus")), b + relu(a + linear(b, "minus"))


def orderings():
    """The sign cases of max: generic a and b of both orders and both signs, and which is larger."""
    size, gap = sp.symbols("size gap", positive=True)
    for low in (size, -size - gap):
        yield {"a": low, "b": low + gap, "minus": -1}, "b"
        yield {"a": low + gap, "b": low, "minus": -1}, "a"


@pytest.mark.theorem(
    15,
    "One ReLU passes relevance on as gradient times input by the identity rule, at any input but "
    "0; so as epsilon -> 0, a network of ReLUs, sums and linear layers with their biases in the "
    "denominators gets gradient times input.",
    "proved",
    given=["size, gap > 0: sizes of inputs, in every order and sign"],
    scope="a ReLU, and two networks for max in every sign case; any network by induction",
)
def test_relu_networks_get_gradient_times_input_in_the_limit(record_property):
    size, g = (
        sp.Symbol("size", positive=True),
        sp.Symbol("g", real=True),
    )  # g: relevance per unit of output
    for x in (size, -size):
        y = sp.Max(x, 0)
        slope = int(sign_of(x) > 0)
        (r_x,) = identity(scalar(y * g))
        assert identical(r_x[0], x * slope * g)
    # sums and linear layers are theorems 6 and 8; here all of them together, d max = (0, 1)
    for at, larger in orderings():
        for network in maxima():
            found = explain(network, at, ATTNLRP)
            assert all(identical(found[x], at[x] if x == larger else 0) for x in "ab")
    record_property("method", "induction by operation; every sign case of two networks for max")


@pytest.mark.theorem(
    15,
    "a + relu(b - a) and b + relu(a - b), two networks for max(a, b), get the same relevance by "
    "Eq. 1 at finite epsilon.",
    "refuted",
)
def test_two_networks_for_the_maximum_disagree_at_finite_epsilon(record_property):
    for at, larger in orderings():  # the two are one function
        values = [evaluate(network, at)[network][0] for network in maxima()]
        assert all(identical(value, at[larger]) for value in values)
    at, _ = next(case for case in orderings() if case[0]["a"].is_positive)  # 0 < a < b
    one, other = (explain(network, at, ATTNLRP, eps=EPS) for network in maxima())
    point = {at["a"]: 1, at["b"] - at["a"]: 2, EPS: 1}
    assert all(differ_at(one[name], other[name], point) for name in "ab")
    shown = " versus ".join(
        str([found[name].subs(point) for name in "ab"]) for found in (one, other)
    )
    record_property("witness", f"a = 1, b = 3, eps = 1: {shown}")


def hinges():
    """relu(x1 - 1) + x2 and relu(1 - x1) + (x1 + x2 - 1), every bracket one linear layer of x."""
    x = leaf("x")
    return (
        relu(linear(x, "first", "minus")) + linear(x, "second"),
        relu(linear(x, "not first", "plus")) + linear(x, "both", "minus"),
    )


HINGE_WEIGHTS = {
    "first": sp.Matrix([1, 0]),
    "second": sp.Matrix([0, 1]),
    "not first": sp.Matrix([-1, 0]),
    "both": sp.Matrix([1, 1]),
    "plus": 1,
    "minus": -1,
}


@pytest.mark.theorem(
    15,
    "relu(x1 - 1) + x2 and relu(1 - x1) + (x1 + x2 - 1), two networks for one function, get the "
    "same relevance as epsilon -> 0 with biases left out of the denominators.",
    "refuted",
)
def test_two_networks_disagree_in_the_limit_if_biases_are_left_out(record_property):
    gap, x2 = sp.symbols("gap x2", positive=True)
    for x1, value in ((1 + gap, gap + x2), (1 - gap, x2)):  # the two are one function
        at = {"x": sp.Matrix([[x1, x2]]), **HINGE_WEIGHTS}
        assert all(identical(evaluate(net, at)[net][0], value) for net in hinges())
    at = {"x": sp.Matrix([[1 + gap, x2]]), **HINGE_WEIGHTS}
    one, other = (explain(network, at, BIAS_LEFT_OUT)["x"] for network in hinges())
    point = {gap: 2, x2: 1}
    assert all(differ_at(a, b, point) for a, b in zip(one, other, strict=True))
    assert identical(*(explain(network, at, ATTNLRP)["x"] for network in hinges()))
    shown = " versus ".join(str(list(found.subs(point))) for found in (one, other))
    record_property("witness", f"x = [3, 1]: {shown}")

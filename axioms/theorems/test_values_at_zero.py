"""Functions that are not 0 at 0: their value at 0 as a fixed term of a sum.

A function is the sum of its value at 0 and its change from there:

    f(x) = f(0) + (f(x) - f(0)),  the sum by Eq. 1, the difference by the identity rule
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, identical
from lrp_axioms.axioms.graph import leaf, parameter, relu
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.linear import add, epsilon
from lrp_axioms.axioms.rules.products import equal_split
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {75: ["Linear layers, sums and activations"]}
MEANINGS = {
    75: "The value of a function at 0 is a fixed term, as a bias is. So numbers and tensors are "
    "explained alike, all spellings of a sum or of a sigmoid get one relevance, and there is no "
    "pole at 0. By the identity rule on a whole function that is not 0 at 0, relevance is "
    "conserved, but multiplied without bound.",
}

F, AT_ZERO, R, C = sp.symbols("f f0 R c", real=True)
A, K, X, SLOPE, SIZE = sp.symbols("a k x slope size", real=True)
E = sp.Symbol("e", positive=True)  # exp(x)


def number(x):
    return sp.Matrix([[x]])


def beside(fixed, rest, relevance):
    """Relevance of ``rest`` in the sum of ``rest`` and a fixed term, as epsilon -> 0."""
    return add([number(fixed), number(rest)], number(relevance), eps=0)[1][0]


def from_zero(f, at_zero, relevance):
    """Relevance of x in f(x) = f(0) + (f(x) - f(0))."""
    (passed,) = identity(number(beside(at_zero, f - at_zero, relevance)))
    return passed[0]


def scaled(f, by, relevance):
    """Relevance of f in the product ``by`` * f."""
    return epsilon(number(f), number(by), number(relevance), eps=0)[0][0]


@pytest.mark.theorem(
    75,
    "In f(x) = f(0) + (f(x) - f(0)), x receives R (f(x) - f(0)) / f(x) and f(0) absorbs the rest, "
    "as epsilon -> 0; so it is for k f(x) + a, whether k and a are steps of the function or not.",
    "proved",
    given=["x > 0: the input of the ReLU"],
    scope="any f, f(0), k and a",
)
def test_what_a_function_is_at_zero_absorbs_its_share_however_numbers_are_taken_out(
    record_property,
):
    assert identical(from_zero(F, AT_ZERO, R), R * (F - AT_ZERO) / F)
    whole = from_zero(K * F + A, K * AT_ZERO + A, R)
    in_steps = from_zero(F, AT_ZERO, scaled(F, K, beside(A, K * F, R)))
    assert identical(whole, in_steps)
    x = leaf("x")
    graph = parameter("a") + relu(x)
    at = {"x": sp.Symbol("x", positive=True), "a": A}
    assert identical(explain(graph, at, ATTNLRP, relevance=R)["x"], R * at["x"] / (at["x"] + A))
    record_property("method", "the sweep over a + relu")


@pytest.mark.theorem(
    75,
    "If f(x) = f(0) + s x, the relevance per unit of x is s times the relevance per unit of f(x): "
    "at most L times, if |f(x) - f(0)| is at most L |x|.",
    "proved",
    scope="any f(0), s and x",
)
def test_relevance_per_unit_grows_by_no_more_than_the_slope():
    f = AT_ZERO + SLOPE * X
    assert identical(from_zero(f, AT_ZERO, C * f) / X, SLOPE * C)


@pytest.mark.theorem(
    75,
    "By the identity rule on all of f(x) = f(0) + s x with f(0) not 0, the relevance per unit of x "
    "is m times the relevance per unit of f(x) at x = f(0) / (m - s), for any m but 0 and s.",
    "proved",
    scope="any f(0), s and m",
)
def test_the_identity_rule_has_a_pole_where_a_function_is_not_zero_at_zero(record_property):
    at_zero = sp.Symbol("f0", real=True)
    f = at_zero + SLOPE * X
    (passed,) = identity(number(C * f))
    near = at_zero / (SIZE - SLOPE)  # the larger the size, the nearer to 0
    assert identical((passed[0] / X).subs(X, near), SIZE * C)
    record_property("method", "cancel at x = f(0) / (size - slope), for a generic size")


@pytest.mark.theorem(
    75,
    "By the identity rule, x gets one relevance from f(x) + a as one function and from f(x) + a as "
    "a sum of f(x) and a number.",
    "refuted",
)
def test_the_identity_rule_tells_a_number_inside_of_a_function_from_one_beside_it(record_property):
    (inside,), outside = identity(number(R)), identity(number(beside(A, F, R)))[0][0]
    at = {R: 1, F: sp.Rational(-3, 4), A: 1}
    assert differ_at(inside[0], outside, at)
    record_property("witness", f"f = -3/4, a = 1, R = 1: 1 versus {outside.subs(at)}")


@pytest.mark.theorem(
    75,
    "If the value of every function at 0 is a fixed term, x gets one relevance from the sigmoid as "
    "e/(1 + e), as 1/2 + tanh(x/2)/2, and as 1 minus the sigmoid of -x.",
    "proved",
    scope="any x",
)
def test_all_spellings_of_a_sigmoid_get_one_relevance():
    half, sigmoid, tanh = sp.Rational(1, 2), E / (1 + E), (E - 1) / (E + 1)
    want = from_zero(sigmoid, half, R)
    assert identical(want, from_zero(tanh, 0, scaled(tanh, half, beside(half, half * tanh, R))))
    mirrored = 1 / (1 + E)
    assert identical(want, from_zero(mirrored, half, scaled(mirrored, -1, beside(1, -mirrored, R))))


@pytest.mark.theorem(
    75,
    "x gets one relevance from SiLU as one function and from SiLU as a product of x and a sigmoid "
    "whose value at 0 is a fixed term.",
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

"""Products of two activations: Eqs. 3 and 4, and the depth law of linear attention.

Main statements
  7  each factor of O = A V receives R O / (2 O + eps sign O), half of R as eps -> 0 (Eq. 3); the
     same holds for Z = Q K' / sqrt(d), which is stabilised after the scaling (Eq. 4)
  7  stabilised before the scaling, the relevance differs at finite eps
  7  the value-only readout of CP-LRP gives V all of it, R O / (O + eps sign O), and A nothing
  8  as eps -> 0 and without bias, relevance along a path that passes d products of two is gradient
     times input divided by 2**d, and relevance is the sum over paths
  8  so linear attention (Q K') V gives q/4 + k/4 + v/2 and Q (K' V) gives q/2 + k/4 + v/4, where
     q, k, v are gradient x input through each projection: they differ by (v - q)/4, not through K
"""

import operator
from functools import reduce

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import Composite
from axioms.decide import differ_at, generic, identical, sign_cases
from axioms.graph import TRANSPOSE, Node, leaf, parameter
from axioms.propagate import evaluate, explain
from axioms.rules import add, bilinear_epsilon, epsilon, linear_map, value_only

EPS = sp.Symbol("epsilon", positive=True)
D = sp.Symbol("sqrt_d", positive=True)  # the square root of the head size
ATTNLRP = Composite(
    "attnlrp without bias",
    {
        kinds.LINEAR: kinds.EPSILON,
        kinds.ADD: kinds.EPSILON,
        kinds.BILINEAR: kinds.BILINEAR_EPSILON,
    },
)


def gradient_x_input(f, x, at=None):
    """x df/dx entry by entry, evaluated at ``at`` after the derivative is taken."""
    return x.applyfunc(lambda e: (e * sp.diff(f, e)).subs(at or {}))


@pytest.mark.theorem(
    7,
    "By Eq. 3, A and V each receive exactly the sum of R O/(2 O + epsilon sign O): half of the "
    "relevance of O = AV as epsilon -> 0.",
    "proved",
)
def test_the_readout_gives_each_factor_a_known_share(record_property):
    a, v, r = generic("a", 1, 2), generic("v", 2, 2), generic("r", 1, 2)
    o = a * v
    for s in sign_cases(1, 2):
        r_a, r_v = bilinear_epsilon(a, v, r, eps=EPS, sign=s)
        expected = sum(r[p] * o[p] / (2 * o[p] + EPS * s[p]) for p in range(2))
        assert identical(sum(r_a), expected)
        assert identical(sum(r_v), expected)
        assert identical(expected.subs(EPS, 0), sum(r) / 2)
    record_property("method", "cancel over generic A (1 x 2) and V (2 x 2), every sign case")


@pytest.mark.theorem(
    7,
    "By Eq. 4, Q and K each receive exactly the sum of R Z/(2 Z + epsilon sign Z), where Z is "
    "QK'/sqrt(d): half of the relevance of Z as epsilon -> 0.",
    "proved",
)
def test_the_scores_give_each_factor_a_known_share(record_property):
    q, k, r = generic("q", 1, 2), generic("k", 2, 2), generic("r", 1, 2)
    z = q * k.T / D
    for s in sign_cases(1, 2):
        r_q, r_k = bilinear_epsilon(q, k.T, r, eps=EPS, scale=1 / D, sign=s)
        expected = sum(r[i] * z[i] / (2 * z[i] + EPS * s[i]) for i in range(2))
        assert identical(sum(r_q), expected)
        assert identical(sum(r_k), expected)
        assert identical(expected.subs(EPS, 0), sum(r) / 2)
        for c in range(2):  # entry by entry, so that no factor can be traded within a sum
            messages = [q[c] * k[i, c] / D * r[i] / (2 * z[i] + EPS * s[i]) for i in range(2)]
            assert identical(r_q[c], sum(messages))
            assert all(identical(r_k[c, i], messages[i]) for i in range(2))
    record_property("method", "cancel over generic Q (1 x 2) and K (2 x 2), every sign case")


@pytest.mark.theorem(
    7,
    "Stabilising the scores before or after their division by sqrt(d) gives the same relevance.",
    "refuted",
)
def test_the_order_of_scaling_and_stabilising_matters_at_finite_epsilon(record_property):
    q, k, r = sp.Matrix([[2]]), sp.Matrix([[3]]), sp.Matrix([[5]])
    eps, root_d = sp.Rational(1, 4), 2
    after, _ = bilinear_epsilon(q, k, r, eps=eps, scale=sp.Rational(1, root_d))
    before, _ = bilinear_epsilon(q, k, r, eps=eps)
    assert differ_at(after[0], before[0], {})
    record_property("witness", f"q k = {(q * k)[0]}, d = {root_d**2}: {before[0]} vs {after[0]}")


@pytest.mark.theorem(
    7,
    "Held constant, A receives nothing and V receives exactly the sum of R O/(O + epsilon sign O): "
    "all of the relevance of O = AV as epsilon -> 0 (CP-LRP).",
    "proved",
)
def test_the_value_only_readout_gives_everything_to_the_values(record_property):
    a, v, r = generic("a", 1, 2), generic("v", 2, 2), generic("r", 1, 2)
    o = a * v
    for s in sign_cases(1, 2):
        r_a, r_v = value_only(a, v, r, eps=EPS, sign=s)
        expected = sum(r[p] * o[p] / (o[p] + EPS * s[p]) for p in range(2))
        assert r_a == sp.zeros(1, 2)
        assert identical(sum(r_v), expected)
        assert identical(expected.subs(EPS, 0), sum(r))
        assert identical(r_v[0, 0], a[0] * v[0, 0] * r[0] / (o[0] + EPS * s[0]))
    record_property("method", "cancel over generic A (1 x 2) and V (2 x 2), every sign case")


@pytest.mark.theorem(
    8,
    "As epsilon -> 0 and without bias, one operation passes relevance on as gradient times input: "
    "whole through a sum or a linear map, halved through a product of two.",
    "proved",
)
def test_one_operation_is_gradient_times_input_halved_by_products(record_property):
    a, b, w = generic("a", 2, 2), generic("b", 2, 2), generic("w", 2, 2)
    g = generic("g", 2, 2)  # relevance per unit of output: the modified gradient that arrives

    def agrees(received, x, output, factor):
        # what arrives is held constant: g are symbols of their own
        f = sum(output.multiply_elementwise(g))
        return identical(received, factor * gradient_x_input(f, x))

    z = linear_map(a, w)
    assert agrees(epsilon(a, w, z.multiply_elementwise(g), eps=0)[0], a, z, 1)
    total = add([a, b], (a + b).multiply_elementwise(g), eps=0)
    assert agrees(total[0], a, a + b, 1)
    assert agrees(total[1], b, a + b, 1)
    halves = bilinear_epsilon(a, b, (a * b).multiply_elementwise(g), eps=0)
    assert agrees(halves[0], a, a * b, sp.Rational(1, 2))
    assert agrees(halves[1], b, a * b, sp.Rational(1, 2))
    record_property("method", "cancel over generic 2 x 2 operands; the induction step of the law")


@pytest.mark.theorem(
    8,
    "As epsilon -> 0 and without bias, relevance is the sum over paths of gradient times input "
    "divided by 2^d, where d counts the products of two on the path.",
    "proved",
)
def test_relevance_is_a_sum_over_paths_halved_once_per_product(record_property):
    x, w, y = leaf("x"), parameter("w"), leaf("y")
    scaled = Node(kinds.LINEAR, (x, w))
    at = {name: sp.Symbol(name, real=True) for name in "xyw"}
    terms = [scaled, scaled @ y, (x @ scaled) @ y]  # x by paths of 0, 1, and twice 2 products
    found = explain(reduce(operator.add, terms), at, ATTNLRP)
    a, b, c = at.values()
    assert identical(found["x"], a * c + a * c * b / 2 + 2 * a * a * c * b / 4)
    assert identical(found["y"], a * c * b / 2 + a * a * c * b / 2)
    record_property("method", "induction by operation; one graph with paths of 0, 1 and 2 products")


SIZES = [(2, 1, 1), (2, 2, 1)]  # tokens, channels of the input and of q and k, channels of v
WEIGHTS = ("W_q", "W_k", "W_v")


def linear_attention():
    """The two factorizations, as graphs over one input x."""
    x = leaf("x")
    q, k, v = (Node(kinds.LINEAR, (x, parameter(name))) for name in WEIGHTS)
    k_t = Node(TRANSPOSE, (k,))
    return (q @ k_t) @ v, q @ (k_t @ v)


def generic_point(tokens, width, out):
    shapes = zip(WEIGHTS, "abc", (width, width, out), strict=True)
    weights = {name: generic(letter, width, columns) for name, letter, columns in shapes}
    return {"x": generic("x", tokens, width), **weights}


def through_each_projection(at):
    """Gradient x input of sum(O) at x with only q, only k, or only v depending on x."""
    copies = [generic(name, *at["x"].shape) for name in ("xq", "xk", "xv")]
    q, k, v = (x * at[w] for x, w in zip(copies, WEIGHTS, strict=True))
    back = {c: e for copy in copies for c, e in zip(copy, at["x"], strict=True)}
    return [gradient_x_input(sum(q * k.T * v), copy, back) for copy in copies]


@pytest.mark.theorem(
    8,
    "In linear attention (QK')V gives q/4 + k/4 + v/2 and Q(K'V) gives q/2 + k/4 + v/4, where q, k "
    "and v are gradient times input through each projection.",
    "proved",
)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("factorization", "divisors"), [(0, (4, 4, 2)), (1, (2, 4, 4))], ids=["qk_first", "kv_first"]
)
def test_each_factorization_of_linear_attention_halves_by_its_own_depths(
    factorization, divisors, size, record_property
):
    at = generic_point(*size)
    parts = through_each_projection(at)
    found = explain(linear_attention()[factorization], at, ATTNLRP)["x"]
    expected = [part / divisor for part, divisor in zip(parts, divisors, strict=True)]
    assert identical(found, sum(expected, sp.zeros(*found.shape)))
    record_property("method", f"the sweep over generic inputs and weights at {len(SIZES)} sizes")


@pytest.mark.theorem(
    8,
    "(QK')V and Q(K'V) give relevances that differ by exactly (v - q)/4: not through the keys.",
    "proved",
)
def test_the_factorizations_differ_through_queries_and_values_alone(record_property):
    at = generic_point(*SIZES[0])
    q, _, v = through_each_projection(at)
    qk_first, kv_first = (explain(graph, at, ATTNLRP)["x"] for graph in linear_attention())
    assert identical(qk_first - kv_first, (v - q) / 4)
    record_property("method", f"cancel over generic inputs and weights of size {SIZES[0]}")


@pytest.mark.theorem(
    8,
    "(QK')V and Q(K'V), two implementations of linear attention, get the same relevance.",
    "refuted",
)
def test_the_factorizations_of_linear_attention_disagree(record_property):
    point = {"x": sp.Matrix([1, 2]), **dict.fromkeys(WEIGHTS, sp.Matrix([[1]]))}
    qk_first, kv_first = linear_attention()
    one, two = (explain(graph, point, ATTNLRP)["x"] for graph in (qk_first, kv_first))
    assert evaluate(qk_first, point)[qk_first] == evaluate(kv_first, point)[kv_first]
    assert all(differ_at(a, b, {}) for a, b in zip(one, two, strict=True))
    record_property("witness", f"x = {list(point['x'])}: {list(one)} versus {list(two)}")

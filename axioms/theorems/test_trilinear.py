"""Linear attention as one operation: O = Q K' V merged into a product of three matrices."""

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import generic, identical, limit
from lrp_axioms.axioms.graph import TRANSPOSE, Node, leaf, linear
from lrp_axioms.axioms.rewrites.canonizers import merge_attention
from lrp_axioms.axioms.rules.products import chain_epsilon
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {9: ["Products", "Implementation invariance"]}
DERIVATIONS = {9: ["merged attention"]}
MEANINGS = {
    9: "As one product of three factors, linear attention has one explanation, whichever of its "
    "two factorizations is merged. It conserves as epsilon -> 0.",
}

EPS = sp.Symbol("epsilon", positive=True)
SIZES = [(2, 1, 1), (1, 2, 1)]  # tokens, channels of the input and of q and k, channels of v
WEIGHTS = ("W_q", "W_k", "W_v")


def linear_attention():
    """The two factorizations (QK')V and Q(K'V), as graphs over one input x."""
    x = leaf("x")
    q, k, v = (linear(x, name) for name in WEIGHTS)
    k_t = Node(TRANSPOSE, (k,))
    return (q @ k_t) @ v, q @ (k_t @ v)


def generic_point(tokens, width, out):
    shapes = zip(WEIGHTS, "abc", (width, width, out), strict=True)
    weights = {name: generic(letter, width, columns) for name, letter, columns in shapes}
    return {"x": generic("x", tokens, width), **weights}


def paths(at):
    """Gradient x input of sum(O) with only q, only k and only v moving."""
    x, w = at["x"], [at[name] for name in WEIGHTS]
    q, k, v = (x * weight for weight in w)
    ones = sp.ones(q.rows, v.cols)
    slopes = ones * (k.T * v).T, (q.T * ones * v.T).T, (q * k.T).T * ones  # of sum(O) in q, k, v
    return [x.multiply_elementwise(s * weight.T) for s, weight in zip(slopes, w, strict=True)]


@pytest.mark.theorem(
    9,
    "Merged into one operation, O = QK'V gives each of Q, K and V exactly the sum of R O/(3 O + "
    "epsilon sign O): a third of the relevance as epsilon -> 0.",
    "proved",
    scope="Q of 1 x 2, K' of 2 x 2 and V of 2 x 1; either sign",
)
def test_the_merged_product_gives_each_matrix_the_same_known_share():
    factors = generic("q", 1, 2), generic("k", 2, 2), generic("v", 2, 1)
    (o,), (r, s) = factors[0] * factors[1] * factors[2], sp.symbols("R s", real=True)
    found = chain_epsilon(factors, sp.Matrix([[r]]), eps=EPS, sign=sp.Matrix([[s]]))
    for factor, r_factor in zip(factors, found, strict=True):
        assert identical(sum(r_factor), r * o / (3 * o + EPS * s))
        assert identical(sum(limit(r_factor, EPS)), r / 3)
        for x, r_x in zip(factor, r_factor, strict=True):  # entry by entry: value x slope of o
            assert identical(r_x, x * sp.diff(o, x) * r / (3 * o + EPS * s))


@pytest.mark.theorem(
    9,
    "Merged, both factorizations of linear attention give q/3 + k/3 + v/3 as epsilon -> 0, where "
    "q, k and v are gradient times input through each projection; the sum over x is the output.",
    "proved",
    scope="2 tokens of 1 channel, and 1 token of 2 channels",
)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_merged_linear_attention_is_invariant_and_conserves(size, record_property):
    at, originals = generic_point(*size), linear_attention()
    qk_first, kv_first = map(merge_attention, originals)
    assert qk_first.args == kv_first.args  # the same three nodes in the same order
    value = evaluate(qk_first, at)[qk_first]
    assert all(identical(value, evaluate(graph, at)[graph]) for graph in originals)
    found = explain(qk_first, at, ATTNLRP)["x"]
    expected = sum((path / 3 for path in paths(at)), sp.zeros(*at["x"].shape))
    assert identical(found, expected)
    assert identical(sum(expected), sum(value))
    record_property("method", f"the sweep over generic inputs and weights at {len(SIZES)} sizes")

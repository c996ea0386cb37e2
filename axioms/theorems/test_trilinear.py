"""Linear attention as one operation: O = Q K' V merged into a product of three matrices.

Main statements
  9  each of Q, K', V receives R O / (3 O + eps sign O) in all: a third of R as eps -> 0
  9  merged, (QK')V and Q(K'V) are one graph, which gives q/3 + k/3 + v/3 and conserves: q, k and
     v are gradient x input through each projection
"""

from dataclasses import replace

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.decide import differ_at, generic, identical, limit, where
from axioms.algebra.propagate import evaluate, explain
from axioms.algebra.rules import chain_epsilon
from axioms.composites import ATTNLRP
from axioms.graph import TRANSPOSE, Node, leaf, parameter

EPS = sp.Symbol("epsilon", positive=True)
WEIGHTS = ("W_q", "W_k", "W_v")
MERGED = {kinds.BILINEAR: lambda node, xs, r, options: chain_epsilon(xs, r, **options)}
SIZES = [(2, 1, 1), (1, 2, 1)]  # tokens, channels of the input and of q and k, channels of v


def factorizations():
    """(QK')V and Q(K'V) over one input x."""
    x = leaf("x")
    q, k, v = (Node(kinds.LINEAR, (x, parameter(name))) for name in WEIGHTS)
    k_t = Node(TRANSPOSE, (k,))
    return (q @ k_t) @ v, q @ (k_t @ v)


def merged(root):
    """A product of matrices that has a product among its factors, as one product."""
    parts = ((arg.args if arg.op == kinds.BILINEAR else (arg,)) for arg in root.args)
    return replace(root, args=tuple(factor for part in parts for factor in part))


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
)
def test_the_merged_product_gives_each_matrix_the_same_known_share(record_property):
    factors = generic("q", 1, 2), generic("k", 2, 2), generic("v", 2, 1)
    (o,), r, s = factors[0] * factors[1] * factors[2], sp.Symbol("R"), sp.Symbol("s")
    found = chain_epsilon(factors, sp.Matrix([[r]]), eps=EPS, sign=sp.Matrix([[s]]))
    for factor, r_factor in zip(factors, found, strict=True):
        assert identical(sum(r_factor), r * o / (3 * o + EPS * s))
        assert identical(sum(limit(r_factor, EPS)), r / 3)
        for x, r_x in zip(factor, r_factor, strict=True):  # entry by entry: value x slope of o
            assert identical(r_x, x * sp.diff(o, x) * r / (3 * o + EPS * s))
    record_property("method", "cancel over generic Q (1 x 2), K' (2 x 2), V (2 x 1), generic sign")


@pytest.mark.theorem(
    9,
    "Merged, both factorizations of linear attention give q/3 + k/3 + v/3 as epsilon -> 0, where "
    "q, k and v are gradient times input through each projection; the sum over x is the output.",
    "proved",
)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_merged_linear_attention_is_invariant_and_conserves(size, record_property):
    at, originals = generic_point(*size), factorizations()
    qk_first, kv_first = map(merged, originals)
    assert qk_first.args == kv_first.args  # the same three nodes in the same order
    value = evaluate(qk_first, at)[qk_first]
    assert all(identical(value, evaluate(graph, at)[graph]) for graph in originals)
    found = explain(qk_first, at, ATTNLRP, instead=MERGED)["x"]
    expected = sum((path / 3 for path in paths(at)), sp.zeros(*at["x"].shape))
    assert identical(found, expected)
    assert identical(sum(expected), sum(value))
    record_property("method", f"the sweep over generic inputs and weights at {len(SIZES)} sizes")


@pytest.mark.theorem(
    9,
    "The explanation by the merged product is that of one of the two factorizations.",
    "refuted",
)
def test_the_merged_explanation_is_neither_of_the_factored_ones(record_property):
    at = generic_point(*SIZES[0])
    point = where((at["x"], [1, 2]), *((at[name], [1]) for name in WEIGHTS))
    factored = [explain(graph, at, ATTNLRP)["x"] for graph in factorizations()]
    found = explain(merged(factorizations()[0]), at, ATTNLRP, instead=MERGED)["x"]
    for other in factored:
        assert all(differ_at(a, b, point) for a, b in zip(found, other, strict=True))
        assert identical(sum(other), sum(found))
    one, *others = (list(r.subs(point)) for r in (found, *factored))
    record_property("witness", f"x = [1, 2]: {one} versus {' and '.join(map(str, others))}")

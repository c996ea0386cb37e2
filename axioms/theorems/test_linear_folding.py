"""Linear layers folded, split, re-associated and distributed: one function, several graphs."""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, limit, where
from lrp_axioms.axioms.graph import leaf, topological
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rules.linear import (
    add,
    add_by_size,
    epsilon,
    epsilon_without_bias,
    linear_map,
)
from lrp_axioms.axioms.rules.propagate import evaluate, explain
from lrp_axioms.axioms.rules.rule import sign_of

THEMES = {
    11: ["Implementation invariance", "Linear layers, sums and activations"],
    12: ["Implementation invariance", "Linear layers, sums and activations"],
}
DERIVATIONS = {12: ["add", "sum split by absolute value"]}
MEANINGS = {
    11: "As epsilon -> 0, two linear layers can be folded into one without a change of the "
    "explanation, if their biases are in the denominators. At finite epsilon the two layers pass "
    "on less along each path through a hidden unit.",
    12: "As epsilon -> 0, sums can be nested and distributed over products without a change of "
    "the explanation. Splitting a sum by absolute values loses the first, and merging products "
    "the second.",
}

EPS = sp.Symbol("epsilon", positive=True)
X, W1, W2 = generic("x", 1, 2), generic("v", 2, 2), generic("w", 2, 2)
B1, B2, R = generic("a", 1, 2), generic("b", 1, 2), generic("r", 1, 2)
S1, S2 = generic("s", 1, 2), generic("t", 1, 2)  # signs, by one symbol each: so in every case


def two_layers(rule, *, eps, biases=(None, None), signs=(None, None), point=(X, W1, W2, R)):
    """Relevance of x under (x W1 + b1) W2 + b2, and under one layer with their product."""
    x, w1, w2, r = point
    b1, b2 = biases
    h = linear_map(x, w1, b1)
    (r_h,) = rule(h, w2, r, eps=eps, bias=b2, sign=signs[1])
    (split,) = rule(x, w1, r_h, eps=eps, bias=b1, sign=signs[0])
    bias = None if b1 is None else linear_map(b1, w2, b2)
    (folded,) = rule(x, w1 * w2, r, eps=eps, bias=bias, sign=signs[1])
    return split, folded


def in_the_limit(rule, signs=(S1, S2), **options):
    """``two_layers`` as epsilon -> 0, layer by layer: a rule is linear in the relevance."""

    def limits(*layer, **given):
        return [limit(r, EPS) for r in rule(*layer, **given)]

    return two_layers(limits, eps=EPS, signs=signs, **options)


@pytest.mark.theorem(
    11,
    "As epsilon -> 0, two linear layers and the one layer that they make up get the same relevance "
    "by Eq. 1, if they have no biases or these are in the denominators.",
    "proved",
    scope="2 x 2 layers",
)
def test_folding_keeps_relevance_if_biases_are_in_the_denominator():
    r = linear_map(linear_map(X, W1, B1), W2, B2).multiply_elementwise(R)  # R per unit of output
    assert identical(*in_the_limit(epsilon, biases=(B1, B2), point=(X, W1, W2, r)))


@pytest.mark.theorem(
    11,
    "As epsilon -> 0, two linear layers and the one layer that they make up get the same relevance "
    "with biases that are left out of the denominators of Eq. 1.",
    "refuted",
)
def test_folding_changes_relevance_if_biases_are_left_out(record_property):
    w1, w2, b2, r = sp.diag(*W1[0, :]), W2[:, :1], B2[:, :1], R[:, :1]
    given = {"biases": (B1, b2), "signs": (S1, S2[:, :1]), "point": (X, w1, w2, r)}
    split, folded = in_the_limit(epsilon_without_bias, **given)
    point = where((X, [1, 1]), (W1[0, :], [1, 1]), (w2, [1, 1]), (B1, [1, 0]), (b2, [0]), (r, [3]))
    assert all(differ_at(a, b, point) for a, b in zip(split, folded, strict=True))
    record_property(
        "witness", "x = (1, 1), W1 = 1, b1 = (1, 0), W2 = (1, 1), R = 3: 2, 1 versus 3/2, 3/2"
    )


@pytest.mark.theorem(
    11,
    "Without biases at finite epsilon, the part of input i that passes hidden unit h is h/(h + "
    "epsilon sign h) of the same part of the folded layer: the split layers absorb the rest.",
    "proved",
    scope="2 x 2 layers; either sign",
)
def test_split_layers_keep_a_known_part_of_every_path():
    h, z = X * W1, X * W1 * W2
    g = generic("g", 1, 2)  # relevance per unit of stabilised output, as generic as R is
    r = sp.Matrix([[g[j] * (z[j] + EPS * S2[j]) for j in range(2)]])
    split, folded = two_layers(epsilon, eps=EPS, signs=(S1, S2), point=(X, W1, W2, r))
    for i in range(2):
        paths = [X[i] * W1[i, k] * sum(W2[k, j] * g[j] for j in range(2)) for k in range(2)]
        kept = [h[k] / (h[k] + EPS * S1[k]) for k in range(2)]
        lost = [EPS * S1[k] / (h[k] + EPS * S1[k]) for k in range(2)]
        assert identical(folded[i], sum(paths))
        assert identical(split[i], sum(kept[k] * paths[k] for k in range(2)))
        assert identical(folded[i] - split[i], sum(lost[k] * paths[k] for k in range(2)))


A, B, C = (generic(name, 1, 1) for name in "abc")
R1 = R[:, :1]


@pytest.mark.theorem(
    12,
    "As epsilon -> 0, (a + b) + c and a + b + c get the same relevance; at finite epsilon a and b "
    "of the nested sum get (a + b)/(a + b + epsilon sign(a + b)) times as much.",
    "proved",
    scope="three terms; either sign",
)
def test_reassociating_a_sum_changes_nothing_in_the_limit():
    s_inner, s_outer = S1[:, :1], S2[:, :1]
    flat = add([A, B, C], R1, eps=EPS, sign=s_outer)
    r_inner, r_c = add([A + B, C], R1, eps=EPS, sign=s_outer)
    nested = (*add([A, B], r_inner, eps=EPS, sign=s_inner), r_c)
    inner = A[0] + B[0]
    kept = inner / (inner + EPS * s_inner[0])
    for one, other, factor in zip(nested, flat, (kept, kept, 1), strict=True):
        assert identical(one[0], other[0] * factor)
        assert identical(limit(one[0], EPS), limit(other[0], EPS))


def swept(graph, at):
    """Relevance of the leaves as epsilon -> 0, each operation with a generic sign of its own."""
    signs = {node: sp.Matrix([[sp.Dummy("s")]]) for node in topological(graph)}
    found = explain(graph, at, ATTNLRP, eps=EPS, signs=signs)
    return {name: limit(r, EPS) for name, r in found.items()}


@pytest.mark.theorem(
    12,
    "As epsilon -> 0, (a + b) c and a c + b c get the same relevance.",
    "proved",
    scope="three numbers",
)
def test_a_product_of_two_distributes_over_a_sum_in_the_limit(record_property):
    a, b, c = map(leaf, "abc")
    at = {name: sp.Symbol(name, real=True) for name in "abc"}
    one, other = (swept(graph, at) for graph in ((a + b) * c, a * c + b * c))
    assert all(identical(one[name], other[name]) for name in at)
    record_property("method", "the sweep over generic a, b and c, as 1 x 1 matrices")


@pytest.mark.theorem(
    12,
    "With nested products merged, as epsilon -> 0, (a + b d) c and a c + b d c get the same "
    "relevance.",
    "refuted",
)
def test_merged_products_do_not_distribute_over_terms_of_unequal_degree(record_property):
    a, b, c, d = map(leaf, "abcd")
    graphs = [merge_products(graph) for graph in ((a + b * d) * c, a * c + b * d * c)]
    at = {name: sp.Symbol(name, real=True) for name in "abcd"}
    assert identical(*(evaluate(graph, at)[graph] for graph in graphs))
    one, other = (swept(graph, at)["c"] for graph in graphs)
    point = dict(zip(at.values(), (1, 2, 6, 1), strict=True))
    assert differ_at(one, other, point)
    record_property("witness", "a = 1, b = 2, c = 6, d = 1, both 18: c gets 9 versus 7")


@pytest.mark.theorem(
    12,
    "Splitting a sum by sizes, R |a|/(|a| + |b|), conserves relevance as epsilon -> 0, and is Eq. "
    "1 if all operands share one sign.",
    "proved",
    given=["a, b, c > 0: sizes"],
    scope="three terms, every sign case",
)
def test_the_split_by_size_conserves():
    sizes = [sp.Matrix([[size]]) for size in sp.symbols("a b c", positive=True)]
    for signs in itertools.product((1, -1), repeat=3):
        operands = [s * size for s, size in zip(signs, sizes, strict=True)]
        by_size = [limit(r, EPS) for r in add_by_size(operands, R1, eps=EPS)]
        assert identical(sum(r[0] for r in by_size), R1[0])
        if len(set(signs)) == 1:
            by_eq_1 = [limit(r, EPS) for r in add(operands, R1, eps=EPS)]
            assert all(identical(a, b) for a, b in zip(by_size, by_eq_1, strict=True))


@pytest.mark.theorem(
    12,
    "Split by sizes, as epsilon -> 0, the sum (a + b) + c of nonzero terms, |a| not |b|, gives a "
    "exactly |a + b| (|a| + |b| + |c|)/((|a| + |b|)(|a + b| + |c|)) times what a + b + c gives it: "
    "the same if and only if a and b share one sign.",
    "proved",
    given=["size, gap, c > 0: |a|, |b| and |c| are made of them"],
    scope="three terms, every order of |a| and |b|, every sign of a, b and c",
)
def test_the_split_by_size_keeps_brackets_around_one_sign_only():
    size, gap, c = sp.symbols("size gap c", positive=True)
    orders = (size, size + gap), (size + gap, size)
    for (size_a, size_b), *signs in itertools.product(orders, *[(1, -1)] * 3):
        sizes = zip(signs, (size_a, size_b, c), strict=True)
        a, b, outer = (sp.Matrix([[s * size]]) for s, size in sizes)
        inner = (a + b).applyfunc(sp.expand)
        flat = add_by_size([a, b, outer], R1, eps=EPS)
        r_inner, _ = add_by_size([inner, outer], R1, eps=EPS)
        nested = add_by_size([a, b], r_inner, eps=EPS)
        total, left = sp.expand(size_a + size_b), inner[0] * sign_of(inner[0])
        factor = left * (total + c) / (total * (left + c))
        assert identical(limit(nested[0][0], EPS), limit(flat[0][0], EPS) * factor)
        # the factor is 1 where the two sides of the fraction do not differ: c > 0
        assert identical(left * (total + c) - total * (left + c), c * (left - total))
        assert identical(left, total) == (signs[0] == signs[1])

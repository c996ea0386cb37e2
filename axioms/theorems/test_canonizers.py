"""Canonizers: one graph, and so one explanation, for implementations of one function.

Main statements
  40  merged, all 14 bracketings of all 120 orderings of 5 factors give each factor R/5
  41  folded, every grouping of three linear layers with biases is one layer: one explanation, at
      every epsilon; unfolded, they disagree at finite epsilon
  42  BatchNorm after a linear layer is explained differently folded and unfolded, whether its
      scale shares relevance or it hands relevance through; folded by the canonizer, once
  43  merged, both factorizations of linear attention give q/3 + k/3 + v/3 and conserve
  44  no canonizer repairs distribution: it even breaks the agreement that unmerged products have
  44  nor does any put a decomposed softmax together
"""

import itertools
from math import comb, factorial

import pytest
import sympy as sp

from axioms import kinds
from axioms.algebra.decide import differ_at, generic, identical, where
from axioms.algebra.denotation import same_function
from axioms.algebra.propagate import evaluate, explain
from axioms.algebra.rules import epsilon, identity
from axioms.composites import ATTNLRP
from axioms.graph import TRANSPOSE, Node, leaf, parameter, topological
from axioms.invariance.canonizers import (
    canonize,
    fold_batch_norm,
    fold_linear,
    merge_attention,
    merge_products,
)
from axioms.invariance.channels import batch_norm
from axioms.invariance.rewrites import REWRITES, bracketings

EPS = sp.Symbol("epsilon", positive=True)
R = sp.Symbol("R", real=True, nonzero=True)


def linear(*operands):
    return Node(kinds.LINEAR, operands)


def signs(root, at):
    """One symbol per sign of every value; equal values have equal signs."""
    return {
        node: value.applyfunc(lambda z: sp.Symbol(f"sign({sp.cancel(z)})"))
        for node, value in evaluate(root, at).items()
    }


def agree(one, other):
    return all(identical(sp.Matrix([one[x]]), sp.Matrix([other[x]])) for x in one)


@pytest.mark.theorem(
    40,
    "Merged, each of the 14 bracketings of each of the 120 orderings of 5 factors gives every "
    "factor R/5; unmerged, the bracketings of one ordering give 14 explanations.",
    "proved",
)
def test_merged_products_of_five_have_one_explanation(record_property):
    n, names = 5, "abcde"
    ones = dict.fromkeys(names, 1)  # the rule reads no value
    unmerged, graphs = [], 0
    for ordering in itertools.permutations(map(leaf, names)):
        for tree in bracketings(ordering):
            graphs += 1
            merged = merge_products(tree)
            assert merged.args == ordering  # one product, the same for all brackets
            if ordering == tuple(sorted(ordering, key=lambda x: x.name)):
                unmerged.append(explain(tree, ones, ATTNLRP, relevance=R))
        assert all(
            identical(r, R / n) for r in explain(merged, ones, ATTNLRP, relevance=R).values()
        )
    assert graphs == factorial(n) * comb(2 * n - 2, n - 1) // n
    assert not any(agree(*pair) for pair in itertools.combinations(unmerged, 2))
    assert len(unmerged) == comb(2 * n - 2, n - 1) // n
    record_property("method", f"all {graphs} graphs merged, one sweep per ordering, generic R")


X, W1, B1, W2, B2, W3 = (
    leaf("x"),
    *(parameter(name) for name in ("w1", "b1", "w2", "b2", "w3")),
)
STACK = {"x": (1, 2), "w1": (2, 2), "b1": (1, 2), "w2": (2, 1), "b2": (1, 1), "w3": (1, 1)}


def groupings():
    """w3 after w2 after w1, folded nowhere, at one place or at both."""
    first = linear(X, W1, B1)
    first_two = linear(X, W1 @ W2, linear(B1, W2, B2))
    return {
        "none": linear(linear(first, W2, B2), W3),
        "first two": linear(first_two, W3),
        "last two": linear(first, W2 @ W3, linear(B2, W3)),
        "all": linear(X, (W1 @ W2) @ W3, linear(linear(B1, W2, B2), W3)),
    }


@pytest.mark.theorem(
    41,
    "Folded, every grouping of three linear layers with biases gets the explanation of one layer, "
    "at every epsilon >= 0.",
    "proved",
)
def test_folded_linear_layers_have_one_explanation(record_property):
    at = {name: generic(name, *shape) for name, shape in STACK.items()}
    one, *others = groupings().values()
    reference = fold_linear(one)
    assert len([n for n in topological(reference) if n.op == kinds.LINEAR and X in n.args]) == 1
    for eps in (0, EPS):
        expected = explain(reference, at, ATTNLRP, eps=eps, signs=signs(reference, at))
        for other in others:
            folded = fold_linear(other)
            assert same_function(other, folded, at)
            found = explain(folded, at, ATTNLRP, eps=eps, signs=signs(folded, at))
            assert agree(found, expected)
    record_property("method", "cancel over generic layers of widths 2, 2, 1, 1 and generic signs")


@pytest.mark.theorem(
    41,
    "At finite epsilon, two linear layers and the one layer they fold into get the same relevance.",
    "refuted",
)
def test_unfolded_linear_layers_disagree_at_finite_epsilon(record_property):
    values = {name: sp.Symbol(name, positive=True) for name in STACK}  # layers of width 1
    found = {name: explain(g, values, ATTNLRP, eps=EPS)["x"] for name, g in groupings().items()}
    point = where((EPS, sp.Rational(1, 4)), *((x, 1) for x in values.values()))
    assert differ_at(found["none"], found["all"], point)
    in_the_limit = (explain(groupings()[name], values, ATTNLRP)["x"] for name in ("none", "all"))
    assert identical(*in_the_limit)
    shares = ", ".join(f"folded {name}: {r.subs(point)}" for name, r in found.items())
    record_property("witness", f"every number 1, eps = 1/4: {shares}")


W, B, S, T = map(parameter, "wbst")
NORMED = batch_norm(linear(X, W, B), S, T)
SCALAR = {name: sp.Symbol(name, positive=True) for name in "xwst"}
POINT = dict(zip(SCALAR.values(), (2, 1, 3, 1), strict=True))
BATCH = {"x": (1, 2), "w": (2, 2), "b": (1, 2), "s": (1, 2), "t": (1, 2)}


@pytest.mark.theorem(
    42,
    "The batch-norm canonizer preserves the function and gives BatchNorm after a linear layer the "
    "explanation of the folded layer, R_i = sum_j x_i w_ij s_j R_j/(y_j + epsilon sign y_j).",
    "proved",
)
def test_folded_batch_norm_has_the_explanation_of_the_folded_layer(record_property):
    at = {name: generic(name, *shape) for name, shape in BATCH.items()}
    folded = fold_batch_norm(NORMED)
    assert folded.op == kinds.LINEAR
    assert same_function(NORMED, folded, at)
    y = evaluate(NORMED, at)[NORMED]
    r = generic("r", 1, 2)
    found = explain(folded, at, ATTNLRP, eps=EPS, relevance=r, signs=signs(folded, at))["x"]
    sign = signs(NORMED, at)[NORMED]
    for i in range(2):
        messages = (
            at["x"][i] * at["w"][i, j] * at["s"][j] * r[j] / (y[j] + EPS * sign[j])
            for j in range(2)
        )
        assert identical(found[i], sum(messages))
    record_property("method", "cancel over a generic 2 x 2 layer and generic signs")


@pytest.mark.theorem(
    42,
    "BatchNorm after a linear layer, folded and unfolded, gets the same relevance when scale and "
    "shift are a product and a sum, as epsilon -> 0.",
    "refuted",
)
def test_unfolded_batch_norm_loses_half_to_its_scale(record_property):
    values = SCALAR | {"b": 0, "t": 0}
    before = explain(NORMED, values, ATTNLRP)["x"]
    after = explain(fold_batch_norm(NORMED), values, ATTNLRP)["x"]
    assert differ_at(before, after, POINT)
    record_property("witness", "x = 2, w = 1, s = 3, no bias: 3 unfolded, 6 folded")


@pytest.mark.theorem(
    42,
    "BatchNorm after a linear layer, folded and unfolded, gets the same relevance when BatchNorm "
    "hands relevance through (R_in = R_out), as epsilon -> 0.",
    "refuted",
)
def test_batch_norm_by_the_identity_rule_ignores_its_shift(record_property):
    x, w, s, t = (sp.Matrix([[value]]) for value in SCALAR.values())
    y = x * w * s + t
    (r_z,) = identity(y)
    (unfolded,) = epsilon(x, w, r_z, eps=0)
    (folded,) = epsilon(x, w * s, y, eps=0, bias=t)
    assert differ_at(unfolded[0], folded[0], POINT)
    record_property("witness", "x = 2, w = 1, s = 3, t = 1: 7 unfolded, 6 folded")


@pytest.mark.theorem(
    43,
    "Merged, (QK')V and Q(K'V) both give q/3 + k/3 + v/3 as epsilon -> 0, where q, k and v are "
    "gradient times input through each projection, and conserve relevance.",
    "proved",
)
def test_merged_attention_gives_each_projection_a_third(record_property):
    tokens, width, out = 2, 1, 1
    shapes = {"x": (tokens, width), "wq": (width, width), "wk": (width, width), "wv": (width, out)}
    at = {name: generic(name, *shape) for name, shape in shapes.items()}
    q, k, v = (linear(X, parameter(name)) for name in ("wq", "wk", "wv"))
    k_t = Node(TRANSPOSE, (k,))
    copies = [generic(f"x{p}", tokens, width) for p in "qkv"]
    f = sum(copies[0] * at["wq"] * (copies[1] * at["wk"]).T * copies[2] * at["wv"])
    back = {c: x for copy in copies for c, x in zip(copy, at["x"], strict=True)}
    parts = [c.applyfunc(lambda e: (e * sp.diff(f, e)).subs(back)) for c in copies]
    for graph in ((q @ k_t) @ v, q @ (k_t @ v)):
        merged = merge_attention(graph)
        assert len(merged.args) == 3
        found = explain(merged, at, ATTNLRP)["x"]
        assert identical(found, (parts[0] + parts[1] + parts[2]) / 3)
        assert identical(sum(found), sum(evaluate(graph, at)[graph]))
    record_property("method", f"cancel over generic inputs and weights, {tokens} tokens")


@pytest.mark.theorem(
    44,
    "Canonized implementations of one function get the same relevance, also when they differ by "
    "distribution: a (b + c d) and a b + a (c d).",
    "refuted",
)
def test_merging_breaks_the_agreement_that_distribution_has_without_it(record_property):
    a, b, c, d = map(leaf, "abcd")
    graph = a * (b + c * d)
    (spread,) = REWRITES["distribute products"](graph)
    symbols = {name: sp.Symbol(name, real=True) for name in "abcd"}
    assert same_function(graph, spread, symbols)
    assert agree(*(explain(g, symbols, ATTNLRP, relevance=R) for g in (graph, spread)))
    before, after = (explain(canonize(g), symbols, ATTNLRP)["a"] for g in (graph, spread))
    ones = dict.fromkeys(symbols.values(), 1)
    assert differ_at(before, after, ones)
    unmerged = explain(graph, symbols, ATTNLRP)["a"]
    record_property(
        "witness",
        f"a = b = c = d = 1: a gets {before.subs(ones)} canonized and {after.subs(ones)} "
        f"distributed first, where the unmerged graphs give {unmerged.subs(ones)} for both",
    )


@pytest.mark.theorem(
    44,
    "Canonized implementations of one function get the same relevance, also when the softmax is "
    "taken apart into exponentials, their sum, its reciprocal and a product.",
    "refuted",
)
def test_no_canonizer_puts_a_decomposed_softmax_together(record_property):
    x = leaf("x")
    graph = Node(kinds.SOFTMAX, (x,))
    (parts,) = REWRITES["decompose softmax"](graph)
    assert same_function(graph, parts, {"x": generic("x", 1, 2)})
    c, r = sp.Symbol("c", real=True), generic("r", 1, 2)
    equal, point = {"x": c * sp.ones(1, 2)}, where((c, 1), (r, [1, 0]))
    whole, apart = (explain(canonize(g), equal, ATTNLRP, relevance=r)["x"] for g in (graph, parts))
    assert all(differ_at(a, b, point) for a, b in zip(whole, apart, strict=True))
    numbers = (list(found.subs(point)) for found in (whole, apart))
    record_property(
        "witness", "logits [1, 1], relevance [1, 0]: {} whole, {} apart".format(*numbers)
    )

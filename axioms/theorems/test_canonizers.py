"""Canonizers: one graph, and so one explanation, for implementations of one function."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.denotation import same_function
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import Node, leaf, linear, parameter
from lrp_axioms.axioms.rewrites.canonizers import canonize, fold_batch_norm
from lrp_axioms.axioms.rewrites.channels import batch_norm
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {42: ["Implementation invariance"], 44: ["Implementation invariance"]}
DERIVATIONS = {42: ["linear, then BatchNorm"], 44: ["product", "softmax"]}
MEANINGS = {
    42: "The canonizer gives BatchNorm after a linear layer the explanation of the folded layer. "
    "A scale that is a factor of a product takes half.",
    44: "Canonizers do not make all implementations of a function agree: distribution and a "
    "softmax in parts still show. In the example of distribution it is the merging that tells "
    "them apart.",
}

EPS = sp.Symbol("epsilon", positive=True)
R = sp.Symbol("R", real=True)


def signs(root, at):
    """One symbol per sign of every value; equal values have equal signs."""
    return {
        node: value.applyfunc(lambda z: sp.Symbol(f"sign({sp.cancel(z)})"))
        for node, value in evaluate(root, at).items()
    }


def agree(one, other):
    return all(identical(sp.Matrix([one[x]]), sp.Matrix([other[x]])) for x in one)


W, B, S, T = map(parameter, "wbst")
NORMED = batch_norm(linear(leaf("x"), W, B), S, T)
SCALAR = {name: sp.Symbol(name, positive=True) for name in "xwst"}
POINT = dict(zip(SCALAR.values(), (2, 1, 3, 1), strict=True))
BATCH = {"x": (1, 2), "w": (2, 2), "b": (1, 2), "s": (1, 2), "t": (1, 2)}


@pytest.mark.theorem(
    42,
    "The batch-norm canonizer preserves the function and gives BatchNorm after a linear layer the "
    "explanation of the folded layer, R_i = sum_j x_i w_ij s_j R_j/(y_j + epsilon sign y_j).",
    "proved",
    scope="2 inputs and 2 channels; either sign",
)
def test_folded_batch_norm_has_the_explanation_of_the_folded_layer():
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

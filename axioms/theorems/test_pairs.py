"""Pairs of tokens of two texts: BiLRP of a product of two encodings.

BiLRP (Eberle et al. 2020, arXiv 2003.05134) gives the pair (i, j) the relevance
sum_m R_i^m(a) R_j^m(b) for s = sum_m phi_m(a) phi_m(b), where R^m(a) is LRP of phi_m(a).
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import TRANSPOSE, Node, leaf, linear, parameter
from lrp_axioms.axioms.rules.norms import held_root_mean_square, rms_norm, rms_norm_gradient
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {78: ["Products", "Conservation"]}
MEANINGS = {
    78: "BiLRP splits a similarity over pairs of tokens. The pairs add up to the similarity where "
    "LRP of every channel of both embeddings conserves; else the formula says what is absorbed. "
    "A text's relevance with the other text held is twice its relevance by the rule for products.",
}

A, B, W, C = generic("a", 1, 2), generic("b", 1, 2), generic("w", 2, 2), generic("c", 1, 2)
POINT = {"a": A, "b": B, "w": W, "c": C}


def encoded(text):
    """x W + c, where every entry of x is a token of one channel."""
    return linear(leaf(text), "w", "c")


def by_channel(text, point=POINT):
    """The encoding, and LRP of each of its channels, (token, channel)."""
    root = encoded(text)
    z = evaluate(root, point)[root]
    parts = [explain(root, point, ATTNLRP, relevance=sp.diag(*z)[m, :])[text] for m in range(2)]
    return z, sp.Matrix.hstack(*(part.T for part in parts))


def held(text, other):
    """Relevance of a text for the product while the other text's encoding is held."""
    v = by_channel(other)[0].T
    return explain(linear(encoded(text), parameter("v")), POINT | {"v": v}, ATTNLRP)[text]


@pytest.mark.theorem(
    78,
    "Whatever relevance R_i^m tokens get for the channels of two encodings, with residuals r_m = "
    "phi_m - sum_i R_i^m, the pairs of BiLRP add up to s - <r(a), phi(b)> - <phi(a), r(b)> + "
    "<r(a), r(b)> = <phi(a) - r(a), phi(b) - r(b)>: to s if no channel has a residual.",
    "proved",
    scope="texts of 2 and 3 tokens, 2 channels",
)
def test_pairs_add_up_to_the_product_of_what_is_not_absorbed(record_property):
    sizes = {"a": 2, "b": 3}
    r_a, r_b = (generic(f"r_{text}", 1, 2) for text in sizes)
    (phi_a, of_a), (phi_b, of_b) = (
        by_channel(text, {text: sp.ones(1, n), "w": generic(f"R_{text}", n, 2), "c": r})
        for (text, n), r in zip(sizes.items(), (r_a, r_b), strict=True)
    )
    expected = phi_a * phi_b.T - r_a * phi_b.T - phi_a * r_b.T + r_a * r_b.T
    assert identical(sum(of_a * of_b.T), expected[0])
    record_property(
        "method",
        "relevance and residuals of linear encodings of ones are their weights and biases, so that "
        "these are any numbers",
    )


@pytest.mark.theorem(
    78,
    "With linear encoders, row i of the pairs adds up as epsilon -> 0 to the relevance of token i "
    "for s while phi(b) is held, less sum_m R_i^m(a) r_m(b), where r(b) is the bias.",
    "proved",
    scope="2 tokens and 2 channels",
)
def test_a_row_of_pairs_misses_what_the_other_text_absorbs():
    (_, of_a), (phi_b, of_b) = by_channel("a"), by_channel("b")
    assert identical(phi_b - sp.ones(1, 2) * of_b, C)
    rows = of_a * of_b.T * sp.ones(2, 1)
    assert identical(rows, held("a", "b").T - of_a * C.T)


@pytest.mark.theorem(
    78,
    "The rule for products gives each of two linear encodings as epsilon -> 0 half of the "
    "relevance that its text has for s while the other one is held.",
    "proved",
    scope="2 tokens and 2 channels",
)
def test_the_rule_for_products_gives_half_of_the_relevance_with_the_other_held():
    product = encoded("a") @ Node(TRANSPOSE, (encoded("b"),))
    found = explain(product, POINT, ATTNLRP)
    assert identical(2 * found["a"], held("a", "b"))
    assert identical(2 * found["b"], held("b", "a"))


@pytest.mark.theorem(
    78,
    "With linear encoders, biases or not, the pair (i, j) has as epsilon -> 0 its own term of s, "
    "a_i (W W')_ij b_j: both inputs times the second derivative of s by them.",
    "proved",
    scope="2 tokens and 2 channels",
)
def test_a_pair_of_linear_encoders_has_its_own_term():
    (phi_a, of_a), (phi_b, of_b) = by_channel("a"), by_channel("b")
    pairs, s = of_a * of_b.T, (phi_a * phi_b.T)[0]
    assert identical(pairs, sp.diag(*A) * W * W.T * sp.diag(*B))
    for i in range(2):
        for j in range(2):
            assert identical(pairs[i, j], A[i] * B[j] * sp.diff(s, A[i], B[j]))


@pytest.mark.theorem(
    78,
    "The pairs of a token add up to the relevance that it has for s while the other text is held.",
    "refuted",
)
def test_pairs_of_a_token_are_not_all_of_its_relevance(record_property):
    of_a, of_b = (by_channel(text)[1] for text in "ab")
    row, all_of_it = (of_a * of_b.T * sp.ones(2, 1))[0], held("a", "b")[0]
    point = where((A, [1, 2]), (B, [3, 1]), (W, [1, 0, 0, 1]), (C, [1, 0]))
    assert differ_at(row, all_of_it, point)
    numbers = [x.subs(point) for x in (row, all_of_it)]
    said = "a = (1, 2), b = (3, 1), W = 1, c = (1, 0): the first token has {} in pairs, {} in all"
    record_property("witness", said.format(*numbers))


@pytest.mark.theorem(
    78,
    "As epsilon -> 0, a cosine gives the channels of an encoding all of itself if its norms are "
    "held, and by gradient times input nothing in sum.",
    "proved",
    scope="3 channels",
)
def test_the_norms_of_a_cosine_have_to_be_held(record_property):
    u, v, rms = generic("u", 1, 3), generic("v", 1, 3), sp.Symbol("S", positive=True)
    terms = rms_norm(u, v, norm_eps=0, rms=[rms])
    (fixed,) = held_root_mean_square(u, v, terms, eps=0, rms=[rms])
    (free,) = rms_norm_gradient(u, v, terms, rms=[rms])
    assert identical(sum(fixed), sum(terms))
    assert identical(sum(free), sum(terms) * (1 - sum(x**2 for x in u) / (3 * rms**2)))
    record_property("method", "v has the other norm in it; the factor is 0, as S^2 = mean(u^2)")

"""Interactions of words: in a row of attention, and in a product.

f(S) is the logit of a text with the words S kept, N are all words, and LOO_i = f(N) - f(N\\i).  The
interaction I_ij = f(N) - f(N\\i) - f(N\\j) + f(N\\{i,j}) is LOO_i + LOO_j less the loss of both.
The third difference is D_ijk = I_jk(N) - I_jk(N\\i).  The dividend of a set of words is their
difference in the text of these words alone.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.graph import leaf
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rules.attention import value_only
from lrp_axioms.axioms.rules.effects import difference, leave_key_out, mask_relevance, shapley
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {
    79: ["Interactions of words", "Softmax and attention", "Mask relevance"],
    80: ["Interactions of words", "Products", "Implementation invariance"],
}
MEANINGS = {
    79: "Words of a row of attention interact, although the row is read linearly: without one "
    "word, all others get more weight. Where the Leave-One-Outs of two words have one sign, "
    "the loss of both words is larger in size than the sum of the Leave-One-Outs. Mask relevance "
    "of the text without a word finds interactions exactly; with held weights, as in CP-LRP, "
    "there are none.",
    80: "A product of three words is due to its words together, and every difference is the "
    "whole product. Indices made of logits are equal for both ways to set brackets; relevance by "
    "AttnLRP is not.",
}

N, P, ONE = 3, 2, sp.ones(1, 1)  # keys and channels
KEYS = frozenset(range(N))
E, U = generic("e", 1, N, positive=True), generic("u", N, 1)
A = E / sum(E)


def parts(words, sizes):
    """Every set of some words that has one of the sizes."""
    return [frozenset(c) for n in sizes for c in itertools.combinations(sorted(words), n)]


def row(e, v, read=ONE):
    """The logit of a row of attention by the keys that are kept."""
    some = parts(range(e.cols), range(1, e.cols + 1))
    return {k: (e[:, [*k]] * v[[*k], :] * read)[0] / sum(e[:, [*k]]) for k in some}


@pytest.mark.theorem(
    79,
    "In a row of softmax attention that is read linearly, o = sum A_k u_k over its keys, I_ij = "
    "-(A_j LOO_i + A_i LOO_j)/(1 - A_i - A_j), where LOO_i = A_i (u_i - o)/(1 - A_i).",
    "proved",
    scope="3 and 4 keys; any number, as all other keys act as one with their mean",
)
def test_the_interaction_of_two_keys_is_made_of_their_leave_one_outs():
    for n in (3, 4):
        e, u = generic("e", 1, n, positive=True), generic("u", n, 1)
        a, f = e / sum(e), row(e, u)
        for loo in (leave_key_out(e, u), mask_relevance(e, u, ONE)):
            for i, j in itertools.combinations(range(n), 2):
                expected = -(a[j] * loo[i] + a[i] * loo[j]) / (1 - a[i] - a[j])
                assert identical(difference(f, {i, j}, range(n)), expected)


@pytest.mark.theorem(
    79,
    "In one attention layer whose outputs are read by any linear map, I_ij is the mask relevance "
    "of j less its mask relevance in the text without i, R_j(x) - R_j(x\\i).",
    "proved",
    scope="2 rows of 3 keys and 2 channels",
)
def test_mask_relevance_of_the_text_without_a_word_finds_its_interactions():
    v = generic("v", N, P)
    rows = [(generic(f"e{n}", 1, N, positive=True), generic(f"c{n}", P, 1)) for n in "ab"]
    f = {kept: sum(row(e, v, c)[kept] for e, c in rows) for kept in row(E, U)}

    def relevance(keys):
        found = (mask_relevance(e[:, keys], v[keys, :], c) for e, c in rows)
        return dict(zip(keys, sum(found, sp.zeros(len(keys), 1)), strict=True))

    for i in KEYS:
        for j, without_i in relevance([*KEYS - {i}]).items():
            found = relevance([*KEYS])[j] - without_i
            assert identical(found, difference(f, {i, j}, KEYS))


@pytest.mark.theorem(
    79, "The keys of a row of softmax attention that is read linearly do not interact.", "refuted"
)
def test_two_keys_that_say_the_same_hide_each_other(record_property):
    f, point = row(E, U), where((E, [1, 1, 1]), (U, [1, 1, 0]))
    assert differ_at(difference(f, {0, 1}, KEYS), 0, point)
    assert value_at(difference(f, {0}, KEYS), point) == sp.Rational(1, 6)
    said = "A = 1/3 each, u = (1, 1, 0): either of the first keys takes 1/6, both take 2/3"
    record_property("witness", f"{said}, and I is -1/3 and not 0")


@pytest.mark.theorem(
    79,
    "With the attention weights held, so that a row is sum A_k u_k over the keys that are kept, "
    "all interactions are 0 and LOO_i is A_i u_i in every text: the value-only relevance of CP-LRP "
    "as epsilon -> 0.",
    "proved",
    scope="3 keys; any number, as a sum has no other differences",
)
def test_held_weights_have_no_interactions():
    held = {k: sum(E[n] * U[n] for n in k) / sum(E) for k in parts(KEYS, range(N + 1))}
    by_value = value_only(A, U, A * U, eps=0)[1]
    for text in parts(KEYS, range(1, N + 1)):
        assert all(identical(by_value[i], difference(held, {i}, text)) for i in text)
        assert all(identical(difference(held, two, text), 0) for two in parts(text, [2]))


X1, X2, X3 = LEAVES = [leaf(f"x{n}") for n in (1, 2, 3)]
WORDS = frozenset(x.name for x in LEAVES)
POINT = {x: sp.Symbol(x, real=True) for x in sorted(WORDS)}
GRAPHS = ((X1 * X2) * X3, X1 * (X2 * X3))


def texts(graph):
    """The output of a graph by the words that are kept, where missing words are 0."""
    kept = {k: POINT | dict.fromkeys(WORDS - k, sp.S.Zero) for k in parts(WORDS, range(4))}
    return {k: evaluate(graph, point)[graph][0] for k, point in kept.items()}


@pytest.mark.theorem(
    80,
    "For f = x1 x2 x3, where a word that is missing is 0, every LOO_i, every I_ij, D_123 and the "
    "dividend of all three words are f, other dividends 0, Shapley values f/3, Shapley interaction "
    "indices of pairs f/2, and Shapley-Taylor indices of order 2 are f/3 for pairs, 0 for single "
    "words, and add up to f. At (2, 3, 4) f is 24, f/2 12 and f/3, the merged split, 8.",
    "proved",
    scope="3 factors, both bracketings",
)
def test_in_a_product_all_three_words_have_it_together(record_property):
    for graph in GRAPHS:
        f, third = texts(graph), explain(merge_products(graph), POINT, ATTNLRP)["x1"]
        for words in parts(WORDS, (1, 2, 3)):
            assert identical(difference(f, words, WORDS), 3 * third)
            assert identical(difference(f, words, words), 3 * third if words == WORDS else 0)
        values = shapley(f[WORDS], {x: x for x in POINT.values()})
        assert all(identical(value, third) for value in values.values())
        for pair in parts(WORDS, [2]):
            alone, beside = (difference(f, pair, text) for text in (pair, WORDS))
            assert identical(alone + beside, 3 * third)  # twice the Shapley interaction index
            assert identical(sp.Rational(2, 3) * (alone + beside / 2), third)
    record_property("method", "indices of Grabisch and Roubens 1999, and arXiv 1902.05622")


@pytest.mark.theorem(
    80,
    "As epsilon -> 0, AttnLRP gives the words of (x1 x2) x3 a quarter, a quarter and a half of "
    "D_123, and of x1 (x2 x3) a half, a quarter and a quarter: 6/6/12 and 12/6/6 at (2, 3, 4). "
    "Both have one logit whichever words are missing, so no index made of logits is AttnLRP.",
    "proved",
    scope="3 factors, both bracketings",
)
def test_relevance_by_attnlrp_is_no_function_of_the_logits():
    for graph, shares in zip(GRAPHS, ((4, 4, 2), (2, 4, 4)), strict=True):
        f, found = texts(graph), explain(graph, POINT, ATTNLRP)
        for name, n in zip(POINT, shares, strict=True):
            assert identical(n * found[name], difference(f, WORDS, WORDS))
    assert texts(GRAPHS[0]) == texts(GRAPHS[1])

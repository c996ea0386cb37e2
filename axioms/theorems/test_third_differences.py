"""Leave-one-outs and interactions, and texts with more words missing.

f(S) is the logit of a text with the words S kept, any number for each S; LOO_i, I_ij, D_ijk and
dividends are differences as in theorems 79 and 80, in the text of all words N unless another one is
named.
"""

import itertools
from math import comb

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, identical, value_at
from lrp_axioms.axioms.rules.effects import difference, shapley
from lrp_axioms.axioms.theorems.test_interactions import parts

THEMES = {81: ["Interactions of words", "Leave-One-Out and patching"]}
MEANINGS = {
    81: "Leave-One-Outs and interactions of pairs determine the logit if any two words are "
    "missing; for three words and more they miss third differences. Leave-One-Outs count a "
    "joint effect once for each of its words, so they add up to the effect of all words if "
    "words act alone in every text. A Shapley value is Leave-One-Out less half of the "
    "interactions, plus a third of the third differences, and so on.",
}


def words_of(n):
    return frozenset("ijklm"[:n])


def texts(n, name="f"):
    """A symbol for the logit of every text that has some of n words."""
    some = parts(words_of(n), range(n + 1))
    return {kept: sp.Symbol(f"{name}({''.join(sorted(kept))})", real=True) for kept in some}


def written(*terms):
    """A sum that is not collected, so that a certificate has all terms."""
    return sp.Add(*terms, evaluate=False)


def signed(f, sets, text):
    """Differences in a text by sets of words, with the sign that they have in f(text without S)."""
    return [(-1) ** len(words) * difference(f, words, text) for words in sets]


@pytest.mark.theorem(
    81,
    "I_ij = LOO_j(N) - LOO_j(N\\i) = LOO_i(N) - LOO_i(N\\j) and D_ijk = I_jk(N) - I_jk(N\\i), sums "
    "of effects of i with signs: so they are 0 for a word that changes no text. They are linear in "
    "f, and renaming words renames them: so words that f treats alike have the same interactions.",
    "proved",
    scope="2 and 3 words, and any number that stay in the text; two functions, every renaming",
)
def test_a_difference_is_a_change_by_a_word_and_linear_and_symmetric():
    for n, i in ((2, "i"), (2, "j"), (3, "i"), (3, "j"), (3, "k")):
        f, g, text = texts(n), texts(n, "g"), words_of(n)
        whole, others = difference(f, text, text), text - {i}
        here, without_i = (difference(f, others, kept) for kept in (text, others))
        assert identical(whole, written(here, -without_i))
        effects = [(-1) ** len(s) * difference(f, {i}, text - s) for s in parts(others, range(n))]
        assert identical(whole, written(*effects))
    alpha = sp.Symbol("alpha", real=True)
    for order in itertools.permutations(sorted(text)):
        to = {s: frozenset(order["ijk".index(x)] for x in s) for s in f}
        mixed = {s: alpha * f[s] + g[to[s]] for s in f}
        for s in parts(text, (1, 2, 3)):
            expected = alpha * difference(f, s, text) + difference(g, to[s], text)
            assert identical(difference(mixed, s, text), expected)


@pytest.mark.theorem(
    81,
    "f(N\\S) = f(N) - sum of LOO_i + sum of I_ij - sum of D_ijk + ..., over words, pairs, triples "
    "and so on of S: so f(N), LOO_i and I_ij determine all texts with one or two words missing, "
    "and in a text of three words f(N) - f(no words) = sum of LOO_i - sum of I_ij + D.",
    "proved",
    scope="4 words, all 16 texts; any number, by inclusion and exclusion",
)
def test_all_differences_give_every_text():
    for n in (3, 4):
        f, text = texts(n), words_of(n)
        for missing in parts(text, range(1, n + 1)):
            found = signed(f, parts(missing, range(len(missing) + 1)), text)
            assert identical(written(*found), f[text - missing])


@pytest.mark.theorem(
    81, "f(N), LOO_i and I_ij determine the texts with three words missing.", "refuted"
)
def test_pairs_do_not_know_texts_with_three_words_missing(record_property):
    f, text, nothing = texts(3), words_of(3), words_of(0)
    g = f | {nothing: sp.Symbol("g()", real=True)}
    point = {x: sp.Integer(max(len(kept) - 1, 0)) for kept, x in f.items()} | {g[nothing]: -1}
    assert differ_at(difference(f, text, text), difference(g, text, text), point)
    for words in parts(text, (0, 1, 2)):
        assert identical(difference(f, words, text), difference(g, words, text))
        assert value_at(difference(f, words, text), point) == 2 - len(words)
    said = "f = 2, 1, 0 and 0 of 3, 2, 1 and no words, and the additive g, -1 of no words"
    record_property("witness", f"{said}: each LOO is 1, each I 0, and D is -1 and 0")


@pytest.mark.theorem(
    81,
    "f(N\\S) less f(N) - sum of LOO_i + sum of I_ij, over words and pairs of S, is -D_ijk for "
    "three words, and for more minus a sum of C(|S|, 3) third differences: for i < j < k in S, "
    "D_ijk in N without the words of S before i. So in size it is at most C(|S|, 3) max |D_ijk|.",
    "proved",
    scope="|S| = 3, 4 and 5; any number by induction; words that stay are part of every text",
)
def test_pairs_miss_third_differences_of_one_chain_of_texts(record_property):
    for n in (3, 4, 5):
        f, text = texts(n), words_of(n)
        chain = {s: {x for x in text if x >= min(s)} for s in parts(text, [3])}
        missed = [-difference(f, s, rest) for s, rest in chain.items()]
        assert len(missed) == comb(n, 3)
        known = signed(f, parts(text, (0, 1, 2)), text)
        assert identical(written(*known, *missed), f[frozenset()])
    record_property("method", "S is the whole text; the sum has C(|S|, 3) terms")


@pytest.mark.theorem(
    81,
    "A difference is the sum of the dividends of all sets that contain its words, so that sum of "
    "LOO_i counts a dividend of n words n times; the Shapley value, LOO_i - (sum of I_ij)/2 + (sum "
    "of D_ijk)/3 - ..., counts it once. If f is additive, all I_ij are 0, and LOO_i, Shapley value "
    "and dividend of a word agree.",
    "proved",
    scope="3 and 4 words",
)
def test_leave_one_outs_count_a_dividend_for_each_of_its_words():
    for n in (3, 4):
        f, text = texts(n), words_of(n)
        dividends = {s: difference(f, s, s) for s in f}
        for words in parts(text, range(1, n)):
            above = [dividend for s, dividend in dividends.items() if words <= s]
            assert identical(difference(f, words, text), written(*above))
        x = {i: sp.Symbol(f"x{i}", real=True) for i in sorted(text)}
        # a polynomial that is f where words are 1 or 0
        polynomial = sum(d * sp.prod(x[i] for i in s) for s, d in dividends.items())
        values = shapley(polynomial, dict.fromkeys(x.values(), 1))
        for i in text:
            with_i = [s for s in f if i in s]
            terms = [-d / len(s) for d, s in zip(signed(f, with_i, text), with_i, strict=True)]
            assert identical(values[x[i]], written(*terms))
            assert identical(values[x[i]], written(*(dividends[s] / len(s) for s in with_i)))

"""Bounds on the error of CP-LRP against leave-one-out, and on the loss of AttnLRP with depth.

Behind heads h, a residual stream and a LayerNorm at norm-epsilon 0, whose weighted channels are
read along w with sum 0, theorem 59 has CP-LRP miss
-sum_h A_i^h <w, O_without_i^h>/s + <w, y> (1/s - 1/t) of leave-one-out of key i; y is the stream
without the key, s and t its deviations with and without it, over n channels.  O_without_i is a mean
of the other values, and <w, y> is at most |w| times the length sqrt(n) t of the centred y (Cauchy
and Schwarz).  So the difference is at most

    sum_h A_i^h max over k != i of |<w, v_k^h>| / s  +  sqrt(n) |w| |t - s| / s

A layer h -> h + A h of attention passes g on as (I + c A)' g, where relevance is value times g and
nothing comes back through the weights A, as at logits 0, with c = 1 by CP-LRP and c = 1/2 by
AttnLRP.  By induction d layers pass on the product of their I + c A, which is the sum over k of
c^k P_k: P_k counts the paths through k attention layers.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import generic, identical
from lrp_axioms.axioms.rules.attention import value_only
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.norms import layer_norm
from lrp_axioms.axioms.rules.products import bilinear_epsilon
from lrp_axioms.axioms.theorems.test_bypassed_softmax import missed

THEMES = {66: ["Softmax and attention", "Leave-One-Out and patching"]}
MEANINGS = {
    66: "What CP-LRP misses of Leave-One-Out is bounded by attention weights and by how much a "
    "key changes the deviation behind it. Where nothing comes back through attention weights, as "
    "at logits 0, what AttnLRP gives a token shrinks with depth, and to 2^-d of CP-LRP's "
    "relevance after d layers for what takes all of them.",
}


@pytest.mark.theorem(
    66,
    "Behind heads, a residual stream and a LayerNorm over n channels at norm-epsilon 0, read along "
    "w with sum 0, CP-LRP and leave-one-out of a key differ by at most sum_h A_i^h max |<w, "
    "v_k^h>|/s + sqrt(n) |w| |t - s|/s, over k != i.",
    "proved",
    given=["t > 0: the deviation without the key"],
    scope="n = 2, 3 and 4 channels; any n, since a sum of squares is not negative",
)
def test_the_error_behind_a_layer_norm_is_bounded(record_property):
    t = sp.Symbol("t", positive=True)
    for n in (2, 3, 4):
        # as in theorem 59: <w, y> of the stream is t times <w, N> of its norm
        x, w = generic("x", 1, n), generic("w", 1, n)
        w[n - 1] = -sum(w[:-1])
        normed = layer_norm(x, sp.ones(1, n), sp.zeros(1, n), norm_eps=0, deviation=[t])
        assert identical((x * w.T)[0], t * (normed * w.T)[0])
        variance = sum(v**2 for v in normed) / n
        assert identical(variance * t**2, sum(v**2 for v in x) / n - (sum(x) / n) ** 2)
        # <w, N>^2 is at most |w|^2 |N|^2: their difference is a sum of squares (Lagrange)
        pairs = itertools.combinations(range(n), 2)
        squares = sum((w[i] * normed[k] - w[k] * normed[i]) ** 2 for i, k in pairs)
        assert identical(w.dot(w) * normed.dot(normed) - w.dot(normed) ** 2, squares)
    record_property(
        "method",
        "by theorem 59, |mean| <= max, the triangle inequality, and Cauchy and Schwarz by "
        "Lagrange's identity, where |N|^2 = n: cancel over 2, 3 and 4 channels",
    )


@pytest.mark.theorem(
    66,
    "The bound is attained, by one head and by two: where the other keys of each have one value, "
    "and the key's value and the stream point the same way along w, for 2 channels.",
    "proved",
    given=["c, p, x > 0: values of keys and of the stream along w"],
    scope="1 and 2 heads of 2 keys and 2 channels",
)
@pytest.mark.parametrize("number", [1, 2])
def test_the_bound_is_attained(number, record_property):
    def along(*sizes):
        """Rows of two channels whose product with w is each size."""
        return sp.Matrix([[size / 2, -size / 2] for size in sizes])

    x, *rest = sp.symbols(f"x c:{number} p:{number}", positive=True)
    others, more = rest[:number], rest[number:]
    weights = [generic(f"e{h}", 1, 2, positive=True) for h in range(number)]
    parts = list(zip(weights, others, more, strict=True))
    heads = [(e, along(c + p, c)) for e, c, p in parts]
    shares = [e[0] / sum(e) for e in weights]
    # half of the product with w is the deviation, as all of it is positive
    t = (x + sum(others)) / 2
    s = t + sum(a * p for a, p in zip(shares, more, strict=True)) / 2
    bound = sum(a * c for a, c in zip(shares, others, strict=True)) / s + 2 * (s - t) / s
    norm = sp.ones(1, 2), sp.zeros(1, 2), sp.Matrix([[1, -1]])
    assert identical(missed(heads, along(x), norm, 0, s, t), -bound)
    record_property("method", "sqrt(n) |w| is 2 for w = (1, -1)")


def layer(attend, weights, h, g):
    """Relevance of h as epsilon -> 0 if h + A h has relevance value times g."""
    read = weights * h
    straight, attended = add([h, read], (h + read).multiply_elementwise(g), eps=0)
    return straight + attend(weights, h, attended, eps=0)[1]


def paths(layers, c):
    """The product of I + c A, from the last layer to the first."""
    total = sp.eye(layers[0].rows)
    for weights in layers:
        total = (sp.eye(weights.rows) + c * weights) * total
    return total


@pytest.mark.theorem(
    66,
    "By d layers h -> h + A h, where nothing comes back through the weights A, as at logits 0, "
    "CP-LRP gives token j the entry j of row 0 of sum_k P_k times x_j and AttnLRP that of sum_k "
    "2^-k P_k, P_k being the sum over all choices of k layers of the product of their A: they "
    "differ by sum_k (1 - 2^-k) P_k.",
    "proved",
    scope="2 tokens and d = 1, 2 and 3 layers; any depth by induction",
)
def test_the_half_rule_misses_paths_by_their_length(record_property):
    n, h, g = 2, generic("h", 2, 1), generic("g", 2, 1)
    one = generic("a", n, n)
    for attend, c in ((value_only, 1), (bilinear_epsilon, sp.Rational(1, 2))):
        passed = (sp.eye(n) + c * one).T * g
        assert identical(layer(attend, one, h, g), h.multiply_elementwise(passed))
    for d in (1, 2, 3):
        layers = [generic(f"a{k}_", n, n) for k in range(d)]
        error = sp.zeros(n, n)
        for k in range(1, d + 1):
            for chosen in itertools.combinations(layers, k):
                error += (1 - sp.Rational(1, 2**k)) * sp.prod(chosen[::-1], sp.eye(n))
        assert identical(paths(layers, 1) - paths(layers, sp.Rational(1, 2)), error)
    record_property("method", "one generic layer of 2 tokens, induction; d = 1, 2, 3 expanded")


def stochastic(name, n, **signs):
    """Weights whose rows add up to 1, from generic numbers."""
    e = generic(name, n, n, **signs)
    return sp.Matrix(n, n, lambda i, k: e[i, k] / sum(e[i, :]))


@pytest.mark.theorem(
    66,
    "By d layers h -> h + A h, where nothing comes back through the weights A, as at logits 0, and "
    "relevance starts at one token, AttnLRP gives each token between 2^-d and 1 of CP-LRP's "
    "relevance. Where all tokens have one value it keeps (3/4)^d of the total, whatever A; 2^-d is "
    "attained where every way to a token takes all layers, which logits 0 rule out.",
    "proved",
    given=["p > 0: the weights A before their rows are divided by their sums"],
    scope="2 tokens and d = 1 and 2 layers; any depth by induction",
)
def test_the_share_that_is_left_falls_with_depth(record_property):
    half, value = sp.Rational(1, 2), sp.Symbol("x", real=True)
    for d in (1, 2):
        layers = [stochastic(f"p{k}_", 2, positive=True) for k in range(d)]
        for c in (1, half):  # c^k of the paths through k layers; no path is negative
            total = sp.zeros(1, 2)
            for k in range(d + 1):
                for chosen in itertools.combinations(layers, k):
                    product = sp.prod(chosen[::-1], sp.eye(2))[0, :]
                    assert all(entry.is_nonnegative for entry in product)
                    total += c**k * product
            assert identical(paths(layers, c)[0, :], total)
        layers = [stochastic(f"e{k}_", 2) for k in range(d)]
        h, g = [value * sp.ones(2, 1)], {}
        for weights in layers:
            h.append(h[-1] + weights * h[-1])
        for attend in (value_only, bilinear_epsilon):
            slope = sp.Matrix([1, 0])
            for weights, state in zip(layers[::-1], h[-2::-1], strict=True):
                relevance = layer(attend, weights, state, slope)
                slope = sp.Matrix([r / x for r, x in zip(relevance, state, strict=True)])
            g[attend] = sum(relevance)
        assert identical(g[bilinear_epsilon], sp.Rational(3, 4) ** d * g[value_only])
        ahead = sp.Matrix(d + 1, d + 1, lambda i, k, d=d: int(k == min(i + 1, d)))
        x, c = generic("x", d + 1, 1), sp.Symbol("c", real=True)
        assert identical((paths([ahead] * d, c)[0, :] * sp.diag(*x))[d], c**d * x[d])
        assert paths([ahead] * d, half)[0, d] == half**d * paths([ahead] * d, 1)[0, d]
    record_property(
        "method",
        "then induction, as rows of A are 1 in total: the total of (I + c A)' g is 1 + c times the "
        "total of g; a part c^k of a path with k <= d is between 2^-d and 1, and a path is >= 0",
    )

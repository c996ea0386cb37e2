"""Symmetries of weights: which changes of a network that no output shows, no relevance shows."""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, limit, where
from lrp_axioms.axioms.rules.linear import add, epsilon
from lrp_axioms.axioms.rules.products import bilinear_epsilon

THEMES = {17: ["Implementation invariance"]}
MEANINGS = {
    17: "Most changes of the weights that no output shows are not shown by relevance either, as "
    "epsilon -> 0. At finite epsilon some of them are.",
}

EPS, SIZE = sp.symbols("epsilon size", positive=True)
X, W, R = generic("x", 1, 2), generic("w", 2, 2), generic("r", 1, 2)
S, T = generic("s", 1, 2), generic("t", 1, 2)  # signs, by one symbol each: so in every case
Q, K = generic("q", 1, 2), generic("k", 2, 2)


@pytest.mark.theorem(
    17,
    "Multiplying Q by c and dividing K by c leaves the relevance of Q and of K by Eq. 4 as it is, "
    "at every epsilon.",
    "proved",
    scope="a query of 2 channels and 2 keys; either sign",
)
def test_rescaled_queries_and_keys_keep_their_relevance():
    c = sp.Symbol("c", real=True)
    plain = bilinear_epsilon(Q, K.T, R, eps=EPS, sign=S)
    scaled = bilinear_epsilon(c * Q, K.T / c, R, eps=EPS, sign=S)  # the scores keep their signs
    assert all(identical(one, other) for one, other in zip(plain, scaled, strict=True))


@pytest.mark.theorem(
    17,
    "A projection with weights c W, no output of which is 0, passes on, by Eq. 1 at epsilon, what "
    "the projection with weights W passes on at epsilon/|c|: the same as epsilon -> 0.",
    "proved",
    given=["smaller > 0: epsilon/|c|"],
    scope="2 inputs and 2 outputs; either sign",
)
def test_a_rescaled_projection_divides_its_stabiliser():
    smaller = sp.Symbol("smaller", positive=True)  # epsilon/|c|, so that |c| is epsilon/smaller
    for sign_of_c in (1, -1):
        c = sign_of_c * EPS / smaller
        (scaled,) = epsilon(X, c * W, R, eps=EPS, sign=sign_of_c * S)
        (plain,) = epsilon(X, W, R, eps=smaller, sign=S)
        assert identical(scaled, plain)


@pytest.mark.theorem(
    17,
    "Multiplying the weights of Q by c and dividing those of K by c leaves the relevance of x as "
    "it is, at finite epsilon.",
    "refuted",
)
def test_rescaled_projections_change_relevance_at_finite_epsilon(record_property):
    x, q, k, r = (generic(name, 1, 1, positive=True) for name in "xqkr")
    found = []
    for c in (1, SIZE):
        projections = c * q, k / c
        halves = bilinear_epsilon(x * projections[0], (x * projections[1]).T, r, eps=EPS)
        through = (
            epsilon(x, w, half, eps=EPS)[0] for w, half in zip(projections, halves, strict=True)
        )
        found.append(sum(part[0] for part in through))
    before, after = found
    assert differ_at(
        before, after, where((x, [1]), (q, [2]), (k, [2]), (r, [9]), (SIZE, 2), (EPS, 1))
    )
    record_property("witness", "x = 1, W_q = W_k = 2, R = 9, eps = 1: 16/3, with c = 2 26/5")


@pytest.mark.theorem(
    17,
    "Mixing the channels of Q by any invertible M, and those of K by the inverse of its transpose, "
    "leaves the relevance of x as it is, as epsilon -> 0.",
    "proved",
    scope="2 channels, a key of one token",
)
def test_mixed_channels_keep_relevance_in_the_limit():
    # per unit of relevance g of the scores; K of one token, so that g is one number
    w_q, w_k, m = generic("a", 2, 2), generic("b", 2, 2), generic("m", 2, 2)
    g = sp.Symbol("g", real=True)
    cofactors = sp.Matrix([[m[1, 1], -m[1, 0]], [-m[0, 1], m[0, 0]]])
    inverse_t = cofactors / (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])
    assert identical(m * inverse_t.T, sp.eye(2))
    found = []
    for a, b in ((w_q, w_k), (w_q * m, w_k * inverse_t)):
        q, k = X * a, X * b
        slope_q, slope_k = g * k / 2, g * q / 2  # Eq. 4 as eps -> 0, divided by its operand
        halves = q.multiply_elementwise(slope_q), k.multiply_elementwise(slope_k)
        z = (q * k.T)[0]
        by_rule = bilinear_epsilon(q, k.T, sp.Matrix([[g * z]]), eps=0)
        assert all(
            identical(one, other)
            for one, other in zip(by_rule, (halves[0], halves[1].T), strict=True)
        )
        found.append(
            [epsilon(X, w, half, eps=0)[0] for w, half in zip((a, b), halves, strict=True)]
        )
    for plain, mixed in zip(*found, strict=True):
        assert identical(plain, mixed)


def hidden(incoming, outgoing, relevance, *, signs):
    """Relevance of X under hidden units with these weights, and one output."""
    h = X * incoming
    (r_h,) = epsilon(h, outgoing, relevance, eps=EPS, sign=signs[1])
    return epsilon(X, incoming, r_h, eps=EPS, sign=signs[0])[0]


A, B, R1 = generic("a", 2, 1), generic("b", 1, 1), R[:, :1]


@pytest.mark.theorem(
    17,
    "Copying a hidden unit and dividing its outgoing weights among the copies, in any proportion, "
    "leaves relevance by Eq. 1 as it is, at every epsilon.",
    "proved",
    scope="one unit of 2 inputs, two copies; either sign",
)
def test_copied_units_keep_relevance():
    part, s, t = sp.Symbol("part", real=True), S[:, :1], T[:, :1]
    plain = hidden(A, B, R1, signs=(s, t))
    incoming = sp.Matrix.hstack(A, A)
    copied = hidden(
        incoming,
        sp.Matrix([part * B[0], (1 - part) * B[0]]),
        R1,
        signs=(sp.Matrix([[s[0]] * 2]), t),
    )
    assert identical(plain, copied)


@pytest.mark.theorem(
    17,
    "Splitting a hidden unit into two of half its size, which the output adds up, leaves relevance "
    "by Eq. 1 as it is, at finite epsilon.",
    "refuted",
)
def test_halved_units_change_relevance_at_finite_epsilon(record_property):
    half = sp.Rational(1, 2)
    plain = hidden(A, B, R1, signs=(S[:, :1], T[:, :1]))
    signs = sp.Matrix([[S[0]] * 2]), T[:, :1]
    halved = hidden(sp.Matrix.hstack(A, A) * half, sp.Matrix([B[0]] * 2), R1, signs=signs)
    assert identical(limit(plain, EPS), limit(halved, EPS))
    at = {**dict.fromkeys([*X, *A, *B, S[0], T[0]], 1), R1[0]: 1, EPS: 1}
    assert differ_at(plain[0], halved[0], at)
    record_property(
        "witness", f"all weights 1, x = (1, 1), R = 1, eps = 1: x1 gets {plain[0].subs(at)} "
        f"versus {halved[0].subs(at)}"
    )  # fmt: skip


@pytest.mark.theorem(
    17,
    "A hidden unit without incoming weights leaves relevance by Eq. 1 as it is at every epsilon > "
    "0; at epsilon = 0 Eq. 1 has no value there.",
    "proved",
    scope="one unit of 2 inputs; either sign",
)
def test_silent_units_keep_relevance_but_need_a_stabiliser():
    s, t = sp.Matrix([[S[0], 1]]), T[:, :1]  # sign(0) = +1
    plain = hidden(A, B, R1, signs=(s[:, :1], t))
    incoming, outgoing = sp.Matrix.hstack(A, sp.zeros(2, 1)), sp.Matrix([B[0], W[0]])
    assert identical(plain, hidden(incoming, outgoing, R1, signs=(s, t)))
    with pytest.raises(ZeroDivisionError):
        epsilon(X, incoming, R, eps=0)


@pytest.mark.theorem(
    17,
    "Permuting the heads together with their rows of W_O permutes their relevance, at every "
    "epsilon.",
    "proved",
    scope="2 heads of 2 channels, 4 in all",
)
def test_permuted_heads_keep_their_relevance():
    heads, w_o = generic("o", 1, 4), generic("w", 4, 2)  # two heads of two channels
    order = [2, 3, 0, 1]
    (plain,) = epsilon(heads, w_o, R, eps=EPS, sign=S)
    (permuted,) = epsilon(heads[:, order], w_o[order, :], R, eps=EPS, sign=S)
    assert identical(plain[:, order], permuted)


@pytest.mark.theorem(
    17,
    "One W_O on all heads, or one block of it per head and then a sum, gives the heads the same "
    "relevance as epsilon -> 0.",
    "proved",
    scope="2 heads of 2 channels, 4 in all",
)
def test_heads_added_one_by_one_keep_their_relevance_in_the_limit():
    heads, w_o, g = generic("o", 1, 4), generic("w", 4, 2), generic("g", 1, 2)
    r = (heads * w_o).multiply_elementwise(g)  # g: relevance per unit of output
    (whole,) = epsilon(heads, w_o, r, eps=0)
    blocks = [slice(0, 2), slice(2, 4)]
    received = add([heads[:, b] * w_o[b, :] for b in blocks], r, eps=0)
    apart = [
        epsilon(heads[:, b], w_o[b, :], r_b, eps=0)[0]
        for b, r_b in zip(blocks, received, strict=True)
    ]
    assert identical(whole, sp.Matrix.hstack(*apart))

"""Rotary positions: a fixed rotation of q, or a product of q with (cos, sin).

q' = (q1 cos - q2 sin, q1 sin + q2 cos): a linear map of q, or two sums of two products.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import generic, identical, limit, sign_cases
from lrp_axioms.axioms.rules.linear import add, epsilon
from lrp_axioms.axioms.rules.products import bilinear_epsilon, equal_split

THEMES = {22: ["Position"]}
MEANINGS = {
    22: "A rotation that is held fixed passes all relevance on to the query as epsilon -> 0, and "
    "the explanation depends on relative position alone. As a product, position receives half at "
    "every angle; if none of its four shares is 0, they have both signs, and their absolute values "
    "add up to more than the size of their sum.",
}

EPS = sp.Symbol("epsilon", positive=True)
COS, SIN = sp.symbols("cos sin", real=True)
Q, K, R = generic("q", 1, 2), generic("k", 1, 2), generic("r", 1, 2)


def rotation(cos, sin):
    """The matrix that rotates rows by the angle."""
    return sp.Matrix([[cos, sin], [-sin, cos]])


def terms(q, cos, sin):
    """The two products that add up to each entry of q': [[(q_i, factor)]]."""
    return [[(q[0], cos), (q[1], -sin)], [(q[0], sin), (q[1], cos)]]


def by_products(q, cos, sin, relevance, *, eps, sign=None):
    """Shares of q and of position, term by term: Eq. 1 on the sums, then the equal split."""
    of_q, of_position = [], []
    for p, row in enumerate(terms(q, cos, sin)):
        operands = [sp.Matrix([[a * b]]) for a, b in row]
        s = None if sign is None else sign[:, p]
        for share in add(operands, relevance[:, p], eps=eps, sign=s):
            half_q, half_position = equal_split(2, share)
            of_q.append(half_q[0])
            of_position.append(half_position[0])
    return of_q, of_position


@pytest.mark.theorem(
    22,
    "With rotations held fixed, the relevance of q and k by Eqs. 1 and 4 depends as epsilon -> 0 "
    "on their relative position alone, as their score does.",
    "proved",
    scope="queries and keys of 2 channels; all angles but half turns, where the score and all "
    "entries of the turned q and k are not 0",
)
def test_relevance_depends_on_relative_position_alone():
    u, v = sp.symbols("u v", real=True)  # tan of half the angles: all points of the circle but one
    common, relative = (rotation((1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)) for t in (u, v))
    g = sp.Symbol("g", real=True)  # relevance per unit of score
    found = []
    for turn in (sp.eye(2), common):
        turn_q, turn_k = turn, (turn * relative).applyfunc(sp.cancel)
        q, k = Q * turn_q, K * turn_k
        halves = bilinear_epsilon(q, k.T, (q * k.T) * g, eps=0)
        found.append(
            [
                epsilon(Q, turn_q, halves[0], eps=0)[0],
                epsilon(K, turn_k, halves[1].T, eps=0)[0],
            ]
        )
    for plain, turned in zip(*found, strict=True):
        assert identical(plain, turned)


@pytest.mark.theorem(
    22,
    "As products of q with (cos, sin), rotary positions give q and position the same signed sum, "
    "of R_p z_p/(z_p + epsilon sign z_p)/2: half of all relevance each as epsilon -> 0.",
    "proved",
    scope="a query of 2 channels, any angle; every sign case",
)
def test_the_signed_split_between_query_and_position_conserves():
    z = Q * rotation(COS, SIN)
    for s in sign_cases(1, 2):
        of_q, of_position = by_products(Q, COS, SIN, R, eps=EPS, sign=s)
        expected = sum(R[p] * z[p] / (z[p] + EPS * s[p]) for p in range(2)) / 2
        assert identical(sum(of_q), expected)
        assert identical(sum(of_position), expected)
        assert identical(limit(expected, EPS), sum(R) / 2)


@pytest.mark.theorem(
    22,
    "As epsilon -> 0, four nonzero shares of position of a rotary pair have both signs. Their "
    "absolute values exceed the size of their sum by twice the smaller of the two sums of one "
    "sign.",
    "proved",
    given=["a > 0: sizes of the shares"],
    scope="the 4 shares of 2 channels; all 8 possible sign cases",
)
def test_absolute_sums_exceed_signed_ones_by_what_cancels():
    z = Q * rotation(COS, SIN)
    _, found = by_products(Q, COS, SIN, R, eps=0)
    # The product of the shares is minus a square, so that one or three shares are negative.
    product = -((R[0] * R[1] * Q[0] * Q[1] * COS * SIN / (4 * z[0] * z[1])) ** 2)
    assert identical(sp.prod(found), product)
    sizes = sp.symbols("a:4", positive=True)
    for signs in (s for s in itertools.product((1, -1), repeat=4) if sp.prod(s) < 0):
        shares = [s * size for s, size in zip(signs, sizes, strict=True)]
        above = sum(x for x in shares if x.is_positive)
        below = -sum(x for x in shares if x.is_negative)
        absolute = sum(abs(x) for x in shares)
        assert identical(sum(shares), above - below)
        assert identical(absolute - (above - below), 2 * below)  # where above >= below
        assert identical(absolute - (below - above), 2 * above)  # where below >= above
        assert above.is_positive
        assert below.is_positive  # so that both excesses are above 0

"""Other rules of linear layers: z+, gamma and alpha-beta, against Eq. 1 and leave-one-out.

A contribution is c = x_i w_i, or the bias; P sums the positive contributions to an output and N
the sizes of the negative ones.
"""

import itertools

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, identical, limit, where
from lrp_axioms.axioms.rules.effects import leave_one_out
from lrp_axioms.axioms.rules.linear import (
    alpha_beta,
    contributions,
    epsilon,
    gamma,
    linear_map,
    z_plus,
)

THEMES = {
    26: ["Linear layers, sums and activations"],
    27: ["Linear layers, sums and activations"],
    28: ["Linear layers, sums and activations"],
}
DERIVATIONS = {
    26: ["z+ of a linear layer"],
    27: ["gamma rule of a linear layer"],
    28: ["alpha-beta rule of a linear layer"],
}
MEANINGS = {
    26: "The z+ rule looks at positive contributions alone. It is not Leave-One-Out, and it "
    "depends on how linear layers are folded.",
    27: "The gamma rule is Eq. 1 at gamma = 0 and z+ as gamma -> infinity. No gamma > 0 is "
    "independent of how linear layers are folded.",
    28: "The alpha-beta rule with alpha - beta = 1 and beta > 0 conserves as epsilon -> 0 only "
    "where contributions of both signs exist, and no fixed alpha makes it Eq. 1.",
}

EPS, STRENGTH = sp.symbols("epsilon gamma", positive=True)
ALPHA, BETA = sp.symbols("alpha beta", real=True)
S = sp.Symbol("s", real=True)  # sign of a sum: a proof for every s covers both cases
R = sp.Matrix([[sp.Symbol("R", real=True)]])
SIZES = sp.symbols("c0:3", positive=True)  # of two contributions and a bias
ONES = sp.ones(1, 2)
X = sp.Matrix([sp.symbols("x0:2", real=True)])


def cases(n=3):
    """Contributions of every combination of signs: of two inputs, and of a bias."""
    for signs in itertools.product((1, -1), repeat=n):
        parts = [s * c for s, c in zip(signs, SIZES[:n], strict=True)]
        yield sp.Matrix(parts[:2]), sp.Matrix([parts[2:]]) if n == 3 else None


def weights(c):
    """The matrix that maps the inputs X to their contributions."""
    return sp.Matrix([part / x for part, x in zip(c, X, strict=True)])


def above(parts):
    """P, the sum of the positive parts."""
    return sum(c for c in parts if c.is_positive)


def below(parts):
    """N, the sum of the sizes of the negative parts."""
    return -sum(c for c in parts if c.is_negative)


def whole(c, b):
    """Every contribution to the one output: first of the inputs, then of the bias."""
    return list(contributions(X, weights(c), b))


@pytest.mark.theorem(
    26,
    "The z+ rule gives the inputs of a linear layer R (P - max(b, 0))/(P + epsilon), P being the "
    "sum of the positive contributions, the bias b among them.",
    "proved",
    given=["c > 0: sizes of contributions"],
    scope="two inputs and a bias, 3 contributions in all 8 sign cases",
)
def test_z_plus_conserves_all_but_the_shares_of_bias_and_stabiliser():
    for c, b in cases():
        (r_x,) = z_plus(X, weights(c), R, eps=EPS, bias=b)
        p = above(whole(c, b))
        assert identical(sum(r_x), R[0] * above(c) / (p + EPS))
        for i in range(2):
            assert identical(r_x[i], R[0] * above([c[i]]) / (p + EPS))
        if above(c):
            (without,) = z_plus(X, weights(c), R, eps=EPS)
            assert identical(limit(sum(without), EPS), R[0])


@pytest.mark.theorem(
    26,
    "Where no contribution is negative, z+ is Eq. 1 at every epsilon; where all are, it gives the "
    "inputs nothing at epsilon > 0.",
    "proved",
    given=["c > 0: sizes of contributions"],
    scope="two inputs and a bias, 3 contributions of both extremes",
)
def test_z_plus_is_the_epsilon_rule_where_nothing_is_negative():
    for c, b in cases():
        (r_x,) = z_plus(X, weights(c), R, eps=EPS, bias=b)
        if not below(whole(c, b)):
            assert identical(r_x, epsilon(X, weights(c), R, eps=EPS, bias=b)[0])
        if not above(whole(c, b)):
            assert identical(r_x, sp.zeros(1, 2))


@pytest.mark.theorem(
    26,
    "For one linear output without bias, z+ is leave-one-out as epsilon -> 0, as Eq. 1 is.",
    "refuted",
)
def test_z_plus_is_not_leave_one_out(record_property):
    x, w = sp.Matrix([sp.symbols("x0:2", positive=True)]), sp.Matrix([SIZES[0], -SIZES[1]])
    y = linear_map(x, w)
    r_x = limit(z_plus(x, w, y, eps=EPS)[0], EPS)
    by_eq_1 = limit(epsilon(x, w, y, eps=EPS, sign=sp.Matrix([[S]]))[0], EPS)
    loo = sp.Matrix([list(leave_one_out(y[0], {e: e for e in x}).values())])
    assert identical(loo, by_eq_1)
    point = where((x, [1, 1]), (SIZES[0], 2), (SIZES[1], 1))
    assert all(differ_at(a, b, point) for a, b in zip(r_x, loo, strict=True))
    record_property("witness", "x = (1, 1), W = (2, -1): 1, 0 versus 2, -1")


FIRST, SECOND = sp.Matrix([[1, 0], [1, 1]]), sp.Matrix([1, -1])


def split_and_folded(rule):
    """Relevance of x = (1, 1) under (x W1) W2 and under x (W1 W2), an output of relevance R."""
    (r_hidden,) = rule(linear_map(ONES, FIRST), SECOND, R)
    (split,), (folded,) = rule(ONES, FIRST, r_hidden), rule(ONES, FIRST * SECOND, R)
    return split, folded


@pytest.mark.theorem(
    26,
    "z+ gives two linear layers without bias and their product the same relevance as epsilon -> 0, "
    "as Eq. 1 does.",
    "refuted",
)
def test_z_plus_depends_on_how_a_linear_map_is_split(record_property):
    of_z_plus = split_and_folded(lambda x, w, r: z_plus(x, w, r, eps=EPS))
    of_eq_1 = split_and_folded(lambda x, w, r: epsilon(x, w, r, eps=EPS))
    (split, folded), by_eq_1 = ([limit(r, EPS) for r in both] for both in (of_z_plus, of_eq_1))
    assert identical(*by_eq_1)
    assert all(differ_at(a, b, {R[0]: 1}) for a, b in zip(split, folded, strict=True))
    record_property(
        "witness",
        "x = (1, 1), W1 = [[1, 0], [1, 1]], W2 = (1, -1), R = 1: 1/2, 1/2 versus 0, 1",
    )


@pytest.mark.theorem(
    27,
    "The gamma rule gives input i exactly R (c_i + gamma max(c_i, 0))/(z' + epsilon sign z'), z' = "
    "z + gamma P: all of R in sum as epsilon -> 0 without bias.",
    "proved",
    given=["c > 0: sizes of contributions", "gamma > 0"],
    scope="two inputs and a bias, 3 contributions in all 8 sign cases; either sign of the sum",
)
def test_gamma_conserves_all_but_the_shares_of_bias_and_stabiliser():
    for c, b in cases():
        z = sum(whole(c, b)) + STRENGTH * above(whole(c, b))
        options = {"strength": STRENGTH, "sign": sp.Matrix([[S]])}
        (r_x,) = gamma(X, weights(c), R, eps=EPS, bias=b, **options)
        for i in range(2):
            favoured = c[i] + STRENGTH * above([c[i]])
            assert identical(r_x[i], R[0] * favoured / (z + EPS * S))
        (without,) = gamma(X, weights(c), R, eps=0, strength=STRENGTH)
        assert identical(sum(without), R[0])


@pytest.mark.theorem(
    27,
    "The gamma rule is Eq. 1 at gamma = 0, and z+ without stabiliser as gamma -> infinity, at "
    "every epsilon, wherever some contribution is positive.",
    "proved",
    given=["c > 0: sizes of contributions"],
    scope="two inputs and a bias, 3 contributions in all 8 sign cases; either sign of the sum",
)
def test_gamma_lies_between_the_epsilon_rule_and_z_plus(record_property):
    inverse = sp.Symbol("g", positive=True)  # 1/gamma, so that the limit is at 0
    sign = sp.Matrix([[S]])
    for c, b in cases():
        (r_x,) = gamma(X, weights(c), R, eps=EPS, strength=STRENGTH, bias=b, sign=sign)
        at_zero, far = (
            r_x.applyfunc(
                lambda e, value=value: sp.cancel(e.subs(STRENGTH, value)).subs(inverse, 0)
            )
            for value in (0, 1 / inverse)
        )
        assert identical(at_zero, epsilon(X, weights(c), R, eps=EPS, bias=b, sign=sign)[0])
        if above(whole(c, b)):
            assert identical(far, z_plus(X, weights(c), R, eps=0, bias=b)[0])
    record_property("method", "cancel, then gamma = 0 and 1/gamma = 0, all sign cases")


@pytest.mark.theorem(
    27,
    "For no gamma > 0 does the gamma rule give all pairs of linear layers without bias and their "
    "products the same relevance as epsilon -> 0.",
    "proved",
    given=["gamma > 0"],
    scope="one pair of layers, which shows it at every gamma",
)
def test_gamma_depends_on_how_a_linear_map_is_split(record_property):
    split, folded = split_and_folded(lambda x, w, r: gamma(x, w, r, eps=0, strength=STRENGTH))
    gap = STRENGTH / (2 * STRENGTH + 1)  # > 0 at every gamma > 0
    assert identical(split[0], folded[0] - gap * R[0])
    assert identical(split[1], folded[1] + gap * R[0])
    record_property(
        "method",
        "one pair for every gamma: at x = (1, 1), W1 = [[1, 0], [1, 1]], W2 = (1, -1) folding "
        "moves gamma R/(2 gamma + 1) from x2 to x1; cancel",
    )


@pytest.mark.theorem(
    28,
    "The alpha-beta rule gives the inputs of a linear layer without bias R (alpha P/(P + epsilon) "
    "- beta N/(N + epsilon)), that is (alpha - beta) R as epsilon -> 0 if P, N > 0.",
    "proved",
    given=["c > 0: sizes of contributions"],
    scope="2 inputs; every sign case",
)
def test_alpha_beta_conserves_where_both_signs_occur():
    for c, _ in cases(2):
        p, n = above(c), below(c)
        (r_x,) = alpha_beta(X, weights(c), R, eps=EPS, alpha=ALPHA, beta=BETA)
        expected = ALPHA * p / (p + EPS) - BETA * n / (n + EPS)
        assert identical(sum(r_x), R[0] * expected)
        if p and n:
            assert identical(limit(expected, EPS), ALPHA - BETA)
        (first,) = alpha_beta(X, weights(c), R, eps=EPS, alpha=1, beta=0)
        assert identical(first, z_plus(X, weights(c), R, eps=EPS)[0])


@pytest.mark.theorem(
    28,
    "For no fixed alpha is the alpha-beta rule with alpha - beta = 1 Eq. 1 as epsilon -> 0: with "
    "contributions p and -n, p > n > 0, it is so at alpha = p/(p - n) alone.",
    "proved",
    given=["n, gap > 0: n, and p - n"],
    scope="2 inputs",
)
def test_no_alpha_makes_alpha_beta_the_epsilon_rule(record_property):
    n, gap = sp.symbols("n gap", positive=True)
    p = n + gap
    w = sp.Matrix([p, -n])
    (r_x,) = alpha_beta(X, weights(w), R, eps=EPS, alpha=ALPHA, beta=ALPHA - 1)
    (by_eq_1,) = epsilon(X, weights(w), R, eps=EPS)
    apart = limit(r_x - by_eq_1, EPS)
    needed = p / gap
    assert identical(apart[0], R[0] * (ALPHA - needed))  # 0 at the needed alpha
    assert identical(apart[1], R[0] * (needed - ALPHA))
    assert differ_at(needed, needed.subs(gap, 2 * gap), {n: 1, gap: 1})  # no alpha is both
    record_property("method", "W = (2, -1) needs 2, (3, -1) needs 3/2")

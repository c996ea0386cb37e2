"""Rules of linear layers and sums: Eq. 1 and its variants."""

from collections.abc import Callable, Mapping, Sequence

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, STABILISER
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.rules.rule import (
    Amount,
    Messages,
    Row,
    Rule,
    Signs,
    Visit,
    formula,
    part_of,
    pushed,
    shares,
    sign_of,
)


def linear_map(x: Matrix, w: Matrix, bias: Row = None) -> Matrix:
    """z[n, j] = sum_i x[n, i] w[i, j] + bias[j]."""
    z = x * w
    return z if bias is None else z + Matrix.vstack(*[bias] * x.rows)


def through(x: Matrix, w: Matrix, share: Matrix) -> Matrix:
    """R[n, i] = sum_j x[n, i] w[i, j] share[n, j]: messages through a linear map."""

    def received(n: int, i: int) -> sp.Expr:
        return sum(x[n, i] * w[i, j] * share[n, j] for j in range(w.cols))

    return Matrix(x.rows, x.cols, received)


@formula("Eq. 1")
def epsilon(
    x: Matrix, w: Matrix, relevance: Matrix, *, eps: Number, bias: Row = None, sign: Signs = None
) -> Messages:
    """Eq. 1 with the bias in the denominator, which absorbs R_j b_j / (z_j + eps s_j)."""
    return (through(x, w, shares(relevance, linear_map(x, w, bias), eps=eps, sign=sign)),)


@formula("Eq. 1, without the bias in the denominator")
def epsilon_without_bias(
    x: Matrix, w: Matrix, relevance: Matrix, *, eps: Number, bias: Row = None, sign: Signs = None
) -> Messages:
    """Eq. 1 with z = x W in the denominator: the inputs share the contribution of the bias too."""
    return epsilon(x, w, relevance, eps=eps, sign=sign)


def contributions(x: Matrix, w: Matrix, bias: Row = None) -> Matrix:
    """Contribution of every input, and last of the bias, to each output of a layer of one token."""
    parts = Matrix(x.cols, w.cols, lambda i, j: x[i] * w[i, j])
    return parts if bias is None else parts.col_join(bias)


def positive_part(c: sp.Expr) -> sp.Expr:
    """max(c, 0), as ``c`` itself or 0.  Raises ValueError where the sign is undecided."""
    return c if sign_of(c) > 0 else sp.Integer(0)


def _share(
    parts: Matrix, inputs: int, relevance: Matrix, *, eps: Number, sign: Signs = None
) -> Matrix:
    """R[i] = sum_j parts[i, j] R_j / (z_j + eps s_j) with z_j the sum of all of ``parts[:, j]``."""
    share = shares(relevance, sp.ones(1, parts.rows) * parts, eps=eps, sign=sign)
    return (parts[:inputs, :] * share.T).T


@formula("the z+ rule")
def z_plus(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    bias: Row = None,
    part: Callable[[sp.Expr], sp.Expr] = positive_part,
) -> Messages:
    """Eq. 1 over the positive contributions alone, the bias among them, for one token.

    ``part`` takes the positive part, for callers who name it by a symbol.
    """
    parts = contributions(x, w, bias).applyfunc(part)
    return (_share(parts, x.cols, relevance, eps=eps),)


@formula("the gamma rule")
def gamma(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    strength: Number,
    bias: Row = None,
    sign: Signs = None,
) -> Messages:
    """Eq. 1 with ``strength`` times its positive part added to every contribution, for one token.

    For inputs >= 0 this is the weight w + strength max(w, 0).  ``sign``: the signs of the new sums.
    """
    parts = contributions(x, w, bias)
    favoured = parts + strength * parts.applyfunc(positive_part)
    return (_share(favoured, x.cols, relevance, eps=eps, sign=sign),)


@formula("the alpha-beta rule")
def alpha_beta(
    x: Matrix,
    w: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    alpha: Number,
    beta: Number,
    bias: Row = None,
) -> Messages:
    """alpha times Eq. 1 on the positive contributions less beta times on the negative ones.

    For one token.  Usually alpha - beta = 1; an output without negative contributions of its own
    then hands out alpha R: relevance is created.
    """
    (above,) = z_plus(x, w, relevance, eps=eps, bias=bias)
    (below,) = z_plus(-x, w, relevance, eps=eps, bias=None if bias is None else -bias)
    return (alpha * above - beta * below,)


@formula("Eq. 1 for a sum")
def add(
    operands: Sequence[Matrix], relevance: Matrix, *, eps: Number, sign: Signs = None
) -> Messages:
    """Eq. 1 on a sum: every operand gets R x / (z + eps s), entry by entry."""
    share = shares(relevance, sum(operands[1:], operands[0]), eps=eps, sign=sign)
    return tuple(x.multiply_elementwise(share) for x in operands)


@formula("shares by absolute value")
def add_by_size(
    operands: Sequence[Matrix],
    relevance: Matrix,
    *,
    eps: Number,
    size: Callable[[sp.Expr], sp.Expr] = lambda v: v * sign_of(v),
) -> Messages:
    """A sum split by size, R |x| / (sum of |x| + eps): positive shares, but not Eq. 1.

    ``size`` may name |x| by a symbol, or be another size >= 0, such as the positive part.
    """
    return add([x.applyfunc(size) for x in operands], relevance, eps=eps)


def _bias(operands: Sequence[Matrix]) -> Row:
    return operands[2] if len(operands) == 3 else None


def by_stabiliser(visit: Visit) -> Matrix:
    """R p / (z + p) with p = epsilon sign(z)."""
    p = pushed(visit)
    return part_of(visit.r, p, visit.z + p)


def _by_stabiliser_without_bias(visit: Visit) -> Matrix:
    x, w, *_ = visit.xs
    return by_stabiliser(visit._replace(z=x * w))


def by_bias(visit: Visit) -> Matrix:
    """R b / (z + p)."""
    b = Matrix.vstack(*[visit.xs[2]] * visit.z.rows)
    return part_of(visit.r, b, visit.z + pushed(visit))


def by_bias_in_the_limit(visit: Visit) -> Matrix:
    """R b / z."""
    return by_bias(visit._replace(options={"eps": 0}))


EQ_1: Mapping[str, Amount] = {BIAS: by_bias, STABILISER: by_stabiliser}

RULES = (
    Rule(kinds.LINEAR, kinds.EPSILON,
         lambda n, xs, r, opt: epsilon(xs[0], xs[1], r, bias=_bias(xs), **opt), EQ_1),
    Rule(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS,
         lambda n, xs, r, opt: epsilon_without_bias(xs[0], xs[1], r, **opt),
         {STABILISER: _by_stabiliser_without_bias}),
    Rule(kinds.LINEAR, kinds.GRADIENT,
         lambda n, xs, r, opt: epsilon(xs[0], xs[1], r, bias=_bias(xs), eps=0),
         {BIAS: by_bias_in_the_limit}),
    Rule(kinds.ADD, kinds.EPSILON, lambda n, xs, r, opt: add(xs, r, **opt),
         {STABILISER: by_stabiliser}),
    Rule(kinds.ADD, kinds.GRADIENT, lambda n, xs, r, opt: add(xs, r, eps=0), {}),
)  # fmt: skip

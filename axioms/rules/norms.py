"""Propagation rules of LayerNorm and RMSNorm in message form, row by row.

Conventions as in ``axioms.rules.rule``.  ``deviation`` and ``rms`` may name the sizes that
rows are divided by, one symbol per row, where roots would keep values from being rational.
"""

from collections.abc import Sequence
from typing import TypeAlias

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, DEGREE, STABILISER
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rules import linear
from lrp_axioms.axioms.rules.activations import identity
from lrp_axioms.axioms.rules.rule import Messages, Row, Rule, Signs, Visit, formula, shares

Sizes: TypeAlias = Sequence[sp.Expr] | None  # divisors of rows; computed if None


def eps_of(node: Node) -> Number:
    """The number that a norm adds under its root."""
    return node.attributes.get("norm_eps", 0)


def deviations(x: Matrix, *, norm_eps: Number) -> list[sp.Expr]:
    """sqrt(var(x) + norm_eps) of every row, with the variance over d channels."""
    means = [sum(x[n, :]) / sp.Integer(x.cols) for n in range(x.rows)]
    centred = Matrix(*x.shape, lambda n, i: x[n, i] - means[n])
    return root_mean_squares(centred, norm_eps=norm_eps)


def centring(weight: Matrix, deviation: sp.Expr) -> Matrix:
    """The linear map x -> weight * (x - mean(x)) / deviation, as a matrix acting on rows."""
    d = weight.cols
    return Matrix(d, d, lambda i, k: (int(i == k) - sp.Rational(1, d)) * weight[k] / deviation)


@noted
def layer_norm(
    x: Matrix, weight: Matrix, bias: Matrix, *, norm_eps: Number, deviation: Sizes = None
) -> Matrix:
    """LayerNorm of every row; ``deviation`` may name the standard deviations by symbols."""
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    rows = [linear.linear_map(x[n, :], centring(weight, s), bias) for n, s in enumerate(deviation)]
    return Matrix.vstack(*rows)


def _map_rows(
    x: Matrix, maps: list[Matrix], relevance: Matrix, *, eps: Number, sign: Signs, bias: Row = None
) -> Messages:
    """Eq. 1 through a linear map of its own for every row."""

    def row(n: int) -> Matrix:
        s = None if sign is None else sign[n, :]
        return linear.epsilon(x[n, :], maps[n], relevance[n, :], eps=eps, bias=bias, sign=s)[0]

    return (Matrix.vstack(*map(row, range(len(maps)))),)


@formula("LayerNorm with its deviation held, by Eq. 1")
def held_deviation(
    x: Matrix,
    weight: Matrix,
    bias: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    norm_eps: Number = 0,
    deviation: Sizes = None,
    sign: Signs = None,
) -> Messages:
    """LayerNorm as the linear map it is at its standard deviation, then Eq. 1.

    The bias of the norm absorbs its share.
    """
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    maps = [centring(weight, s) for s in deviation]
    return _map_rows(x, maps, relevance, eps=eps, sign=sign, bias=bias)


def root_mean_squares(x: Matrix, *, norm_eps: Number) -> list[sp.Expr]:
    """sqrt(mean(x^2) + norm_eps) of every row."""
    squares = [sum(v**2 for v in x[n, :]) / sp.Integer(x.cols) for n in range(x.rows)]
    return [sp.sqrt(square + norm_eps) for square in squares]


def _scaling(weight: Matrix, size: sp.Expr) -> Matrix:
    """The linear map x -> weight * x / size, as a matrix acting on rows."""
    return sp.diag(*(w / size for w in weight))


@noted
def rms_norm(x: Matrix, weight: Matrix, *, norm_eps: Number, rms: Sizes = None) -> Matrix:
    """RMSNorm of every row; ``rms`` may name the root mean squares by symbols."""
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    return Matrix.vstack(*[x[n, :] * _scaling(weight, s) for n, s in enumerate(rms)])


@formula("RMSNorm with its root mean square held, by Eq. 1")
def held_root_mean_square(
    x: Matrix,
    weight: Matrix,
    relevance: Matrix,
    *,
    eps: Number,
    norm_eps: Number = 0,
    rms: Sizes = None,
    sign: Signs = None,
) -> Messages:
    """RMSNorm as the linear map it is at its root mean square, then Eq. 1.

    Only the stabiliser absorbs: channel k gets R_k z_k / (z_k + eps s_k).
    """
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    maps = [_scaling(weight, s) for s in rms]
    return _map_rows(x, maps, relevance, eps=eps, sign=sign)


@noted
def layer_norm_jacobian(x: Matrix, weight: Matrix, deviation: sp.Expr) -> Matrix:
    """dy[k] / dx[i] of LayerNorm at one row ``x``, the deviation moving along with x."""
    d, mean = x.cols, sum(x) / sp.Integer(x.cols)

    def slope(i: int, k: int) -> sp.Expr:
        through_deviation = (x[i] - mean) * (x[k] - mean) / (d * deviation**2)
        return (int(i == k) - sp.Rational(1, d) - through_deviation) * weight[k] / deviation

    return Matrix(d, d, slope)


@formula("gradient times input of LayerNorm")
def layer_norm_gradient(
    x: Matrix,
    weight: Matrix,
    bias: Matrix,
    relevance: Matrix,
    *,
    norm_eps: Number = 0,
    deviation: Sizes = None,
) -> Messages:
    """Gradient x input through LayerNorm: R[i <- k] = x_i dy_k/dx_i R_k / y_k."""
    deviation = deviations(x, norm_eps=norm_eps) if deviation is None else deviation
    y = layer_norm(x, weight, bias, norm_eps=norm_eps, deviation=deviation)
    share = shares(relevance, y, eps=0)
    rows = [
        linear.through(x[n, :], layer_norm_jacobian(x[n, :], weight, s), share[n, :])
        for n, s in enumerate(deviation)
    ]
    return (Matrix.vstack(*rows),)


@formula("gradient times input of RMSNorm")
def rms_norm_gradient(
    x: Matrix, weight: Matrix, relevance: Matrix, *, norm_eps: Number = 0, rms: Sizes = None
) -> Messages:
    """Gradient x input through RMSNorm: R[i <- k] = x_i dz_k/dx_i R_k / z_k."""
    rms = root_mean_squares(x, norm_eps=norm_eps) if rms is None else rms
    share = shares(relevance, rms_norm(x, weight, norm_eps=norm_eps, rms=rms), eps=0)

    def slopes(row: Matrix, s: sp.Expr) -> Matrix:
        def slope(i: int, k: int) -> sp.Expr:
            return (int(i == k) - row[i] * row[k] / (row.cols * s**2)) * weight[k] / s

        return Matrix(row.cols, row.cols, slope)

    rows = [linear.through(x[n, :], slopes(x[n, :], s), share[n, :]) for n, s in enumerate(rms)]
    return (Matrix.vstack(*rows),)


def _deviation_loss(visit: Visit) -> Matrix:
    """Relevance lost as the deviation varies too: all but norm-epsilon's part of its square."""
    (x, _, *bias), y, r = visit.xs, visit.z, visit.r
    sizes_of = deviations if visit.node.op == kinds.LAYER_NORM else root_mean_squares
    h = eps_of(visit.node)
    sizes = sizes_of(x, norm_eps=h)
    shift = Matrix.vstack(*bias * y.rows) if bias else 0 * y
    return Matrix(
        *r.shape, lambda n, k: r[n, k] * (1 - shift[n, k] / y[n, k]) * (1 - h / sizes[n] ** 2)
    )


RULES = (
    Rule(kinds.LAYER_NORM, kinds.HELD_DEVIATION,
         lambda n, xs, r, opt: held_deviation(xs[0], xs[1], xs[2], r, norm_eps=eps_of(n), **opt),
         linear.EQ_1),
    Rule(kinds.LAYER_NORM, kinds.IDENTITY, lambda n, xs, r, opt: identity(r), {}),
    Rule(kinds.LAYER_NORM, kinds.GRADIENT,
         lambda n, xs, r, opt: layer_norm_gradient(xs[0], xs[1], xs[2], r, norm_eps=eps_of(n)),
         {BIAS: linear.by_bias_in_the_limit, DEGREE: _deviation_loss}),
    Rule(kinds.RMS_NORM, kinds.HELD_DEVIATION,
         lambda n, xs, r, opt: held_root_mean_square(xs[0], xs[1], r, norm_eps=eps_of(n), **opt),
         {STABILISER: linear.by_stabiliser}),
    Rule(kinds.RMS_NORM, kinds.GRADIENT,
         lambda n, xs, r, opt: rms_norm_gradient(xs[0], xs[1], r, norm_eps=eps_of(n)),
         {DEGREE: _deviation_loss}),
)  # fmt: skip

"""Rules of the attention step: Eq. 5, and operations that are held constant."""

from collections.abc import Mapping, Sequence

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import CONSTANT, STABILISER, TAYLOR
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rules.linear import by_stabiliser
from lrp_axioms.axioms.rules.products import bilinear
from lrp_axioms.axioms.rules.rule import (
    Amount,
    Messages,
    Options,
    Rule,
    Signs,
    Visit,
    formula,
    shares,
)


@formula("the value-only rule")
def value_only(
    a: Matrix, v: Matrix, relevance: Matrix, *, eps: Number, sign: Signs = None
) -> Messages:
    """CP-LRP's readout ``o = a v``: ``a`` is held constant, ``v`` gets all by Eq. 1."""
    _, r_v = bilinear(a, v, shares(relevance, a * v, eps=eps, sign=sign))
    return sp.zeros(*a.shape), r_v


@noted
def softmax(z: Matrix, *, exp_z: Matrix | None = None) -> Matrix:
    """A = softmax(Z), row by row; ``exp_z`` may name the exponentials by symbols."""
    e = z.applyfunc(sp.exp) if exp_z is None else exp_z
    return Matrix(*z.shape, lambda j, i: e[j, i] / sum(e[j, :]))


@formula("Eq. 5")
def taylor(z: Matrix, relevance: Matrix, *, exp_z: Matrix | None = None) -> Messages:
    """Eq. 5, R_Z[j, i] = Z[j, i] (R_A[j, i] - A[j, i] sum_i' R_A[j, i']); it does not conserve."""
    a = softmax(z, exp_z=exp_z)

    def received(j: int, i: int) -> sp.Expr:
        return z[j, i] * (relevance[j, i] - a[j, i] * sum(relevance[j, :]))

    return (Matrix(*z.shape, received),)


def nothing(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Messages:
    """No relevance to any operand."""
    return tuple(sp.zeros(*x.shape) for x in xs)


def _by_taylor_term(visit: Visit) -> Matrix:
    """R (1 - z + zbar), zbar being the mean of the row's logits under its weights."""
    (z,), a, r = visit.xs, visit.z, visit.r

    def absorbed(j: int, i: int) -> sp.Expr:
        zbar = sum(a[j, k] * z[j, k] for k in range(z.cols))
        return r[j, i] * (1 - z[j, i] + zbar)

    return Matrix(*z.shape, absorbed)


HELD: Mapping[str, Amount] = {CONSTANT: lambda visit: visit.r}

RULES = (
    Rule(kinds.SCORES, kinds.CONSTANT, nothing, HELD, passes_by=(0, 1)),
    Rule(kinds.SOFTMAX, kinds.CONSTANT, nothing, HELD, passes_by=(0,)),
    Rule(kinds.SOFTMAX, kinds.IDENTITY, lambda n, xs, r, opt: (r,), {}),
    *(Rule(kinds.SOFTMAX, name, lambda n, xs, r, opt: taylor(xs[0], r), {TAYLOR: _by_taylor_term})
      for name in (kinds.TAYLOR, kinds.GRADIENT)),
    Rule(kinds.READOUT, kinds.VALUE_ONLY,
         lambda n, xs, r, opt: value_only(xs[0], xs[1], r, **opt),
         {STABILISER: by_stabiliser}, passes_by=(0,)),
)  # fmt: skip

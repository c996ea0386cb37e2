"""Rules of products: matrices (Eqs. 3 and 4) and entries."""

from collections.abc import Mapping, Sequence

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import DEGREE, STABILISER
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rules.rule import (
    Amount,
    Messages,
    Options,
    Rule,
    Signs,
    Visit,
    formula,
    part_of,
    pushed,
    shares,
)


def scale(node: Node) -> Number:
    """The number that scores are multiplied by."""
    return node.attributes.get("scale", 1)


def bilinear(a: Matrix, b: Matrix, share: Matrix) -> Messages:
    """Messages a[j, i] b[i, p] share[j, p], summed over p for ``a`` and over j for ``b``."""

    def message(j: int, i: int, p: int) -> sp.Expr:
        return a[j, i] * b[i, p] * share[j, p]

    r_a = Matrix(*a.shape, lambda j, i: sum(message(j, i, p) for p in range(b.cols)))
    r_b = Matrix(*b.shape, lambda i, p: sum(message(j, i, p) for j in range(a.rows)))
    return r_a, r_b


@formula("Eqs. 3 and 4")
def bilinear_epsilon(
    a: Matrix, b: Matrix, relevance: Matrix, *, eps: Number, scale: Number = 1, sign: Signs = None
) -> Messages:
    """Eq. 3 for ``o = a b`` and Eq. 4 for ``z = scale a b``: stabilised after the scaling.

    Each factor receives the sum of R o / (2 o + eps s), half of the relevance as eps -> 0.
    """
    share = shares(relevance, 2 * scale * a * b, eps=eps, sign=sign)
    return bilinear(a, b, scale * share)


@formula("Eq. 3 for several factors")
def chain_epsilon(
    factors: Sequence[Matrix], relevance: Matrix, *, eps: Number, sign: Signs = None
) -> Messages:
    """Eq. 3 for a product ``o`` of n matrices as one operation: n o + eps s in the denominator.

    Each factor receives the sum of R o / (n o + eps s), one nth of the relevance as eps -> 0.
    """
    n = len(factors)
    share = shares(relevance, n * sp.prod(factors[1:], factors[0]), eps=eps, sign=sign)

    def received(k: int) -> Matrix:
        before = sp.prod(factors[:k], sp.eye(factors[0].rows))
        after = sp.prod(factors[k + 1 :], sp.eye(factors[k].cols))
        return factors[k].multiply_elementwise(before.T * share * after.T)

    return tuple(received(k) for k in range(n))


@formula("the equal split")
def equal_split(n: int, relevance: Matrix) -> Messages:
    """R / n to each of the n factors of a product  (paper, Sec. 3.1, for n = 2)."""
    return (relevance / n,) * n


def halves(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Messages:
    """Eqs. 3 and 4; the scores transpose their second factor and scale.

    A merged product of n matrices stabilises n o and gives one n-th to each of them.
    """
    if len(xs) > 2:
        return chain_epsilon(xs, r, **options)
    if node.op != kinds.SCORES:
        return bilinear_epsilon(xs[0], xs[1], r, **options)
    r_q, r_k = bilinear_epsilon(xs[0], xs[1].T, r, scale=scale(node), **options)
    return r_q, r_k.T


def wholes(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Messages:
    """Gradient x input through a product of n: n times the messages of Eqs. 3 and 4 as eps -> 0."""
    return tuple(len(xs) * part for part in halves(node, xs, r, {"eps": 0}))


def _stabiliser_share(visit: Visit) -> Matrix:
    """R p / (n z + p) with p = epsilon sign(z), for n factors."""
    p = pushed(visit)
    return part_of(visit.r, p, len(visit.xs) * visit.z + p)


def _factor_excess(visit: Visit) -> Matrix:
    """The gradient hands out n R to n factors."""
    return (1 - len(visit.xs)) * visit.r


BY_STABILISER: Mapping[str, Amount] = {STABILISER: _stabiliser_share}
BY_FACTORS: Mapping[str, Amount] = {DEGREE: _factor_excess}

RULES = (
    *(Rule(kind, kinds.BILINEAR_EPSILON, halves, BY_STABILISER)
      for kind in (kinds.SCORES, kinds.READOUT, kinds.BILINEAR)),
    *(Rule(kind, kinds.GRADIENT, wholes, BY_FACTORS)
      for kind in (kinds.SCORES, kinds.READOUT, kinds.BILINEAR)),
    Rule(kinds.PRODUCT, kinds.EQUAL_SPLIT, lambda n, xs, r, opt: equal_split(len(xs), r), {}),
    Rule(kinds.PRODUCT, kinds.GRADIENT, lambda n, xs, r, opt: [r] * len(xs), BY_FACTORS),
)  # fmt: skip

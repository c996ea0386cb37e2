"""Rules of activations, and the functions that they are."""

from collections.abc import Callable

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import DEGREE
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rules.rule import Messages, Rule, Visit, formula, stabilize

ACTIVATIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "relu": lambda x: sp.Max(x, 0),
    "tanh": sp.tanh,
    "silu": lambda x: x / (1 + sp.exp(-x)),
    "gelu": lambda x: x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    "soft cap": lambda x: 2 * sp.tanh(x / 2),  # of Gemma 2, at the smallest whole cap but 1
    # the parts that SiLU, GELU, softmax and LayerNorm are made of
    "sigmoid": lambda x: 1 / (1 + sp.exp(-x)),
    "phi": lambda x: (1 + sp.erf(x / sp.sqrt(2))) / 2,
    "exp": sp.exp,
    "reciprocal": lambda x: 1 / x,
    "reciprocal root": lambda x: 1 / sp.sqrt(x),
}


def function_of(node: Node) -> Callable[[sp.Expr], sp.Expr]:
    """The function that an activation applies to every entry."""
    return ACTIVATIONS[node.attributes["function"]]


@formula("the identity rule")
def identity(relevance: Matrix) -> Messages:
    """R_in = R_out, for activations and as the other rule of LayerNorm."""
    return (relevance,)


@formula("gradient times input of an activation")
def activation_gradient(
    x: Matrix, function: Callable[[sp.Expr], sp.Expr], relevance: Matrix
) -> Messages:
    """Gradient x input through ``y = function(x)``: R_in = x y'(x) R_out / y(x)."""
    t = sp.Dummy("t", real=True)
    slope = sp.diff(function(t), t)

    def received(n: int, i: int) -> sp.Expr:
        y = function(x[n, i])
        return x[n, i] * slope.subs(t, x[n, i]) * relevance[n, i] / stabilize(y, eps=0)

    return (Matrix(*x.shape, received),)


def _slope_gap(visit: Visit) -> Matrix:
    """R (1 - x y'(x) / y)."""
    t = sp.Dummy("t", real=True)
    slope = sp.diff(function_of(visit.node)(t), t)
    (x,), y, r = visit.xs, visit.z, visit.r
    return Matrix(*r.shape, lambda n, i: r[n, i] * (1 - x[n, i] * slope.subs(t, x[n, i]) / y[n, i]))


RULES = (
    Rule(kinds.ACTIVATION, kinds.IDENTITY, lambda n, xs, r, opt: identity(r), {}),
    Rule(kinds.ACTIVATION, kinds.GRADIENT,
         lambda n, xs, r, opt: activation_gradient(xs[0], function_of(n), r), {DEGREE: _slope_gap}),
)  # fmt: skip

"""The function that a graph denotes, and whether two graphs denote one function.

Exponentials, roots and other functions become symbols named by their argument in lowest terms,
so that equality is decided among rational functions.  A name may hide a relation (between a
root and its square, say), so equality is a proof, and a difference needs a witness.
"""

from functools import lru_cache
from math import prod

import sympy as sp
from sympy.core.function import AppliedUndef

from lrp_axioms.axioms.decide.identity import Number, Sides, identical
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.rules.propagate import LeafValues, evaluate

KEPT = 10_000  # cached expressions: every rule asks for their names again and again


@lru_cache(maxsize=KEPT)
def canonical(expression: Number) -> sp.Expr:
    """One form for equal rational functions."""
    return sp.cancel(sp.together(sp.sympify(expression)))


def named(function: str, argument: Number) -> sp.Symbol:
    """The value of ``function`` at ``argument`` as a symbol: equal arguments, equal symbols."""
    return sp.Symbol(f"{function}[{canonical(argument)}]", real=True)


def _exponential(argument: sp.Expr) -> sp.Expr:
    """exp(2 a - b) as exp[a]**2 / exp[b]; fractional multiples keep a name of their own."""
    factors = []
    for term in sp.Add.make_args(sp.expand(canonical(argument))):
        multiple, rest = term.as_coeff_Mul()
        if multiple.is_Integer:
            factors.append(named("exp", rest) ** multiple)
        else:
            factors.append(named("exp", term))
    return prod(factors, start=sp.Integer(1))


def _name(part: sp.Expr) -> sp.Expr:
    if part == sp.E:
        return named("exp", 1)
    if part.is_Pow:  # a root
        return named(f"root {part.exp.q} of", part.base) ** part.exp.p
    if isinstance(part, sp.exp):
        return _exponential(part.args[0])
    if part.is_NumberSymbol:
        return sp.Symbol(str(part))
    if isinstance(part, sp.Max) and part.args[0] == 0 and len(part.args) == 2:
        size, rest = canonical(part.args[1]).as_content_primitive()
        # max(0, 2 a) is 2 max(0, a)
        return size * sp.Symbol(f"Max[0, {rest}]")
    return sp.Symbol(f"{part.func}[{', '.join(str(canonical(a)) for a in part.args)}]")


def _is_opaque(part: sp.Expr) -> bool:
    root = part.is_Pow and part.exp.is_Rational and not part.exp.is_Integer
    function = part.is_Function and not isinstance(part, AppliedUndef)  # a reference to a graph
    return root or function or part.is_NumberSymbol or isinstance(part, sp.exp)


@lru_cache(maxsize=KEPT)
def as_rational(expression: Number) -> sp.Expr:
    """The expression with everything that is not rational in it named, innermost first."""
    return sp.sympify(expression).replace(_is_opaque, _name)


def same_value(lhs: Sides, rhs: Sides) -> bool:
    """Whether two expressions or matrices are found equal; False proves nothing by itself."""
    lhs, rhs = sp.Matrix([lhs]), sp.Matrix([rhs])
    return identical(lhs.applyfunc(as_rational), rhs.applyfunc(as_rational))


def denoted(root: Node, point: LeafValues) -> sp.Matrix:
    """Value of the graph where ``point`` gives every leaf a number, a symbol or a matrix."""
    return evaluate(root, point)[root]


def same_function(one: Node, other: Node, point: LeafValues) -> bool:
    """Whether two graphs are found equal at ``point``: at generic symbols, everywhere."""
    return same_value(denoted(one, point), denoted(other, point))

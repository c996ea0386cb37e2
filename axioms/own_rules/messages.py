"""A user's rule as a message function of the sweep, so that any graph can be explained with it.

The rule sees one output at a time: its operands, value and relevance.  Exponentials, roots and
other functions of symbols reach it as symbols of their own, so that it returns rational functions.
"""

import itertools
from collections.abc import Sequence
from functools import cache, partial

import sympy as sp
from sympy import Matrix

from axioms.algebra.decide import Number
from axioms.algebra.propagate import FORWARD, Options
from axioms.composites import ATTNLRP
from axioms.graph import Node
from axioms.invariance.rule_sets import RuleSet
from axioms.invariance.witness import NEAR_0
from axioms.own_rules import of_rows
from axioms.own_rules.rules import Rule
from axioms.own_rules.signs import UNDEFINED
from axioms.own_rules.sweep import compare

CASES = 8  # signs in one denominator, at most, that are split into cases


def rule_set(own: Rule) -> RuleSet:
    """AttnLRP with ``own`` in place of its rule; one for "bilinear" stands for every such product.

    Its messages are summed over outputs.  They raise ZeroDivisionError where they are undefined:
    at a point, or for symbols in one case of their signs.  The rule itself never meets eps = 0.
    """

    def messages(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> list[Matrix]:
        matrices = (*xs, FORWARD[node.op](node, *xs), r)
        *xs, y, r = (_defined(matrix.applyfunc(of_rows.rational)).tolist() for matrix in matrices)
        eps = options["eps"]
        found = of_rows.MESSAGES[node.op](lambda *at: own(*at, eps or NEAR_0), node, xs, y, r)
        return [_defined(Matrix(rows).applyfunc(lambda m: _at(m, eps))) for rows in found]

    return RuleSet(
        name=own.name,
        composite=ATTNLRP,
        instead=dict.fromkeys(own.operations, messages),
        compare=partial(compare, own),
    )


def _defined(matrix: Matrix) -> Matrix:
    if matrix.has(*UNDEFINED):
        raise ZeroDivisionError(f"{matrix} is undefined: 0/0 or a pole of a rule")
    return matrix


def _at(message: sp.Expr, eps: Number) -> sp.Expr:
    """A message at eps, whose signs come before its fractions: P / P is 0/0 where P is."""
    divisors = [power.base for power in message.atoms(sp.Pow) if power.exp.is_negative]
    if any(_vanishes(base if eps else base.subs(NEAR_0, 0)) for base in divisors):
        raise ZeroDivisionError(f"a denominator of {message} is 0 in some case of the signs")
    return message if eps else message.subs(NEAR_0, 0)


@cache
def _vanishes(divisor: sp.Expr) -> bool:
    """Whether it is 0, identically in the symbols, for some signs of what it has the sign of."""
    signs = [s for s in divisor.free_symbols if s.name.startswith("sign[")]
    if len(signs) > CASES:
        return True  # for all that is known
    cases = itertools.product((1, -1), repeat=len(signs))
    return any(
        sp.expand(divisor.xreplace(dict(zip(signs, map(sp.Integer, case), strict=True)))) == 0
        for case in cases
    )

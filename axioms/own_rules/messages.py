"""A user's rule as a message function of the sweep, so that any graph can be explained with it.

The rule sees one output at a time: its operands, value and relevance.  Exponentials, roots and
other functions of symbols reach it as symbols of their own, so that it returns rational functions.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import sympy as sp
from sympy import Matrix

from axioms import kinds
from axioms.algebra.decide import Number
from axioms.algebra.denotation import as_rational
from axioms.algebra.propagate import FORWARD, Options
from axioms.composites import ATTNLRP
from axioms.graph import Node
from axioms.invariance.rule_sets import RuleSet
from axioms.invariance.witness import NEAR_0
from axioms.own_rules.rules import MATRIX_PRODUCTS, Nested, Rule
from axioms.own_rules.signs import UNDEFINED

CASES = 8  # signs in one denominator, at most, that are split into cases


def rule_set(own: Rule) -> RuleSet:
    """AttnLRP with ``own`` in place of its rule; one for "bilinear" stands for every such product.

    Its messages are summed over outputs.  They raise ZeroDivisionError where they are undefined:
    at a point, or for symbols in one case of their signs.  The rule itself never meets eps = 0.
    """
    operations = MATRIX_PRODUCTS if own.kind == kinds.BILINEAR else (own.kind,)

    def messages(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> list[Matrix]:
        matrices = (*xs, FORWARD[node.op](node, *xs), r)
        *xs, value, r = (_defined(matrix.applyfunc(_rational)) for matrix in matrices)
        eps = options["eps"]
        found = MESSAGES[node.op](lambda *at: own(*at, eps or NEAR_0), node, xs, value, r)
        return [_defined(matrix.applyfunc(lambda m: _at(m, eps))) for matrix in found]

    return RuleSet(name=own.name, composite=ATTNLRP, instead=dict.fromkeys(operations, messages))


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


def _rational(value: sp.Expr) -> sp.Expr:
    return as_rational(value) if value.free_symbols else value


AtOutput: TypeAlias = Callable[..., Nested]  # a user's rule, of all its arguments but epsilon


def _pairs(own: AtOutput, node: Node, xs: Sequence[Matrix], y: Matrix, r: Matrix) -> list[Matrix]:
    """Entry by entry; the messages to the first operand, then those to the second."""
    found = [own(*entry) for entry in zip(*xs, y, r, strict=True)]
    return [Matrix(*r.shape, messages) for messages in zip(*found, strict=True)]


def _linear(own: AtOutput, node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix) -> list[Matrix]:
    x, w, *bias = xs
    b = bias[0] if bias else sp.zeros(1, w.cols)
    to_x = sp.zeros(*x.shape)
    for n, j in itertools.product(range(r.rows), range(r.cols)):
        to_x[n, :] += Matrix([own(list(x[n, :]), list(w[:, j]), b[j], z[n, j], r[n, j])])
    return [to_x]


def _matrix_product(
    own: AtOutput, node: Node, xs: Sequence[Matrix], o: Matrix, r: Matrix
) -> list[Matrix]:
    a, v = xs
    to_a, to_v = sp.zeros(*a.shape), sp.zeros(*v.shape)
    for j, p in itertools.product(range(r.rows), range(r.cols)):
        row, column = own(list(a[j, :]), list(v[:, p]), o[j, p], r[j, p])
        to_a[j, :] += Matrix([row])
        to_v[:, p] += Matrix(column)
    return [to_a, to_v]


def _scores(own: AtOutput, node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix) -> list[Matrix]:
    """A product of Q, scaled, with the transpose of K."""
    q, k = xs
    to_q, to_k = _matrix_product(own, node, [node.attributes.get("scale", 1) * q, k.T], z, r)
    return [to_q, to_k.T]


def _softmax(own: AtOutput, node: Node, xs: Sequence[Matrix], a: Matrix, r: Matrix) -> list[Matrix]:
    (z,) = xs
    return [Matrix([own(list(z[j, :]), list(a[j, :]), list(r[j, :])) for j in range(z.rows)])]


def _activation(
    own: AtOutput, node: Node, xs: Sequence[Matrix], y: Matrix, r: Matrix
) -> list[Matrix]:
    (x,) = xs
    t = sp.Dummy("t", real=True)
    (slope,) = FORWARD[node.op](node, Matrix([t])).diff(t)
    slopes = [_rational(slope.subs(t, value)) for value in x]
    return [Matrix(*x.shape, [own(*entry) for entry in zip(x, y, slopes, r, strict=True)])]


MESSAGES: dict[str, Callable[[AtOutput, Node, Sequence[Matrix], Matrix, Matrix], list[Matrix]]] = {
    kinds.PRODUCT: _pairs,
    kinds.ADD: _pairs,
    kinds.LINEAR: _linear,
    kinds.BILINEAR: _matrix_product,
    kinds.READOUT: _matrix_product,
    kinds.SCORES: _scores,
    kinds.SOFTMAX: _softmax,
    kinds.ACTIVATION: _activation,
}
"""Operation -> relevance of its operands, from rule, node, values of operands and node, R."""

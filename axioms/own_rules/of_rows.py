"""A user's rule on matrices, which are lists of rows: one output at a time, sums over outputs.

Entries may be SymPy's expressions or the numbers of ``axioms.own_rules.sweep``.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from operator import add
from typing import Any, TypeAlias

import sympy as sp
from sympy import Matrix

from axioms import kinds
from axioms.algebra.denotation import as_rational
from axioms.algebra.propagate import FORWARD
from axioms.graph import Node

AtOutput: TypeAlias = Callable[..., Any]  # a user's rule, of all its arguments but epsilon
Rows: TypeAlias = list[list[Any]]  # of a matrix


T = sp.Dummy("t", real=True)


def _column(matrix: Rows, j: int) -> list[Any]:
    return [row[j] for row in matrix]


def _added(messages: Iterable[Sequence[Any]]) -> list[Any]:
    return [reduce(add, entries) for entries in zip(*messages, strict=True)]


def _pairs(own: AtOutput, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> list[Rows]:
    """Entry by entry; the messages to the first operand, then those to the second."""
    rows = zip(*xs, y, r, strict=True)
    found = [[own(*entry) for entry in zip(*row, strict=True)] for row in rows]
    return [[[pair[k] for pair in row] for row in found] for k in (0, 1)]


def _linear(own: AtOutput, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> list[Rows]:
    x, w, *bias = xs
    (b,) = bias or [[[0 * value for value in z[0]]]]

    def received(n: int) -> list[Any]:
        columns = range(len(w[0]))
        return _added(own(x[n], _column(w, j), b[0][j], z[n][j], r[n][j]) for j in columns)

    return [[received(n) for n in range(len(x))]]


def _matrix_product(own: AtOutput, node: Node, xs: Sequence[Rows], o: Rows, r: Rows) -> list[Rows]:
    a, v = xs
    rows, columns = range(len(a)), range(len(v[0]))
    found = {
        (j, p): own(a[j], _column(v, p), o[j][p], r[j][p])
        for j, p in itertools.product(rows, columns)
    }
    to_a = [_added(found[j, p][0] for p in columns) for j in rows]
    to_v = [_added(found[j, p][1] for j in rows) for p in columns]
    return [to_a, turned(to_v)]


def turned(matrix: Rows) -> Rows:
    """The transpose."""
    return [list(column) for column in zip(*matrix, strict=True)]


def _scores(own: AtOutput, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> list[Rows]:
    """A product of Q, scaled, with the transpose of K."""
    q, k = xs
    scaled = [[node.attributes.get("scale", 1) * x for x in row] for row in q]
    to_q, to_k = _matrix_product(own, node, [scaled, turned(k)], z, r)
    return [to_q, turned(to_k)]


def _softmax(own: AtOutput, node: Node, xs: Sequence[Rows], a: Rows, r: Rows) -> list[Rows]:
    return [[own(*row) for row in zip(*xs, a, r, strict=True)]]


def rational(value: sp.Expr) -> sp.Expr:
    """The value with a symbol for each exponential, root or other function of symbols."""
    return as_rational(value) if value.free_symbols else value


@cache
def _slope(node: Node) -> sp.Expr:
    """That of an activation at T."""
    (slope,) = FORWARD[node.op](node, Matrix([T])).diff(T)
    return slope


def _activation(own: AtOutput, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> list[Rows]:
    slope = _slope(node)

    def message(x: sp.Expr, *more: sp.Expr) -> Any:
        value, relevance = more
        return own(x, value, rational(slope.subs(T, x)), relevance)

    rows = zip(*xs, y, r, strict=True)
    return [[[message(*entry) for entry in zip(*row, strict=True)] for row in rows]]


MESSAGES: dict[str, Callable[[AtOutput, Node, Sequence[Rows], Rows, Rows], list[Rows]]] = {
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

"""Makes a message function of a user's rule, for the sweep over any graph.

The rule sees one output: its operands, value and relevance.  This module adds up outputs.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from operator import add
from typing import Any, TypeAlias

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.decide.signs import UNDEFINED, Sign
from lrp_axioms.axioms.graph import Node
from lrp_axioms.axioms.own_rules.rules import Rule
from lrp_axioms.axioms.rewrites.points import LeafMatrices
from lrp_axioms.axioms.rules.propagate import FORWARD, Explanation, evaluate, explain
from lrp_axioms.axioms.rules.rule import Options
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet
from lrp_axioms.axioms.scoreboard.witness import NEAR_0, limit

AtOutput: TypeAlias = Callable[..., Any]  # a user's rule without its argument epsilon
Rows: TypeAlias = list[list[Any]]  # the rows of a matrix
T = sp.Dummy("t", real=True)


def symbolic(
    own: Rule, root: Node, point: LeafMatrices, relevance: Matrix
) -> tuple[Explanation, list[sp.Expr]]:
    """Relevance of every input of a graph by AttnLRP with ``own`` in it, for a symbol eps.

    Also returns the divisors of the rule: a divisor such as Max(a, 0) + Max(0, 0) may cancel.
    """
    divisors: list[sp.Expr] = []
    signs = {
        node: value.applyfunc(lambda z: Sign(z, evaluate=False))
        for node, value in evaluate(root, point).items()
    }
    given: dict[str, Any] = {"relevance": relevance, "signs": signs}
    found = explain(root, point, ATTNLRP, eps=EPS, instead=_instead(own, divisors), **given)
    return found, divisors


def rule_set(own: Rule) -> RuleSet:
    """AttnLRP with ``own`` in place of one rule, at numbers.

    An undefined message raises ZeroDivisionError.  At eps = 0 each message is its limit, and the
    rule is not called with eps = 0.
    """
    return RuleSet(name=own.name, composite=ATTNLRP, instead=_instead(own))


def _instead(
    own: Rule, divisors: list[sp.Expr] | None = None
) -> dict[str, Callable[..., list[Matrix]]]:
    def messages(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> list[Matrix]:
        eps = options["eps"]
        matrices = (*xs, FORWARD[node.op](node, *xs), r)
        checked = Matrix if eps == EPS else _check_defined  # the solver looks at symbols
        *rows, y, r_rows = (checked(matrix).tolist() for matrix in matrices)

        def at(*operands: Any) -> Any:
            if divisors is not None:
                divisors.extend(own.divisors(*operands, eps))
            return own(*operands, eps or NEAR_0)

        found = map(Matrix, MESSAGES[node.op](at, node, rows, y, r_rows))
        return [checked(m if eps else m.applyfunc(_limit)) for m in found]

    return dict.fromkeys(own.kinds, messages)


def _check_defined(matrix: Matrix) -> Matrix:
    if matrix.has(*UNDEFINED):
        raise ZeroDivisionError(f"{matrix} is undefined: 0/0 or a pole of a rule")
    return matrix


def _limit(message: sp.Expr) -> sp.Expr:
    return limit(message) if message.has(NEAR_0) else message


def _add(messages: Iterable[Sequence[Any]]) -> list[Any]:
    return [reduce(add, entries) for entries in zip(*messages, strict=True)]


def _transpose(matrix: Rows) -> Rows:
    return [list(column) for column in zip(*matrix, strict=True)]


def _map_entries(own: AtOutput, *matrices: Rows) -> Rows:
    rows = zip(*matrices, strict=True)
    return [[own(*entry) for entry in zip(*row, strict=True)] for row in rows]


def _pairs(own: AtOutput, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> list[Rows]:
    """Messages entry by entry: to the first operand, and to the second operand."""
    found = _map_entries(own, *xs, y, r)
    return [[[pair[k] for pair in row] for row in found] for k in (0, 1)]


def _messages(own: AtOutput, a: Rows, v: Rows, o: Rows, r: Rows, *bias: Rows) -> list[list[Any]]:
    """Messages from every output of a matrix product, by row and column of the output."""
    columns = list(enumerate(_transpose(v)))
    return [
        [own(row, column, *(b[0][p] for b in bias), o[j][p], r[j][p]) for p, column in columns]
        for j, row in enumerate(a)
    ]


def _linear(own: AtOutput, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> list[Rows]:
    x, w, *bias = xs
    found = _messages(own, x, w, z, r, *(bias or [[[sp.Integer(0)] * len(z[0])]]))
    return [list(map(_add, found))]


def _matrix_product(own: AtOutput, node: Node, xs: Sequence[Rows], o: Rows, r: Rows) -> list[Rows]:
    found = _messages(own, *xs, o, r)
    to_a = [_add(a for a, _ in row) for row in found]
    return [to_a, _transpose([_add(v for _, v in column) for column in _transpose(found)])]


def _scores(own: AtOutput, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> list[Rows]:
    """Messages of the product of Q, scaled, with the transpose of K."""
    q, k = xs
    scaled = [[node.attributes.get("scale", 1) * x for x in row] for row in q]
    to_q, to_k = _matrix_product(own, node, [scaled, _transpose(k)], z, r)
    return [to_q, _transpose(to_k)]


def _softmax(own: AtOutput, node: Node, xs: Sequence[Rows], a: Rows, r: Rows) -> list[Rows]:
    return [[own(*row) for row in zip(*xs, a, r, strict=True)]]


@cache
def _slope(node: Node) -> sp.Expr:
    """The slope of an activation at T."""
    (slope,) = FORWARD[node.op](node, Matrix([T])).diff(T)
    return slope


def _activation(own: AtOutput, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> list[Rows]:
    return [_map_entries(lambda x, y, r: own(x, y, _slope(node).subs(T, x), r), *xs, y, r)]


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
"""Operation -> messages to its operands, from rule, node, operands, output and relevance."""

"""Values of operations and AttnLRP's messages on lists of rows of exact numbers.

The same rules as in ``axioms.algebra``, once more and without SymPy's expressions, for the
operations beside that of a rule of one's own.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from operator import add, mul
from typing import TypeAlias

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import Number as Expression
from axioms.algebra.propagate import FILLS
from axioms.graph import CONSTANT, TRANSPOSE, Node
from axioms.own_rules.of_rows import Rows, turned
from axioms.own_rules.quotients import Undecided, value_of
from axioms.own_rules.quotients import root as square_root
from axioms.own_rules.steps import Number, larger, number, over, sign_of

Messages: TypeAlias = Sequence[Rows]  # to every operand that receives some


def value(node: Node, xs: Sequence[Rows]) -> Rows:
    """Of a node, from the values of its operands; Undecided for a function that is not rational."""
    if node.op == CONSTANT:
        factor = node.attributes.get("factor", 1)
        return _constant(node.attributes["fill"], factor, len(xs[0]), len(xs[0][0]))
    function = node.attributes["function"] if node.op == kinds.ACTIVATION else node.op
    if function not in FORWARD:
        raise Undecided(f"{function} is not computed here")
    return FORWARD[function](node, *xs)


def messages(node: Node, xs: Sequence[Rows], y: Rows, r: Rows, *, eps: Number) -> Sequence[Rows]:
    """From a node to its operands: from their values ``xs``, its own ``y``, and its relevance."""
    return MESSAGES[node.op](node, xs, y, r, eps)


@cache
def _constant(fill: str, factor: Expression, rows: int, columns: int) -> Rows:
    return numbers(sp.sympify(factor) * FILLS[fill](rows, columns))


def numbers(matrix: sp.Matrix) -> Rows:
    """The entries of a matrix, each as ``number``."""
    return [[number(x) for x in row] for row in matrix.tolist()]


def each(function: Callable[..., Number], *matrices: Rows) -> Rows:
    """Entry by entry."""
    return [list(map(function, *rows)) for rows in zip(*matrices, strict=True)]


def _scaled(factor: Number, matrix: Rows) -> Rows:
    return [[factor * x for x in row] for row in matrix]


def _times(a: Rows, b: Rows) -> Rows:
    columns = turned(b)
    return [[_dot(row, column) for column in columns] for row in a]


def _dot(row: list[Number], column: list[Number]) -> Number:
    terms = [x * y for x, y in zip(row, column, strict=True) if x and y]
    return reduce(add, terms) if terms else 0


def _scale(node: Node) -> Number:
    return number(sp.sympify(node.attributes.get("scale", 1)))


def _linear_map(node: Node, x: Rows, w: Rows, *bias: Rows) -> Rows:
    return each(lambda *terms: reduce(add, terms), _times(x, w), *(b * len(x) for b in bias))


FORWARD: dict[str, Callable[..., Rows]] = {
    TRANSPOSE: lambda node, x: turned(x),
    kinds.LINEAR: _linear_map,
    kinds.ADD: lambda node, *xs: each(lambda *terms: reduce(add, terms), *xs),
    kinds.SCORES: lambda node, q, k: _scaled(_scale(node), _times(q, turned(k))),
    kinds.READOUT: lambda node, a, v: _times(a, v),
    kinds.BILINEAR: lambda node, *xs: reduce(_times, xs),
    kinds.PRODUCT: lambda node, *xs: each(lambda *factors: reduce(mul, factors), *xs),
    kinds.LAYER_NORM: lambda node, x, w, b: [
        _linear_map(node, [row], centred, b)[0]
        for row, centred in zip(x, _maps(node, x, w), strict=True)
    ],
    "gelu": lambda node, x: each(lambda v: v * value_of("phi", v, positive=True), x),
    "phi": lambda node, x: each(lambda v: value_of("phi", v, positive=True), x),
    "exp": lambda node, x: each(_exponential, x),
    kinds.SOFTMAX: lambda node, z: [
        [over(e, sum(row)) for e in row] for row in each(_exponential, z)
    ],
    "relu": lambda node, x: each(lambda v: larger(v, 0), x),
    "reciprocal": lambda node, x: each(lambda v: over(1, v), x),
    "reciprocal root": lambda node, x: each(lambda v: 1 / square_root(v), x),
}
"""Kind or function -> value of a node, from the node and the values of its operands."""


def _exponential(v: Number) -> Number:
    return value_of("exp", v, positive=True) if v else 1


def _maps(node: Node, x: Rows, w: Rows) -> list[Rows]:
    """The linear map of a norm for every row, where its deviation is held."""
    d, padding = len(x[0]), number(sp.sympify(node.attributes.get("norm_eps", 0)))
    centring = _constant("centring", 1, 1, d)

    def held(row: list[Number]) -> Rows:
        mean = over(sum(row), d)
        deviation = square_root(over(sum((v - mean) ** 2 for v in row), d) + padding)
        scale = [over(weight, deviation) for weight in w[0]]
        return [list(map(mul, entries, scale)) for entries in centring]

    return [held(row) for row in x]


def _shares(r: Rows, z: Rows, eps: Number, n: int = 1) -> Rows:
    """R / (n z + eps sign(z)) for every output."""

    def share(r: Number, z: Number) -> Number:
        return over(r, n * z + eps * sign_of(z, eps=eps) if eps else n * z)

    return each(share, r, z)


def _epsilon(node: Node, xs: Sequence[Rows], z: Rows, r: Rows, eps: Number) -> Messages:
    x, w = xs[:2]
    shares = _shares(r, z, eps)
    return [[_epsilon_of(row, w, share) for row, share in zip(x, shares, strict=True)]]


def _halves(node: Node, xs: Sequence[Rows], o: Rows, r: Rows, eps: Number) -> Messages:
    """Eqs. 3 and 4, where the scores transpose their second factor."""
    a, b = xs
    share = _shares(r, o, eps, n=2)
    if node.op == kinds.SCORES:
        share = _scaled(_scale(node), share)
        return [each(mul, a, _times(share, b)), each(mul, b, _times(turned(share), a))]
    return [each(mul, a, _times(share, turned(b))), each(mul, b, _times(turned(a), share))]


def _norm(node: Node, xs: Sequence[Rows], y: Rows, r: Rows, eps: Number) -> Messages:
    x, w, _ = xs
    maps, shares = _maps(node, x, w), _shares(r, y, eps)
    return [[_epsilon_of(*given) for given in zip(x, maps, shares, strict=True)]]


def _epsilon_of(x: list[Number], w: Rows, share: list[Number]) -> list[Number]:
    (received,) = _times([share], turned(w))
    return list(map(mul, x, received))


def _sum(node: Node, xs: Sequence[Rows], z: Rows, r: Rows, eps: Number) -> Messages:
    share = _shares(r, z, eps)
    return [each(mul, x, share) for x in xs]


def _split(node: Node, xs: Sequence[Rows], z: Rows, r: Rows, eps: Number) -> Messages:
    return [[[over(x, len(xs)) for x in row] for row in r]] * len(xs)


def _taylor(node: Node, xs: Sequence[Rows], a: Rows, r: Rows, eps: Number) -> Messages:
    """Eq. 5."""
    total = [[sum(row)] * len(row) for row in r]
    return [each(lambda z, a, r, total: z * (r - a * total), *xs, a, r, total)]


MESSAGES: dict[str, Callable[..., Messages]] = {
    kinds.LINEAR: _epsilon,
    kinds.ADD: _sum,
    kinds.SCORES: _halves,
    kinds.READOUT: _halves,
    kinds.BILINEAR: _halves,
    kinds.PRODUCT: _split,
    kinds.SOFTMAX: _taylor,
    kinds.LAYER_NORM: _norm,
    kinds.ACTIVATION: lambda node, xs, y, r, eps: [r],
}
"""Kind -> AttnLRP's messages, from node, values of operands and node, relevance and eps."""

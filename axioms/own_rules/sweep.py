"""The sweep of ``axioms.algebra.propagate`` with a rule of one's own, without SymPy's expressions.

Numbers are Fractions at a point and Quotients in a proof, and matrices are lists of rows.  What
is found equal here is equal; SymPy, whose expressions take ten times as long, decides the rest:
exponentials, 0/0 and its limit, and the witness of what differs.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, reduce
from operator import add, mul
from typing import Any, TypeAlias

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import Number as Expression
from axioms.algebra.propagate import FILLS, MESSAGES
from axioms.assignment import Assignment, assigned
from axioms.composites import ATTNLRP
from axioms.graph import CONSTANT, INPUT, LEAVES, TRANSPOSE, Node, topological
from axioms.invariance.points import LeafMatrices
from axioms.invariance.witness import NEAR_0
from axioms.own_rules.of_rows import MESSAGES as OWN
from axioms.own_rules.of_rows import Rows, turned
from axioms.own_rules.quotients import Quotient, Undecided
from axioms.own_rules.quotients import root as square_root
from axioms.own_rules.rules import Rule, flat
from axioms.own_rules.steps import Formula, Number, formula, sign_of

Point: TypeAlias = Mapping[str, Rows]  # matrices by their names
Sides: TypeAlias = Callable[[Point, Number], Sequence[list[Number]]]
"""What is said to be equal, from a point and epsilon."""
ZERO = Fraction(0)
RELEVANCE = "relevance of the root"  # its name in a point
RANDOM = 3  # points of large numbers at which it is tried what is not found equal for symbols


def settled(sides: Sides, at: LeafMatrices, eps: Expression) -> bool | None:
    """True for sides that are equal, False for those that differ at almost all points.

    None says nothing.
    """
    symbols = sorted(set().union(*(m.free_symbols for m in at.values())), key=str)
    point = {name: numbers(matrix) for name, matrix in at.items()}
    if _equal(sides, point, number(sp.sympify(eps))):
        return True
    chance = random.Random(0)
    for _ in range(RANDOM if symbols else 0):
        values = {x: _random(chance, x) for x in [*symbols, *sp.sympify(eps).free_symbols]}
        tried = {name: numbers(matrix.xreplace(values)) for name, matrix in at.items()}
        if _equal(sides, tried, number(sp.sympify(eps).xreplace(values))) is False:
            return False
    return None


def _random(chance: random.Random, symbol: sp.Symbol) -> sp.Rational:
    value = sp.Rational(chance.randint(1, 10**4), chance.randint(1, 10**4))
    return value if symbol.is_positive else chance.choice((1, -1)) * value


def _equal(sides: Sides, point: Point, eps: Number) -> bool | None:
    try:
        first, *others = sides(point, eps)
        gaps = [x - y for other in others for x, y in zip(first, other, strict=True)]
        if all(gap.is_zero() if isinstance(gap, Quotient) else gap == 0 for gap in gaps):
            return True
    except (Undecided, ZeroDivisionError):
        return None
    certain = (x.differs_from_zero() if isinstance(x, Quotient) else x != 0 for x in gaps)
    return False if any(certain) else None


def alike(
    rule: Rule,
    graphs: Sequence[Node],
    point: LeafMatrices,
    eps: Expression,
    relevance: sp.Matrix | None = None,
) -> bool | None:
    """Whether graphs get the same relevance by AttnLRP with ``rule`` in it; as ``settled``."""

    def sides(point: Point, eps: Number) -> list[list[Number]]:
        return [
            by_name(explained(rule, graph, point, eps, point.get(RELEVANCE))) for graph in graphs
        ]

    started = {} if relevance is None else {RELEVANCE: relevance}
    return settled(sides, {**point, **started}, eps)


def by_name(found: Point) -> list[Number]:
    """All entries, in the order of the names."""
    return [x for name in sorted(found) for x in flat(found[name])]


def explained(
    rule: Rule, root: Node, point: Point, eps: Number, relevance: Rows | None = None
) -> dict[str, Rows]:
    """Relevance of every input of a graph by name; as ``RuleSet.explain`` of ``rule_set``.

    Raises Undecided for what is not rational or too large, and ZeroDivisionError.
    """
    order, rules = _ordered(root)
    values: dict[Node, Rows] = {}
    for node in order:
        if node.op in LEAVES:
            values[node] = point[node.name]
        else:
            values[node] = _value(node, [values[arg] for arg in node.args])
    received = {node: [[ZERO] * len(row) for row in values[node]] for node in order}
    received[root] = values[root] if relevance is None else relevance
    messages = Messages(rule, eps, symbolic=_is_symbolic(values))
    for node in reversed(order):
        xs = [values[arg] for arg in node.args]
        parts: Sequence[Rows] = ()
        if node.op == TRANSPOSE:
            parts = [turned(received[node])]
        elif node in rules:
            parts = messages(node, xs, values[node], received[node])
        for arg, part in zip(node.args, parts, strict=False):  # none for weights and biases
            received[arg] = _each(_added, received[arg], part)
    found: dict[str, Rows] = {}
    for node in order:
        if node.op == INPUT:
            r = received[node]
            found[node.name] = _each(add, found[node.name], r) if node.name in found else r
    return found


@lru_cache(maxsize=100)
def _ordered(root: Node) -> tuple[list[Node], Assignment]:
    order = topological(root)
    return order, assigned(order, ATTNLRP, MESSAGES)


def numbers(matrix: sp.Matrix) -> Rows:
    """The entries of a matrix, each as ``number``."""
    return [[number(x) for x in row] for row in matrix.tolist()]


@cache
def number(value: sp.Expr) -> Number:
    """A Fraction for a rational number, and a Quotient of symbols; Undecided for what is none."""
    if value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    symbols = sorted(value.free_symbols, key=str)
    found: Number = Formula(symbols, value).at([Quotient.of(x) for x in symbols], Fraction(1))
    return found


def _is_symbolic(values: dict[Node, Rows]) -> bool:
    return any(isinstance(x, Quotient) for rows in values.values() for row in rows for x in row)


@cache
def _constant(fill: str, factor: Expression, rows: int, columns: int) -> Rows:
    return numbers(sp.sympify(factor) * FILLS[fill](rows, columns))


def _each(function: Callable[..., Number], *matrices: Rows) -> Rows:
    rows = zip(*matrices, strict=True)
    return [[function(*entries) for entries in zip(*row, strict=True)] for row in rows]


def _added(before: Number, more: Number) -> Number:
    return before + more if before else more


def _scaled(factor: Number | int, matrix: Rows) -> Rows:
    return [[factor * x for x in row] for row in matrix]


def _times(a: Rows, b: Rows) -> Rows:
    columns = turned(b)
    return [[_dot(row, column) for column in columns] for row in a]


def _dot(row: list[Number], column: list[Number]) -> Number:
    terms = [x * y for x, y in zip(row, column, strict=True) if x and y]
    return reduce(add, terms) if terms else ZERO


def _relu(x: Number) -> Number:
    return (x + abs(x)) / 2


def _value(node: Node, xs: Sequence[Rows]) -> Rows:
    if node.op == CONSTANT:
        factor = node.attributes.get("factor", 1)
        return _constant(node.attributes["fill"], factor, len(xs[0]), len(xs[0][0]))
    function = node.attributes["function"] if node.op == kinds.ACTIVATION else node.op
    if function not in FORWARD:
        raise Undecided(f"{function} is not computed here")
    return FORWARD[function](node, *xs)


def _scale(node: Node) -> Number:
    return number(sp.sympify(node.attributes.get("scale", 1)))


def _linear_map(node: Node, x: Rows, w: Rows, *bias: Rows) -> Rows:
    return _each(lambda *terms: reduce(add, terms), _times(x, w), *(b * len(x) for b in bias))


FORWARD: dict[str, Callable[..., Rows]] = {
    TRANSPOSE: lambda node, x: turned(x),
    kinds.LINEAR: _linear_map,
    kinds.ADD: lambda node, *xs: _each(lambda *terms: reduce(add, terms), *xs),
    kinds.SCORES: lambda node, q, k: _scaled(_scale(node), _times(q, turned(k))),
    kinds.READOUT: lambda node, a, v: _times(a, v),
    kinds.BILINEAR: lambda node, *xs: reduce(_times, xs),
    kinds.PRODUCT: lambda node, *xs: _each(lambda *factors: reduce(mul, factors), *xs),
    kinds.LAYER_NORM: lambda node, x, w, b: [
        _linear_map(node, [row], centred, b)[0]
        for row, centred in zip(x, _maps(node, x, w), strict=True)
    ],
    "relu": lambda node, x: _each(_relu, x),
    "reciprocal": lambda node, x: _each(lambda v: 1 / v, x),
    "reciprocal root": lambda node, x: _each(lambda v: 1 / square_root(v), x),
}
"""Kind or function -> value of a node, from the node and the values of its operands."""


def _maps(node: Node, x: Rows, w: Rows) -> list[Rows]:
    """The linear map of a norm for every row, where its deviation is held."""
    d, padding = len(x[0]), number(sp.sympify(node.attributes.get("norm_eps", 0)))
    centring = _constant("centring", 1, 1, d)

    def held(row: list[Number]) -> Rows:
        mean = sum(row) / d
        deviation = square_root(sum((v - mean) ** 2 for v in row) / d + padding)
        scale = [weight / deviation for weight in w[0]]
        return [list(map(mul, entries, scale)) for entries in centring]

    return [held(row) for row in x]


class Messages:
    """What one operation passes to its operands: by a rule of one's own, or by AttnLRP's."""

    def __init__(self, rule: Rule, eps: Number, *, symbolic: bool):
        self.rule, self.eps = rule, eps
        self.near_0 = symbolic and not eps  # a proof of the limit

    def __call__(self, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> Sequence[Rows]:
        if node.op in self.rule.operations:
            if node.op == kinds.ACTIVATION:
                raise Undecided("a slope is SymPy's")
            return OWN[node.op](self._own, node, xs, y, r)
        return BUILT_IN[node.op](self, node, xs, y, r)

    def _own(self, *arguments: Any) -> Any:
        count = len(arguments[0]) if isinstance(arguments[0], list) else None
        given = [x if isinstance(x, Quotient) else Fraction(x) for x in flat(list(arguments))]
        if not self.near_0:
            return formula(self.rule, count).at([*given, self.eps], self.eps)
        near_0 = Quotient.of(NEAR_0)
        return _limit(formula(self.rule, count).at([*given, near_0], near_0))

    def shares(self, r: Rows, z: Rows, n: int = 1) -> Rows:
        """R / (n z + eps sign(z)) for every output."""

        def share(r: Number, z: Number) -> Number:
            return r / (n * z + self.eps * sign_of(z, eps=self.eps) if self.eps else n * z)

        return _each(share, r, z)


def _limit(found: Any) -> Any:
    if isinstance(found, list):
        return [_limit(x) for x in found]
    return found.at_zero(NEAR_0) if isinstance(found, Quotient) else found


def _epsilon(to: Messages, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> Sequence[Rows]:
    x, w = xs[:2]
    return [[_epsilon_of(row, w, share) for row, share in zip(x, to.shares(r, z), strict=True)]]


def _halves(to: Messages, node: Node, xs: Sequence[Rows], o: Rows, r: Rows) -> Sequence[Rows]:
    """Eqs. 3 and 4, where the scores transpose their second factor."""
    a, b = xs
    share = to.shares(r, o, n=2)
    if node.op == kinds.SCORES:
        share = _scaled(_scale(node), share)
        return [_each(mul, a, _times(share, b)), _each(mul, b, _times(turned(share), a))]
    return [_each(mul, a, _times(share, turned(b))), _each(mul, b, _times(turned(a), share))]


def _norm(to: Messages, node: Node, xs: Sequence[Rows], y: Rows, r: Rows) -> Sequence[Rows]:
    x, w, _ = xs
    share = to.shares(r, y)
    maps = _maps(node, x, w)
    return [[_epsilon_of(*given) for given in zip(x, maps, share, strict=True)]]


def _epsilon_of(x: list[Number], w: Rows, share: list[Number]) -> list[Number]:
    (received,) = _times([share], turned(w))
    return list(map(mul, x, received))


def _sum(to: Messages, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> Sequence[Rows]:
    share = to.shares(r, z)
    return [_each(mul, x, share) for x in xs]


def _split(to: Messages, node: Node, xs: Sequence[Rows], z: Rows, r: Rows) -> Sequence[Rows]:
    return [_scaled(Fraction(1, len(xs)), r)] * len(xs)


BUILT_IN: dict[str, Callable[..., Sequence[Rows]]] = {
    kinds.LINEAR: _epsilon,
    kinds.ADD: _sum,
    kinds.SCORES: _halves,
    kinds.READOUT: _halves,
    kinds.BILINEAR: _halves,
    kinds.PRODUCT: _split,
    kinds.LAYER_NORM: _norm,
    kinds.ACTIVATION: lambda to, node, xs, y, r: [r],
}
"""Kind -> AttnLRP's messages, from node, values of operands and node, and relevance."""

"""The sweep of ``axioms.algebra.propagate`` with a rule of one's own, without SymPy's expressions.

Numbers are exact: ints and Fractions at a point, NearZero for a limit there, and Quotients in a
proof.  Matrices are lists of rows.  What is found equal here is equal; SymPy decides what is left
open, as exponentials are, and confirms every witness of what differs.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from operator import add
from typing import Any, TypeAlias

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import Number as Expression
from axioms.algebra.propagate import MESSAGES
from axioms.assignment import Assignment, assigned
from axioms.composites import ATTNLRP
from axioms.graph import INPUT, LEAVES, TRANSPOSE, Node, topological
from axioms.invariance.points import LeafMatrices, Point
from axioms.invariance.rule_sets import Comparison
from axioms.invariance.witness import NEAR_0
from axioms.own_rules import attnlrp
from axioms.own_rules.attnlrp import each, numbers
from axioms.own_rules.near_zero import EPS, NearZero
from axioms.own_rules.of_rows import MESSAGES as OWN
from axioms.own_rules.of_rows import Rows, turned
from axioms.own_rules.quotients import Quotient, Undecided, value_of
from axioms.own_rules.rules import Rule, flat
from axioms.own_rules.steps import Number, formula, number

Values: TypeAlias = Mapping[str, Rows]  # of leaves, by their names
Sides: TypeAlias = Callable[[Point, Number], Sequence[list[Number]]]
"""What is said to be equal, from the values of leaves and epsilon."""
RELEVANCE = "relevance of the root"  # its name among the values of leaves
RANDOM = 3  # points of large numbers at which it is tried what is not found equal for symbols


def settled(sides: Sides, at: LeafMatrices, eps: Expression) -> Comparison:
    """What is known of two sides at a point, or for symbols."""
    if isinstance(at, Point):
        return _at_point(sides, at, number(sp.sympify(eps)))
    symbols = sorted(set().union(*(m.free_symbols for m in at.values())), key=str)

    def compared(at: LeafMatrices, eps: Expression) -> Comparison:
        values = Point({name: numbers(matrix) for name, matrix in at.items()})
        try:
            return _compared(sides(values, number(sp.sympify(eps))))
        except (Undecided, ZeroDivisionError):
            return None

    if compared(at, eps) == "equal":
        return "equal"
    chance = random.Random(0)
    for _ in range(RANDOM if symbols else 0):
        of = {x: _random(chance, x) for x in [*symbols, *sp.sympify(eps).free_symbols]}
        tried = {name: matrix.xreplace(of) for name, matrix in at.items()}
        if compared(tried, sp.sympify(eps).xreplace(of)) == "different":
            return "different"
    return None


def _random(chance: random.Random, symbol: sp.Symbol) -> sp.Rational:
    value = sp.Rational(chance.randint(1, 10**4), chance.randint(1, 10**4))
    return value if symbol.is_positive else chance.choice((1, -1)) * value


def _compared(sides: Sequence[list[Number]]) -> Comparison:
    first, *others = sides
    gaps = [x - y for other in others for x, y in zip(first, other, strict=True)]
    zeros = [gap.is_zero() if isinstance(gap, Quotient) else gap == 0 for gap in gaps]
    if zeros and all(zeros):
        return "equal"
    certain = (x.differs_from_zero() if isinstance(x, Quotient) else x != 0 for x in gaps)
    return "different" if any(certain) else None


def _at_point(sides: Sides, point: Point, eps: Number) -> Comparison:
    try:
        found = _defined(sides, point, eps)
        return "undefined" if found is None else _compared(found)
    except Undecided:
        return None


def _defined(sides: Sides, point: Point, eps: Number) -> Sequence[list[Number]] | None:
    """Both sides, in the limit if they are 0/0 at eps = 0 here and nearby; None if undefined."""
    try:
        return sides(point, eps)
    except ZeroDivisionError:
        if eps:
            return None
    try:
        sides(point.moved, eps)
    except ZeroDivisionError:
        try:
            return [[_limit(x) for x in side] for side in sides(point, EPS)]
        except ZeroDivisionError:
            return None
    return None  # 0/0 by accident


def compare(
    rule: Rule,
    graphs: Sequence[Node],
    point: LeafMatrices,
    eps: Expression,
    relevance: sp.Matrix | None = None,
) -> Comparison:
    """Whether graphs get the same relevance by AttnLRP with ``rule`` in it; as ``settled``."""

    def sides(values: Point, eps: Number) -> list[list[Number]]:
        return [_by_name(rule, graph, values, eps) for graph in graphs]

    if relevance is not None and isinstance(point, Point):
        point = Point({**point.rows, RELEVANCE: numbers(relevance)})
    elif relevance is not None:
        point = {**point, RELEVANCE: relevance}
    return settled(sides, point, eps)


@lru_cache(maxsize=8)  # a graph is compared with one rewritten graph after another
def _by_name(rule: Rule, graph: Node, point: Point, eps: Number) -> list[Number]:
    """The relevance of all inputs, in the order of their names."""
    found = explained(rule, graph, point.rows, eps, point.rows.get(RELEVANCE))
    return [x for name in sorted(found) for x in flat(found[name])]


def explained(
    rule: Rule, root: Node, at: Values, eps: Number, relevance: Rows | None = None
) -> dict[str, Rows]:
    """Relevance of every input of a graph by name; as ``RuleSet.explain`` of ``rule_set``.

    Raises Undecided for what is not rational or too large, and ZeroDivisionError.
    """
    order, rules = _ordered(root)
    values: dict[Node, Rows] = {}
    for node in order:
        if node.op in LEAVES:
            values[node] = at[node.name]
        else:
            values[node] = attnlrp.value(node, [values[arg] for arg in node.args])
    symbolic = any(isinstance(x, Quotient) for rows in values.values() for row in rows for x in row)
    if symbolic and isinstance(eps, NearZero):
        raise Undecided("symbols or roots beside a small eps")
    received = {node: [[0] * len(row) for row in values[node]] for node in order}
    received[root] = values[root] if relevance is None else relevance
    for node in reversed(order):
        xs = [values[arg] for arg in node.args]
        parts: Sequence[Rows] = ()
        if node.op == TRANSPOSE:
            parts = [turned(received[node])]
        elif node in rules and node.op in rule.operations:
            own = _of_symbols if symbolic and not eps else _of_numbers
            parts = _own_messages(own(rule, eps), node, xs, values[node], received[node])
        elif node in rules:
            parts = attnlrp.messages(node, xs, values[node], received[node], eps=eps)
        for arg, part in zip(node.args, parts, strict=False):  # none for weights and biases
            received[arg] = each(_added, received[arg], part)
    found: dict[str, Rows] = {}
    for node in order:
        if node.op == INPUT:
            r = received[node]
            found[node.name] = each(add, found[node.name], r) if node.name in found else r
    return found


@lru_cache(maxsize=100)
def _ordered(root: Node) -> tuple[list[Node], Assignment]:
    order = topological(root)
    return order, assigned(order, ATTNLRP, MESSAGES)


def _added(before: Number, more: Number) -> Number:
    return before + more if before else more


def _own_messages(
    own: Callable[..., Any], node: Node, xs: Sequence[Rows], y: Rows, r: Rows
) -> Sequence[Rows]:
    if node.op != kinds.ACTIVATION:
        return OWN[node.op](own, node, xs, y, r)
    slope = partial(value_of, f"slope of {node.attributes['function']}", positive=False)
    return [each(lambda x, y, r: own(x, y, slope(x), r), *xs, y, r)]


def _of_numbers(rule: Rule, eps: Number) -> Callable[..., Any]:
    """A rule at one output; where it is 0/0 at eps = 0 its limit, which must be finite."""

    def messages(*arguments: Any) -> Any:
        given = flat(list(arguments))
        stated = formula(rule, _count(arguments))
        try:
            return stated.at([*given, eps], eps)
        except (Undecided, ZeroDivisionError):
            if eps:
                raise
        return _limit(stated.at([*given, EPS], EPS))

    return messages


def _of_symbols(rule: Rule, eps: Number) -> Callable[..., Any]:
    """A rule at one output in the limit eps -> 0 at almost all points."""
    near_0 = Quotient.of(NEAR_0)

    def messages(*arguments: Any) -> Any:
        given = [x if isinstance(x, Quotient) else Fraction(x) for x in flat(list(arguments))]
        return _limit(formula(rule, _count(arguments)).at([*given, near_0], near_0))

    return messages


def _count(arguments: Sequence[Any]) -> int | None:
    return len(arguments[0]) if isinstance(arguments[0], list) else None


def _limit(found: Any) -> Any:
    if isinstance(found, list):
        return [_limit(x) for x in found]
    if isinstance(found, NearZero):
        return found.limit()
    return found.at_zero(NEAR_0) if isinstance(found, Quotient) else found

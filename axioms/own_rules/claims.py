"""What is decided about one operation alone: generic symbols first, then small integers."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import LARGE, Number, Sides, identical, is_large, is_rational_function
from axioms.algebra.denotation import as_rational
from axioms.algebra.propagate import Explanation
from axioms.invariance import points
from axioms.invariance.points import LeafMatrices, Shapes
from axioms.invariance.rule_sets import Comparison, RuleSet
from axioms.invariance.scoreboard import (
    FINITE,
    FIRST,
    LIMIT,
    OPEN,
    PROVED,
    REFUTED,
    STABILISERS,
    Cell,
)
from axioms.invariance.witness import SHOWS_NOTHING, differ, in_limit, written
from axioms.own_rules import sweep
from axioms.own_rules.attnlrp import numbers
from axioms.own_rules.messages import rule_set
from axioms.own_rules.properties import (
    FACTOR,
    OPERATIONS,
    OTHER,
    Claim,
    Point,
    counts,
    shapes,
    symbols,
)
from axioms.own_rules.rules import LISTS, Rule

MORE = range(4, 11)  # inputs of a rule, at which a random point is tried of what is proved of fewer
CASES = 4  # signs are split into at most 2**CASES cases
NOTHING = "the sides have no entries, so that nothing is compared"
TRIED = 60  # points, before a search for a witness gives up


class Same:
    """Whether two sides are equal in every case of the signs in them; ``why`` they were not last.

    False where one has no value, and proves nothing by itself.
    """

    def __init__(self) -> None:
        self.why = ""

    def __call__(self, lhs: Sides, rhs: Sides) -> bool:
        sides = (sp.Matrix([side]).applyfunc(as_rational) for side in (lhs, rhs))
        whys = [_why_not_zero(a - b) for a, b in zip(*sides, strict=True)] or [NOTHING]
        self.why = next(filter(None, whys), "")
        return not self.why


@dataclass(frozen=True)
class Stated:
    """A claim about a rule."""

    claim: Claim
    rule: Rule
    own: RuleSet

    def decide(self, eps: str) -> Cell:
        """For every number of inputs: refuted where it fails for one, proved if it is for all."""
        of_proof, of_witness = STABILISERS[eps]
        cell, same = Cell(rule_set=self.own.name, rewrite="", eps=eps, verdict=OPEN), Same()
        shapes = [self.shapes(count) for count in counts(self.rule.kind)]
        if all(
            self._holds(of_proof, symbols(each), same)
            and any(self._is_defined(of_witness, at) for at in _tried(each, FIRST))
            for each in shapes
        ):
            cell, tried = replace(cell, verdict=PROVED), self.at_more()
        else:
            tried = (at for each in shapes for at in _tried(each, TRIED))
        if witness := self.witness(of_witness, tried):
            return replace(cell, verdict=REFUTED, witness=witness)
        return cell if cell.verdict == PROVED else replace(cell, why=same.why)

    def shapes(self, count: int) -> Shapes:
        """Of everything in the claim, for a number of inputs."""
        own = shapes(self.rule.kind, count)
        extra = {OTHER: own["R"], FACTOR: (1, 1)}
        return {**own, **{name: extra[name] for name in self.claim.needs}}

    def at_more(self) -> Iterator[points.Point]:
        """A random point for each of MORE numbers of inputs; a factor is positive."""
        for count in MORE if self.rule.kind in LISTS else ():
            rows = points.many_inputs(count, *self.shapes(count).items()).rows
            positive = {FACTOR: [[abs(c)] for (c,) in rows[FACTOR]]} if FACTOR in rows else {}
            yield points.Point({**rows, **positive})

    def sides(self, eps: Number, at: LeafMatrices) -> Explanation:
        """Both sides as matrices; raises ZeroDivisionError where one is undefined."""
        root = OPERATIONS[self.rule.kind][0]

        def explain(rows: Point) -> Point:
            at = {name: sp.Matrix(entries) for name, entries in rows.items()}
            found = self.own.explain(root, at, eps=eps, relevance=at["R"])
            return {name: sp.Matrix([r]).tolist() for name, r in found.items()}

        left, right = self.claim.sides(explain, {name: m.tolist() for name, m in at.items()})
        return {"left": sp.Matrix([left]), "right": sp.Matrix([right])}

    def holds(self, regime: str, fixed: LeafMatrices) -> bool:
        """Whether it is proved and not refuted for the most inputs, some of them ``fixed``."""
        of_proof, of_witness = STABILISERS[regime]
        at = symbols(self.shapes(counts(self.rule.kind)[-1]))
        more = (_with(point, fixed) for point in self.at_more())
        return self._holds(of_proof, {**at, **fixed}, Same()) and not self.witness(of_witness, more)

    def _settled(self, eps: Number, at: LeafMatrices) -> Comparison:
        """As ``sweep.settled``, without SymPy's expressions."""
        root = OPERATIONS[self.rule.kind][0]

        def sides(point: points.Point, eps: Any) -> list[list[Any]]:
            explain = lambda at: sweep.explained(self.rule, root, at, eps, at["R"])
            return list(self.claim.sides(explain, point.rows))

        return sweep.settled(sides, at, eps)

    def _holds(self, eps: Number, at: LeafMatrices, same: Same) -> bool:
        """Whether the sides are equal for symbols; in a limit of 0/0, where they are at any eps."""
        if known := self._settled(eps, at):
            return known == "equal"
        try:
            return same(*self.sides(eps, at).values())
        except ZeroDivisionError:
            return eps == 0 and self._holds(STABILISERS[FINITE][0], at, same)

    def _is_defined(self, eps: Number, at: LeafMatrices) -> bool:
        """By the rule itself: what it returns for symbols may hide that it is 0/0."""
        return self._settled(eps, at) != "undefined" and self._at_numbers(eps, at) is not None

    def _at_numbers(self, eps: Number, at: LeafMatrices) -> Explanation | None:
        """Both sides at a point of numbers; None where one of them is undefined."""

        def sides(eps: Number, at: LeafMatrices = at) -> Explanation:
            return self.sides(eps, at)

        try:
            return sides(eps)
        except ZeroDivisionError:
            return in_limit(sides, at) if eps == 0 else None

    def witness(self, eps: Number, tried: Iterable[LeafMatrices]) -> str:
        """The first point of those tried where the two sides differ, as text; '' if none does."""

        def separated(at: LeafMatrices) -> Explanation | None:
            found = self._at_numbers(eps, at)
            return found if found and differ(*found.values()) else None

        for at in tried:
            if self._settled(eps, at) in SHOWS_NOTHING:
                continue
            nearby = "different" if eps != 0 else self._settled(eps, points.moved(at))
            if nearby in SHOWS_NOTHING:
                continue
            found = separated(at)
            if found and (nearby == "different" or separated(points.moved(at))):
                point = ", ".join(f"{name} = {written(m)}" for name, m in at.items())
                return f"{point}: {' versus '.join(map(written, found.values()))}"
        return ""


def lost(conserves: Claim, rule: Rule) -> tuple[str, sp.Expr]:
    """What takes the relevance that does not arrive, '' if it is not known, and how much it is."""
    stated = Stated(conserves, rule, rule_set(rule))
    without: dict[str, tuple[str, LeafMatrices]] = {"the stabiliser absorbs": (LIMIT, {})}
    if rule.kind == kinds.LINEAR:
        no_bias = {"b": sp.zeros(1, 1)}
        without = {"the bias absorbs": (FINITE, no_bias), **without}
        without["bias and stabiliser absorb"] = (LIMIT, no_bias)
    at = symbols(stated.shapes(counts(rule.kind)[-1]))
    total, arrived = stated.sides(STABILISERS[FINITE][0], at).values()
    gap = sp.factor(as_rational((arrived - total)[0]))
    taken = (absorbs for absorbs, given in without.items() if stated.holds(*given))
    return next(taken, ""), gap


def unconserved_without_bias(conserves: Claim, rule: Rule) -> str:
    """A small witness that more is lost than bias and stabiliser absorb; '' if there is none."""
    stated = Stated(conserves, rule, rule_set(rule))
    fixed = {"b": sp.zeros(1, 1)} if rule.kind == kinds.LINEAR else {}
    each = (_tried(stated.shapes(count), TRIED) for count in counts(rule.kind))
    return stated.witness(0, (_with(at, fixed) for points in each for at in points))


def _with(point: points.Point, fixed: LeafMatrices) -> points.Point:
    return points.Point({**point.rows, **{x: numbers(m) for x, m in fixed.items()}})


def _tried(shapes: Shapes, count: int) -> Iterator[points.Point]:
    """The first points, those with a negative factor left out."""
    first = itertools.islice(points.points(shapes), count)
    return (at for at in first if FACTOR not in at or at.rows[FACTOR][0][0] > 0)


def same_in_every_case(lhs: Sides, rhs: Sides) -> bool:
    """As ``Same``."""
    return Same()(lhs, rhs)


def _why_not_zero(gap: sp.Expr) -> str:
    if gap == 0 or not (why := _why_not_identical(gap)):
        return ""
    signs = sorted((s for s in gap.free_symbols if s.name.startswith("sign[")), key=str)
    if not signs:
        return why
    if len(signs) > CASES:
        return f"an identity has {len(signs)} signs, of which {CASES} at most are split into cases"
    cases = itertools.product((1, -1), repeat=len(signs))
    gaps = (gap.subs(dict(zip(signs, case, strict=True))) for case in cases)
    return next(filter(None, map(_why_not_identical, gaps)), "")


def _why_not_identical(gap: sp.Expr) -> str:
    if not is_rational_function(gap):
        return "an identity is not one of rational functions"
    if is_large(gap):
        return f"an identity has more than {LARGE} terms"
    return "" if identical(gap, 0) else "an identity does not hold for symbols"

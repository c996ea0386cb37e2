"""Verdicts on a user's rule: what it conserves, and which rewrites it does not notice.

The rule takes the place of AttnLRP's for its kind.  Every rewrite of the scoreboard in which an
operation of that kind carries relevance is then decided as the scoreboard decides it.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import sympy as sp

from axioms import kinds
from axioms.algebra.decide import Number, Sides, identical, is_large, is_rational_function
from axioms.algebra.denotation import as_rational
from axioms.algebra.propagate import Explanation
from axioms.graph import CONSTANT, INPUT, Node, topological
from axioms.invariance import points, scoreboard
from axioms.invariance.points import LeafMatrices, Shapes
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.rule_sets import RuleSet
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
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import differ, disagreement, in_limit, written
from axioms.own_rules.formula import check_one_formula
from axioms.own_rules.messages import rule_set
from axioms.own_rules.properties import (
    CONSERVES,
    FACTOR,
    OPERATIONS,
    OTHER,
    Claim,
    claims,
    counts,
    shapes,
    symbols,
)
from axioms.own_rules.rules import LISTS, Rule

IN_LIMIT, UNDECIDED = "proved as eps -> 0", "undecided"
MORE = range(4, 11)  # inputs of a rule, at which a random point is tried of what is proved of fewer
CASES = 4  # signs are split into at most 2**CASES cases
TRIED = 60  # points, before a search for a witness gives up


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim or rewrite, and what is established of one rule under it."""

    claim: str  # of axioms.own_rules.properties, or the name of a rewrite
    verdict: str  # PROVED, IN_LIMIT, REFUTED or UNDECIDED
    detail: str  # the witness, or what absorbs relevance


def judge(rule: Rule) -> list[Finding]:
    """Everything that is decided about a rule: its claims, conservation first, then rewrites.

    Raises RuleError if the rule cannot be judged.
    """
    check_one_formula(rule)
    own = rule_set(rule)

    def of_rewrite(name: str) -> Finding:
        return _finding(name, lambda eps: tried_at_more(own, decide(own, name, eps)))

    found = judge_claims(rule, own) + list(map(of_rewrite, rewrites_of(tuple(own.instead))))
    check_one_formula(rule)  # still: it may have counted its calls
    return found


def judge_claims(rule: Rule, own: RuleSet) -> list[Finding]:
    """What is decided about the operation alone: conservation first."""
    found = [
        _finding(text, partial(_decide, claim, own, rule.kind))
        for text, claim in claims(rule.kind).items()
    ]
    found[0] = _with_absorbed(found[0], own, rule.kind)
    return found


def decide(own: RuleSet, rewrite: str, eps: str) -> Cell:
    """The scoreboard's cell of one rewrite, where signs may be split into cases."""
    try:
        return scoreboard.decide(own, rewrite, eps, same=same_in_every_case, points_tried=TRIED)
    except ZeroDivisionError:  # undefined for generic symbols, and so almost everywhere
        return Cell(rule_set=own.name, rewrite=rewrite, eps=eps, verdict=OPEN)


def tried_at_more(own: RuleSet, cell: Cell) -> Cell:
    """The cell, refuted if what is proved of a few inputs fails for one of MORE numbers of them."""
    chance = random.Random(0)
    for count, template in itertools.product(MORE, TEMPLATES[cell.rewrite]):
        if cell.verdict != PROVED:
            break
        widths = {
            name: (count if rows > 1 else 1, count if columns > 1 else 1)
            for name, (rows, columns) in template.generic.items()
        }
        at, eps = points.random_point(chance, widths), STABILISERS[cell.eps][1]
        if witness := disagreement(own, cell.rewrite, template.root, at, eps):
            cell = replace(cell, verdict=REFUTED, witness=witness)
    return cell


@cache
def rewrites_of(operations: tuple[str, ...]) -> list[str]:
    """The rewrites in whose templates one of these operations carries relevance."""
    return [
        name
        for name, rewrite in REWRITES.items()
        for graphs in [[g for t in TEMPLATES[name] for g in (t.root, *rewrite(t.root))]]
        if any(not _carrying(graph).isdisjoint(operations) for graph in graphs)
    ]


def _carrying(root: Node) -> set[str]:
    """The kinds of the operations whose value depends on an input."""
    nodes: set[Node] = set()
    for node in topological(root):
        if node.op == INPUT or (node.op != CONSTANT and not nodes.isdisjoint(node.args)):
            nodes.add(node)
    return {node.op for node in nodes}


def _finding(text: str, decided: Callable[[str], Cell]) -> Finding:
    """Both regimes of epsilon in one verdict; what holds at every eps > 0 holds in the limit."""
    finite = decided(FINITE)
    if finite.verdict == PROVED:
        return Finding(claim=text, verdict=PROVED, detail="")
    limit = decided(LIMIT)
    if limit.verdict == REFUTED:
        return Finding(claim=text, verdict=REFUTED, detail=_at(limit))
    if limit.verdict == PROVED:
        detail = f"but not at {_at(finite)}" if finite.witness else "undecided at eps > 0"
        return Finding(claim=text, verdict=IN_LIMIT, detail=detail)
    if finite.verdict == REFUTED:
        detail = f"{_at(finite)}; undecided as eps -> 0"
        return Finding(claim=text, verdict=REFUTED, detail=detail)
    return Finding(claim=text, verdict=UNDECIDED, detail="no proof, and no witness was found")


def _at(cell: Cell) -> str:
    return f"eps {'-> 0' if cell.eps == LIMIT else '= 1/4'}, {cell.witness}"


def same_in_every_case(lhs: Sides, rhs: Sides) -> bool:
    """Whether two expressions or matrices are equal for every case of the signs in them.

    False where one has no value, and proves nothing by itself.
    """
    sides = (sp.Matrix([side]).applyfunc(as_rational) for side in (lhs, rhs))
    return all(_always_zero(a - b) for a, b in zip(*sides, strict=True))


def _always_zero(gap: sp.Expr) -> bool:
    if gap == 0 or _is_zero(gap):
        return True
    signs = sorted((s for s in gap.free_symbols if s.name.startswith("sign[")), key=str)
    if not 0 < len(signs) <= CASES:
        return False
    cases = itertools.product((1, -1), repeat=len(signs))
    gaps = (gap.subs(dict(zip(signs, case, strict=True))) for case in cases)
    return all(map(_is_zero, gaps))


def _is_zero(gap: sp.Expr) -> bool:
    return is_rational_function(gap) and not is_large(gap) and identical(gap, 0)


# Claims are decided as the scoreboard decides rewrites: generic symbols, then small integers.


def _point_shapes(kind: str, claim: Claim, count: int) -> Shapes:
    own = shapes(kind, count)
    extra = {OTHER: own["R"], FACTOR: (1, 1)}
    return {**own, **{name: extra[name] for name in claim.needs}}


def _sides(claim: Claim, own: RuleSet, kind: str, eps: Number, at: LeafMatrices) -> Explanation:
    root = OPERATIONS[kind][0]
    left, right = claim.sides(lambda at: own.explain(root, at, eps=eps, relevance=at["R"]), at)
    return {"left": sp.Matrix([left]), "right": sp.Matrix([right])}


def _holds(claim: Claim, own: RuleSet, kind: str, eps: Number, at: LeafMatrices) -> bool:
    """Whether the sides are equal for symbols; in the limit of 0/0, where they are at every eps."""
    try:
        return same_in_every_case(*_sides(claim, own, kind, eps, at).values())
    except ZeroDivisionError:
        return eps == 0 and _holds(claim, own, kind, STABILISERS[FINITE][0], at)


def _decide(claim: Claim, own: RuleSet, kind: str, eps: str) -> Cell:
    """For every number of inputs: refuted where it fails for one, proved if it is for all."""
    of_proof, of_witness = STABILISERS[eps]
    cell = Cell(rule_set=own.name, rewrite="", eps=eps, verdict=OPEN)
    shapes = [_point_shapes(kind, claim, count) for count in counts(kind)]
    if all(
        _holds(claim, own, kind, of_proof, symbols(each))
        and any(_at_numbers(claim, own, kind, of_witness, at) for at in _tried(each, FIRST))
        for each in shapes
    ):
        cell, tried = replace(cell, verdict=PROVED), _at_more(claim, kind)
    else:
        tried = (at for each in shapes for at in _tried(each, TRIED))
    witness = _witness(claim, own, kind, of_witness, tried)
    return replace(cell, verdict=REFUTED, witness=witness) if witness else cell


def _at_numbers(
    claim: Claim, own: RuleSet, kind: str, eps: Number, at: LeafMatrices
) -> Explanation | None:
    """Both sides at a point of numbers; None where one of them is undefined."""

    def sides(eps: Number, at: LeafMatrices = at) -> Explanation:
        return _sides(claim, own, kind, eps, at)

    try:
        return sides(eps)
    except ZeroDivisionError:
        return in_limit(sides, at) if eps == 0 else None


def _tried(shapes: Shapes, count: int) -> Iterator[LeafMatrices]:
    """The first points, those with a negative factor left out."""
    first = itertools.islice(points.points(shapes), count)
    return (at for at in first if FACTOR not in at or at[FACTOR][0] > 0)


def _at_more(claim: Claim, kind: str) -> Iterator[LeafMatrices]:
    """A random point for each of MORE numbers of inputs; a factor is positive."""
    chance = random.Random(0)
    for count in MORE if kind in LISTS else ():
        at = points.random_point(chance, _point_shapes(kind, claim, count))
        yield {name: m.applyfunc(abs) if name == FACTOR else m for name, m in at.items()}


def _witness(
    claim: Claim, own: RuleSet, kind: str, eps: Number, tried: Iterable[LeafMatrices]
) -> str:
    """The first point of those tried where the two sides differ, as text; '' if none does."""

    def separated(at: LeafMatrices) -> Explanation | None:
        found = _at_numbers(claim, own, kind, eps, at)
        return found if found and differ(*found.values()) else None

    for at in tried:
        found = separated(at)
        if found and (eps != 0 or separated(points.moved(at))):
            point = ", ".join(f"{name} = {written(m)}" for name, m in at.items())
            return f"{point}: {' versus '.join(map(written, found.values()))}"
    return ""


def _with_absorbed(finding: Finding, own: RuleSet, kind: str) -> Finding:
    """Names what takes the relevance that does not arrive: bias, stabiliser, or nothing known."""
    if finding.verdict in (PROVED, UNDECIDED):
        return finding
    claim = claims(kind)[CONSERVES]
    eps, at = STABILISERS[FINITE][0], symbols(_point_shapes(kind, claim, counts(kind)[-1]))
    without: dict[str, tuple[str, LeafMatrices]] = {"the stabiliser absorbs": (LIMIT, {})}
    if kind == kinds.LINEAR:
        no_bias = {"b": sp.zeros(1, 1)}
        without = {"the bias absorbs": (FINITE, no_bias), **without}
        without["bias and stabiliser absorb"] = (LIMIT, no_bias)
    total, arrived = _sides(claim, own, kind, eps, at).values()
    lost = sp.factor(as_rational((arrived - total)[0]))
    for absorbs, (regime, fixed) in without.items():
        of_proof, of_witness = STABILISERS[regime]
        more = ({**point, **fixed} for point in _at_more(claim, kind))
        if _holds(claim, own, kind, of_proof, {**at, **fixed}) and not _witness(
            claim, own, kind, of_witness, more
        ):
            return replace(finding, detail=f"{absorbs} {lost}")
    return replace(finding, detail=f"{lost} is lost; {finding.detail}") if lost else finding

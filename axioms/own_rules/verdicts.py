"""Verdicts on a user's rule: what it conserves, and which rewrites it does not notice.

The rule takes the place of AttnLRP's for its kind.  Every rewrite of the scoreboard in which an
operation of that kind carries relevance is then decided as the scoreboard decides it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from axioms.graph import CONSTANT, INPUT, Node, topological
from axioms.invariance import points, scoreboard
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.rule_sets import RuleSet
from axioms.invariance.scoreboard import (
    FINITE,
    LIMIT,
    OPEN,
    PROVED,
    REFUTED,
    STABILISERS,
    Cell,
)
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import disagreement
from axioms.own_rules.claims import MORE, TRIED, Same, Stated, lost
from axioms.own_rules.formula import check_one_formula
from axioms.own_rules.messages import rule_set
from axioms.own_rules.properties import CONSERVES, claims
from axioms.own_rules.rules import Rule

IN_LIMIT, UNDECIDED = "proved as eps -> 0", "undecided"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One claim or rewrite, and what is established of one rule under it."""

    claim: str  # of axioms.own_rules.properties, or the name of a rewrite
    verdict: str  # PROVED, IN_LIMIT, REFUTED or UNDECIDED
    detail: str  # the witness, or what absorbs relevance


def judge(rule: Rule) -> list[Finding]:
    """Everything that is decided about a rule; RuleError if the rule cannot be judged."""
    check_one_formula(rule)
    found = [decided() for decided in decisions(rule).values()]
    check_one_formula(rule)  # still: it may have counted its calls
    return found


def decisions(rule: Rule) -> dict[str, Callable[[], Finding]]:
    """Everything to decide about a rule, by name: its claims, conservation first, then rewrites."""
    names = [*claims(rule.kind), *rewrites_of(rule.operations)]
    own = rule_set(rule)
    return {name: partial(finding, rule, own, name) for name in names}


def judge_claims(rule: Rule, own: RuleSet) -> list[Finding]:
    """What is decided about the operation alone: conservation first."""
    return [finding(rule, own, claim) for claim in claims(rule.kind)]


def finding(rule: Rule, own: RuleSet, name: str) -> Finding:
    """What is decided about a claim or a rewrite, by its name, of a rule and its ``rule_set``."""
    if name in REWRITES:
        return _finding(name, lambda eps: tried_at_more(own, decide(own, name, eps)))
    found = _finding(name, Stated(claims(rule.kind)[name], rule, own).decide)
    return _with_absorbed(found, rule) if name == CONSERVES else found


def _with_absorbed(finding: Finding, rule: Rule) -> Finding:
    """Names what takes the relevance that does not arrive: bias, stabiliser, or nothing known."""
    if finding.verdict in (PROVED, UNDECIDED):
        return finding
    absorbs, gap = lost(claims(rule.kind)[CONSERVES], rule)
    if absorbs:
        return replace(finding, detail=f"{absorbs} {gap}")
    return replace(finding, detail=f"{gap} is lost; {finding.detail}") if gap else finding


def decide(own: RuleSet, rewrite: str, eps: str) -> Cell:
    """The scoreboard's cell of one rewrite, where signs may be split into cases."""
    same = Same()
    try:
        cell = scoreboard.decide(own, rewrite, eps, same=same, points_tried=TRIED)
    except ZeroDivisionError:  # undefined for generic symbols, and so almost everywhere
        cell = Cell(rule_set=own.name, rewrite=rewrite, eps=eps, verdict=OPEN)
        return replace(cell, why="it is 0/0 for symbols")
    return replace(cell, why=same.why) if cell.verdict == OPEN else cell


def tried_at_more(own: RuleSet, cell: Cell) -> Cell:
    """The cell, refuted if what is proved of a few inputs fails for one of MORE numbers of them."""
    for count, template in itertools.product(MORE, TEMPLATES[cell.rewrite]):
        if cell.verdict != PROVED:
            break
        widths = {
            name: (count if rows > 1 else 1, count if columns > 1 else 1)
            for name, (rows, columns) in template.generic.items()
        }
        at, eps = points.many_inputs(count, *widths.items()), STABILISERS[cell.eps][1]
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
        undecided = f"undecided at eps > 0: {finite.why or 'no proof and no witness'}"
        detail = f"but not at {_at(finite)}" if finite.witness else undecided
        return Finding(claim=text, verdict=IN_LIMIT, detail=detail)
    if finite.verdict == REFUTED:
        detail = f"{_at(finite)}; undecided as eps -> 0"
        detail += f": {limit.why}" if limit.why else ""
        return Finding(claim=text, verdict=REFUTED, detail=detail)
    why = limit.why or finite.why or "the sides are not found equal"
    return Finding(claim=text, verdict=UNDECIDED, detail=f"{why}, and no witness was found")


def _at(cell: Cell) -> str:
    return f"eps {'-> 0' if cell.eps == LIMIT else '= 1/4'}, {cell.witness}"

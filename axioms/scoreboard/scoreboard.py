"""Decides which attribution methods explain two implementations of one function alike.

A cell is computed: a lemma over generic symbols proves it, or the smallest integer point at
which two implementations disagree refutes it.  ``markdown`` writes it for docs/SCOREBOARD.md.

"epsilon -> 0" is the limit of the relevance from above, with leaves and R as they are.  Its
verdicts hold for almost all leaves: where a sum cancels exactly, as a + b does at a = -b, the
limit is another one or none, for every rule that divides by the sum.  An open set of such points,
such as all points with an empty pool of positive parts, is no exception but a witness.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.decide.denotation import denoted, same_function, same_value
from lrp_axioms.axioms.decide.identity import Number, Sides, generic
from lrp_axioms.axioms.graph import INPUT, Node, leaf, parameter, topological
from lrp_axioms.axioms.rewrites.channels import in_rows
from lrp_axioms.axioms.rewrites.points import random_point, symbols
from lrp_axioms.axioms.rewrites.rewrite import Canonized, Template, exchanged
from lrp_axioms.axioms.rewrites.rewrites import ATTENTION, EVERY_REWRITE, REWRITES, UNITS
from lrp_axioms.axioms.scoreboard.rule_sets import ON_ATTENTION, ON_UNITS, RULE_SETS, RuleSet
from lrp_axioms.axioms.scoreboard.witness import (
    disagreement,
    explained,
    rewritten,
    search,
    searched_points,
)

PROVED, ON_TEMPLATES, REFUTED = "proved", "holds on the templates", "refuted"
NOT_APPLICABLE, OPEN = "not applicable", "open"
LIMIT, FINITE = "epsilon -> 0", "finite epsilon"
STABILISERS: dict[str, tuple[Number, Number]] = {
    LIMIT: (0, 0),
    FINITE: (sp.Symbol("epsilon", positive=True), sp.Rational(1, 4)),
}
"""Column -> stabiliser of the lemma, and of the search for a witness; 0 is the limit."""
FIRST, TRIED = 20, 400  # points per graph before a lemma is tried, and before a search gives up
AT_EXPONENTIALS = 3  # points per graph where numbers are compared by their digits, which is slow
ATTACKS = 2  # random points in wider shapes that a proved lemma is tried at
Decision: TypeAlias = Callable[[Sides, Sides], bool]  # whether two sides are equal
COVERED: dict[tuple[str, str], int] = {
    (name, eps): 64 if rewrite.canonized is Canonized.ALIKE else 65
    for name, rewrite in EVERY_REWRITE.items()
    for eps in STABILISERS
    if rewrite.canonized and (eps == LIMIT or rewrite.canonized.at_every_epsilon)
}
"""By rewrite and regime: the theorem that proves it for canonized graphs of a stated class."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The verdict on one rule set under one rewrite."""

    rule_set: str
    rewrite: str
    eps: str  # LIMIT or FINITE
    verdict: str
    witness: str = ""  # of a refutation: the graphs, the point, both explanations
    theorem: int = 0  # of a proof beyond the templates, for graphs that are prepared as a whole


@cache
def scoreboard(
    rule_sets: tuple[RuleSet, ...] = RULE_SETS,
    rewrites: tuple[str, ...] = tuple(REWRITES),
    *,
    regimes: tuple[str, ...] = tuple(STABILISERS),
    first: int = FIRST,
    attacks: int = ATTACKS,
) -> tuple[Cell, ...]:
    """One cell per rule set, rewrite and regime of epsilon; options as in ``decide``."""
    decided: dict[tuple[object, ...], Cell] = {}
    cells = []
    for rewrite, rule_set, eps in itertools.product(rewrites, rule_sets, regimes):
        key = (rewrite, eps, *_rules_in_use(rule_set, rewrite))
        if key not in decided:  # methods that treat these operations alike share a verdict
            decided[key] = decide(rule_set, rewrite, eps, first=first, attacks=attacks)
        cells.append(replace(decided[key], rule_set=rule_set.name))
    return tuple(cells)


@cache
def on_attention() -> tuple[Cell, ...]:
    """The cells of the rewrites of softmax attention, for the methods that are defined there."""
    return scoreboard(ON_ATTENTION, tuple(ATTENTION), first=AT_EXPONENTIALS, attacks=0)


@cache
def on_units() -> tuple[Cell, ...]:
    """The cells of the rewrites of gated units, RMSNorm, soft caps and recurrences."""
    return scoreboard(ON_UNITS, tuple(UNITS), first=AT_EXPONENTIALS, attacks=1)


def _rules_in_use(rule_set: RuleSet, rewrite: str) -> tuple[object, ...]:
    if rule_set.composite is None:
        return (rule_set.formula,)
    if rule_set.prepare:
        return (rule_set.name,)
    step = EVERY_REWRITE[rewrite]
    graphs = [graph for t in step.templates for graph in (t.root, *step(t.root))]
    operations = sorted({node.op for graph in graphs for node in topological(graph)})
    return tuple((rule_set.composite.rule(op), rule_set.instead.get(op)) for op in operations)


def decide(
    rule_set: RuleSet,
    rewrite: str,
    eps: str,
    *,
    points_tried: int = TRIED,
    first: int = FIRST,
    attacks: int = ATTACKS,
) -> Cell:
    """Proves or refutes that a rewrite leaves the explanations of a rule set as they are.

    Proved: on every template and for generic leaves and relevance, which a rule applied node by
    node composes to every graph.  A rule set that prepares the whole graph is also searched for
    witnesses in several contexts, and at best ``holds on the templates`` unless theorems 64 and 65
    cover it: the templates alone say nothing of larger graphs.  ``first`` points are tried
    before the lemma, ``points_tried`` after it failed, and ``attacks`` in wider shapes after it
    held.
    """
    cell = Cell(rule_set=rule_set.name, rewrite=rewrite, eps=eps, verdict=OPEN)
    templates = searched = EVERY_REWRITE[rewrite].templates
    if not rule_set.composite and not rule_set.formula:  # of the function, which is preserved
        kept = all(_preserves(rewrite, template) for template in templates)
        return replace(cell, verdict=PROVED if kept else OPEN)
    if rule_set.prepare:
        searched = [wider for template in templates for wider in in_contexts(template)]
    generic_eps, number = STABILISERS[eps]

    def refuted(*, tried: int, skipped: int = 0, one_hot: bool = False) -> Cell | None:
        found = (
            search(rule_set, rewrite, t, number, tried=tried, skipped=skipped, one_hot=one_hot)
            for t in searched
        )
        witness = next(filter(None, found), "")
        return replace(cell, verdict=REFUTED, witness=witness) if witness else None

    try:
        if found := refuted(tried=first):  # most are found at once, without any algebra
            return found
        if all(
            _is_defined(rule_set, rewrite, template, number)
            and _holds(rule_set, rewrite, template, generic_eps)
            for template in templates
        ):
            if witness := attack(rule_set, rewrite, eps, tries=attacks):
                return replace(cell, verdict=REFUTED, witness=witness)
            theorem = COVERED.get((rewrite, eps), 0) if rule_set.is_canonized else 0
            holds = PROVED if theorem or not rule_set.prepare else ON_TEMPLATES
            return replace(cell, verdict=holds, theorem=theorem)
        later = refuted(tried=points_tried, skipped=first)
        return later or refuted(tried=first, one_hot=True) or cell
    except UnassignedOperation:
        return replace(cell, verdict=NOT_APPLICABLE)


def _preserves(rewrite: str, template: Template) -> bool:
    point = symbols(template)
    return all(
        same_function(template.root, other, point)
        for other in rewritten(rewrite, template.root, symbolic=True)
    )


def _holds(rule_set: RuleSet, rewrite: str, template: Template, eps: Number) -> bool:
    """Decides the lemma at ``eps``, or at every eps if the rule is 0/0 at eps = 0."""
    try:
        return lemma(rule_set, rewrite, template, eps)
    except ZeroDivisionError:
        generic_eps, number = STABILISERS[FINITE]
        return (
            eps == 0
            and not search(rule_set, rewrite, template, number, tried=FIRST)
            and lemma(rule_set, rewrite, template, generic_eps)
        )


def lemma(
    rule_set: RuleSet, rewrite: str, template: Template, eps: Number, *, same: Decision = same_value
) -> bool:
    """Whether every rewritten template gets the same relevance for generic leaves and relevance.

    Functions, signs and absolute values are symbols, so True is a proof and False is none.
    """
    point = symbols(template)
    r = generic("R", *denoted(template.root, point).shape)
    others = rewritten(rewrite, template.root, symbolic=True)
    before = rule_set.explain(template.root, point, eps=eps, relevance=r)
    return all(
        all(same(before[name], after[name]) for name in before)
        for after in (rule_set.explain(other, point, eps=eps, relevance=r) for other in others)
    )


def _is_defined(rule_set: RuleSet, rewrite: str, template: Template, eps: Number) -> bool:
    """Whether every rewritten template is explained somewhere: a lemma about 0/0 says nothing."""
    points = [p for found in searched_points(template) for p in itertools.islice(found, FIRST)]

    @cache
    def defined(graph: Node, k: int) -> bool:
        return explained(rule_set, graph, points[k], eps) is not None

    root = template.root
    return all(
        any(defined(root, k) and defined(other, k) for k in range(len(points)))
        for other in rewritten(rewrite, root)
    )


def in_contexts(template: Template) -> Iterator[Template]:
    """The template alone, in a product, in a sum, fed by products, and scaled by channel."""
    yield template
    inputs = [node for node in topological(template.root) if node.op == INPUT]
    z, u, f = (_free_name(name, template) for name in "zuf")
    outer = denoted(template.root, symbols(template)).shape
    for root in (template.root * leaf(z), template.root + leaf(z)):
        yield Template(root=root, generic={**template.generic, z: outer})
    for x in inputs:
        root = exchanged(template.root, x, x * leaf(u))
        least = {**template.least, u: template.least_shapes()[x.name]}
        yield Template(
            root=root, generic={**template.generic, u: template.generic[x.name]}, least=least
        )
    scaled = template.root * in_rows(parameter(f), template.root)
    yield Template(root=scaled, generic={**template.generic, f: (1, outer[1])})


def _free_name(name: str, template: Template) -> str:
    """The name, or one like it that no leaf of the template has."""
    return name if name not in template.generic else _free_name(name + name[0], template)


def attack(rule_set: RuleSet, rewrite: str, eps: str, *, tries: int, seed: int = 0) -> str:
    """A witness among random points of the templates in wider shapes; '' if there is none."""
    chance = random.Random(seed)
    for template in EVERY_REWRITE[rewrite].templates * tries:
        point = random_point(chance, template.wider_shapes())
        stabiliser = STABILISERS[eps][1]
        if witness := disagreement(rule_set, rewrite, template.root, point, stabiliser):
            return witness
    return ""

"""Which attribution methods give two implementations of one function one explanation.

A cell is computed: a lemma over generic symbols proves it, or the smallest integer point at
which two implementations disagree refutes it.  ``markdown`` writes it for docs/SCOREBOARD.md.

"epsilon -> 0" is the limit of the relevance from above, with leaves and R as they are.  What is
said of it holds for almost all leaves: where a sum cancels exactly, as a + b does at a = -b, the
limit is another one or none, for every rule that divides by the sum.  A set of such points that
is open, as that where a pool of positive parts is empty, is no exception but a witness.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import sympy as sp

from axioms.algebra.decide import apart, generic
from axioms.algebra.denotation import denoted, same_function, same_value
from axioms.composites import UnassignedOperation
from axioms.graph import INPUT, Node, leaf, parameter, rebuild, topological
from axioms.invariance.channels import in_rows
from axioms.invariance.points import moved, points, random_point
from axioms.invariance.rewrites import REWRITES, rescale_scores
from axioms.invariance.rule_sets import RULE_SETS, RuleSet
from axioms.invariance.templates import TEMPLATES, Template

PROVED, ON_TEMPLATES, REFUTED = "proved", "holds on the templates", "refuted"
NOT_APPLICABLE, OPEN = "not applicable", "open"
LIMIT, FINITE = "epsilon -> 0", "finite epsilon"
STABILISERS = {LIMIT: (0, 0), FINITE: (sp.Symbol("epsilon", positive=True), sp.Rational(1, 4))}
"""Column -> stabiliser of the lemma, and of the search for a witness; 0 is the limit."""
NEAR_0 = sp.Symbol("epsilon_near_0", positive=True)  # smaller than every number
FIRST, TRIED = 20, 400  # points per graph before a lemma is tried, and before a search gives up
ATTACKS = 2  # random points in wider shapes at which what a lemma proves is tried


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is established of one rule set under one rewrite."""

    rule_set: str
    rewrite: str
    eps: str  # LIMIT or FINITE
    verdict: str
    witness: str = ""  # of a refutation: the graphs, the point, both explanations


@cache
def scoreboard(
    rule_sets: tuple[RuleSet, ...] = RULE_SETS, rewrites: tuple[str, ...] = tuple(REWRITES)
) -> tuple[Cell, ...]:
    """One cell per rule set, rewrite and regime of epsilon."""
    decided: dict[tuple, Cell] = {}  # methods that treat these operations alike share a verdict
    cells = []
    for rewrite, rule_set, eps in itertools.product(rewrites, rule_sets, STABILISERS):
        key = (rewrite, eps, *_rules_in_use(rule_set, rewrite))
        if key not in decided:
            decided[key] = decide(rule_set, rewrite, eps)
        cells.append(replace(decided[key], rule_set=rule_set.name))
    return tuple(cells)


def _rules_in_use(rule_set, rewrite):
    if rule_set.composite is None:
        return (None,)
    if rule_set.prepare:
        return (rule_set.name,)
    graphs = [g for t in TEMPLATES[rewrite] for g in (t.root, *REWRITES[rewrite](t.root))]
    operations = sorted({node.op for graph in graphs for node in topological(graph)})
    return [(rule_set.composite.rule(op), rule_set.instead.get(op)) for op in operations]


def decide(
    rule_set: RuleSet, rewrite: str, eps: str, *, same=same_value, points_tried=TRIED
) -> Cell:
    """Proves or refutes that a rewrite leaves the explanations of a rule set as they are.

    Proved: on every template and for generic leaves and relevance, which a rule applied node by
    node composes to every graph.  A rule set that prepares the whole graph is also searched for
    witnesses in several contexts, and at best ``holds on the templates``.  ``same`` decides
    whether two relevances are equal; its True is a proof.
    """
    cell = Cell(rule_set=rule_set.name, rewrite=rewrite, eps=eps, verdict=OPEN)
    templates = searched = TEMPLATES[rewrite]
    if rule_set.composite is None:  # a functional of the function, which a rewrite preserves
        kept = all(_preserved(rewrite, template) for template in templates)
        return replace(cell, verdict=PROVED if kept else OPEN)
    if rule_set.prepare:
        searched = [wider for template in templates for wider in in_contexts(template)]
    generic_eps, eps_of_witness = STABILISERS[eps]

    def refuted(**options):
        found = (search(rule_set, rewrite, t, eps_of_witness, **options) for t in searched)
        witness = next(filter(None, found), "")
        return replace(cell, verdict=REFUTED, witness=witness) if witness else None

    try:
        if found := refuted(tried=FIRST):  # most are found at once, without any algebra
            return found
        if all(
            _is_defined(rule_set, rewrite, template, eps_of_witness)
            and _established(rule_set, rewrite, template, generic_eps, same)
            for template in templates
        ):
            if witness := attack(rule_set, rewrite, eps, tries=ATTACKS):
                return replace(cell, verdict=REFUTED, witness=witness)
            return replace(cell, verdict=ON_TEMPLATES if rule_set.prepare else PROVED)
        later = refuted(tried=points_tried, skipped=FIRST)
        return later or refuted(tried=FIRST, one_hot=True) or cell
    except UnassignedOperation:
        return replace(cell, verdict=NOT_APPLICABLE)


def rewritten(rewrite: str, root: Node, *, symbolic=False) -> list[Node]:
    if rewrite == "rescale Q and K" and symbolic:  # by any factor, not only by 2
        return rescale_scores(root, factor=sp.Symbol("c", positive=True))
    return REWRITES[rewrite](root)


def _preserved(rewrite, template):
    point = template.symbols()
    return all(
        same_function(template.root, other, point)
        for other in rewritten(rewrite, template.root, symbolic=True)
    )


def _established(rule_set, rewrite, template, eps, same):
    """The lemma at ``eps``; in the limit of a rule that is 0/0 at eps = 0, that of every eps."""
    try:
        return lemma(rule_set, rewrite, template, eps, same=same)
    except ZeroDivisionError:
        generic_eps, number = STABILISERS[FINITE]
        return (
            eps == 0
            and not search(rule_set, rewrite, template, number, tried=FIRST)
            and lemma(rule_set, rewrite, template, generic_eps, same=same)
        )


def lemma(rule_set: RuleSet, rewrite: str, template: Template, eps, *, same=same_value) -> bool:
    """Whether every rewritten template gets the same relevance for generic leaves and relevance.

    Functions, signs and absolute values are symbols, so True is a proof and False is not.
    """
    point = template.symbols()
    r = generic("R", *denoted(template.root, point).shape)
    before = rule_set.explain(template.root, point, eps=eps, relevance=r)
    return all(
        all(same(before[name], after[name]) for name in before)
        for after in (
            rule_set.explain(other, point, eps=eps, relevance=r)
            for other in rewritten(rewrite, template.root, symbolic=True)
        )
    )


def in_contexts(template: Template) -> Iterator[Template]:
    """The template alone, in a product, in a sum, fed by products, and scaled by channel."""
    yield template
    inputs = [node for node in topological(template.root) if node.op == INPUT]
    z, u, f = leaf("z"), leaf("u"), parameter("f")
    outer = denoted(template.root, template.symbols()).shape
    for root in (template.root * z, template.root + z):
        yield Template(root=root, generic={**template.generic, "z": outer})
    for x in inputs:
        root = rebuild(template.root, lambda node, x=x: node * u if node is x else node)
        least = {**template.least, "u": template.least_shapes()[x.name]}
        yield Template(
            root=root, generic={**template.generic, "u": template.generic[x.name]}, least=least
        )
    scaled = template.root * in_rows(f, template.root)
    yield Template(root=scaled, generic={**template.generic, "f": (1, outer[1])})


def search(
    rule_set: RuleSet, rewrite: str, template: Template, eps, *, tried, skipped=0, one_hot=False
) -> str:
    """The first small integer point at which a rewritten template is explained differently.

    Least shapes come before generic ones, and points in order of the sum of their absolute
    values plus the number of negative ones.  Relevance starts at the value of the root, or with
    ``one_hot`` at 1 in its first entry alone.  Returns '' if none of the first ``tried`` points of
    either shape, after those ``skipped``, separates the explanations; points where one of them is
    undefined count as tried.
    """
    root = template.root
    chosen = (itertools.islice(s, skipped, tried) for s in _searched(template))
    for point in itertools.chain(*chosen):
        relevance = _first_entry(denoted(root, point).shape) if one_hot else None
        if witness := disagreement(rule_set, rewrite, root, point, eps, relevance):
            return witness
    return ""


def attack(rule_set: RuleSet, rewrite: str, eps: str, *, tries: int, seed: int = 0) -> str:
    """A witness among random points of the templates in wider shapes; '' if there is none."""
    chance = random.Random(seed)
    for template in TEMPLATES[rewrite] * tries:
        point = random_point(chance, template.wider_shapes())
        stabiliser = STABILISERS[eps][1]
        if witness := disagreement(rule_set, rewrite, template.root, point, stabiliser):
            return witness
    return ""


def disagreement(rule_set, rewrite, root, point, eps, relevance=None) -> str:
    """How a rewritten graph is explained differently at a point, in words; '' if none is.

    In the limit also where all leaves are moved a little, or it shows nothing of almost all points.
    """

    def separated(other, point):
        before, after = (
            explained(rule_set, graph, point, eps, relevance) for graph in (root, other)
        )
        both = before is not None and after is not None
        return (before, after) if both and any(differ(before[x], after[x]) for x in before) else ()

    for other in rewritten(rewrite, root):
        found = separated(other, point)
        if found and (eps != 0 or separated(other, moved(point))):
            given = {} if relevance is None else {"R": relevance}
            return describe(root, other, {**point, **given}, *found)
    return ""


def _searched(template):
    """Points in the least shapes, and in the generic ones if these differ."""
    used = {node.name for node in topological(template.root) if not node.args}
    sizes = (template.least_shapes(), template.generic)
    shapes = [{x: size[x] for x in size if x in used} for size in sizes]
    return [points(s) for s in (shapes[1:] if shapes[0] == shapes[1] else shapes)]


def _first_entry(shape):
    return sp.Matrix(*shape, lambda n, i: int(n == i == 0))


def _is_defined(rule_set, rewrite, template, eps) -> bool:
    """Whether every rewritten template is explained somewhere: a lemma about 0/0 says nothing."""
    return all(
        any(
            all(explained(rule_set, g, point, eps) for g in (template.root, other))
            for point in itertools.chain(*(itertools.islice(s, FIRST) for s in _searched(template)))
        )
        for other in rewritten(rewrite, template.root)
    )


def explained(rule_set, graph, point, eps, relevance=None):
    """What the rule set says of a graph; None where it is undefined (0/0 or a pole)."""

    def at(eps, point=point):
        found = rule_set.explain(graph, point, eps=eps, relevance=relevance)
        if not all(value.is_finite for r in found.values() for value in r):
            raise ZeroDivisionError(f"{graph} has a pole")
        return found

    try:
        return at(eps)
    except ZeroDivisionError:
        return in_limit(at, point) if eps == 0 else None


def in_limit(at, point):
    """The limit of the matrices ``at(eps)`` as eps -> 0 where eps = 0 is 0/0.

    None if it is infinite, and if ``at(0, nearby)`` is defined: 0/0 by accident, at few points.
    """
    try:
        at(0, moved(point))
    except ZeroDivisionError:
        try:
            return {x: r.applyfunc(_limit) for x, r in at(NEAR_0).items()}
        except ZeroDivisionError:
            return None
    return None


def _limit(value):
    above, below = (side.subs(NEAR_0, 0) for side in sp.fraction(sp.cancel(value)))
    if below == 0:
        raise ZeroDivisionError(f"{value} has no limit")
    return above / below


def differ(one, other) -> bool:
    """Whether two matrices of numbers differ for certain."""
    return any(itertools.starmap(apart, zip(one, other, strict=True)))


def written(matrix) -> str:
    """Rows of rational numbers, of others the first digits; one entry stands alone."""
    entries = [str(sp.nsimplify(e) if e.is_Rational else sp.N(e, 4)) for e in matrix]
    if len(entries) == 1:
        return entries[0]
    rows = matrix.rows
    width = len(entries) // rows
    lines = [" ".join(entries[k * width : (k + 1) * width]) for k in range(rows)]
    return "[" + "; ".join(lines) + "]"


def _explanation(found) -> str:
    return ", ".join(f"{name} {written(r)}" for name, r in found.items())


def describe(root, other, point, before, after) -> str:
    """A witness in words: point, both graphs, both explanations."""
    at = ", ".join(f"{name} = {written(value)}" for name, value in point.items())
    return f"{at}: `{root}` gives {_explanation(before)}; `{other}` gives {_explanation(after)}"

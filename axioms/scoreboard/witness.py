"""Witnesses: points where two implementations of one function are explained differently.

In the limit eps -> 0 a point where eps = 0 is 0/0 counts with the limit that it has, and a
disagreement only if it is there at nearby points too.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache

import sympy as sp

from lrp_axioms.axioms.decide.denotation import denoted, same_value
from lrp_axioms.axioms.decide.identity import Number, apart, generic
from lrp_axioms.axioms.graph import Node, topological
from lrp_axioms.axioms.rewrites.points import LeafMatrices, moved, points
from lrp_axioms.axioms.rewrites.rewrite import ANY_FACTOR, Rewrite, Template, everywhere
from lrp_axioms.axioms.rewrites.rewrites import EVERY_REWRITE
from lrp_axioms.axioms.rules.propagate import Explanation
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet

NEAR_0 = sp.Symbol("epsilon_near_0", positive=True)  # smaller than every number


def search(
    rule_set: RuleSet,
    rewrite: str,
    template: Template,
    eps: Number,
    *,
    tried: int,
    skipped: int = 0,
    one_hot: bool = False,
) -> str:
    """The first small integer point where a rewritten template is explained differently.

    Least shapes come before generic ones, and points in order of the sum of their absolute
    values plus the number of negative ones.  Relevance starts at the value of the root, or with
    ``one_hot`` at 1 in its first entry alone.  Returns '' if none of the first ``tried`` points of
    either shape, after the ``skipped`` ones, separates the explanations; points where one of them
    is undefined count as tried.
    """
    root = template.root
    chosen = (itertools.islice(s, skipped, tried) for s in searched_points(template))
    for point in itertools.chain(*chosen):
        shape = denoted(root, point).shape
        relevance = sp.Matrix(*shape, lambda n, i: int(n == i == 0)) if one_hot else None
        if witness := disagreement(rule_set, rewrite, root, point, eps, relevance):
            return witness
    return ""


def rewritten(rewrite: str, root: Node, *, symbolic: bool = False) -> list[Node]:
    """All graphs that are one step away; ``symbolic`` rewrites stand for a family of them.

    Raises ValueError if there is none: a claim on all of them would be empty.
    """
    step = EVERY_REWRITE[rewrite]
    if not (found := of_family(step, root) if symbolic else _made_by(step, root)):
        raise ValueError(f"{rewrite!r} rewrites nothing in {root}; pass a graph where it applies")
    return found


def of_family(rewrite: Rewrite, root: Node) -> list[Node]:
    """All graphs that are one step away, for any factor or change of channels in the step."""
    if rewrite.family is None:
        return _made_by(rewrite, root)
    kind, step = rewrite.family
    if kind == ANY_FACTOR:
        c = sp.Symbol("c", positive=True)
        return everywhere(step(c, 1 / c), root)
    m = generic("change", 2, 2)
    return everywhere(step(m, m.inv()), root)


@lru_cache(maxsize=100)  # a search asks for the same at every point
def _made_by(rewrite: Rewrite, root: Node) -> list[Node]:
    return rewrite(root)


def disagreement(
    rule_set: RuleSet,
    rewrite: str,
    root: Node,
    point: LeafMatrices,
    eps: Number,
    relevance: sp.Matrix | None = None,
    *,
    nearby: bool = True,
) -> str:
    """How a rewritten graph is explained differently at a point, in words; '' if none is.

    In the limit also ``nearby``, where all leaves are moved a little, or it shows nothing of almost
    all points.
    """

    def separated(other: Node, point: LeafMatrices) -> tuple[Explanation, Explanation] | None:
        before, after = (
            explained(rule_set, graph, point, eps, relevance) for graph in (root, other)
        )
        if before is None or after is None or not any(differ(before[x], after[x]) for x in before):
            return None
        return before, after

    for other in rewritten(rewrite, root):
        found = separated(other, point)
        if found and (eps != 0 or not nearby or separated(other, moved(point))):
            given = {} if relevance is None else {"R": relevance}
            return describe(root, other, {**point, **given}, *found)
    return ""


def searched_points(template: Template) -> list[Iterator[LeafMatrices]]:
    """Points in the least shapes, and in the generic ones if these differ."""
    used = {node.name for node in topological(template.root) if not node.args}
    sizes = (template.least_shapes(), template.generic)
    shapes = [{x: size[x] for x in size if x in used} for size in sizes]
    return [points(s) for s in (shapes[1:] if shapes[0] == shapes[1] else shapes)]


def explained(
    rule_set: RuleSet,
    graph: Node,
    point: LeafMatrices,
    eps: Number,
    relevance: sp.Matrix | None = None,
) -> Explanation | None:
    """The rule set's explanation of a graph; None where it is undefined (0/0 or a pole)."""

    def at(eps: Number, point: LeafMatrices = point) -> Explanation:
        found = rule_set.explain(graph, point, eps=eps, relevance=relevance)
        if not all(value.is_finite for r in found.values() for value in r):
            raise ZeroDivisionError(f"{graph} has a pole")
        return found

    try:
        return at(eps)
    except ZeroDivisionError:
        return in_limit(at, point) if eps == 0 else None


def in_limit(at: Callable[..., Explanation], point: LeafMatrices) -> Explanation | None:
    """The limit of the matrices ``at(eps)`` as eps -> 0 where eps = 0 is 0/0.

    None if it is infinite, and if ``at(0, nearby)`` is defined: 0/0 by accident, at few points.
    """
    try:
        at(0, moved(point))
    except ZeroDivisionError:
        try:
            return {x: r.applyfunc(limit) for x, r in at(NEAR_0).items()}
        except ZeroDivisionError:
            return None
    return None


def limit(value: sp.Expr) -> sp.Expr:
    """Returns the limit of a number as NEAR_0 -> 0; raises ZeroDivisionError if it is infinite."""
    above, below = (side.subs(NEAR_0, 0) for side in sp.fraction(sp.cancel(value)))
    if below == 0:
        raise ZeroDivisionError(f"{value} has no limit")
    return above / below


def differ(one: sp.Matrix, other: sp.Matrix) -> bool:
    """Whether two matrices of numbers differ for certain."""
    return any(itertools.starmap(_differs, zip(one, other, strict=True)))


def _differs(one: sp.Expr, other: sp.Expr) -> bool:
    """As ``apart``; exponentials that cancel by name need no digits, which take seconds."""
    gap = one - other
    named = not gap.is_Rational and not gap.has(sp.CRootOf)  # roots of polynomials have no names
    return not (named and same_value(one, other)) and apart(one, other)


def written(matrix: sp.Matrix) -> str:
    """Rows of rational numbers, of others the first digits; one entry stands alone."""
    rows = [" ".join(map(_digits, row)) for row in matrix.tolist()]
    return rows[0] if len(matrix) == 1 else f"[{'; '.join(rows)}]"


def _digits(number: sp.Expr) -> str:
    """Returns a rational number, or the first digits of another, which a hidden 0 does not have."""
    if number.is_Rational:
        return str(number)
    named = not number.has(sp.CRootOf)
    return "0" if named and same_value(number, sp.S.Zero) else str(sp.N(number, 4))


def _explanation(found: Explanation) -> str:
    return ", ".join(f"{name} {written(r)}" for name, r in found.items())


def describe(
    root: Node, other: Node, point: LeafMatrices, before: Explanation, after: Explanation
) -> str:
    """A witness in words: point, both graphs, both explanations."""
    at = ", ".join(f"{name} = {written(value)}" for name, value in point.items())
    return f"{at}: `{root}` gives {_explanation(before)}; `{other}` gives {_explanation(after)}"

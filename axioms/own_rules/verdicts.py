"""Judges a user's rule: its conservation, its symmetries and the rewrites that it survives.

The rule takes the place of AttnLRP's rule for its kind.  Rewrites of the scoreboard are decided on
its templates, if an operation of the kind carries relevance there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, islice, product

import sympy as sp
from sympy.matrices.exceptions import ShapeError

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.answers import QUARTER, Answer, Tested, answer, tried_further, witness
from lrp_axioms.axioms.decide.denotation import denoted
from lrp_axioms.axioms.decide.equality import Pairs, Values
from lrp_axioms.axioms.decide.identity import generic
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.decide.signs import shown
from lrp_axioms.axioms.graph import Node, topological
from lrp_axioms.axioms.own_rules import claims
from lrp_axioms.axioms.own_rules.formula import check_one_formula
from lrp_axioms.axioms.own_rules.messages import rule_set, symbolic
from lrp_axioms.axioms.own_rules.properties import CONSERVES, LINEAR
from lrp_axioms.axioms.own_rules.properties import claims as claims_of
from lrp_axioms.axioms.own_rules.rules import Rule
from lrp_axioms.axioms.own_rules.settings import Setting
from lrp_axioms.axioms.own_rules.uniform import read
from lrp_axioms.axioms.rewrites.channels import is_fixed
from lrp_axioms.axioms.rewrites.points import LeafMatrices, many_inputs, moved, symbols
from lrp_axioms.axioms.rewrites.rewrite import Template
from lrp_axioms.axioms.rewrites.rewrites import ATTENTION, REWRITES
from lrp_axioms.axioms.rules.propagate import evaluate
from lrp_axioms.axioms.scoreboard.witness import (
    disagreement,
    explained,
    rewritten,
    searched_points,
    written,
)
from lrp_axioms.axioms.verdict import IN_LIMIT, PROVED, REFUTED, SAME_IF, Verdict

OUTPUTS = 5  # of a layer, more than its inputs
TRIED = 30  # small points in shapes of a template
FIRST = 3  # points to try a rule with gaps at
RELEVANCE = "R"
AT_WITNESS = "at the witness"
ENTRYWISE = (kinds.PRODUCT, kinds.ADD, kinds.ACTIVATION)


def judge(rule: Rule) -> list[Verdict]:
    """All verdicts on a rule; RuleError if the rule cannot be judged."""
    found = [decided() for decided in decisions(rule).values()]
    check_one_formula(rule)  # still: it may have counted its calls
    return found


def decisions(rule: Rule) -> dict[str, Callable[[], Verdict]]:
    """Decisions about a rule, by name: its claims, conservation first, then rewrites.

    Raises RuleError for a rule that cannot be judged.
    """
    gap, has_gaps = check_one_formula(rule)
    names = [*claims_of(rule.kind), *rewrites_of(rule.kinds)]
    return {name: partial(_gap_verdict, rule, name, gap, has_gaps=has_gaps) for name in names}


def _gap_verdict(rule: Rule, name: str, gap: str, *, has_gaps: bool) -> Verdict:
    """The verdict on a rule that may be 0/0 where its formula is defined."""
    if gap:
        claim = f"{SAME_IF}{name}" if name in REWRITES else name
        return Verdict(claim, REFUTED, AT_WITNESS, f"{gap}: undefined (0/0 or a pole)")
    found = verdict(rule, name)
    if not has_gaps or found.status not in (PROVED, IN_LIMIT):
        return found
    eps = QUARTER if found.status == PROVED else sp.Integer(0)
    for template in _templates(rule, name) if name in REWRITES else ():
        part = OfGraphs(rule, name, template)
        for point in islice(part.points(), FIRST):
            if said := witness(part, point, eps, undefined=True):
                return replace(found, status=REFUTED, scope=AT_WITNESS, witness=said)
    return replace(found, scope=f"{found.scope}, where the rule itself is not 0/0")


def verdict(rule: Rule, name: str) -> Verdict:
    """Decides a claim or a rewrite by name, from the formula of the rule."""
    if name in REWRITES:
        return _rewrite_verdict(rule, name)
    found, inputs = claims.decide(claims_of(rule.kind)[name], rule)
    if name == CONSERVES and found.status in (IN_LIMIT, REFUTED):
        kept = claims.kept_by(rule) if rule.kind == kinds.ACTIVATION else ""
        reasons = (claims.lost(rule), kept, found.reason)
        found = replace(found, reason="; ".join(filter(None, reasons)))
    every = "every activation" if rule.kind == kinds.ACTIVATION else ""
    if every and found.is_almost:  # such a set of numbers may be half of the inputs of ReLU
        every, found = "almost all x, y and slope", replace(found, is_almost=False)
    at = {EPS: sp.Integer(0)} if found.status == IN_LIMIT else {}
    divisors = dict.fromkeys(shown(x.xreplace(at)) for x in found.divisors)
    where = " and ".join(f"{x} != 0" for x in divisors)
    return _verdict(name, found, every or inputs, where)


def _rewrite_verdict(rule: Rule, name: str) -> Verdict:
    found = answer([OfGraphs(rule, name, template) for template in _templates(rule, name)])
    lists = rule.operation.lists
    counts = sorted(inputs_in(name, rule.kinds)) if lists else _widths(rule, name)
    if found.status in (PROVED, IN_LIMIT) and counts and (not lists or read(rule) is None):
        found = tried_further(found, _with_more_inputs(rule, name))
    holds = found.status in (PROVED, IN_LIMIT)
    alone = _mixing(rule, name) if holds and not _is_linear(rule) else []
    found = tried_further(found, _with_more_outputs(rule, name, alone))
    *first, last = map(str, counts) if counts else ("",)
    many = " and ".join(filter(None, (", ".join(first), last)))
    nodes = (x for _, graph in _graphs(name) for x in topological(graph))
    relu = "relu" if any(x.attributes.get("function") == "relu" for x in nodes) else ""
    of = "inputs" if lists else "channels or keys"
    outputs = "one output" if alone else ""
    inputs = ", with ".join(filter(None, (many and f"{many} {of}", relu, outputs)))
    where = "no divisor is 0" if found.divisors else ""
    return _verdict(f"{SAME_IF}{name}", found, inputs, where)


def _templates(rule: Rule, rewrite: str) -> Sequence[Template]:
    """Returns the templates that decide a rewrite; readouts get weights from a softmax."""
    if rule.kind == kinds.READOUT and rewrite == "permute heads":
        return ATTENTION["permute attention heads"].templates
    return REWRITES[rewrite].templates


def _mixing(rule: Rule, rewrite: str) -> list[Template]:
    """Returns the templates with an operation that mixes entries."""
    return [
        template
        for template in _templates(rule, rewrite)
        if any(x.args and x.op not in ENTRYWISE for x in topological(template.root))
    ]


def _widths(rule: Rule, rewrite: str) -> list[int]:
    """Returns the lengths of rows in templates with an operation that mixes entries."""
    shapes = (shape for t in _mixing(rule, rewrite) for shape in t.generic.values())
    return sorted({columns for _, columns in shapes} - {1})


@cache
def _is_linear(rule: Rule) -> bool:
    """Whether a rule is linear in relevance, so that one output stands for any number of them."""
    claim = claims_of(rule.kind)[LINEAR]
    found = answer([Setting(claim, rule, count) for count in rule.operation.counts])
    return found.status in (PROVED, IN_LIMIT)


def _verdict(claim: str, found: Answer, inputs: str, where: str) -> Verdict:
    if found.status == REFUTED:
        scope = AT_WITNESS
    else:
        almost = "almost everywhere" if found.is_almost else ""
        parts = (f"for {inputs}" if inputs else "", f"where {where}" if where else "", almost)
        scope = ", ".join(filter(None, parts)) or "for all operands"
    return Verdict(claim, found.status, scope, found.witness, found.reason)


@dataclass(frozen=True)
class OfGraphs(Tested):
    """A graph and its rewritten graphs; the claim is that their explanations agree."""

    rule: Rule
    rewrite: str
    template: Template

    @cached_property
    def _symbols(self) -> LeafMatrices:
        return symbols(self.template)

    @cached_property
    def _relevance(self) -> sp.Matrix:
        return generic(RELEVANCE, *denoted(self.template.root, self._symbols).shape)

    @cached_property
    def _pairs(self) -> tuple[Pairs, list[sp.Expr]]:
        graphs = (self.template.root, *rewritten(self.rewrite, self.template.root, symbolic=True))
        found = [symbolic(self.rule, g, self._symbols, self._relevance) for g in graphs]
        first, *others = (explanation for explanation, _ in found)
        pairs = [
            pair
            for other in others
            for name in first
            for pair in zip(first[name], other[name], strict=True)
        ]
        return pairs, list(dict.fromkeys(x for _, divisors in found for x in divisors))

    def pairs(self) -> Pairs:
        """The relevance from the graph, and from each rewritten graph."""
        return self._pairs[0]

    def divisors(self) -> Sequence[sp.Expr]:
        """The divisors of the rule in all graphs."""
        return self._pairs[1]

    def points(self) -> Iterator[LeafMatrices]:
        """Small points in the smallest shapes, then in the shapes of the proof."""
        return chain(*(islice(found, TRIED) for found in searched_points(self.template)))

    def at(self, values: Values) -> LeafMatrices:
        """A point from the values of symbols; missing values are 1."""
        used = {node.name for node in topological(self.template.root) if not node.args}
        leaves = {name: found for name, found in self._symbols.items() if name in used}
        matrices = {**leaves, RELEVANCE: self._relevance}
        value = lambda x: values.get(x, sp.Integer(1))
        return {name: matrix.applyfunc(value) for name, matrix in matrices.items()}

    def witness(
        self, point: LeafMatrices, eps: sp.Expr, *, undefined: bool = False, nearby: bool = True
    ) -> str:
        """A point where explanations of the graphs differ, or one is undefined; '' if none."""
        own, root = rule_set(self.rule), self.template.root
        leaves = {name: found for name, found in point.items() if name != RELEVANCE}
        r = point.get(RELEVANCE)
        said = disagreement(own, self.rewrite, root, leaves, eps, r, nearby=nearby)
        for graph in (root, *rewritten(self.rewrite, root)) if undefined and not said else ():
            near = moved(leaves)
            if all(explained(own, graph, at, eps, r) is None for at in (leaves, near)):
                at = ", ".join(f"{name} = {written(found)}" for name, found in point.items())
                said = f"{at}: `{graph}` is undefined (0/0 or a pole)"
                break
        return f"{'eps -> 0' if eps == 0 else f'eps = {eps}'}, {said}" if said else ""


def _with_more_inputs(rule: Rule, rewrite: str) -> Iterator[tuple[OfGraphs, LeafMatrices]]:
    """A random point for each larger number of inputs than the proof has."""
    for count, template in product(claims.MORE, _templates(rule, rewrite)):
        widths = {
            name: (count if rows > 1 else 1, count if columns > 1 else 1)
            for name, (rows, columns) in template.generic.items()
        }
        yield OfGraphs(rule, rewrite, template), many_inputs(count, *widths.items())


def _with_more_outputs(
    rule: Rule, rewrite: str, templates: Sequence[Template]
) -> Iterator[tuple[OfGraphs, LeafMatrices]]:
    """A random point of each template whose layers can have several outputs."""
    for template in templates:
        found = template.generic.items()
        shapes = [(x, (rows, OUTPUTS if n == 1 else n)) for x, (rows, n) in found]
        point = many_inputs(OUTPUTS, *shapes)
        try:
            denoted(template.root, point)
        except ShapeError:  # one channel is multiplied further on
            continue
        yield OfGraphs(rule, rewrite, template), point


def _graphs(rewrite: str) -> Iterator[tuple[Template, Node]]:
    """The graphs that a rewrite is decided on, each with its template."""
    step = REWRITES[rewrite]
    return ((t, g) for t in step.templates for g in (t.root, *step(t.root)))


@cache
def rewrites_of(operations: tuple[str, ...]) -> list[str]:
    """The rewrites in whose templates one of these operations carries relevance."""

    def carries(root: Node) -> bool:
        return any(x.op in operations and not is_fixed(x) for x in topological(root))

    return [name for name in REWRITES if any(carries(graph) for _, graph in _graphs(name))]


@cache
def inputs_in(rewrite: str, operations: tuple[str, ...]) -> set[int]:
    """The numbers of inputs that these operations have in the templates of a rewrite."""
    found = (evaluate(graph, symbols(template)) for template, graph in _graphs(rewrite))
    return {
        values[node.args[0]].cols for values in found for node in values if node.op in operations
    }

"""Verdicts on a user's rule in words, each with the numbers of inputs that it is for."""

import textwrap
from collections.abc import Collection
from functools import cache

from axioms.algebra.propagate import evaluate
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.scoreboard import REFUTED
from axioms.invariance.templates import TEMPLATES
from axioms.own_rules.messages import rule_set
from axioms.own_rules.properties import counts
from axioms.own_rules.rules import LISTS, Rule
from axioms.own_rules.verdicts import Finding


def text(rule: Rule, findings: list[Finding]) -> str:
    """The findings about one rule in at most 80 columns, rewrites by their names."""
    return "\n".join([heading(rule), *(lines(rule, finding) for finding in findings)]) + "\n"


def heading(rule: Rule) -> str:
    """Which rule it is, and where."""
    return f'{rule.name}, a rule for "{rule.kind}", all others as in AttnLRP\n  at {rule.place}'


def lines(rule: Rule, finding: Finding) -> str:
    """One finding: its verdict and scope, and below that the detail."""
    said = finding.claim
    if said in REWRITES:
        said = f"the same if you {said}"
    found = _wrapped(f"[{finding.verdict}] {said}{_scope(rule, finding)}", "  ")
    return "\n".join([*found, *_wrapped(finding.detail, "    ")])


def _scope(rule: Rule, finding: Finding) -> str:
    """How many inputs the rule had where a claim was decided; a witness shows its own number."""
    if rule.kind not in LISTS or finding.verdict == REFUTED:
        return ""
    numbers: Collection[int] = counts(rule.kind)
    if finding.claim in REWRITES:
        numbers = inputs_in(finding.claim, tuple(rule_set(rule).instead))
    *first, last = map(str, sorted(numbers))
    return f", for {' and '.join(filter(None, (', '.join(first), last)))} inputs"


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(line, 80, initial_indent=indent, subsequent_indent="    ")


@cache
def inputs_in(rewrite: str, operations: tuple[str, ...]) -> set[int]:
    """How many inputs these operations have where the lemma of a rewrite is decided."""
    graphs = [(t, g) for t in TEMPLATES[rewrite] for g in (t.root, *REWRITES[rewrite](t.root))]
    found = (evaluate(graph, template.symbols()) for template, graph in graphs)
    return {
        values[node.args[0]].cols for values in found for node in values if node.op in operations
    }

"""The proof of a statement about an explanation: a theorem, or a rewrite under a method's rules."""

from collections.abc import Iterator

from lrp_axioms.axioms.evidence.prove import TURN
from lrp_axioms.axioms.pages import show
from lrp_axioms.axioms.rewrites.rewrites import REWRITES
from lrp_axioms.axioms.scoreboard import scoreboard
from lrp_axioms.axioms.scoreboard.rule_sets import RuleSet
from lrp_axioms.axioms.scoreboard.witness import rewritten
from lrp_axioms.benchmarks.commands.console import check_names
from lrp_axioms.numeric.methods.catalogue import METHODS, WITH_RULES


def text(name: str, method: str) -> str:
    """Decides a theorem by number, or a rewrite by name under a method's rules, as a text.

    Raises ValueError for an unknown theorem or rewrite, and for a method without rules.
    """
    if name not in REWRITES:
        with TURN:  # Python 3.11 parses sources in one thread at a time
            return show.text(show.page(name))
    check_names("method", [method], WITH_RULES)
    return "\n".join(_of_rewrite(name, method))


def _of_rewrite(name: str, method: str) -> Iterator[str]:
    composite = METHODS[method].composite
    found = scoreboard.decide(RuleSet(name=method, composite=composite), name, scoreboard.LIMIT)
    yield f"Rewrite: {name}"
    yield ""
    for template in REWRITES[name].templates:
        for other in rewritten(name, template.root)[:1]:
            yield f"  {template.root}  is written as  {other}"
    yield ""
    yield f"[{found.verdict}] By the rules of {method}, both get one explanation ({found.eps})."
    yield from [f"Witness: {found.witness}"] if found.witness else []
    yield ""
    yield "This was decided as the page opened, for whatever relevance arrives."
    yield "docs/SCOREBOARD.md says how, and has the verdicts of other rules."

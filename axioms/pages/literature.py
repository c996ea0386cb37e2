"""What the sources of rules say of them, beside the verdicts: ``docs/literature_rules.py``.

``python -m axioms.pages.literature`` writes the table of docs/LITERATURE.md.
"""

import runpy
from dataclasses import dataclass, replace
from pathlib import Path

import sympy as sp

from axioms import kinds
from axioms.own_rules.claims import NO_BIAS
from axioms.own_rules.properties import CONSERVES, claims
from axioms.own_rules.rules import Rule
from axioms.own_rules.settings import Setting
from axioms.own_rules.verdicts import verdict
from axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED, Verdict

DOCS = Path(__file__).resolve().parents[2] / "docs"
RULES, PAGE = DOCS / "literature_rules.py", DOCS / "LITERATURE.md"
START, END = "<!-- table -->\n", "\n<!-- /table -->"
CONFIRMED, OTHERWISE = "confirmed", "otherwise"


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a source says of a rule, and what is found."""

    rule: Rule
    said: str  # a verdict, or what absorbs relevance
    found: Verdict
    witness: str = ""  # that more is lost than is said to be absorbed

    @property
    def compared(self) -> str:
        """CONFIRMED, OTHERWISE or UNDECIDED."""
        if self.found.status == UNDECIDED:
            return UNDECIDED
        same = self.said == self.found.status or self.found.reason.startswith(f"{self.said} ")
        return CONFIRMED if same else OTHERWISE


def published() -> list[Published]:
    """Every published property of the rules in docs/literature_rules.py, in their order."""
    module = runpy.run_path(str(RULES))
    return [
        _compared(module[name], claim, said)
        for name, properties in module["PUBLISHED"].items()
        for claim, said in properties.items()
    ]


def _compared(rule: Rule, claim: str, said: str) -> Published:
    found = Published(rule=rule, said=said, found=verdict(rule, claim))
    if found.compared != OTHERWISE or "absorb" not in said:
        return found
    return replace(found, witness=_unconserved(rule))


def _unconserved(rule: Rule) -> str:
    """A small witness that more is lost than bias and stabiliser absorb; '' if there is none."""
    fixed = NO_BIAS if rule.kind == kinds.LINEAR else {}
    for count in rule.operation.counts:
        setting = Setting(claims(rule.kind)[CONSERVES], rule, count, fixed)
        for point in setting.points():
            if found := setting.witness(point, sp.Integer(0)):
                return found
    return ""


def table(rows: list[Published]) -> str:
    """A row for each property: rule, source, what is said, what is found."""
    lines = [["Rule", "Source", "Claim", "Published", "Found", "Verdict"], ["---"] * 6]
    for row in rows:
        source = " ".join((row.rule.function.__doc__ or "").split())
        claim = row.found.claim.replace("conserves relevance", "conserves")
        found = f"{row.found.status}: {row.witness}" if row.witness else _said(row.found)
        lines.append([f"`{row.rule.name}`", source, claim, row.said, row.compared, found])
    return "\n".join(f"| {' | '.join(x.replace('|', chr(92) + '|') for x in y)} |" for y in lines)


def _said(found: Verdict) -> str:
    """Without the formula of the relevance that is lost, which may take lines."""
    what, absorb, _ = found.reason.partition(" absorb")
    if absorb:
        detail = f"{what} absorb{'s' * (' and ' not in what)} the rest"
    else:
        detail = found.witness if found.status == REFUTED else ""
    scope = f", {found.scope}" if found.status in (PROVED, IN_LIMIT) else ""
    return f"{found.status}{scope}" + (f": {detail}" if detail else "")


def filled(page: str, rows: list[Published]) -> str:
    """The page with the table between its markers; ValueError for a page without them."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no line between {START.strip()} and {END.strip()}; add all three")
    return before + START + table(rows) + END + after


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), published()), "utf-8")
    print(PAGE)

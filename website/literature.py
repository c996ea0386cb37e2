"""Compares claims of the literature on its rules with verdicts: ``docs/literature_rules.py``.

``python -m website.literature`` writes the table of docs/LITERATURE.md.
"""

import runpy
from dataclasses import dataclass, replace

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.evidence.statements import ROOT
from lrp_axioms.axioms.own_rules.claims import NO_BIAS
from lrp_axioms.axioms.own_rules.properties import CONSERVES, claims
from lrp_axioms.axioms.own_rules.rules import Rule
from lrp_axioms.axioms.own_rules.settings import Setting
from lrp_axioms.axioms.own_rules.verdicts import verdict
from lrp_axioms.axioms.pages import markdown
from lrp_axioms.axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED, Verdict

RULES, PAGE = ROOT / "docs" / "literature_rules.py", ROOT / "docs" / "LITERATURE.md"
CONFIRMED, OTHERWISE = "confirmed", "otherwise"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A source's claim on a rule, beside the verdict."""

    rule: Rule
    said: str  # a verdict, or a cause of absorption
    found: Verdict
    witness: str = ""  # shows that more is lost than the source says

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
        _compare(module[name], claim, said)
        for name, properties in module["PUBLISHED"].items()
        for claim, said in properties.items()
    ]


def _compare(rule: Rule, claim: str, said: str) -> Published:
    found = Published(rule=rule, said=said, found=verdict(rule, claim))
    if found.compared != OTHERWISE or "absorb" not in said:
        return found
    return replace(found, witness=_loss_witness(rule))


def _loss_witness(rule: Rule) -> str:
    """A small witness that more is lost than bias and stabiliser absorb; '' if there is none."""
    fixed = NO_BIAS if rule.kind == kinds.LINEAR else {}
    for count in rule.operation.counts:
        setting = Setting(claims(rule.kind)[CONSERVES], rule, count, fixed)
        for point in setting.points():
            if found := setting.witness(point, sp.Integer(0)):
                return found
    return ""


def table(rows: list[Published]) -> str:
    """A row for each property: rule, source, claim, verdict."""
    lines = []
    for row in rows:
        source = " ".join((row.rule.function.__doc__ or "").split())
        claim = row.found.claim.replace("conserves relevance", "conserves")
        found = f"{row.found.status}: {row.witness}" if row.witness else _said(row.found)
        line = [f"`{row.rule.name}`", source, claim, row.said, row.compared, found]
        lines.append([text.replace("|", r"\|") for text in line])
    head = ["Rule", "Source", "Claim", "Published", "Found", "Verdict"]
    return markdown.table(head, lines, ["---"] * len(head))


def _said(found: Verdict) -> str:
    """Words a verdict without the formula of the lost relevance, which may take lines."""
    what, absorb, _ = found.reason.partition(" absorb")
    if absorb:
        detail = f"{what} absorb{'s' * (' and ' not in what)} the rest"
    else:
        detail = found.witness if found.status == REFUTED else ""
    scope = f", {found.scope}" if found.status in (PROVED, IN_LIMIT) else ""
    return f"{found.status}{scope}" + (f": {detail}" if detail else "")


def filled(page: str, rows: list[Published]) -> str:
    """The page with the table of ``rows``."""
    return markdown.fill(page, {"table": table(rows)})


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), published()), "utf-8")
    print(PAGE)

"""The scoreboard as a page: the table, and the witnesses of its refuted cells.

``python -m axioms.pages.scoreboard`` computes them and writes them into docs/SCOREBOARD.md.
"""

from lrp_axioms.axioms.evidence.statements import ROOT
from lrp_axioms.axioms.pages import markdown
from lrp_axioms.axioms.scoreboard.scoreboard import (
    NOT_APPLICABLE,
    ON_TEMPLATES,
    OPEN,
    PROVED,
    REFUTED,
    Cell,
    on_attention,
    on_units,
    scoreboard,
)

ATTENTION = "attention "  # the board of rewrites of softmax attention
UNITS = "units "  # the board of rewrites of gated units, norms and recurrences
PAGE = ROOT / "docs" / "SCOREBOARD.md"

SHORT = {PROVED: "✓", ON_TEMPLATES: "(✓)", REFUTED: "✗", NOT_APPLICABLE: "–", OPEN: "?"}


def as_markdown(cells: tuple[Cell, ...]) -> str:
    """The table: a row per rewrite, a column per rule set, one mark if both regimes agree."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        mark = SHORT[cell.verdict] + (f" ({cell.theorem})" if cell.theorem else "")
        found.setdefault((cell.rewrite, cell.rule_set), []).append(mark)
    columns = list(dict.fromkeys(cell.rule_set for cell in cells))
    rows = [
        [rewrite, *(" / ".join(dict.fromkeys(found[rewrite, column])) for column in columns)]
        for rewrite in dict.fromkeys(cell.rewrite for cell in cells)
    ]
    return markdown.table(["Rewrite", *columns], rows)


def witnesses(cells: tuple[Cell, ...]) -> str:
    """The refutations as a list, one entry for all rule sets and regimes that share a witness."""
    shared: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        if cell.witness:
            who = shared.setdefault(cell.rewrite, {}).setdefault(cell.witness, [])
            who.append(f"{cell.rule_set}, {cell.eps}")
    lines = []
    for rewrite, found in shared.items():
        lines.append(f"\n### {rewrite[0].upper()}{rewrite[1:]}\n")
        lines += [f"- {'; '.join(who)}: {witness}." for witness, who in found.items()]
    return "\n".join(lines).strip()


def filled(page: str, cells: tuple[Cell, ...], *, of: str = "") -> str:
    """``page`` with the table and the witnesses of the ``cells`` of a board."""
    parts = {f"{of}scoreboard": as_markdown(cells), f"{of}witnesses": witnesses(cells)}
    return markdown.fill(page, parts)


if __name__ == "__main__":
    written = filled(PAGE.read_text("utf-8"), scoreboard())
    written = filled(written, on_attention(), of=ATTENTION)
    PAGE.write_text(filled(written, on_units(), of=UNITS), "utf-8")
    print(PAGE)

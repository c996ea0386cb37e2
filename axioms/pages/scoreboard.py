"""The scoreboard as a page: the table, and the witnesses of what it refutes.

``python -m axioms.pages.scoreboard`` computes them and writes them into docs/SCOREBOARD.md.
"""

from pathlib import Path

from axioms.scoreboard.scoreboard import (
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
UNITS = "units "  # that of rewrites of gated units, norms and recurrences
PAGE = Path(__file__).resolve().parents[2] / "docs" / "SCOREBOARD.md"

SHORT = {PROVED: "✓", ON_TEMPLATES: "(✓)", REFUTED: "✗", NOT_APPLICABLE: "–", OPEN: "?"}


def as_markdown(cells: tuple[Cell, ...]) -> str:
    """The table: a row per rewrite, a column per rule set, one mark if both regimes agree."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        mark = SHORT[cell.verdict] + (f" ({cell.theorem})" if cell.theorem else "")
        found.setdefault((cell.rewrite, cell.rule_set), []).append(mark)
    columns = list(dict.fromkeys(cell.rule_set for cell in cells))
    lines = [["Rewrite", *columns], ["---", *[":-:"] * len(columns)]]
    for rewrite in dict.fromkeys(cell.rewrite for cell in cells):
        marks = (dict.fromkeys(found[rewrite, column]) for column in columns)
        lines.append([rewrite, *(" / ".join(mark) for mark in marks)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def witnesses(cells: tuple[Cell, ...]) -> str:
    """The refutations as a list, one entry for all rule sets and regimes that share a witness."""
    shared: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.witness:
            shared.setdefault((cell.rewrite, cell.witness), []).append(
                f"{cell.rule_set}, {cell.eps}"
            )
    lines, last = [], None
    for (rewrite, witness), who in shared.items():
        lines += [] if rewrite == last else [f"\n### {rewrite[0].upper()}{rewrite[1:]}\n"]
        lines += [f"- {'; '.join(who)}: {witness}."]
        last = rewrite
    return "\n".join(lines).strip()


def filled(page: str, cells: tuple[Cell, ...], *, of: str = "") -> str:
    """``page`` with the table and the witnesses of ``cells`` between the markers ``of`` a board.

    Raises ValueError for a page without these markers.
    """
    parts = {f"{of}scoreboard": as_markdown(cells), f"{of}witnesses": witnesses(cells)}
    for name, part in parts.items():
        start, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        if not 0 <= page.find(start) < page.find(end):
            raise ValueError(f"no {start.strip()} before {end.strip()}; add both lines to the page")
        before, _, rest = page.partition(start)
        page = before + start + part + end + rest.partition(end)[2]
    return page


if __name__ == "__main__":
    written = filled(PAGE.read_text("utf-8"), scoreboard())
    written = filled(written, on_attention(), of=ATTENTION)
    PAGE.write_text(filled(written, on_units(), of=UNITS), "utf-8")
    print(PAGE)

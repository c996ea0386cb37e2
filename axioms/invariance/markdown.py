"""The scoreboard as a page: the table, and the witnesses of what it refutes."""

from axioms.invariance.scoreboard import NOT_APPLICABLE, ON_TEMPLATES, OPEN, PROVED, REFUTED, Cell

SHORT = {PROVED: "✓", ON_TEMPLATES: "(✓)", REFUTED: "✗", NOT_APPLICABLE: "–", OPEN: "?"}


def as_markdown(cells: tuple[Cell, ...]) -> str:
    """The table: a row per rewrite, a column per rule set, one mark if both regimes agree."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        found.setdefault((cell.rewrite, cell.rule_set), []).append(SHORT[cell.verdict])
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

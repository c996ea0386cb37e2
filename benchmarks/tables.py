"""Results as tables of text: one list of columns per experiment, for terminal and HTML alike."""

from collections.abc import Callable

from rich import box
from rich.table import Table

from benchmarks.experiment import Result

Column = tuple[str, Callable[[dict], str]]


def _text(key):
    return lambda row: str(row[key])


def _number(key, digits=3):
    return lambda row: "–" if row[key] is None else f"{row[key]:.{digits}f}"


def _interval(key, digits=3):
    def cell(row):
        mean, low, high = (row[k] for k in (key, f"{key} low", f"{key} high"))
        missing = row.get(f"{key} undefined", 0)
        note = f" ({missing} undefined)" if missing else ""
        return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{note}"

    return cell


COLUMNS: dict[str, list[Column]] = {
    "theorems": [
        ("no.", _text("number")),
        ("statement", _text("statement")),
        ("verdict", _text("verdict")),
        ("witness, or method of proof", lambda row: row["witness"] or row["method"] or "–"),
    ],
    "table1": [
        ("explainer", _text("explainer")),
        ("maps compared", _text("pair")),
        ("r, raw", _interval("r raw")),
        ("r, sum to one", _interval("r sum to one")),
        ("raw, range over seeds", _text("range")),
        ("paper", _number("paper r", 4)),
    ],
    "table2": [
        ("method", _text("method")),
        ("r, all tokens", _interval("r all")),
        ("r, content tokens", _interval("r content")),
        ("r, all, sum to one", _number("r all, sum to one")),
        ("LeRF", _number("LeRF", 2)),
        ("MoRF", _number("MoRF", 2)),
        ("Δ", _number("Δ", 2)),
        ("paper r", _number("paper r", 2)),
        ("paper LeRF", _number("paper LeRF", 2)),
        ("paper MoRF", _number("paper MoRF", 2)),
        ("paper Δ", _number("paper Δ", 2)),
    ],
    "figure2": [
        ("layer", lambda row: str(row["layer"] or "none: AttnLRP")),
        ("order", _text("order")),
        ("layers changed", _text("layers")),
        ("r, all tokens", _number("r all")),
        ("r, content tokens", _number("r content")),
        ("r, all, sum to one", _number("r all, sum to one")),
    ],
    "time": [
        ("tokens", _text("tokens")),
        ("gradient, ms", _number("gradient ms", 1)),
        ("AttnLRP, ms", _number("attnlrp ms", 1)),
        ("CP-LRP, ms", _number("cp-lrp ms", 1)),
        ("LOO, ms", _number("loo ms", 1)),
        (
            "LOO / AttnLRP",
            lambda row: f"{row['LOO / AttnLRP']:.1f} [{row['low']:.1f}, {row['high']:.1f}]",
        ),
    ],
}
"""Per experiment: header, and how a row of the result becomes a cell."""


def cells(result: Result) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the table, as text."""
    columns = COLUMNS[result.name]
    return [header for header, _ in columns], [[f(row) for _, f in columns] for row in result.rows]


def terminal(result: Result) -> Table:
    """The table for a terminal, numbers to the right."""
    headers, rows = cells(result)
    table = Table(title=result.title, box=box.SIMPLE_HEAD, title_justify="left")
    for n, header in enumerate(headers):
        numeric = all(row[n][:1].isdigit() or row[n][:1] in "–-" for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table

"""Results as tables of text: one list of columns per experiment, for terminal and HTML alike."""

from collections.abc import Callable

from rich import box
from rich.table import Table

from benchmarks.experiment import Result

Column = tuple[str, Callable[[dict], str]]


def _text(key):
    return lambda row: str(row[key])


def _number(key, digits=3):
    return lambda row: f"{row[key]:.{digits}f}"


def _interval(key, digits=3):
    """Mean and interval; the paper gives no interval, and some values are undefined."""

    def cell(row):
        missing = row.get(f"{key} undefined", 0)
        note = f" ({missing} undefined)" if missing else ""
        return f"{row[key]:.{digits}f} [{row[f'{key} low']:.2f}, {row[f'{key} high']:.2f}]{note}"

    return cell


def _or_dash(cell):
    """A dash where the row, such as the paper's, has no such value."""

    def safe(row):
        try:
            return cell(row)
        except KeyError:
            return "–"

    return safe


COLUMNS: dict[str, list[Column]] = {
    "theorems": [
        ("no.", _text("number")),
        ("statement", _text("statement")),
        ("verdict", _text("verdict")),
        ("witness, or method of proof", lambda row: row["witness"] or row["method"]),
    ],
    "table1": [
        ("maps compared", lambda row: f"{row['explainer']} {row['pair'].replace(' vs ', '–')}"),
        ("r, raw", _interval("r raw")),
        ("over seeds", _text("range")),
        ("r, sum to one", _interval("r sum to one")),
        ("paper", _number("paper r", 4)),
    ],
    "table2": [
        ("method", _text("method")),
        ("r, all tokens", _interval("r all")),
        ("r, content tokens", _interval("r content")),
        ("r, sum to one", _number("r all, sum to one")),
        ("LeRF", _number("LeRF", 2)),
        ("MoRF", _number("MoRF", 2)),
        ("Δ", _number("Δ", 2)),
    ],
    "figure2": [
        ("layer", lambda row: str(row["layer"] or "–")),
        ("layers bypassed", _text("order")),
        ("count", _text("layers")),
        ("r, all tokens", _number("r all")),
        ("r, content tokens", _number("r content")),
        ("r, sum to one", _number("r all, sum to one")),
    ],
    "time": [
        ("tokens", _text("tokens")),
        ("gradient, ms", _number("gradient ms", 1)),
        ("AttnLRP, ms", _number("attnlrp ms", 1)),
        ("CP-LRP, ms", _number("cp-lrp ms", 1)),
        ("LOO, ms", _number("loo ms", 1)),
        ("LOO / AttnLRP", _text("ratio")),
    ],
}
"""Per experiment: header, and how a row of the result becomes a cell."""


def cells(result: Result) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the table, as text."""
    columns = COLUMNS[result.name]
    rows = [[_or_dash(cell)(row) for _, cell in columns] for row in result.rows]
    return [header for header, _ in columns], rows


def terminal(result: Result) -> Table:
    """The table for a terminal, numbers to the right."""
    headers, rows = cells(result)
    table = Table(title=result.title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for n, header in enumerate(headers):
        numeric = all(row[n][:1].isdigit() or row[n][:1] in "–-" for row in rows)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table

"""Results as tables of text: one list of columns per experiment, for terminal and HTML alike."""

import math
import re
from collections.abc import Callable

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.experiment import Result

DASH = "–"  # no such value

Column = tuple[str, Callable[[dict], str]]


def _text(key):
    return lambda row: str(row[key])


def _number(key, digits=3):
    return lambda row: DASH if math.isnan(row[key]) else f"{row[key]:.{digits}f}"


def _interval(key, digits=3):
    mean = _number(key, digits)
    ends = lambda row: f"[{row[f'{key} low']:.{digits}f}, {row[f'{key} high']:.{digits}f}]"
    return lambda row: DASH if mean(row) == DASH else f"{mean(row)} {ends(row)}"


def _or_dash(cell):
    """A dash where the row, such as the paper's, has no such value."""

    def safe(row):
        try:
            return cell(row)
        except KeyError:
            return DASH

    return safe


COLUMNS: dict[str, list[Column]] = {
    "theorems": [
        ("no.", _text("label")),
        ("statement", _text("statement")),
        ("verdict", _text("verdict")),
        ("witness, or method of proof", lambda row: row["witness"] or row["method"]),
    ],
    "table1": [
        ("maps compared", lambda row: f"{row['explainer']} {row['pair'].replace(' vs ', '–')}"),
        ("r, raw", _interval("r raw")),
        ("over seeds", _text("range")),
        ("r, sum\nto one", _interval("r sum to one")),
        ("paper", _number("paper r", 4)),
    ],
    "table2": [
        ("method", _text("method")),
        ("r, all\ntokens", _interval("r all")),
        ("r, content\ntokens", _interval("r content")),
        ("r, sum\nto one", _number("r all, sum to one")),
        ("LeRF", _number("LeRF", 2)),
        ("MoRF", _number("MoRF", 2)),
        ("Δ", _number("Δ", 2)),
    ],
    "figure2": [
        ("layer", lambda row: str(row["layer"] or DASH)),
        ("bypassed", _text("order")),
        ("count", _text("layers")),
        ("r, all\ntokens", _number("r all")),
        ("r, content\ntokens", _number("r content")),
        ("r, sum\nto one", _number("r all, sum to one")),
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
    """The table for a terminal of 80 columns, numbers to the right."""
    headers, rows = cells(result)
    table = Table(
        title=result.title,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for n, (header, right) in enumerate(zip(headers, numeric(rows), strict=True)):
        width = max(len(row[n]) for row in rows) if right else None  # rather wrap its header
        table.add_column(Text(header), justify="right" if right else "left", min_width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def numeric(rows: list[list[str]]) -> list[bool]:
    """Which columns hold numbers alone."""
    number = re.compile(rf"-?\d|{DASH}")
    return [all(map(number.match, column)) for column in zip(*rows, strict=True)]

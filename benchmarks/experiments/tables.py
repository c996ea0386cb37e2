"""Results as tables of text, for terminal and HTML alike."""

import html
import re
from collections.abc import Callable

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from lrp_axioms.benchmarks.experiments.record import DASH, experiment
from lrp_axioms.benchmarks.experiments.result import Result

Rows = Callable[[dict], bool]
"""Chooses the rows of a long table that are shown."""


def cells(result: Result, *, only: Rows | None = None) -> tuple[list[str], list[list[str]]]:
    """Returns headers and rows as text: the rows that ``only`` chooses, or all if it chooses none.

    A dash stands where a row, such as the paper's, lacks a value.
    """
    record = experiment(result.table)
    shown = (list(filter(only, result.rows)) if only else []) or result.rows
    columns = [(header, [_cell(x, row) for row in shown]) for header, x in record.columns]
    if record.drops_empty:
        columns[1:] = [x for x in columns[1:] if any(x[1])]
    rows = zip(*(x for _, x in columns), strict=True)
    return [x for x, _ in columns], [[DASH if x is None else x for x in row] for row in rows]


def _cell(cell, row):
    """Formats a value of a row; None if the row lacks it."""
    try:
        return cell(row)
    except KeyError:
        return None


def markdown(result: Result) -> str:
    """Renders the short table as Markdown."""
    headers, rows = cells(result, only=experiment(result.table).short)
    right = numeric(rows, len(headers))
    lines = [[" ".join(header.split()) for header in headers]]
    lines += [["--:" if n else "---" for n in right], *rows]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(text: str) -> str:
    """Escapes ``text`` as one line of a Markdown cell, without tags and pictures."""
    one_line = html.escape(" ".join(text.splitlines()), quote=False)
    return re.sub(r"[|`]|](?=[(\[:])", r"\\\g<0>", one_line)


def terminal(result: Result, *, whole: bool = False) -> Group:
    """Renders title and table for a terminal, numbers to the right; ``whole``: with every row."""
    record = experiment(result.table)
    headers, rows = cells(result, only=None if whole else record.shortest or record.short)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for n, (header, right) in enumerate(zip(headers, numeric(rows, len(headers)), strict=True)):
        # Where a table is too wide, words are wrapped, and folded if they must; numbers never.
        widths = [len(line) for row in rows if right for line in row[n].split("\n")]
        width, side = max(widths, default=None), "right" if right else "left"
        options = {"min_width": width, "no_wrap": right, "overflow": "fold"}
        table.add_column(Text(header), justify=side, **options)
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(Text(result.title, style="table.title"), table)  # which a Table would wrap


def numeric(rows: list[list[str]], columns: int) -> list[bool]:
    """Marks the columns that hold numbers alone."""
    number = re.compile(rf"[-+]?\d|{DASH}")
    return [all(number.match(row[n]) for row in rows) for n in range(columns)]

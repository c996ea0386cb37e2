"""Reads the marks of docs/SCOREBOARD.md, which another test compares with a computation."""

from axioms.pages.scoreboard import PAGE
from axioms.scoreboard.scoreboard import FINITE, LIMIT


def marks(column):
    """Rewrite -> its marks in the limit and at a finite epsilon; one mark may stand for both."""
    table = PAGE.read_text("utf-8").split("scoreboard -->")[1]
    head, _, *rows = (line.strip("| ").split(" | ") for line in table.strip().splitlines()[:-1])
    cells = {row[0]: row[head.index(column)].split(" / ") for row in rows}
    return {name: {LIMIT: mark[0], FINITE: mark[-1]} for name, mark in cells.items()}

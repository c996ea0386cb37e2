"""How a value of a row becomes a cell: what the columns of several tables are made of."""

import math
from collections.abc import Callable

DASH = "–"  # no such value

Column = tuple[str, Callable[[dict], str]]
"""A header, and how a row of a Result becomes a cell."""


def value(key):
    return lambda row: str(row[key])


def number(key, digits=3):
    return lambda row: DASH if math.isnan(row[key]) else f"{row[key]:z.{digits}f}"


def interval(key, digits=3, *, ends=2):
    """A mean and the ends of its interval, which need no leading zero; a mean alone if exact."""
    mean = number(key, digits)
    end = lambda value: f"{value:z.{ends}f}".replace("0.", ".", 1 if abs(value) < 1 else 0)

    def cell(row):
        low, high = row[f"{key} low"], row[f"{key} high"]
        exact = mean(row) == DASH or low == high
        return mean(row) if exact else f"{mean(row)} [{end(low)}, {end(high)}]"

    return cell


def above_interval(key, *, one="1.00"):
    """A value with its interval in the line below, for narrow columns; ``one`` is an end at 1."""

    def cell(row):
        ends = (f"{row[f'{key} {end}']:z.2f}".replace("0.", ".", 1) for end in ("low", "high"))
        return f"{row[key]:z.2f}\n{'–'.join(ends).replace('1.00', one)}"

    return cell

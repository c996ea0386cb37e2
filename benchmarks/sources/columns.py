"""Where the columns that are asked for stand in a record."""

from collections.abc import Sequence

from lrp_axioms.benchmarks.sources.faults import some


class ColumnError(ValueError):
    """A column that is not there, or more than once."""


class MissingColumn(ColumnError):
    """A column that is not there."""


class RepeatedColumn(ColumnError):
    """A column that is there more than once."""


def places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Returns each column's index in ``names``; ColumnError for a missing or repeated column."""
    for column in columns:
        if (count := names.count(column)) > 1:
            raise RepeatedColumn(f"{count} columns {column!r}")
        if not count:
            there = [name if name == name.strip() != "" else repr(name) for name in names]
            raise MissingColumn(f"no column {column!r}, only {some(there) or 'none'}")
    return [names.index(column) for column in columns]

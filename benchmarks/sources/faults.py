"""Collects the faults of texts, with their places, in one error; finds columns of records."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lrp_axioms.numeric.spelling import SHOWN, some, text_fault


class Faults:
    """Faults of records: the first few places of each kind, and how many there are."""

    def __init__(self, unit: str):
        self.unit, self.found, self.others = unit, {}, 0

    def add(self, wrong: str, line: int) -> None:
        if wrong not in self.found and len(self.found) == SHOWN:
            self.others += 1
        else:
            first, count = self.found.setdefault(wrong, ([], 0))
            first += [line] if count < SHOWN else []
            self.found[wrong] = first, count + 1

    def check(self, place: Path | str, advice: str) -> None:
        """Raises ValueError that lists all faults, if there are any."""
        said = [
            f"{what} in {self.unit}{'s'[: count > 1]} {some(first, count)}"
            for what, (first, count) in self.found.items()
        ]
        if self.others:
            said.append(f"something else in {self.others} {self.unit}{'s'[: self.others > 1]}")
        if said:
            raise ValueError(f"{place}: {'; '.join(said)}; {advice}")


def sound(values: Iterable, name: str, *, unit: str, advice: str) -> Iterator[str]:
    """Yields values that can be explained as texts.

    Raises ValueError that lists all others; after the first of them nothing more is yielded.
    """
    faults = Faults(unit)
    for number, value in enumerate(values, 1):
        if wrong := text_fault(value):
            faults.add(wrong, number)
        elif not faults.found:
            yield value
    faults.check(name, advice)


def check_sentence(text: str) -> None:
    """Raises ValueError for a typed text that cannot be explained."""
    if fault := text_fault(text):
        raise ValueError(f'{fault} in {text!r}: pass a sentence in UTF-8, such as "a fine film"')


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

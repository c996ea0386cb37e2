"""The record at the end of every experiment's module, its columns, and a request."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lrp_axioms.benchmarks.experiments.result import Result
from lrp_axioms.benchmarks.names import EXPERIMENTS
from lrp_axioms.benchmarks.running.workers import (
    IN_PROCESS,
    Each,
    Engine,
    Track,
    in_turn,
    untracked,
)

if TYPE_CHECKING:  # who only shows results needs neither texts nor models
    from lrp_axioms.benchmarks.sources.data import Texts
    from lrp_axioms.benchmarks.sources.models import Classifier


DASH = "–"  # no such value

Column = tuple[str, Callable[[dict], str]]
"""A header, and how a row of a Result becomes a cell."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A user's wishes: data, sizes and workers; each experiment takes the fields that it needs."""

    classifier: "Classifier"
    data: "Texts"
    output: Path
    data_dir: Path | None = None
    longest: int | None = None  # tokens of a text that is timed; None: as the experiment says
    prompts: int | None = None  # of a task and distance, or pairs of a model, likewise
    curves: bool = True  # whether all mixes of Figure 2 get their curves
    engine: Engine = IN_PROCESS  # where shards of texts are measured
    each: Each = in_turn  # shares out all other work
    track: Track = untracked


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table: its files, its computation, its columns and figure, and its findings.

    ``rows``: patterns of the files of ``configs`` by data set, whose stored maps ``run`` gets;
    without any it gets the Request, and the result of ``prepare``.  ``measure``: computes a shard
    of texts for rows of its own that hold no maps.  ``prepare`` runs before any measurement, and
    raises for an impossible request.  ``short`` and ``shortest``: choose rows of a long table for a
    page and a terminal (None: all, and as on a page).  ``figure``: a matplotlib Figure of a Result.
    ``summary``: first sentences for a reader of a Result.
    """

    name: str
    columns: Sequence[Column]
    run: Callable[..., Result] | None = None  # None: a command of its own runs it
    rows: tuple[str, ...] = ()
    measure: Callable[..., dict[str, list]] | None = None
    reads_data_dir: bool = False  # whether --data-dir is about its data, not only about texts
    in_markdown: bool = True  # whether report.md has its table
    drops_empty: bool = False  # whether columns without any value, but the first, are left out
    prepare: Callable[[Request], Mapping] = lambda request: {}
    short: Callable[[dict], bool] | None = None
    shortest: Callable[[dict], bool] | None = None
    figure: Callable | None = None
    summary: Callable[[Result], Iterable[str]] = lambda result: ()


def experiment(name: str) -> Experiment:
    """Imports the module of a table and returns its record."""
    return import_module(f"lrp_axioms.benchmarks.experiments.{EXPERIMENTS[name]}").EXPERIMENT


def value(key):
    return lambda row: str(row[key])


def number(key, digits=3):
    return lambda row: DASH if math.isnan(row[key]) else f"{row[key]:z.{digits}f}"


def percent(key):
    return lambda row: DASH if math.isnan(row[key]) else f"{row[key]:.0%}"


def interval(key, digits=3, *, ends=2):
    """Formats a mean and its interval, ends without a leading zero; a mean alone if exact."""
    mean = number(key, digits)
    end = lambda value: f"{value:z.{ends}f}".replace("0.", ".", 1 if abs(value) < 1 else 0)

    def cell(row):
        low, high = row[f"{key} low"], row[f"{key} high"]
        exact = mean(row) == DASH or low == high
        return mean(row) if exact else f"{mean(row)} [{end(low)}, {end(high)}]"

    return cell


def above_interval(key, *, one="1.00"):
    """Formats a value above its interval, for narrow columns; ``one`` is an end at 1."""

    def cell(row):
        ends = (f"{row[f'{key} {end}']:z.2f}".replace("0.", ".", 1) for end in ("low", "high"))
        return f"{row[key]:z.2f}\n{'–'.join(ends).replace('1.00', one)}"

    return cell

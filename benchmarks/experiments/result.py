"""The result of an experiment, written as JSON with provenance, and as Parquet."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lrp_axioms.axioms import schema
from lrp_axioms.axioms.writing import remove_drafts, write_atomically
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.running.provenance import provenance


@dataclass(frozen=True, kw_only=True)
class Record:
    """Fields of a result in its file."""

    name: str  # file name, such as "table2-sst2"
    table: str  # which table it is, such as "table2"
    title: str
    text: str  # describes the numbers and their units to a reader of the paper
    settings: dict[str, Any]  # all that determines the numbers
    rows: list[dict[str, Any]]  # the table; NaN where a value is undefined
    notes: tuple[str, ...]  # findings, in sentences computed from the values
    seconds: float
    provenance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """One experiment's answer: a table to read, and the per-example values behind it."""

    examples: dict[str, list] = field(default_factory=dict)  # columns, one value per example
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    provenance: dict[str, Any] = field(default_factory=provenance)

    def write(self, folder: Path) -> None:
        """Writes ``name``.json in ``folder``, and .parquet if there are per-example values."""
        remove_drafts(folder)
        record = {key: value for key, value in vars(self).items() if key != "examples"}
        record["rows"] = [{key: _plain(value) for key, value in row.items()} for row in self.rows]
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        write_atomically(folder / f"{self.name}.json", text.encode())
        if self.examples:
            write = partial(pq.write_table, pa.table(self.examples), write_page_checksum=True)
            write_atomically(folder / f"{self.name}.parquet", write)


def read(path: Path) -> Result:
    """Reads a Result that ``write`` left, without its per-example values.

    Raises RunError that names the file if it holds no Result.
    """
    try:
        record = schema.read(path, Record, "result of this program")
    except ValueError as error:
        raise RunError(f"{error}; remove it, or run the experiment again") from error
    rows = [
        {k: math.nan if v is None and k != "layer" else v for k, v in row.items()}
        for row in record.rows
    ]
    return Result(**vars(record) | {"rows": rows})


def joined(parts: Iterable[Mapping[str, list]]) -> dict[str, list]:
    """Joins the columns of several parts, one part below the other."""
    columns: dict[str, list] = {}
    for part in parts:
        for key, values in part.items():
            columns.setdefault(key, []).extend(values)
    return columns


def undefined(rows: list[dict]) -> tuple[str, ...]:
    """Counts examples that the means leave out, from columns "... undefined", in sentences."""
    counts: dict[str, int] = {}
    for row in rows:
        for key, count in row.items():
            if key.endswith(" undefined"):
                counts[key] = max(count, counts.get(key, 0))
    return tuple(
        f"{key} in up to {count} examples (a constant map, or fewer than two tokens): left out of "
        "its means."
        for key, count in counts.items()
        if count
    )


def _plain(value):
    """Returns None for NaN, which JSON lacks."""
    return None if isinstance(value, float) and math.isnan(value) else value

"""Resumable runs: shards of examples as Parquet parts, so that a kill at any moment loses little.

A folder belongs to one record (what is computed, on which weights and texts).  Each part is
written under another name, synced, and renamed: it is there completely or not at all.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engines import IN_PROCESS, Engine, Measure
from benchmarks.errors import RunError
from benchmarks.experiment import Track, provenance, untracked, write_atomically

RECORD = "record.json"
log = logging.getLogger(__name__)


def run(
    folder: Path,
    record: dict,
    shards: Sequence[Sequence[int]],
    measure: Measure,
    *,
    engine: Engine = IN_PROCESS,
    track: Track = untracked,
) -> pa.Table:
    """All rows of ``measure``, shard by shard; what ``folder`` already holds is not computed again.

    ``shards``: the numbers of the examples of each part.  ``measure`` of one shard returns
    columns, among them "example".  ``engine``: where it is called; parts are written here, each as
    it arrives, in any order.  The log says when a run is resumed.
    Raises RunError for a folder of another record, naming what differs, and for a part that is
    truncated or holds other examples.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claim(folder, record)
    missing = [n for n, shard in enumerate(shards) if _load(_part(folder, n), shard) is None]
    if 0 < len(missing) < len(shards):
        there = len(shards) - len(missing)
        log.info("%s resumed: %d of %d parts were there", folder.name, there, len(shards))
    with closing(engine.measure(measure, {n: shards[n] for n in missing})) as tables:
        for _, (n, table) in zip(track(missing, folder.name), tables, strict=False):
            write_atomically(_part(folder, n), partial(pq.write_table, table))
    return read(folder, shards)


def claim(folder: Path, record: dict) -> None:
    """Makes ``folder`` that of ``record``; RunError names what differs if it is another's."""
    path = folder / RECORD
    record = json.loads(json.dumps(record))  # as JSON gives it back
    if not path.exists():
        text = json.dumps({"record": record, "provenance": provenance()}, indent=2) + "\n"
        write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return
    try:
        old = _flat(json.loads(path.read_text(encoding="utf-8"))["record"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is broken ({error}); remove {folder} and run again") from error
    new = _flat(record)
    differ = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    if differ:
        lines = [f"\n  {key}: {old.get(key)!r} there, {new.get(key)!r} now" for key in differ]
        raise RunError(
            f"{folder} holds results of another configuration, which are not mixed:"
            f"{''.join(lines)}\nPass another --output, or remove that folder."
        )


def _flat(record: dict, prefix: str = "") -> dict:
    """One entry per value, such as "variants.CP-LRP.method"."""
    flat = {}
    for key, value in record.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat


def read(folder: Path, shards: Iterable[Sequence[int]]) -> pa.Table:
    """All parts as one table; RunError if one is missing or holds other examples."""
    tables = []
    for n, shard in enumerate(shards):
        table = _load(_part(folder, n), shard)
        if table is None:
            raise RunError(f"{_part(folder, n)} is missing: the run is not complete; run it again")
        tables.append(table)
    return pa.concat_tables(tables)


def commits(folder: Path) -> list[str]:
    """The commits whose code wrote the parts of a folder."""
    parts = sorted(folder.glob("part-*.parquet"))
    made = [json.loads(pq.read_schema(path).metadata[b"provenance"]) for path in parts]
    return sorted({str(one["commit"]) for one in made})


def _part(folder, n):
    return folder / f"part-{n:05d}.parquet"


def _load(path, shard):
    """A part, or None if it is not there; RunError if it is not that of ``shard``."""
    if not path.exists():
        return None
    try:
        table = pq.read_table(path).replace_schema_metadata()
        examples = table["example"].to_pylist()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise RunError(
            f"{path} is truncated or broken ({error}); remove this file and run again"
        ) from error
    times = max(len(examples) // len(shard), 1)
    if sorted(examples) != sorted([*shard] * times):
        raise RunError(
            f"{path} holds other examples than the {len(shard)} of its shard, or some more often; "
            "remove this file and run again"
        )
    return table

"""Resumable runs: shards of examples as Parquet parts, so that a kill at any moment loses little.

A folder belongs to one record (what is computed, on which weights and texts), and so does each
part, which holds the record's digest.  A part is written under another name, synced, and renamed:
it is there completely or not at all.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.errors import RunError
from benchmarks.running.engines import IN_PROCESS, Engine, Measure
from benchmarks.running.progress import Track, untracked
from benchmarks.running.provenance import provenance
from benchmarks.running.writing import remove_drafts, write_atomically

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
    digest = claim(folder, record)
    missing = [
        n for n, shard in enumerate(shards) if _load(_part(folder, n), shard, digest) is None
    ]
    if 0 < len(missing) < len(shards):
        there = len(shards) - len(missing)
        log.info("%s resumed: %d of %d parts were there", folder.name, there, len(shards))
    with closing(engine.measure(measure, {n: shards[n] for n in missing})) as tables:
        for _, (n, table) in zip(track(missing, folder.name), tables, strict=False):
            write_part(_part(folder, n), table, digest)
    return read(folder, shards, digest)


def claim(folder: Path, record: dict) -> str:
    """Makes ``folder`` that of ``record``, whose digest it returns, and removes abandoned drafts.

    Of several processes that claim a folder at once, one makes the record.  Raises RunError that
    names what differs if the folder is another record's, or the parts in it that are.
    """
    path = folder / RECORD
    record = json.loads(json.dumps(record))  # as JSON gives it back
    digest = _digest(record)
    if path.exists():
        _compare(path, record)
    for part in sorted(folder.glob("part-*.parquet")):
        read_part(part, digest, columns=[])
    if not path.exists():
        text = json.dumps({"record": record, "provenance": provenance()}, indent=2) + "\n"
        with suppress(FileExistsError):
            write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"), new=True)
        _compare(path, record)
    remove_drafts(folder)
    return digest


def _digest(record):
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _compare(path, record):
    """Raises RunError if another record is at ``path``."""
    folder = path.parent
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


def write_part(path: Path, table: pa.Table, digest: str) -> None:
    """A table with the digest of the record that it belongs to."""
    metadata = (table.schema.metadata or {}) | {b"record": digest.encode()}
    table = table.replace_schema_metadata(metadata)
    write_atomically(path, partial(pq.write_table, table))


def read_part(path: Path, digest: str, *, columns: list[str] | None = None) -> pa.Table:
    """What ``write_part`` wrote; RunError if it is broken, or not a part of this record."""
    try:
        table = pq.ParquetFile(path).read(columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise RunError(
            f"{path} is truncated or broken ({error}); remove this file and run again"
        ) from error
    if (table.schema.metadata or {}).get(b"record") != digest.encode():
        raise RunError(
            f"{path} is not of the configuration of this run (record {digest[:12]}), and results "
            "are not mixed; pass another --output, or remove that file"
        )
    return table


def read(folder: Path, shards: Iterable[Sequence[int]], digest: str) -> pa.Table:
    """All parts of a record as one table; RunError if one is missing or holds other examples."""
    tables = []
    for n, shard in enumerate(shards):
        table = _load(_part(folder, n), shard, digest)
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


def _load(path, shard, digest):
    """A part, or None if it is not there; RunError if it is not that of ``shard``."""
    if not path.exists():
        return None
    table = read_part(path, digest).replace_schema_metadata()
    examples = table["example"].to_pylist()
    times = max(len(examples) // len(shard), 1)
    if sorted(examples) != sorted([*shard] * times):
        raise RunError(
            f"{path} holds other examples than the {len(shard)} of its shard, or some more often; "
            "remove this file and run again"
        )
    return table

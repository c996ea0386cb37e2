"""Folders that belong to one record: what is computed, on which weights and texts.

A part is a Parquet file with the record's digest.  It is written under another name, synced, and
renamed: it is there completely or not at all.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.errors import RunError
from benchmarks.running.provenance import provenance
from benchmarks.running.writing import remove_drafts, write_atomically

RECORD, BLOCKS = "record.json", "blocks"  # beside parts; what is in BLOCKS is removed at the end


def claim(folder: Path, record: dict) -> str:
    """Makes ``folder`` that of ``record``, whose digest it returns, and removes abandoned drafts.

    Of several processes that claim a folder at once, one makes the record.  Raises RunError that
    names what differs if the folder is another record's, and for parts or blocks that have none.
    """
    path = folder / RECORD
    record = json.loads(json.dumps(record))  # as JSON gives it back
    digest = _digest(record)
    if path.exists():
        _compare(path, record)
    elif others := [*sorted(folder.glob("part-*.parquet")), *folder.glob(BLOCKS)]:
        raise RunError(
            f"{others[0]} has no {RECORD} beside it, and results are not mixed; pass another "
            "--output, or remove it"
        )
    else:
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


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """A folder that is claimed is this process's alone, until the block ends or the process dies.

    Raises RunError while another one has it.
    """
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is held
        yield
        return
    with (folder / RECORD).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"another run is at work in {folder}; wait for it, or pass another --output"
            ) from error
        yield


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


def join_parts(path: Path, parts: Sequence[Path], digest: str, *, provenance: str) -> None:
    """Writes parts as row groups of one, of which one at a time is in memory."""
    about = {b"record": digest.encode(), b"provenance": provenance.encode()}

    def write(draft):
        tables = (read_part(part, digest) for part in parts)
        first = next(tables)
        with pq.ParquetWriter(draft, first.schema.with_metadata(about)) as writer:
            writer.write_table(first)
            del first
            for table in tables:
                writer.write_table(table)

    write_atomically(path, write)

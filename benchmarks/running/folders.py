"""Folders that belong to one record: what is computed, on which weights and texts.

A part is a Parquet file with the record's digest and a checksum of every page.  It is written
under another name, synced, and renamed: it is there completely or not at all.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from axioms.writing import remove_drafts, write_atomically
from benchmarks.errors import RunError
from benchmarks.running.provenance import provenance

RECORD, MANIFEST = "record.json", "manifest.json"
BLOCKS = "blocks"  # beside parts; blocks in it are removed at the end
PARTS = "part-*.parquet"  # which readers take for results


def claim(folder: Path, record: dict) -> str:
    """Makes ``folder`` that of ``record``, whose digest it returns, and removes abandoned drafts.

    Of several processes that claim a folder at once, one makes the record.  Raises RunError that
    names what differs if the folder is another record's, for results that have none, and for
    links in the place of what a run writes.
    """
    check_kinds(folder)
    path = folder / RECORD
    record = json.loads(json.dumps(record))  # as JSON gives it back
    digest = _digest(record)
    if path.exists():
        _compare(path, record)
    elif others := [*sorted(folder.glob(PARTS)), *folder.glob(BLOCKS), *folder.glob(MANIFEST)]:
        raise RunError(
            f"{others[0]} has no {RECORD} beside it, and results are not mixed; pass another "
            "--output, or remove it"
        )
    else:
        text = json.dumps({"record": record, "provenance": provenance()}, indent=2) + "\n"
        with suppress(FileExistsError):
            write_atomically(path, text.encode(), new=True)
        _compare(path, record)
    remove_drafts(folder)
    return digest


def check_kinds(folder: Path) -> None:
    """Raises RunError that lists links, and folders in the place of files and files of folders."""
    blocks = folder / BLOCKS
    files = [folder / RECORD, folder / MANIFEST, *folder.glob(PARTS), *blocks.glob("*.parquet")]
    wrong = [path for path in files if path.exists() and not path.is_file()]
    wrong += [blocks] * (blocks.exists() and not blocks.is_dir())
    wrong += [path for path in [blocks, *files] if path.is_symlink()]
    if wrong:
        raise RunError(
            "a run writes no link, and no folder but blocks; move away what was put in the place "
            "of its files, or pass another --output:" + "".join(f"\n  {path}" for path in wrong)
        )


def recorded(folder: Path) -> str:
    """The digest of the record of a folder; RunError if there is none."""
    check_kinds(folder)
    if not (folder / RECORD).exists():
        raise RunError(f"{folder} holds no run, because there is no {RECORD}; pass an --output")
    return _digest(_record(folder / RECORD))


def _digest(record):
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _compare(path, record):
    """Raises RunError if another record is at ``path``."""
    folder, old, new = path.parent, _flat(_record(path)), _flat(record)
    differ = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    if differ:
        lines = [f"\n  {key}: {old.get(key)!r} there, {new.get(key)!r} now" for key in differ]
        raise RunError(
            f"{folder} holds results of another configuration, which are not mixed:"
            f"{''.join(lines)}\nPass another --output, or remove that folder."
        )


def _record(path):
    """The record at ``path``; RunError if it is broken."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))["record"]
        if isinstance(record, dict):
            return record
        raise TypeError("record is no object")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        step = f"pass another --output, or remove {path.parent} and run again"
        raise RunError(f"{path} is broken ({error}); {step}") from error


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


def write_part(path: Path, table: pa.Table, digest: str) -> str:
    """Writes a table with the digest of its record; returns the SHA-256 of the file."""
    metadata = (table.schema.metadata or {}) | {b"record": digest.encode()}
    table = table.replace_schema_metadata(metadata)
    return write_atomically(path, partial(pq.write_table, table, write_page_checksum=True))


def read_part(
    path: Path, digest: str, *, columns: list[str] | None = None, sha256: str | None = None
) -> pa.Table:
    """Reads a table that ``write_part`` wrote.

    Raises RunError if it is broken, not of this record, or not the file with that ``sha256``.
    """
    try:
        content = path.read_bytes() if sha256 else None
        if content is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise changed({path: (found, sha256)})
        source = path if content is None else pa.BufferReader(content)
        table = pq.ParquetFile(source, page_checksum_verification=True).read(columns=columns)
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


def changed(files: Mapping[Path, tuple[str, str]]) -> RunError:
    """The error about files that have one SHA-256, and had another one when they were written."""
    lines = [f"\n  {path}: SHA-256 {now}, written {then}" for path, (now, then) in files.items()]
    return RunError(
        f"files are not what was written:{''.join(lines)}\nRemove these files and run again, which "
        "computes their texts anew."
    )


def join_parts(path: Path, parts: Mapping[Path, str], digest: str, *, provenance: str) -> str:
    """Writes parts, each with its SHA-256, as row groups of one, whose SHA-256 it returns.

    One of the parts is in memory at a time.
    """
    about = {b"record": digest.encode(), b"provenance": provenance.encode()}

    def write(draft):
        tables = (read_part(part, digest, sha256=sha256) for part, sha256 in parts.items())
        first = next(tables)
        schema = first.schema.with_metadata(about)
        with pq.ParquetWriter(draft, schema, write_page_checksum=True) as writer:
            writer.write_table(first)
            del first
            for table in tables:
                writer.write_table(table)

    return write_atomically(path, write)

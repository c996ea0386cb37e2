"""Folders of results; a folder has one record of the computation, its weights and its texts.

A part is a Parquet file with the record's digest and a checksum of every page.  It is written
under another name, synced, and renamed, so that it exists completely or not at all.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lrp_axioms.axioms.schema import LISTED, read
from lrp_axioms.axioms.writing import remove_drafts, write_atomically
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.running.provenance import provenance

RECORD, MANIFEST = "record.json", "manifest.json"
BLOCKS = "blocks"  # folder beside the parts; a run empties it at the end
PARTS = "part-*.parquet"  # readers of results glob it


def claim(folder: Path, record: dict) -> str:
    """Gives ``folder`` its ``record``, removes abandoned drafts, and returns the record's digest.

    Of several processes that claim a folder at once, one makes the record.  Raises RunError as
    ``keep`` does, and for results without a record.
    """
    others = [*sorted(folder.glob(PARTS)), *folder.glob(BLOCKS), *folder.glob(MANIFEST)]
    if others and not (folder / RECORD).exists():
        raise RunError(
            f"{others[0]} has no {RECORD} beside it, and results are not mixed; pass another "
            "--output, or remove it"
        )
    digest = keep(folder, record)
    remove_drafts(folder)
    return digest


def keep(folder: Path, record: dict) -> str:
    """Writes the record of ``folder`` if there is none, and returns its digest.

    The provenance in the file names the process that wrote the record; it is not compared.
    Raises RunError that names the differences if the folder has another record, and for links in
    place of files of a run.
    """
    check_kinds(folder)
    path, text = folder / RECORD, json.dumps(record, ensure_ascii=False, allow_nan=False)
    record = json.loads(text.encode("utf-8", "xmlcharrefreplace"))  # names of files may be bytes
    if not path.exists():
        text = json.dumps({"record": record, "provenance": provenance()}, indent=2) + "\n"
        with suppress(FileExistsError):
            write_atomically(path, text.encode(), new=True)
    _compare(path, record)
    return _digest(record)


def check_kinds(folder: Path) -> None:
    """Raises RunError that lists links, folders in place of files, and a file named blocks."""
    files = [folder / RECORD, folder / MANIFEST, *folder.glob(PARTS)]
    blocks_of(folder, [*files, *(folder / BLOCKS).glob("*.parquet")])


def blocks_of(folder: Path, files: Sequence[Path] = ()) -> Path:
    """Returns the folder of blocks; RunError if it or one of ``files`` is a link or no file."""
    blocks = folder / BLOCKS  # checked before each change in it: a link leads elsewhere
    wrong = [path for path in files if path.exists() and not path.is_file()]
    wrong += [blocks] * (blocks.exists() and not blocks.is_dir())
    wrong += [path for path in [blocks, *files] if path.is_symlink()]
    if wrong:
        raise RunError(
            "a run writes no link, and no folder but blocks; move these paths away, or pass "
            "another --output:" + "".join(f"\n  {path}" for path in wrong)
        )
    return blocks


def recorded(folder: Path) -> str:
    """Returns the digest of the record of a folder; raises RunError if there is none."""
    check_kinds(folder)
    if not (folder / RECORD).exists():
        raise RunError(f"{folder} holds no run: it has no {RECORD}; pass the --output of a run")
    return _digest(_record(folder / RECORD))


def _digest(record):
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _compare(path, record):
    """Raises RunError if another record is at ``path``."""
    old, new = _flat(_record(path)), _flat(record)
    differ = [place for place in old | new if old.get(place) != new.get(place)]
    orders = [_order_of_variants(flat) for flat in (old, new)]
    if differ or orders[0] != orders[1]:
        said = lambda flat, place: _short(flat.get(place, "nothing"))
        name = lambda place: _short(".".join(map(str, place)))
        lines = [f"{name(x)}: {said(old, x)} there, {said(new, x)} now" for x in differ[:LISTED]]
        if not differ:
            lines.append(
                "order of variants: {} there, {} now".format(*map(_short, map(str, orders)))
            )
        lines += [f"and {len(differ) - LISTED} more"] * (len(differ) > LISTED)
        raise RunError(
            f"{path.parent} holds results of another configuration, which are not mixed:\n  "
            + "\n  ".join(lines)
            + "\nPass another --output, or remove that folder; if somebody has edited "
            f"{RECORD}, undo that."
        )


@dataclass(frozen=True)
class Written:
    """Fields of ``RECORD``."""

    record: dict[str, Any]
    provenance: dict[str, str | int | None]


def _record(path):
    """Returns the record at ``path``; raises RunError if it is broken."""
    try:
        return read(path, Written, "record").record
    except ValueError as error:
        step = f"Pass another --output, or remove {path.parent}, and run again."
        raise RunError(f"{error}\n{step}") from error


def _flat(value, place=()):
    """Returns place -> repr of a value, such as ("variants", "CP-LRP", "method")."""
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(inner, dict) or not inner:
        return {place: repr(value)}
    flat = {}
    for key, each in inner.items():
        flat |= _flat(each, (*place, key))
    return flat


def _order_of_variants(flat):
    """Lists the variants as a record names them, which is the order of a text's lines."""
    return [*dict.fromkeys(place[1] for place in flat if len(place) > 1 and place[0] == "variants")]


def _short(text, most=200):
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks a folder for this process, until the block ends or the process dies.

    Raises RunError while another one has it.
    """
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is held
        yield
        return
    opened = os.open(folder, os.O_RDONLY)  # not a file in it, which an editor replaces
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"another run is at work in {folder}; wait for it, or pass another --output"
            ) from error
        yield
    finally:
        os.close(opened)


def write_part(path: Path, table: pa.Table, digest: str) -> str:
    """Writes a table with the digest of its record; returns the SHA-256 of the file."""
    metadata = (table.schema.metadata or {}) | {b"record": digest.encode()}
    table = table.replace_schema_metadata(metadata)
    return write_atomically(path, partial(pq.write_table, table, write_page_checksum=True))


def read_part(
    path: Path, digest: str, *, columns: list[str] | None = None, sha256: str | None = None
) -> pa.Table:
    """Reads a table that ``write_part`` wrote.

    Raises RunError if the file is broken, of another record, or has another SHA-256.
    """
    try:
        with path.open("rb") as file:  # a file, because pyarrow takes only names in UTF-8
            content = file.read() if sha256 else None
            if content is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
                raise changed({path: (found, sha256)})
            source = file if content is None else pa.BufferReader(content)
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
    """Makes the error for files with another SHA-256 than at writing: path -> (now, then)."""
    lines = [f"\n  {path}: SHA-256 {now}, written {then}" for path, (now, then) in files.items()]
    return RunError(
        f"files have changed since their run:{''.join(lines)}\nRemove these files and run "
        "again; only their texts are explained again."
    )


def join_parts(path: Path, parts: Mapping[Path, str], digest: str, *, provenance: str) -> str:
    """Joins parts, by path and SHA-256, into one with a row group each; returns its SHA-256.

    Holds one part in memory at a time.
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

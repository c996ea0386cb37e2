"""Runs that go on where they were stopped, whatever their size and whoever died.

A block is the unit of all: a worker measures it and writes one file, the command names the file in
the manifest of the folder.  Neither holds more than the blocks that are at work.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa

from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.running.blocks import Block
from lrp_axioms.benchmarks.running.contents import File, block_file
from lrp_axioms.benchmarks.running.folders import (
    BLOCKS,
    claim,
    held,
    keep,
    read_part,
    recorded,
    write_part,
)
from lrp_axioms.benchmarks.running.manifest import Manifest
from lrp_axioms.benchmarks.running.provenance import provenance
from lrp_axioms.benchmarks.running.workers import IN_PROCESS, Counted, Engine, Track, untracked


def run(
    folder: Path,
    record: dict,
    blocks: Iterable[Block],
    measure: Callable[[Block], Mapping[str, list] | pa.Table],
    *,
    tally: Callable[[pa.Table], dict[str, int]] | None = None,
    engine: Engine = IN_PROCESS,
    track: Track = untracked,
) -> Manifest:
    """Measures all blocks that ``folder`` does not hold yet, and returns its manifest.

    ``blocks`` are read as workers become free.  ``measure`` computes columns, or a table,
    of a block, and ``tally`` counts of the table, which the manifest adds up.  ``engine``: the
    processes that measure and write.  The log says when a run is resumed.
    Raises RunError for a folder of another record or of other texts, naming the difference, for a
    file that is truncated, and while another run is at work in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        digest = claim(folder, record)
        manifest = Manifest(folder, digest)
        manifest.resume()
        missing = manifest.missing(blocks)
        if isinstance(blocks, Sequence):
            missing = list(missing)
        store = partial(_stored, measure, tally, folder.absolute(), digest)
        with closing(engine.each(store, ((block.first, block) for block in missing))) as finished:
            results = (result for _, result in finished)
            try:
                for file, made in track(Counted(results, missing), folder.name):
                    manifest.add(file, made)
            finally:
                manifest.write()
                keep(folder, record)  # which somebody may have removed or replaced meanwhile
        manifest.finish()
    return manifest


def _stored(measure, tally, folder, digest, block):
    """Measures a block and writes its file, in whatever process this is called."""
    path = block_file(folder, block.first)
    try:
        path.parent.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise RunError(
            f"a worker does not see {folder}; pass an --output that all machines share"
        ) from error
    measured = measure(block)
    table = measured if isinstance(measured, pa.Table) else pa.table(measured)
    file_sha256 = write_part(block_file(folder, block.first), table, digest)
    file = File(
        file=f"{BLOCKS}/{path.name}",
        first=block.first,
        end=block.end,
        bytes=path.stat().st_size,
        lines=table.num_rows,
        sha256=block.sha256,
        file_sha256=file_sha256,
        tally=tally(table) if tally else {},
    )
    return file, provenance()


def verify(folder: Path) -> Manifest:
    """Compares every file of a run with its SHA-256; RunError if one is missing or changed."""
    digest = recorded(folder)
    with held(folder):
        manifest = Manifest(folder, digest)
        unnamed, gone = manifest.unnamed(), len(manifest.files) - len(manifest.unchanged())
        if unnamed or gone:
            raise RunError(f"{folder} is not complete; run the command again")
        manifest.parts()
    return manifest


def read(manifest: Manifest) -> pa.Table:
    """Reads all parts of a complete run as one table, in the order of its blocks."""
    tables = []
    for path, file in zip(manifest.parts(), manifest.files, strict=True):
        table = read_part(path, manifest.digest).replace_schema_metadata()
        if table.num_rows != file.lines:
            raise RunError(f"{path} is broken; remove this file and run again")
        tables.append(table)
    return pa.concat_tables(tables)

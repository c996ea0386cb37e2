"""What is finished of a run: one file, replaced as a whole, that names every other file.

A finished block is a file in ``blocks``.  Blocks that follow each other become one part as soon as
they have the size of one, and at the end.  Whatever the manifest does not name is of a process that
died, and is removed when the run goes on: nothing is lost but what was never in the manifest, and
readers of part-*.parquet never meet a text twice.
"""

import hashlib
import json
import logging
import math
import shutil
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.errors import RunError
from benchmarks.running.blocks import Block
from benchmarks.running.folders import BLOCKS, join_parts, read_part
from benchmarks.running.writing import write_atomically

SIZE = 128 * 2**20  # bytes of a part
SECONDS = 0.5  # between two manifests: so much of what is finished is done again after a kill
NAME = "manifest.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class File:
    """One file: texts ``first`` to before ``end``, and who made it (numbers of the provenance).

    ``sha256`` is that of the block, or of the digests of all blocks of a part.
    """

    file: str
    first: int
    end: int
    bytes: int
    lines: int
    sha256: str
    tally: dict[str, int]
    made_by: list[int] = field(default_factory=list)

    @property
    def is_part(self) -> bool:
        return not self.file.startswith(BLOCKS)


def block_file(folder: Path, first: int) -> Path:
    return folder / BLOCKS / f"{first:012d}.parquet"


class Manifest:
    """Of one folder, which one process at a time may change (``held``)."""

    def __init__(self, folder: Path, digest: str):
        self.folder, self.digest = folder, digest
        self.written, self.unwritten = -math.inf, False
        found = self._read()
        self.texts: int | None = found["texts"]  # of a complete run
        self.provenance: list[dict] = found["provenance"]
        self.files = [File(**each) for each in found["files"]]  # in order of their texts

    def _read(self):
        path = self.folder / NAME
        if not path.exists():
            if parts := sorted(self.folder.glob("part-*.parquet")):
                raise RunError(
                    f"{parts[0]} is of another version, or its {NAME} is lost; pass another "
                    "--output, or remove that folder"
                )
            return {"record": self.digest, "texts": None, "provenance": [], "files": []}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["record"] == self.digest:
                return found
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is broken ({error}); remove {self.folder} and run again"
            ) from error
        raise RunError(
            f"{path} is not of the configuration of this run (record {self.digest[:12]}); pass "
            f"another --output, or remove {self.folder}"
        )

    def tally(self, name: str) -> int:
        return sum(each.tally.get(name, 0) for each in self.files)

    def commits(self) -> list[str]:
        """The commits whose code measured."""
        used = {number for each in self.files for number in each.made_by}
        return sorted({str(self.provenance[number]["commit"]) for number in used})

    def parts(self) -> list[Path]:
        """The files of a complete run; RunError where the run is not."""
        if self.texts is None:
            raise RunError(f"{self.folder} is not complete; run the command again")
        return [self.folder / each.file for each in self.files]

    def columns(self) -> list[str]:
        return pq.read_schema(self.parts()[0]).names

    # What only the process that holds the folder does

    def resume(self) -> None:
        """Forgets files that are gone, and removes those that are not named here.

        Raises RunError for a file of another size, and for a part of another configuration.
        """
        sizes = {each.file: _size(self.folder / each.file) for each in self.files}
        for each in self.files:
            if sizes[each.file] not in (None, each.bytes):
                read_part(self.folder / each.file, self.digest)  # which may say what is wrong
                raise RunError(
                    f"{self.folder / each.file} is not what was written ({sizes[each.file]} bytes, "
                    f"{each.bytes} in {NAME}); remove this file and run again"
                )
        for path in sorted(self.folder.glob("part-*.parquet")):
            if path.name not in sizes:
                read_part(path, self.digest, columns=[])
                path.unlink()
        for path in (self.folder / BLOCKS).glob("*"):
            if f"{BLOCKS}/{path.name}" not in sizes:
                path.unlink()
        left = [each for each in self.files if sizes[each.file] is not None]
        if len(left) < len(self.files):
            self.files, self.texts = left, None
        if self.texts is None and self.files:
            there = sum(each.end - each.first for each in self.files)
            log.info("%s resumed; texts done before: %d", self.folder.name, there)

    def missing(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Blocks without a file, as they come; RunError if those with one are of other texts."""
        known = iter(list(self.files))
        entry, digests, total = next(known, None), [], 0
        for block in blocks:
            total = block.end
            if entry is None or block.end <= entry.first:
                yield block
                continue
            digests.append(block.sha256)
            if block.first < entry.first or block.end > entry.end:
                raise self._other(entry)
            if block.end == entry.end:
                if entry.sha256 != (_joined(digests) if entry.is_part else block.sha256):
                    raise self._other(entry)
                entry, digests = next(known, None), []
        if entry is not None:
            raise self._other(entry)
        self.total = total

    def _other(self, entry):
        return RunError(
            f"{self.folder} holds results of other texts ({entry.first + 1} to {entry.end} are not "
            "those of now), which are not mixed; pass another --output, or remove that folder"
        )

    def add(self, block: File, made: dict) -> None:
        """Names a finished block, if it is not yet, and makes a part of those that fill one."""
        before = bisect_right(self.files, block.first, key=_first)
        if before and self.files[before - 1].end > block.first:
            return
        if _size(self.folder / block.file) != block.bytes:
            raise RunError(
                f"{self.folder / block.file}, which a worker wrote, is not on this machine; pass "
                "an --output that all machines share"
            )
        made = {key: value for key, value in made.items() if key != "date"}
        if made not in self.provenance:
            self.provenance.append(made)
        block = replace(block, made_by=[self.provenance.index(made)])
        insort(self.files, block, key=_first)
        self.unwritten = True
        self.write(at_least=SECONDS)
        ends = {0, *(each.end for each in self.files if each.is_part)}
        for run in self._runs():  # one behind a gap waits until it is filled
            if run[0].first in ends and sum(each.bytes for each in run) >= SIZE:
                self._merge(_prefix(run))

    def finish(self) -> None:
        """Makes parts of what is left; RunError unless all texts are there, each once."""
        ends = [0, *(each.end for each in self.files)]
        if ends[:-1] != [each.first for each in self.files] or ends[-1] != self.total:
            raise RunError(f"{self.folder}: texts are missing; run the command again")
        for run in self._runs():
            while run:
                self._merge(_prefix(run))
                run = run[len(_prefix(run)) :]
        self.unwritten |= self.texts != self.total
        self.texts = self.total
        self.write()
        shutil.rmtree(self.folder / BLOCKS, ignore_errors=True)  # where there was something to do

    def _runs(self):
        """The blocks that follow each other without a gap."""
        runs = []
        for each in self.files:
            if not each.is_part:
                if not (runs and runs[-1][-1].end == each.first):
                    runs.append([])
                runs[-1].append(each)
        return runs

    def _merge(self, chosen):
        """Makes one part of blocks: it is there before the manifest names it, they until then."""
        part, gone = self._joined(chosen), {each.file for each in chosen}
        self.files = [each for each in self.files if each.file not in gone]
        insort(self.files, part, key=_first)
        self.unwritten = True
        self.write()
        for name in gone:
            (self.folder / name).unlink()

    def _joined(self, chosen):
        """One part of blocks that follow each other, which stay."""
        path = self.folder / f"part-{chosen[0].first:012d}.parquet"
        made_by = sorted({number for each in chosen for number in each.made_by})
        blocks = [self.folder / each.file for each in chosen]
        about = json.dumps([self.provenance[number] for number in made_by])
        join_parts(path, blocks, self.digest, provenance=about)
        names = {name for each in chosen for name in each.tally}
        return File(
            file=path.name,
            first=chosen[0].first,
            end=chosen[-1].end,
            bytes=_size(path),
            lines=sum(each.lines for each in chosen),
            sha256=_joined([each.sha256 for each in chosen]),
            tally={name: sum(each.tally.get(name, 0) for each in chosen) for name in sorted(names)},
            made_by=made_by,
        )

    def write(self, *, at_least: float = 0) -> None:
        """Replaces the file by one that names all that is finished, if it does not do so yet.

        ``at_least``: seconds since it was written last; before, it waits for another call.
        """
        if not self.unwritten or time.monotonic() < self.written + at_least:
            return
        content = {
            "record": self.digest,
            "texts": self.texts,
            "provenance": self.provenance,
            "files": [vars(each) for each in self.files],
        }
        text = json.dumps(content) + "\n"
        path = self.folder / NAME
        write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        self.written, self.unwritten = time.monotonic(), False


def _prefix(run):
    """As many of the first blocks as have the size of a part; all if they have not."""
    sizes = list(accumulate(each.bytes for each in run))
    return run[: bisect_left(sizes, SIZE) + 1]


def _first(file):
    return file.first


def _joined(digests):
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _size(path):
    with suppress(FileNotFoundError):
        return path.stat().st_size

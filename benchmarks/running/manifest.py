"""The finished parts of a run: one file, replaced as a whole, that names every other file.

A finished block is a file in ``blocks``.  Blocks that follow each other become one part as soon as
they have the size of one, and at the end.  A file that the manifest does not name was left by a
dead process.  It is removed when the run goes on, if it has a name and the record of the run.  So a
death costs only texts that the manifest does not name yet, and readers of part-*.parquet never meet
a text twice.
"""

import hashlib
import json
import logging
import math
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq

from lrp_axioms.axioms.writing import remove_drafts, write_atomically
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.running.blocks import Block
from lrp_axioms.benchmarks.running.contents import OWN, Content, File, content
from lrp_axioms.benchmarks.running.folders import (
    MANIFEST,
    PARTS,
    blocks_of,
    changed,
    join_parts,
    read_part,
)

SIZE = 128 * 2**20  # bytes of a part
SECONDS = 0.5  # between two manifests
SHARE = 0.01  # of the time of a run; within it, a manifest is written for every block
log = logging.getLogger(__name__)
FIRST = attrgetter("first")


class Manifest:
    """The manifest of a folder, which one process at a time may change (``held``)."""

    def __init__(self, folder: Path, digest: str):
        self.folder, self.digest = folder, digest
        self.written, self.unwritten = -math.inf, False
        self.begun, self.spent = time.monotonic(), 0.0
        found = self._read()
        self.texts, self.provenance, self.files = found.texts, found.provenance, found.files

    def _read(self):
        path = self.folder / MANIFEST
        if not path.exists():
            if parts := sorted(self.folder.glob(PARTS)):
                raise RunError(
                    f"{parts[0]} is of another version, or its {MANIFEST} is lost; pass another "
                    "--output, or remove that folder"
                )
            return Content(record=self.digest, texts=None, provenance=[], files=[], sha256="")
        found = content(path)
        if found.record == self.digest:
            return found
        raise RunError(
            f"{path} is not of the configuration in record.json (record {self.digest[:12]}); undo "
            "what somebody has edited (the command says what differs when it is run again), or "
            f"pass another --output, or remove {self.folder}"
        )

    def tally(self, name: str) -> int:
        return sum(each.tally.get(name, 0) for each in self.files)

    def commits(self) -> list[str]:
        """Returns the commits whose code measured."""
        used = {number for each in self.files for number in each.made_by}
        return sorted({str(self.provenance[number].get("commit")) for number in used})

    def parts(self) -> list[Path]:
        """Returns the files of a complete run; RunError for an incomplete one."""
        if self.texts is None:
            raise RunError(f"{self.folder} is not complete; run the command again")
        return [self.folder / each.file for each in self.files]

    def columns(self) -> list[str]:
        with self.parts()[0].open("rb") as file:
            return pq.read_schema(file).names

    # Only the process that holds the folder may call these.

    def resume(self) -> None:
        """Forgets missing files, and removes files of this run that the manifest does not name.

        Raises RunError for files that were changed, and for parts that no run wrote.
        """
        left = self.unchanged()
        remove_drafts(blocks_of(self.folder))
        self._remove_unnamed()
        if len(left) < len(self.files):
            self.files, self.texts = left, None
        if self.texts is None and self.files:
            there = sum(each.end - each.first for each in self.files)
            log.info("%s resumed; texts done before: %d", self.folder.name, there)

    def unchanged(self) -> list[File]:
        """Returns the files that exist; raises RunError that lists changed files."""
        found = [_sha256(self.folder / each.file) for each in self.files]
        pairs = list(zip(self.files, found, strict=True))
        wrong = {
            self.folder / each.file: (now, each.file_sha256)
            for each, now in pairs
            if now not in (None, each.file_sha256)
        }
        if wrong:
            raise changed(wrong)
        return [each for each, now in pairs if now]

    def unnamed(self) -> list[Path]:
        """Returns blocks and parts without an entry; RunError for parts that no run wrote."""
        names = {each.file for each in self.files}
        parts, blocks = self.folder.glob(PARTS), blocks_of(self.folder).glob("*")
        found = [path for path in sorted([*parts, *blocks]) if self._name(path) not in names]
        if strange := [path for path in found if path.match(PARTS) and not self._is_own(path)]:
            raise RunError(
                f"no run wrote {', '.join(map(str, strange))}, and readers of {PARTS} would read "
                "it as a result; move it away, or pass another --output"
            )
        return [path for path in found if self._is_own(path)]

    def _name(self, path):
        return path.relative_to(self.folder).as_posix()

    def _is_own(self, path):
        return OWN.fullmatch(self._name(path))

    def _remove_unnamed(self):
        for path in self.unnamed():
            read_part(path, self.digest, columns=[])
            blocks_of(self.folder)
            path.unlink()

    def missing(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yields blocks without a file, as they come; RunError if a file is of other texts."""
        known = iter(list(self.files))
        entry, digests, total = next(known, None), [], 0
        for block in blocks:
            total = block.end
            if entry is None or block.end <= entry.first:
                yield block
                continue
            digests.append(block.sha256)
            if block.first < entry.first or block.end > entry.end:
                raise self._other(entry, behind=block.end)
            if block.end == entry.end:
                if entry.sha256 != (_joined(digests) if entry.is_part else block.sha256):
                    raise self._other(entry)
                entry, digests = next(known, None), []
        if entry is not None:
            raise self._other(entry)
        self.total = total

    def _other(self, entry, *, behind=0):
        """Makes the error for an entry of other texts; ``behind``: the end of a longer block."""
        if behind > entry.end and entry is self.files[-1]:
            return RunError(
                f"{self.folder / entry.file} ends at text {entry.end}, and there are more texts "
                "now; remove this file and run again: only its texts and later ones are explained"
            )
        return RunError(
            f"{self.folder} holds results of other texts ({entry.first + 1} to {entry.end} are not "
            "those of now), which are not mixed; pass another --output, or remove that folder"
        )

    def add(self, block: File, made: dict) -> None:
        """Names a finished block, unless it is named, and joins blocks that fill a part."""
        before = bisect_right(self.files, block.first, key=FIRST)
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
        insort(self.files, block, key=FIRST)
        self.texts, self.unwritten = None, True  # not complete until the end is known
        self.write(at_least=SECONDS)
        ends = {0, *(each.end for each in self.files if each.is_part)}
        for run in self._runs():  # one behind a gap waits until it is filled
            if run[0].first in ends and sum(each.bytes for each in run) >= SIZE:
                self._merge(_prefix(run))

    def finish(self) -> None:
        """Joins the remaining blocks to parts; RunError unless all texts are there, each once."""
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
        self._remove_unnamed()
        remove_drafts(blocks_of(self.folder), living=True)  # their blocks are in parts already
        with suppress(OSError):  # missing, or not empty: a user put files there
            blocks_of(self.folder).rmdir()

    def _runs(self):
        """Groups blocks that follow each other without a gap."""
        runs = []
        for each in self.files:
            if not each.is_part:
                if not (runs and runs[-1][-1].end == each.first):
                    runs.append([])
                runs[-1].append(each)
        return runs

    def _merge(self, chosen):
        """Joins blocks to a part; the manifest names the part before the blocks are removed."""
        part, gone = self._joined(chosen), {each.file for each in chosen}
        self.files = [each for each in self.files if each.file not in gone]
        insort(self.files, part, key=FIRST)
        self.unwritten = True
        self.write()
        for name in gone:
            (blocks_of(self.folder) / Path(name).name).unlink(missing_ok=True)

    def _joined(self, chosen):
        """Joins blocks that follow each other to a part; the blocks stay."""
        path = self.folder / f"part-{chosen[0].first:012d}.parquet"
        made_by = sorted({number for each in chosen for number in each.made_by})
        blocks = {self.folder / each.file: each.file_sha256 for each in chosen}
        about = json.dumps([self.provenance[number] for number in made_by])
        file_sha256 = join_parts(path, blocks, self.digest, provenance=about)
        names = {name for each in chosen for name in each.tally}
        return File(
            file=path.name,
            first=chosen[0].first,
            end=chosen[-1].end,
            bytes=_size(path),
            lines=sum(each.lines for each in chosen),
            sha256=_joined([each.sha256 for each in chosen]),
            file_sha256=file_sha256,
            tally={name: sum(each.tally.get(name, 0) for each in chosen) for name in sorted(names)},
            made_by=made_by,
        )

    def write(self, *, at_least: float = 0) -> None:
        """Writes the file anew if it lacks finished blocks.

        ``at_least``: seconds since the last writing; before, it waits for another call if all
        writings have taken more than ``SHARE`` of the time.
        """
        start = time.monotonic()
        dear = self.spent > SHARE * (start - self.begun)
        if not self.unwritten or (dear and start < self.written + at_least):
            return
        about = {"texts": self.texts, "provenance": self.provenance, "files": self.files}
        now = Content(record=self.digest, sha256="", **about)
        write_atomically(self.folder / MANIFEST, now.signed())
        self.written, self.unwritten = time.monotonic(), False
        self.spent += self.written - start


def _prefix(run):
    """Returns the first blocks that fill a part, or all if they do not fill one."""
    sizes = list(accumulate(each.bytes for each in run))
    return run[: bisect_left(sizes, SIZE) + 1]


def _joined(digests):
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _sha256(path):
    """Returns the SHA-256 of a file, or None if there is no file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path):
    with suppress(FileNotFoundError):
        return path.stat().st_size

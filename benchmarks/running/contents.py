"""Reads and checks the content of a manifest."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from lrp_axioms.axioms.schema import read
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.benchmarks.running.folders import BLOCKS, blocks_of

LARGEST = 2**30  # bytes of a manifest
OWN = re.compile(rf"({BLOCKS}/|part-)[0-9]{{12}}\.parquet")  # the files that a run writes


@dataclass(frozen=True, kw_only=True)
class File:
    """A file with texts ``first`` to ``end`` - 1; ``made_by`` has indices into the provenance.

    ``sha256`` is the digest of the texts of a block, or of the digests of all blocks of a part;
    ``file_sha256`` is the digest of the file.
    """

    file: str
    first: int
    end: int
    bytes: int
    lines: int
    sha256: str
    file_sha256: str
    tally: dict[str, int]
    made_by: list[int] = field(default_factory=list)

    def __post_init__(self):
        names = (f"{BLOCKS}/{self.first:012d}.parquet", f"part-{self.first:012d}.parquet")
        if self.file not in names:
            raise ValueError(f"file {self.file!r} is not {' or '.join(names)}")
        if not 0 <= self.first < self.end:
            raise ValueError(f"first {self.first} and end {self.end} must be 0 <= first < end")
        if min(self.bytes, self.lines, *self.tally.values()) < 0:
            raise ValueError("bytes, lines and numbers of the tally must be at least 0")

    @property
    def is_part(self) -> bool:
        return not self.file.startswith(BLOCKS)


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a manifest; ``sha256`` is the digest of all other fields.

    ``record`` is the digest of the folder's record, ``texts`` the number of texts at its end.
    """

    record: str
    texts: int | None
    provenance: list[dict[str, str | int | None]]
    files: list[File]  # in the order of their texts
    sha256: str

    def __post_init__(self):
        ends = [0, *(each.end for each in self.files)]
        if any(each.first < end for each, end in zip(self.files, ends, strict=False)):
            raise ValueError("files overlap, or are not in the order of their texts")
        if self.texts is not None and [*(each.first for each in self.files), self.texts] != ends:
            raise ValueError(f"texts is {self.texts}, but the files lack some of these texts")
        makers = range(len(self.provenance))
        if any(number not in makers for each in self.files for number in each.made_by):
            raise ValueError("made_by has a number without an entry in provenance")

    def signed(self) -> bytes:
        """Returns all fields as JSON, with their digest as ``sha256``."""
        own = vars(self) | {"files": [vars(each) for each in self.files]}
        del own["sha256"]
        digest = hashlib.sha256(json.dumps(own).encode()).hexdigest()
        return (json.dumps(own | {"sha256": digest}) + "\n").encode()


def content(path: Path) -> Content:
    """Reads a manifest; raises RunError that lists its problems."""
    try:
        found = read(path, Content, "manifest", size=LARGEST)
        if json.loads(found.signed())["sha256"] != found.sha256:
            raise ValueError(f"{path} was changed: its sha256 is not the digest of its content")
    except ValueError as error:
        step = f"Pass another --output, or remove {path.parent}, and run again."
        raise RunError(f"{error}\n{step}") from error
    return found


def block_file(folder: Path, first: int) -> Path:
    """Returns the path for a block's file; raises RunError as ``blocks_of``."""
    return blocks_of(folder) / f"{first:012d}.parquet"

"""What an experiment returns, and how it is written: JSON with provenance, Parquet."""

import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.errors import RunError

DAY = 24 * 60 * 60  # in seconds
DRAFT = re.compile(r"\..+\.(\d+)@(.*)\.draft")  # the process and the machine that write it
PACKAGES = ("numpy", "scikit-learn", "scipy", "sympy", "torch", "transformers")

Track = Callable[[Iterable, str], Iterable]
"""Shows progress over the items of an iterable under a description."""


def untracked(items: Iterable, _description: str) -> Iterable:
    return items


@dataclass(frozen=True, kw_only=True)
class Result:
    """One experiment's answer: a table to read, and the per-example values behind it."""

    name: str  # file name, such as "table2-sst2"
    table: str  # which table it is, such as "table2"
    title: str
    text: str  # what was measured, in which units, for a reader of the paper
    settings: dict  # all that determines the numbers
    rows: list[dict]  # the table; NaN where a value is undefined
    examples: dict[str, list] = field(default_factory=dict)  # columns, one value per example
    notes: tuple[str, ...] = ()  # findings, in sentences computed from the values
    seconds: float = 0.0
    provenance: dict = field(default_factory=lambda: provenance())

    def write(self, folder: Path) -> None:
        """``name``.json in ``folder``, and .parquet if there are per-example values."""
        remove_drafts(folder)
        record = {key: value for key, value in vars(self).items() if key != "examples"}
        record["rows"] = [{key: _plain(value) for key, value in row.items()} for row in self.rows]
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        write_atomically(folder / f"{self.name}.json", lambda path: path.write_text(text, "utf-8"))
        if self.examples:
            table = pa.table(self.examples)
            write_atomically(
                folder / f"{self.name}.parquet", lambda path: pq.write_table(table, path)
            )


TYPES = {"name": str, "table": str, "title": str, "text": str, "settings": dict, "rows": list}
TYPES |= {"notes": list, "seconds": int | float, "provenance": dict}


def read(path: Path) -> Result:
    """A Result as ``write`` left it, without its per-example values.

    Raises RunError that names the file if it is none.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        wrong = [key for key, kind in TYPES.items() if not isinstance(record[key], kind)]
        if wrong or not all(isinstance(note, str) for note in record["notes"]):
            raise TypeError(f"{', '.join(wrong or ['notes'])} of another type")
        rows = [
            {k: math.nan if v is None and k != "layer" else v for k, v in row.items()}
            for row in record["rows"]
        ]
        return Result(**record | {"rows": rows, "notes": tuple(record["notes"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(
            f"{path} is no result of this program ({type(error).__name__}: {error}); remove it, "
            "or run the experiment again"
        ) from error


def _no_constant(word):
    raise ValueError(f"{word}, which no result has")


def write_atomically(path: Path, write: Callable[[Path], object], *, new: bool = False) -> None:
    """``write`` gets a temporary path, which becomes ``path`` only when it is complete.

    ``new``: raises FileExistsError if there is a file already, even one that came meanwhile.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}@{platform.node()}.draft")
    try:
        write(draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        (_rename_new if new else os.replace)(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _rename_new(draft, path):
    try:
        os.link(draft, path)  # which, unlike a renaming, replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system that has no hard links
        os.replace(draft, path)


def remove_drafts(folder: Path) -> None:
    """Removes what writers that were killed have left; those of a live one stay."""
    for draft in folder.iterdir():
        named = DRAFT.fullmatch(draft.name)
        with suppress(FileNotFoundError):  # renamed meanwhile
            if named and _abandoned(int(named[1]), named[2], draft.stat().st_mtime):
                draft.unlink()


def _abandoned(pid, host, changed):
    """Of another machine's processes nothing is known here, but none writes a file for a day."""
    if host == platform.node() and os.name == "posix":  # elsewhere, signal 0 is no question
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it lives, and is another user's
            return False
    return time.time() - changed > DAY


def undefined(rows: list[dict]) -> tuple[str, ...]:
    """What the means of a table leave out, in sentences, from its columns "... undefined"."""
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
    """JSON has no NaN: what is undefined has no value."""
    return None if isinstance(value, float) and math.isnan(value) else value


def provenance() -> dict:
    """What else a number depends on: commit, versions, processor, threads, date."""
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        **{name: version(name) for name in ("lrp-axioms", *PACKAGES)},
    }


@cache  # of the code that this process runs, whatever is checked out meanwhile
def _commit():
    """The commit of this checkout, marked if files differ from it; None outside a checkout."""
    here = Path(__file__).parent
    git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None

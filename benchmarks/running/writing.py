"""Files that are there completely or not at all, whenever their writer is killed."""

import os
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

DAY = 24 * 60 * 60  # in seconds
DRAFT = re.compile(r"\..+\.(\d+)@(.*)\.draft")  # the process and the machine that write it


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
    """Whether the writer is gone; one on another machine is taken for gone after a day."""
    if host == platform.node() and os.name == "posix":  # elsewhere, signal 0 is no question
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it lives, and is another user's
            return False
    return time.time() - changed > DAY

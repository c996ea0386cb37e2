"""Files that are there completely or not at all, whenever their writer is killed."""

import errno
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

DAY = 24 * 60 * 60  # in seconds
DRAFT = re.compile(r"\..+\.([0-9]{1,9})@(.*)\.[0-9a-f]{16}\.draft")  # process and machine
LIVE: set[str] = set()  # the drafts of this process
UNSYNCED = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)  # of folders that cannot be synced


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, new: bool = False
) -> str:
    """Replaces ``path`` when a draft of it is complete and on the disk; returns its SHA-256.

    ``content``: bytes, or a function that writes them to a file.  Nothing is written through a
    link.  ``new``: raises FileExistsError if there is a file already, even one that came meanwhile.
    """
    writer = f"{os.getpid()}@{platform.node()}.{secrets.token_hex(8)}"
    draft = path.with_name(f".{path.name[:32]}.{writer}.draft")
    try:
        file = draft.open("xb+")  # which neither opens a file that is there nor follows a link
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    LIVE.add(draft.name)
    try:
        with file:
            if path.is_file() and not path.is_symlink():
                shutil.copymode(path, draft)
            content(file) if callable(content) else file.write(content)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = file_digest(file, "sha256").hexdigest()
        (_rename_new if new else os.replace)(draft, path)
        _sync(path.parent)
    finally:
        LIVE.remove(draft.name)
        draft.unlink(missing_ok=True)
    return digest


def write_named(path: Path, content: bytes) -> None:
    """Writes a file that a user names: a link stays a link, and a device is written to.

    Raises OSError for a file that must not be written, and for links in a circle, which stay.
    """
    if path.exists():
        with path.open("ab") as file:
            if not path.is_file():
                file.write(content)
                return
    place = Path(os.path.realpath(path))
    if place.is_symlink():  # one of a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    write_atomically(place, content)


def _rename_new(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # which, unlike a renaming, replaces nothing
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.replace(draft, path)  # on a file system that has no hard links


def _sync(folder: Path) -> None:
    """Puts the names of the files of ``folder`` on the disk."""
    if os.name != "posix":
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise


def remove_drafts(folder: Path, *, living: bool = False) -> None:
    """Removes drafts whose writer is gone, and with ``living`` all other ones, too."""
    for draft in folder.glob(".*.draft"):
        named = DRAFT.fullmatch(draft.name)
        with suppress(FileNotFoundError):  # renamed meanwhile
            found = draft.lstat()
            if not named or not stat.S_ISREG(found.st_mode):
                continue
            if living or _abandoned(draft.name, int(named[1]), named[2], found.st_mtime):
                draft.unlink()


def _abandoned(name: str, pid: int, host: str, changed: float) -> bool:
    """Whether the writer is gone; one on another machine is taken for gone after a day."""
    if host == platform.node() and os.name == "posix":  # elsewhere, signal 0 is no question
        if pid == os.getpid():
            return name not in LIVE
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # it lives, and is another user's
            return False
    return time.time() - changed > DAY

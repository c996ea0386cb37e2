"""Writes files completely or not at all, even if the writer is killed."""

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
UNSYNCED = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)  # errors of file systems that sync no folder


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, new: bool = False
) -> str:
    """Replaces ``path`` by a draft that is complete and on the disk; returns its SHA-256.

    ``content`` is bytes, or a function that writes bytes to an open file.  A link at ``path`` is
    replaced, not followed.  With ``new``, raises FileExistsError if ``path`` exists, even where
    another process creates it meanwhile.
    """
    writer = f"{os.getpid()}@{platform.node()}.{secrets.token_hex(8)}"
    draft = path.with_name(f".{path.name[:32]}.{writer}.draft")
    try:
        file = draft.open("xb+")  # "x" opens no existing file and follows no link
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
    """Writes a file that a user names: keeps a link, and writes into a device.

    Raises OSError, and changes nothing, for a read-only file and for circular links.
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
        os.link(draft, path)  # unlike a renaming, a link replaces no file
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.replace(draft, path)  # on a file system that has no hard links


def _sync(folder: Path) -> None:
    """Syncs the names of the files in ``folder`` to the disk."""
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
    """Removes drafts of dead writers, and with ``living`` drafts of living writers, too."""
    for draft in folder.glob(".*.draft"):
        named = DRAFT.fullmatch(draft.name)
        with suppress(FileNotFoundError):  # renamed meanwhile
            found = draft.lstat()
            if not named or not stat.S_ISREG(found.st_mode):
                continue
            if living or _is_abandoned(draft.name, int(named[1]), named[2], found.st_mtime):
                draft.unlink()


def _is_abandoned(name: str, pid: int, host: str, changed: float) -> bool:
    """Whether the writer is dead; a writer on another machine counts as dead after a day."""
    if host == platform.node() and os.name == "posix":  # elsewhere, signal 0 tests nothing
        if pid == os.getpid():
            return name not in LIVE
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # a living process of another user
            return False
    return time.time() - changed > DAY

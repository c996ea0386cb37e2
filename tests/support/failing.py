"""Simulates a broken disk: the n-th call about a folder raises the error of a full disk."""

import fcntl
import io
import os
from errno import EIO, ENOSPC
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

BY_PATH = ("replace", "link", "unlink", "mkdir", "rmdir", "open", "scandir", "listdir", "chmod")


class Disk:
    """Counts calls of all kinds and fails once; ``failed`` names the call."""

    def __init__(self, patch, folder, at):
        self.folder, self.left, self.failed = os.fspath(folder), at, None
        self.error = (ENOSPC, EIO)[at % 2]
        for name in BY_PATH:
            call = getattr(os, name)
            patch.setattr(os, name, partial(self._of_path, name, call))
        patch.setattr(io, "open", partial(self._opened, io.open))
        patch.setattr(os, "fsync", self._before("fsync", os.fsync))
        patch.setattr(fcntl, "flock", self._before("flock", fcntl.flock))
        for module, name in ((pa, "table"), (pq, "ParquetFile"), (pq, "ParquetWriter")):
            call = self._before(name, getattr(module, name), MemoryError)
            patch.setattr(module, name, call)

    def count(self, name, error=None):
        self.left -= 1
        if self.left == -1:
            self.failed = name
            raise error() if error else OSError(self.error, os.strerror(self.error))

    def _before(self, name, call, error=None):
        def counted(*given, **options):
            self.count(name, error)
            return call(*given, **options)

        return counted

    def _is_below(self, path):
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.folder)

    def _of_path(self, name, call, path, *given, **options):
        if self._is_below(path):
            self.count(name)
        return call(path, *given, **options)

    def _opened(self, call, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
        if not self._is_below(path):
            return call(path, mode, buffering, encoding, errors, newline)
        self.count(f"open {mode}")
        raw = _Raw(path, mode.replace("b", ""))
        raw.disk = self
        kind = io.BufferedReader if mode in ("r", "rb") else io.BufferedWriter
        file = (io.BufferedRandom if "+" in mode else kind)(raw)
        return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)


class _Raw(io.FileIO):
    def write(self, data):
        self.disk.count("write")
        return super().write(data)

    def readinto(self, buffer):
        self.disk.count("read")
        return super().readinto(buffer)

    def readall(self):
        self.disk.count("read")
        return super().readall()

"""Files are there completely or not at all, and drafts of the dead are removed."""

import os
import platform
import subprocess
import sys
import time

import pytest

from benchmarks.running import folders
from benchmarks.running.writing import write_atomically
from tests.support.traces import contents


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "value.txt"
    path.write_text("old")

    def fail(draft):
        draft.write_text("half of the n")
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        write_atomically(path, fail)
    assert contents(tmp_path) == {"value.txt": b"old"}
    write_atomically(path, lambda draft: draft.write_text("new"))
    assert contents(tmp_path) == {"value.txt": b"new"}


@pytest.mark.parametrize("linked", [True, False])
def test_a_new_file_is_complete_at_once_and_replaces_none(tmp_path, monkeypatch, linked):
    path = tmp_path / "value.txt"
    if not linked:  # as on a file system without hard links
        monkeypatch.setattr(os, "link", lambda *_: os.stat(tmp_path / "none" / "such"))
    write_atomically(path, lambda draft: draft.write_text("first"), new=True)
    assert contents(tmp_path) == {"value.txt": b"first"}
    if linked:
        with pytest.raises(FileExistsError):
            write_atomically(path, lambda draft: draft.write_text("second"), new=True)
    assert contents(tmp_path) == {"value.txt": b"first"}


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "value.txt"
    path.write_text("old")
    seen = []

    def write(draft):
        draft.write_text("new")
        seen.append((path.read_text(), draft.parent == tmp_path, draft.name.startswith(".")))

    write_atomically(path, write)
    assert seen == [("old", True, True)]


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead, here, elsewhere = process.pid, platform.node(), "another.host.example"
    stay = [
        f".part-00001.parquet.{os.getpid()}@{here}.draft",
        f".part-00001.parquet.1@{here}.draft",  # the first process, of another user
        f".part-00001.parquet.{dead}@{elsewhere}.draft",
        ".part-00001.parquet",
        ".other.draft",
        "part-00001.parquet.1@.draft",
    ]
    go = [
        f".part-00001.parquet.{dead}@{here}.draft",
        f".part-00002.parquet.{dead}@{elsewhere}.draft",
    ]
    for name in stay + go:
        (tmp_path / name).touch()
    long_ago = time.time() - 3 * 24 * 60 * 60
    for name in (go[1], *stay[3:]):
        os.utime(tmp_path / name, (long_ago, long_ago))
    folders.claim(tmp_path, {})
    assert sorted(contents(tmp_path)) == sorted([*stay, "record.json"])

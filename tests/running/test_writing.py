"""Files are there completely or not at all, and drafts of the dead are removed."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from axioms import writing
from axioms.writing import write_atomically
from benchmarks.commands.console import check_files
from benchmarks.running import folders
from tests.support.traces import contents


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "value.txt"
    path.write_text("old")

    def fail(draft):
        draft.write(b"half of the n")
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError, match="no space"):
        write_atomically(path, fail)
    assert contents(tmp_path) == {"value.txt": b"old"}
    write_atomically(path, b"new")
    assert contents(tmp_path) == {"value.txt": b"new"}


@pytest.mark.parametrize("linked", [True, False])
def test_a_new_file_is_complete_at_once_and_replaces_none(tmp_path, monkeypatch, linked):
    path = tmp_path / "value.txt"
    if not linked:  # as on a file system without hard links
        monkeypatch.setattr(os, "link", lambda *_: os.stat(tmp_path / "none" / "such"))
    write_atomically(path, b"first", new=True)
    assert contents(tmp_path) == {"value.txt": b"first"}
    with pytest.raises(FileExistsError):
        write_atomically(path, b"second", new=True)
    assert contents(tmp_path) == {"value.txt": b"first"}


PLANTS = {"a link": Path.symlink_to, "a hard link": Path.hardlink_to}


@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_written_through_a_link(tmp_path, monkeypatch, plant):
    """A link may stand at the path, or at a guessed name of a draft."""
    precious, path = tmp_path / "precious.txt", tmp_path / "value.txt"
    precious.write_text("of years")
    PLANTS[plant](path, precious)
    write_atomically(path, b"new")
    assert contents(tmp_path) == {"precious.txt": b"of years", "value.txt": b"new"}
    assert not path.is_symlink()
    monkeypatch.setattr(writing.secrets, "token_hex", lambda n: "0" * 2 * n)
    names = []
    write_atomically(path, lambda draft: names.append(draft.name) or draft.write(b"newer"))
    PLANTS[plant](Path(names[0]), precious)
    with pytest.raises(FileExistsError):
        write_atomically(path, b"newest")
    assert precious.read_text() == Path(names[0]).read_text() == "of years"
    assert path.read_text() == "newer"


def test_no_draft_has_the_name_of_another_one(tmp_path):
    names = []
    for _ in range(2):
        write_atomically(tmp_path / ("a" * 250), lambda draft: names.append(draft.name))
    assert len(set(names)) == 2


def test_a_link_and_a_mode_that_a_user_chose_stay(tmp_path):
    place, link = tmp_path / "place.html", tmp_path / "link.html"
    link.symlink_to(place)
    writing.write_named(link, b"first")
    place.chmod(0o600)
    writing.write_named(link, b"second")
    assert (link.readlink(), place.read_bytes()) == (place, b"second")
    assert place.stat().st_mode & 0o777 == 0o600
    with pytest.raises(IsADirectoryError):
        writing.write_named(tmp_path, b"third")
    loop, other = tmp_path / "loop", tmp_path / "other"
    loop.symlink_to(other)
    other.symlink_to(loop)
    with pytest.raises(OSError, match=f"symbolic links: '{loop}'"):
        writing.write_named(loop, b"third")
    assert (loop.readlink(), other.readlink()) == (other, loop)
    with pytest.raises(ValueError, match=f"--png {loop} is a link that leads to itself; pass"):
        check_files(html=link, png=loop)
    reader, writer = os.pipe()
    writing.write_named(Path(f"/dev/fd/{writer}"), b"to a pipe")
    assert os.read(reader, 20) == b"to a pipe"
    os.close(reader)
    os.close(writer)


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "value.txt"
    path.write_text("old")
    seen = []

    def write(draft):
        name = Path(draft.name)
        seen.append((path.read_text(), name.parent == tmp_path, name.name.startswith(".")))

    write_atomically(path, write)
    assert seen == [("old", True, True)]


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead, here, elsewhere = process.pid, platform.node(), "another.host.example"
    old, end = f".part-00001.parquet.{dead}@{elsewhere}", f"{'0' * 16}.draft"
    stay = [
        f".part-00001.parquet.1@{here}.{end}",  # the first process, of another user
        f"{old}.{end}",
        ".part-00001.parquet",
        ".other.draft",
        "part-00001.parquet.1@.draft",
        ".letter to mum.2024@home.draft",
        f"{old}.draft",
        f"{old}.{end.replace('0', '٠')}",
        f".part-00001.parquet.{'9' * 20}@{here}.{end}",
        f".part-00001.parquet.٣@{elsewhere}.{end}",
    ]
    go = [
        f".part-00001.parquet.{dead}@{here}.{end}",
        f".part-00001.parquet.{'9' * 9}@{here}.{end}",
        f".part-00002.parquet.{dead}@{elsewhere}.{'0' * 16}.draft",
        f".part-00003.parquet.{dead}@{here}.{'0' * 16}.draft",
        f".part-00003.parquet.{os.getpid()}@{here}.{'0' * 16}.draft",  # an earlier process
    ]
    for name in stay + go:
        (tmp_path / name).touch()
    long_ago = time.time() - 3 * 24 * 60 * 60
    for name in (go[2], *stay[3:]):
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / go[0].replace("00001", "00004")).symlink_to(tmp_path)
    stay += [go[0].replace("00001", "00004")]

    def claim(draft):
        folders.claim(tmp_path, {})
        stay.append(Path(draft.name).name)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*stay, "record.json"])

    write_atomically(tmp_path / "mine", claim)

"""Files that no run wrote are refused and stay, and a spoilt manifest is one error."""

import hashlib
import json
import platform
from contextlib import suppress

import pytest

from benchmarks.errors import RunError
from benchmarks.running import contents, manifest, runner
from tests.support.squares import PART, PARTS, garbled, measure, never, squares, stopped
from tests.support.traces import every_file, said


@pytest.mark.parametrize("name", ["blocks/mine.txt", "manifest.json", "part-1.parquet"])
def test_files_that_a_user_has_for_something_else_are_left_alone(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("of years")
    before = every_file(tmp_path)
    with pytest.raises(RunError, match=rf"{name.split('/')[0]} has no record\.json beside it"):
        measure(tmp_path, function=never)
    assert every_file(tmp_path) == before


def test_the_folder_of_an_older_version_is_refused(folder):
    (folder / "manifest.json").unlink()
    before = every_file(folder)
    with pytest.raises(RunError, match=r"000\.parquet is of another version, or its manifest"):
        measure(folder)
    assert every_file(folder) == before


def signed(content):
    own = {key: value for key, value in content.items() if key != "sha256"}
    return own | {"sha256": hashlib.sha256(json.dumps(own).encode()).hexdigest()}


def test_a_manifest_that_is_not_what_was_written_is_one_error(folder):
    path = folder / "manifest.json"
    whole = path.read_bytes()
    content = json.loads(whole)
    assert signed(content) == content
    flips = (
        whole[:n] + bytes([whole[n] ^ 1 << n % 8]) + whole[n + 1 :] for n in range(0, len(whole), 4)
    )
    others = (b"", b"[]", b"{}", b"[" * 10**5, b"\xff", whole * 2, whole[:-2], whole + b"1")
    wrong = [*flips, *others, *(json.dumps(each).encode() for each in garbled(content))]
    for each in wrong:
        path.write_bytes(each)
        with pytest.raises(RunError, match=r"manifest\.json"):
            contents.content(path)
    assert len(wrong) > 700
    for each in garbled(content):  # signed again, as an attacker would
        path.write_text(json.dumps(signed(each)))
        with suppress(RunError):
            contents.content(path)
    path.write_bytes(whole)
    assert runner.verify(folder).texts == 5


def test_all_problems_of_a_manifest_are_said_and_the_next_step(folder):
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["files"][0] |= {"lines": "4", "more": 1}
    del content["texts"]
    path.write_text(json.dumps(content))
    with pytest.raises(RunError) as caught:
        measure(folder, function=never)
    said(
        str(caught.value),
        f"{path} is no manifest:\ntexts is missing\n"
        "files[0].lines: must be a valid integer, not '4'\n"
        f"files[0].more is unknown\n...remove {folder}, and run again.",
    )


LINKS = ["record.json", "manifest.json", "blocks", PART, "blocks/000000000002.parquet"]


@pytest.mark.parametrize("kind", ["link", "folder"])
@pytest.mark.parametrize("name", LINKS)
def test_what_no_run_wrote_in_the_place_of_its_files_is_refused_and_stays(
    folder, tmp_path, name, kind
):
    (folder / "blocks").mkdir()
    other, path = tmp_path / "other", folder / name
    other.mkdir()
    precious = other / (path.name if path.suffix else "000000000002.parquet")
    precious.write_bytes((folder / PART).read_bytes())  # a valid part, at another place
    if path.is_file():
        path.rename(tmp_path / "moved")
    if name == "blocks":
        path.rmdir()
        path.symlink_to(other) if kind == "link" else path.write_text("a file")
    else:
        path.symlink_to(precious) if kind == "link" else path.mkdir()
    before = every_file(tmp_path)
    for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
        with pytest.raises(RunError, match="a run writes no link, and no folder but blocks") as e:
            call()
        assert f"\n  {path}" in str(e.value)
    assert every_file(tmp_path) == before


@pytest.mark.parametrize("kind", ["link", "file"])
def test_blocks_that_something_else_becomes_meanwhile_are_not_followed(tmp_path, monkeypatch, kind):
    """At any step of a run, which goes on when its blocks are back."""
    victim = tmp_path / "victim"
    stopped(victim)  # files with the names and the record of this run's
    (victim / "blocks" / f".000000000002.parquet.1@{platform.node()}.{'0' * 16}.draft").touch()
    (victim / "blocks" / "000000000009.parquet").write_bytes(
        (victim / "blocks" / "000000000002.parquet").read_bytes()
    )
    before, whole = every_file(victim), measure(tmp_path / "other")
    for at in range(100):
        folder, steps = tmp_path / str(at), iter(range(100))
        blocks, moved = folder / "blocks", folder / "moved"

        def swapping(step, *, at=at, blocks=blocks, moved=moved, steps=steps):
            def swapped(*arguments, **options):
                if next(steps) == at:
                    if blocks.exists():
                        blocks.rename(moved)
                    blocks.symlink_to(victim / "blocks") if kind == "link" else blocks.touch()
                return step(*arguments, **options)

            return swapped

        with monkeypatch.context() as patch:
            for name in ("unnamed", "write"):
                patch.setattr(manifest.Manifest, name, swapping(getattr(manifest.Manifest, name)))
            with suppress(RunError):
                measure(folder, function=swapping(squares))
        assert every_file(victim) == before
        if next(steps) <= at:
            break
        blocks.unlink()
        if moved.exists():
            moved.rename(blocks)
        assert measure(folder).equals(whole)
    assert at > 8


def test_files_that_no_run_wrote_stay_whatever_happens_to_a_run(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(folder)
    foreign = ["notes.txt", "part.parquet", "blocks/mine.txt", "blocks/1.parquet", "blocks/.mine"]
    foreign += [f"blocks/.mine.1@{platform.node()}.draft", f"blocks/{'٠' * 11}٩.parquet"]
    for name in foreign:
        (folder / name).write_text("of years")
    (folder / "blocks" / "more").mkdir()
    (folder / "blocks" / "000000000009.parquet").write_bytes(
        (folder / "blocks" / "000000000002.parquet").read_bytes()
    )  # blocks and drafts of stopped workers
    for writer in (f"1@{platform.node()}", "1@another.host.example"):
        (folder / "blocks" / f".000000000009.parquet.{writer}.{'0' * 16}.draft").touch()
    assert measure(folder).equals(measure(tmp_path / "other"))
    found = every_file(folder)
    assert {name: found[name] for name in foreign} == dict.fromkeys(foreign, b"of years")
    assert {*found} - {*foreign} == {"record.json", "manifest.json", PARTS[0]}
    assert (folder / "blocks" / "more").is_dir()

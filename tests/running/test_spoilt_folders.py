"""A folder of results is refused for another record, and for spoilt files."""

import hashlib
import json
import platform
import re
from contextlib import nullcontext, suppress
from functools import reduce
from operator import getitem

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.running import contents, manifest, runner
from benchmarks.running.workers import Engine, in_turn
from tests.support.squares import PART, PARTS, RECORD, measure, never, squares
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


def places(content, place=()):
    """The places of all values in JSON."""
    yield place
    if isinstance(content, list):
        content = dict(enumerate(content))
    for key, value in content.items() if isinstance(content, dict) else ():
        yield from places(value, (*place, key))


ODD = (None, -1, 1.5, True, 2**70, "", "../../precious.txt", [], {}, [[]], "\0")
GONE = object()


def garbled(content):
    """JSON with one value replaced, removed or doubled."""
    for *place, key in filter(None, places(content)):
        for value in (*ODD, GONE):
            spoilt = json.loads(json.dumps(content))
            inside = reduce(getitem, place, spoilt)
            if value is GONE:
                del inside[key]
            else:
                inside[key] = value
            if spoilt != content:
                yield spoilt


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


OTHER = {
    "another value": ({**RECORD, "weights": "abd"}, ["weights: 'abc' there, 'abd' now"]),
    "another value inside": (
        {**RECORD, "row": {"method": "loo", "options": {"epsilon": 0.2}}},
        ["row.options.epsilon: 0.1 there, 0.2 now"],
    ),
    "two at once": (
        {"row": {"method": "cp-lrp", "options": {"epsilon": 0.1}}, "weights": "x"},
        ["row.method: 'loo' there, 'cp-lrp' now", "weights: 'abc' there, 'x' now"],
    ),
    "a new key": ({**RECORD, "dtype": "float64"}, ["dtype: nothing there, 'float64' now"]),
    "a key less": ({"row": RECORD["row"]}, ["weights: 'abc' there, nothing now"]),
    "null": ({**RECORD, "dtype": None}, ["dtype: nothing there, None now"]),
    "an empty object": ({**RECORD, "dtype": {}}, ["dtype: nothing there, {} now"]),
    "a dot in a name": (
        {"row": {"method": "loo"}, "row.options.epsilon": 0.1, "weights": "abc"},
        [
            "row.options.epsilon: 0.1 there, nothing now",
            "row.options.epsilon: nothing there, 0.1 now",
        ],
    ),
    "a long value": (
        {**RECORD, "weights": "x" * 10**6},
        ["weights: 'abc' there, '" + "x" * 99 + "..." + "x" * 99 + "' now"],
    ),
    "many at once": (
        {**RECORD, "more": list(range(30))},
        [*(f"more.{n}: nothing there, {n} now" for n in range(20)), "and 10 more"],
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_the_folder_of_another_record_is_refused_key_by_key(folder, name):
    record, says = OTHER[name]
    before = every_file(folder)
    with pytest.raises(RunError, match="another configuration") as caught:
        measure(folder, record, function=never)
    message = str(caught.value)
    assert [line.strip() for line in message.splitlines()[1:-1]] == says
    assert str(folder) in message
    assert "--output" in message
    assert every_file(folder) == before


def test_the_record_is_compared_as_json_gives_it_back(folder):
    again = {"row": RECORD["row"], "weights": "abc"}
    measure(folder, again, function=never)
    measure(folder.with_name("tuples"), {"layers": (1, 2), "part": {3: 4}})
    measure(folder.with_name("tuples"), {"layers": [1, 2], "part": {"3": 4}}, function=never)


LIKE = {"flag": False, "limit": None, "n": [1, 2.0], "of": {"a": {"b": "c"}, "none": {}}}


def test_a_run_and_a_verification_accept_the_same_records(tmp_path):
    """Types are compared, too: a run with 0 for false would be one that nobody can verify."""
    measure(tmp_path, LIKE)
    path, refused = tmp_path / "record.json", 0
    written = json.loads(path.read_text())
    others = [{**LIKE, "flag": 0}, {**LIKE, "n": [True, 2]}, {**LIKE, "n": [1, 2]}]
    others += [each["record"] for each in garbled({"record": LIKE}) if "record" in each]
    for record in others:
        path.write_text(json.dumps(written | {"record": record}))
        for call in (
            lambda: measure(tmp_path, LIKE, function=never),
            lambda: runner.verify(tmp_path),
        ):
            with pytest.raises(RunError, match=r"edited|is no record"):
                call()
        refused += 1
    assert refused > 100
    path.write_text(json.dumps(written))
    assert runner.verify(tmp_path).texts == 5


BROKEN = {
    **{text: text for text in ("", "{", "[]", "{}", "\xff", '{"record": {}}')},
    **{
        f"a record {each}": f'{{"record": {each}, "provenance": {{}}}}'
        for each in ("3", "[]", "null")
    },
    "no record of a list": "[" * 10**5,
    "more": '{"record": {}, "provenance": {}, "more": 1}',
    "no provenance": '{"record": {}, "provenance": "x"}',
    "twice": '{"record": {}, "provenance": {}, "record": {}}',
    "large": json.dumps({"record": {"a": "x" * 2**24}, "provenance": {}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named(folder, name):
    (folder / "record.json").write_text(BROKEN[name], "latin-1")
    before = every_file(folder)
    for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
        with pytest.raises(RunError, match=r"record\.json is no record:\s") as caught:
            call()
        assert str(caught.value).endswith(f"or remove {folder}, and run again.")
        assert len(str(caught.value)) < 1000
    assert every_file(folder) == before


def test_a_record_that_is_nested_too_deeply_is_refused_at_any_depth(folder):
    for n in range(460, 1000, 3):
        deep = '{"a":' * n + "1" + "}" * n
        (folder / "record.json").write_text(f'{{"provenance": {{}}, "record": {deep}}}')
        for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
            with pytest.raises(RunError):
                call()


def replaced(path):
    """As an editor does it."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


MEANWHILE = {"removed": lambda path: path.unlink(), "replaced": replaced}


@pytest.mark.parametrize("name", MEANWHILE)
@pytest.mark.parametrize("fails", [True, False])
def test_a_record_that_is_gone_or_replaced_meanwhile_opens_the_folder_to_nobody(
    tmp_path, name, fails
):
    folder, begun = tmp_path / "run", []

    def change(of_block):
        if of_block.first == 2 and not begun:
            MEANWHILE[name](folder / "record.json")
            begun.append(of_block)
            with pytest.raises(RunError, match="another run is at work in"):
                measure(folder, function=never)
            if fails:
                raise KeyboardInterrupt
        return squares(of_block)

    with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
        measure(folder, function=change)
    assert measure(folder, function=change).equals(measure(tmp_path / "other"))
    assert runner.verify(folder).texts == 5


def test_a_record_that_became_another_one_meanwhile_is_named(tmp_path):
    def change(of_block):
        path = tmp_path / "record.json"
        path.write_text(path.read_text().replace("loo", "cp-lrp"))
        return squares(of_block)

    with pytest.raises(RunError, match=r"row\.method: 'cp-lrp' there, 'loo' now"):
        measure(tmp_path, function=change)
    assert not list(tmp_path.glob(PART))


FLIPS = 40  # bytes of a file, one after the other


def stopped(folder):
    """Makes a run that stops after two blocks."""

    def fail(of_block):
        if 4 in of_block.content:
            raise RuntimeError("out of memory")
        return squares(of_block)

    with pytest.raises(RuntimeError):
        measure(folder, function=fail)


def spoilt(content):
    """Contents that differ from ``content``: another byte, more bytes, fewer bytes or none."""
    for place in range(0, len(content), len(content) // FLIPS):
        yield content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    yield from (content[:-1], content + b"\0", b"")


@pytest.mark.parametrize("name", [PART, "blocks/000000000002.parquet"])
def test_a_file_that_is_not_what_was_written_is_named_and_stays(
    folder, tmp_path, monkeypatch, name
):
    if name != PART:
        monkeypatch.setattr(manifest, "SIZE", 2**30)
        folder = tmp_path / "stopped"
        stopped(folder)
    whole = (folder / name).read_bytes()
    wrong = list(spoilt(whole))
    for content in wrong:
        (folder / name).write_bytes(content)
        before = every_file(folder)
        digests = [hashlib.sha256(each).hexdigest() for each in (content, whole)]
        says = (
            f"{folder / name}: SHA-256 {digests[0]}, written {digests[1]}\nRemove these files and"
        )
        for call in (lambda: measure(folder, function=never), lambda: runner.verify(folder)):
            with pytest.raises(RunError, match="files have changed since their run") as caught:
                call()
            assert says in str(caught.value)
        assert every_file(folder) == before
    assert len(wrong) > FLIPS
    (folder / name).unlink()
    assert measure(folder).equals(measure(tmp_path / "other"))


def test_all_files_that_are_not_what_was_written_are_named(folder):
    for name in PARTS[:2]:
        (folder / name).write_bytes(b"")
    with pytest.raises(RunError, match=rf"{PARTS[0]}: .*\n.*{PARTS[1]}: .*\nRemove"):
        measure(folder, function=never)


@pytest.mark.parametrize("size", [1, 2**30])
def test_a_block_that_changed_since_a_worker_wrote_it_is_not_joined(tmp_path, monkeypatch, size):
    monkeypatch.setattr(manifest, "SIZE", size)
    path = tmp_path / "run" / "blocks" / "000000000002.parquet"

    def flipping(function, items):
        for result in in_turn(function, items):
            if path.exists() and path not in spoilt:
                whole = path.read_bytes()
                path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
                spoilt.append(path)
            yield result

    spoilt = []
    with pytest.raises(RunError, match=rf"{path}: SHA-256 .* written .*\nRemove these files"):
        measure(tmp_path / "run", engine=Engine(flipping))
    path.unlink()
    assert measure(tmp_path / "run").equals(measure(tmp_path / "other"))


@pytest.mark.parametrize("name", [PART, "blocks/000000000002.parquet"])
def test_pages_have_checksums_of_their_own(folder, monkeypatch, name):
    """Readers without the manifest can find damage by them."""
    if name != PART:
        monkeypatch.setattr(manifest, "SIZE", 2**30)
        stopped(folder.with_name("stopped"))
        folder = folder.with_name("stopped")
    whole, crc = (folder / name).read_bytes(), 0
    end = len(whole) - pq.read_metadata(folder / name).serialized_size - 8
    table = pq.read_table(folder / name)
    for place in range(4, end, 7):
        flipped = pa.py_buffer(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            again = pq.ParquetFile(flipped, page_checksum_verification=True).read()
        except OSError as error:
            crc += "CRC checksum" in str(error)
        else:  # a page header has no checksum, but changes no number
            assert again.equals(table)
    assert crc > 20


def test_a_whole_run_is_verified_and_any_other_is_not(folder, tmp_path):
    before = every_file(folder)
    assert runner.verify(folder).texts == 5
    (folder / "part-copy.parquet").write_bytes((folder / PART).read_bytes())
    (folder / PART).unlink()
    stopped(tmp_path / "stopped")
    wrong = {
        folder: [rf"no run wrote {folder}/part-copy\.parquet"],
        tmp_path / "stopped": ["is not complete; run the command again"],
        tmp_path / "none": [r"none holds no run: it has no record\.json"],
    }
    for place, lines in wrong.items():
        with pytest.raises(RunError) as caught:
            runner.verify(place)
        for line in lines:
            assert re.search(line, str(caught.value))
    (folder / "part-copy.parquet").rename(folder / PART)
    assert every_file(folder) == before


def adopt(folder, change, name=PART):
    """A part as something else has written it, with all that the runner looks at but its record."""
    table = pq.read_table(folder / name)
    metadata = change(dict(table.schema.metadata))
    pq.write_table(table.replace_schema_metadata(metadata), folder / name)


FOREIGN = {
    "of another record": lambda metadata: metadata | {b"record": b"0" * 64},
    "of no record": lambda metadata: metadata.pop(b"record") and metadata,
    "of no program": lambda metadata: None,
}


@pytest.mark.parametrize("known", [True, False], ids=["record.json", "no record.json"])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_part_of_another_record_or_none_is_never_adopted(folder, name, known):
    adopt(folder, FOREIGN[name])
    if not known:
        (folder / "record.json").unlink()
    before = every_file(folder)
    says = "files have changed" if known else "not mixed; pass another --output, or remove"
    with pytest.raises(RunError, match=says) as caught:
        measure(folder, RECORD, function=never)
    assert str(folder / PARTS[known]) in str(caught.value)
    assert every_file(folder) == before


def test_parts_that_the_manifest_does_not_name_are_looked_at_too(folder):
    """A reader of part-*.parquet would take them for results."""
    other = folder / "part-000000000009.parquet"
    (folder / PART).rename(other)
    adopt(folder, FOREIGN["of another record"], other.name)
    with pytest.raises(RunError, match=r"009\.parquet is not of the configuration"):
        measure(folder, function=never)
    other.unlink()
    measure(folder)

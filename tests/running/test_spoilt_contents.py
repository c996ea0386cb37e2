"""A file whose bytes are not the written ones is named, and never joined."""

import hashlib
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.running import manifest, runner
from benchmarks.running.workers import Engine, in_turn
from tests.support.squares import PART, PARTS, RECORD, measure, never, stopped
from tests.support.traces import every_file

FLIPS = 40  # bytes of a file, one after the other


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


def test_a_block_that_changed_since_a_worker_wrote_it_is_not_joined(tmp_path, size):
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

"""What a folder of results is refused for: another record, and files that are spoilt."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.running import folders
from benchmarks.running.blocks import block
from tests.support.squares import PART, PARTS, RECORD, measure, never, squares
from tests.support.traces import contents


def test_blocks_that_a_user_has_for_something_else_are_left_alone(tmp_path):
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "mine.txt").write_text("of years")
    before = contents(tmp_path / "blocks")
    with pytest.raises(RunError, match=r"blocks has no record\.json beside it"):
        measure(tmp_path, function=never)
    assert contents(tmp_path / "blocks") == before
    assert [path.name for path in tmp_path.iterdir()] == ["blocks"]


def test_the_folder_of_an_older_version_is_refused(folder):
    (folder / "manifest.json").unlink()
    before = contents(folder)
    with pytest.raises(RunError, match=r"000\.parquet is of another version, or its manifest"):
        measure(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_a_broken_manifest_is_named(folder, content):
    (folder / "manifest.json").write_text(content)
    with pytest.raises(RunError, match=r"manifest\.json is broken .* run again"):
        measure(folder, function=never)


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
    "a new key": ({**RECORD, "dtype": "float64"}, ["dtype: None there, 'float64' now"]),
    "a key less": ({"row": RECORD["row"]}, ["weights: 'abc' there, None now"]),
    "1 and not true": ({**RECORD, "weights": 1}, ["weights: 'abc' there, 1 now"]),
}


@pytest.mark.parametrize("name", OTHER)
def test_the_folder_of_another_record_is_refused_key_by_key(folder, name):
    record, says = OTHER[name]
    before = contents(folder)
    with pytest.raises(RunError, match="another configuration") as caught:
        measure(folder, record, function=never)
    message = str(caught.value)
    assert [line.strip() for line in message.splitlines()[1:-1]] == says
    assert str(folder) in message
    assert "--output" in message
    assert contents(folder) == before


def test_the_record_is_compared_as_json_gives_it_back(folder):
    again = {"row": RECORD["row"], "weights": "abc"}
    measure(folder, again, function=never)
    measure(folder.with_name("tuples"), {"layers": (1, 2), "part": {3: 4}})
    measure(folder.with_name("tuples"), {"layers": [1, 2], "part": {"3": 4}}, function=never)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"record": 3}', '{"record": []}', '{"record": null}']
)
def test_a_broken_record_is_named(folder, content):
    (folder / "record.json").write_text(content)
    before = contents(folder)
    with pytest.raises(RunError, match=r"record\.json is broken .*; remove .*run and run again"):
        measure(folder, RECORD, function=never)
    assert contents(folder) == before


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def cut_to_nothing(path):
    path.write_bytes(b"")


def spoil_the_middle(path):
    whole = bytearray(path.read_bytes())
    whole[8 : len(whole) - 600] = bytes(len(whole) - 608)
    path.write_bytes(whole)


def spoil_the_first_column(path):
    """The examples can still be read."""
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    whole = bytearray(path.read_bytes())
    whole[start : start + 10] = b"\xff" * 10
    path.write_bytes(whole)


DIGEST = hashlib.sha256(json.dumps(RECORD, sort_keys=True).encode()).hexdigest()


def write(path, columns):
    folders.write_part(path, pa.table(columns), DIGEST)


SPOILT = {
    "the last bytes are gone": (cut, "truncated or broken"),
    "an empty file": (cut_to_nothing, "truncated or broken"),
    "zeros in the middle": (spoil_the_middle, "truncated or broken"),
    "zeros in one column": (spoil_the_first_column, "truncated or broken"),
    "other lines": (lambda p: write(p, squares(block(0, [1, 3, 4]))), "not what was written"),
    "no line": (lambda p: write(p, squares(block(0, []))), "not what was written"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_part_that_cannot_be_used_is_named_and_stays(folder, name):
    spoil, says = SPOILT[name]
    spoil(folder / PART)
    before = contents(folder)
    with pytest.raises(RunError, match=says) as caught:
        measure(folder, function=never)
    assert str(folder / PART) in str(caught.value)
    assert "remove this file and run again" in str(caught.value)
    assert contents(folder) == before
    (folder / PART).unlink()
    assert measure(folder).num_rows == 10


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
    before = contents(folder)
    with pytest.raises(RunError, match=r"not mixed; pass another --output, or remove") as caught:
        measure(folder, RECORD, function=never)
    assert str(folder / PARTS[known]) in str(caught.value)
    assert contents(folder) == before


def test_parts_that_the_manifest_does_not_name_are_looked_at_too(folder):
    """A reader of part-*.parquet would take them for results."""
    other = folder / "part-000000000009.parquet"
    (folder / PART).rename(other)
    adopt(folder, FOREIGN["of another record"], other.name)
    with pytest.raises(RunError, match=r"009\.parquet is not of the configuration"):
        measure(folder, function=never)
    other.unlink()
    measure(folder)

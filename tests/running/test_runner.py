"""What a folder of parts may be refused for, and what is never lost in it."""

import hashlib
import json
import multiprocessing
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.running import runner
from tests.support.traces import contents

SHARDS = [[2, 0], [1, 3], [4]]
RECORD = {"row": {"method": "loo", "options": {"epsilon": 0.1}}, "weights": "abc"}


def squares(shard):
    """Two variants, with a column of lists."""
    return {
        "variant": ["one"] * len(shard) + ["two"] * len(shard),
        "example": list(shard) * 2,
        "square": [float(n * n) for n in shard] * 2,
        "relevance": [[0.1 * n] * n for n in shard] * 2,
    }


def never(shard):
    raise AssertionError(f"measured {shard}")


@pytest.fixture
def folder(tmp_path):
    """A complete run."""
    runner.run(tmp_path / "run", RECORD, SHARDS, squares)
    return tmp_path / "run"


def test_a_complete_run_is_read_and_not_measured(folder):
    table = runner.run(folder, RECORD, SHARDS, never)
    want = [pa.table(squares(shard)) for shard in SHARDS]
    assert table.equals(pa.concat_tables(want))
    assert sorted(contents(folder)) == [*(f"part-0000{n}.parquet" for n in range(3)), "record.json"]
    assert table.schema.metadata is None
    assert len(runner.commits(folder)) == 1


def test_only_what_is_missing_is_measured_and_shown(folder):
    (folder / "part-00001.parquet").unlink()
    shown, asked = [], []

    def track(items, description):
        shown.append((list(items), description))
        return items

    def measure(shard):
        asked.append(shard)
        return squares(shard)

    table = runner.run(folder, RECORD, SHARDS, measure, track=track)
    assert asked == [[1, 3]]
    assert shown == [([1], "run")]
    assert table["example"].to_pylist() == [2, 0, 2, 0, 1, 3, 1, 3, 4, 4]


@pytest.mark.parametrize(("gone", "said"), [(0, []), (1, [2]), (2, [1]), (3, [])])
def test_the_log_says_that_a_run_is_resumed_and_only_then(folder, caplog, gone, said):
    for path in sorted(folder.glob("part-*"))[:gone]:
        path.unlink()
    with caplog.at_level("INFO", logger="benchmarks"):
        runner.run(folder, RECORD, SHARDS, squares)
    assert caplog.messages == [f"run resumed: {n} of 3 parts were there" for n in said]


def test_drafts_of_record_and_parts_are_never_taken_for_them(folder):
    (folder / "part-00002.parquet").rename(folder / ".part-00002.parquet.17@here.draft")
    (folder / "record.json").rename(folder / ".record.json.17@here.draft")
    assert len(runner.commits(folder)) == 1
    asked = []
    runner.run(folder, RECORD, SHARDS, lambda shard: asked.append(shard) or squares(shard))
    assert asked == [[4]]


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
        runner.run(folder, record, SHARDS, never)
    message = str(caught.value)
    assert [line.strip() for line in message.splitlines()[1:-1]] == says
    assert str(folder) in message
    assert "--output" in message
    assert contents(folder) == before


def test_the_record_is_compared_as_json_gives_it_back(folder):
    again = {"row": RECORD["row"], "weights": "abc"}
    runner.run(folder, again, SHARDS, never)
    runner.run(folder.with_name("tuples"), {"layers": (1, 2), "part": {3: 4}}, [[0]], squares)
    runner.run(folder.with_name("tuples"), {"layers": [1, 2], "part": {"3": 4}}, [[0]], never)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"record": 3}', '{"record": []}', '{"record": null}']
)
def test_a_broken_record_is_named(folder, content):
    (folder / "record.json").write_text(content)
    before = contents(folder)
    with pytest.raises(RunError, match=r"record\.json is broken .*; remove .*run and run again"):
        runner.run(folder, RECORD, SHARDS, never)
    assert contents(folder) == before


PART = "part-00001.parquet"


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
    runner.write_part(path, pa.table(columns), DIGEST)


SPOILT = {
    "the last bytes are gone": (cut, "truncated or broken"),
    "an empty file": (cut_to_nothing, "truncated or broken"),
    "zeros in the middle": (spoil_the_middle, "truncated or broken"),
    "zeros in one column": (spoil_the_first_column, "truncated or broken"),
    "the part of another shard": (lambda p: write(p, squares([0, 2])), "the 2 of its shard"),
    "fewer examples": (lambda p: write(p, squares([1])), "the 2 of its shard"),
    "more examples": (lambda p: write(p, squares([1, 3, 4])), "the 2 of its shard"),
    "one example more often": (lambda p: write(p, squares([1, 1, 1, 3])), "the 2 of its shard"),
    "no row": (lambda p: write(p, squares([])), "the 2 of its shard"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_part_that_cannot_be_used_is_named_and_stays(folder, name):
    spoil, says = SPOILT[name]
    spoil(folder / PART)
    before = contents(folder)
    for use in (
        lambda: runner.run(folder, RECORD, SHARDS, never),
        lambda: runner.read(folder, SHARDS, DIGEST),
    ):
        with pytest.raises(RunError, match=says) as caught:
            use()
        assert str(folder / PART) in str(caught.value)
        assert "remove this file and run again" in str(caught.value)
    assert contents(folder) == before
    (folder / PART).unlink()
    assert runner.run(folder, RECORD, SHARDS, squares).num_rows == 10


def test_a_missing_part_is_named(folder):
    (folder / PART).unlink()
    with pytest.raises(
        RunError, match=rf"{re.escape(str(folder / PART))} is missing.*run it again"
    ):
        runner.read(folder, SHARDS, DIGEST)


def adopt(folder, change):
    """A part as something else has written it, with all that the runner looks at but its record."""
    table = pq.read_table(folder / PART)
    metadata = change(dict(table.schema.metadata))
    pq.write_table(table.replace_schema_metadata(metadata), folder / PART)


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
        runner.run(folder, RECORD, SHARDS, never)
    assert str(folder / PART) in str(caught.value)
    assert contents(folder) == before


def test_parts_beyond_those_of_a_run_are_looked_at_too(folder):
    """A reader of part-*.parquet would take them for results."""
    (folder / "record.json").unlink()
    with pytest.raises(RunError, match=r"part-00000\.parquet is not of the configuration"):
        runner.run(folder, RECORD | {"weights": "abd"}, [], never)
    assert not (folder / "record.json").exists()


def test_parts_of_the_same_record_are_adopted_without_it(folder):
    (folder / "record.json").unlink()
    assert runner.run(folder, RECORD, SHARDS, never).num_rows == 10
    assert (folder / "record.json").exists()


FOLDERS, SECONDS = 20, 60


def _claim_each(output, name, both, answers):
    for n in range(FOLDERS):
        both.wait()
        try:
            runner.claim(output / str(n), {"by": name})
            answers.put((n, name, "mine"))
        except RunError as error:
            answers.put((n, name, str(error)))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # a fork is quick
def test_of_two_processes_that_claim_one_folder_one_gets_it(tmp_path):
    start = multiprocessing.get_context("fork")
    both, answers = start.Barrier(2, timeout=SECONDS), start.Queue()
    for n in range(FOLDERS):
        (tmp_path / str(n)).mkdir()
    for name in ("one", "two"):
        start.Process(target=_claim_each, args=(tmp_path, name, both, answers), daemon=True).start()
    found = [answers.get(timeout=SECONDS) for _ in range(2 * FOLDERS)]
    for n in range(FOLDERS):
        said = {name: answer for m, name, answer in found if m == n}
        made = json.loads((tmp_path / str(n) / "record.json").read_text())
        owner = made["record"]["by"]
        assert said.pop(owner) == "mine"
        (refusal,) = said.values()
        assert "holds results of another configuration" in refusal
        assert list(contents(tmp_path / str(n))) == ["record.json"]


def test_another_division_into_shards_is_refused(folder):
    with pytest.raises(RunError, match="of its shard"):
        runner.run(folder, RECORD, [[2, 0, 1], [3, 4]], never)


def test_a_measure_that_fails_leaves_the_parts_before_it(tmp_path):
    def fail(shard):
        if 4 in shard:
            raise RuntimeError("out of memory")
        return squares(shard)

    with pytest.raises(RuntimeError):
        runner.run(tmp_path, RECORD, SHARDS, fail)
    assert sorted(contents(tmp_path)) == ["part-00000.parquet", PART, "record.json"]
    made = json.loads((tmp_path / "record.json").read_text())
    assert made["record"] == RECORD

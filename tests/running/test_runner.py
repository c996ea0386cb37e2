"""What a folder of parts may be refused for, and what is never lost in it."""

import hashlib
import json
import multiprocessing
import os
from operator import length_hint

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.errors import RunError
from benchmarks.running import folders, manifest, runner, writing
from benchmarks.running.blocks import block
from tests.support.traces import contents

BLOCKS = [block(0, [2, 0]), block(2, [1, 3]), block(4, [4])]
RECORD = {"row": {"method": "loo", "options": {"epsilon": 0.1}}, "weights": "abc"}


def squares(of_block):
    """Two variants, with a column of lists."""
    shard = of_block.content
    return {
        "variant": ["one"] * len(shard) + ["two"] * len(shard),
        "example": list(shard) * 2,
        "square": [float(n * n) for n in shard] * 2,
        "relevance": [[0.1 * n] * (n + 1) for n in shard] * 2,
    }


def never(of_block):
    raise AssertionError(f"measured {of_block}")


def measure(folder, record=RECORD, blocks=BLOCKS, function=squares, **options):
    """The table of a run."""
    return runner.read(runner.run(folder, record, blocks, runner.Task(function), **options))


def files(folder):
    return json.loads((folder / "manifest.json").read_text())["files"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A complete run, with a part for each block."""
    monkeypatch.setattr(manifest, "SIZE", 1)
    measure(tmp_path / "run")
    return tmp_path / "run"


PARTS = [f"part-{first:012d}.parquet" for first in (0, 2, 4)]
PART = PARTS[1]


def test_a_complete_run_is_read_and_not_measured(folder):
    table = measure(folder, function=never)
    assert table.equals(pa.concat_tables([pa.table(squares(each)) for each in BLOCKS]))
    assert sorted(contents(folder)) == ["manifest.json", *PARTS, "record.json"]
    assert table.schema.metadata is None
    found = runner.run(folder, RECORD, BLOCKS, runner.Task(never))
    assert (len(found.commits()), found.texts) == (1, 5)


def test_blocks_that_follow_each_other_share_a_part_up_to_its_size(tmp_path, monkeypatch):
    many = [block(n, [n]) for n in range(10)]
    measure(tmp_path / "one", blocks=many)
    (whole,) = (tmp_path / "one").glob("part-*")
    assert pq.read_metadata(whole).num_row_groups == 10
    measure(tmp_path / "sizes", blocks=many[:1])
    size = files(tmp_path / "sizes")[0]["bytes"]
    monkeypatch.setattr(manifest, "SIZE", 2 * size)
    table = measure(tmp_path / "some", blocks=many)
    assert [(each["first"], each["end"]) for each in files(tmp_path / "some")] == [
        (0, 3), (3, 6), (6, 9), (9, 10),
    ]  # fmt: skip
    assert table["example"].to_pylist() == [n for n in range(10) for _ in range(2)]


def test_only_what_is_missing_is_measured_and_shown(folder):
    (folder / PART).unlink()
    shown, asked = [], []

    def track(items, description):
        shown.append((length_hint(items), description))
        return items

    def measured(of_block):
        asked.append(of_block.content)
        return squares(of_block)

    table = measure(folder, function=measured, track=track)
    assert asked == [[1, 3]]
    assert shown == [(1, "run")]
    assert table["example"].to_pylist() == [2, 0, 2, 0, 1, 3, 1, 3, 4, 4]


@pytest.mark.parametrize(("gone", "said"), [(0, []), (1, [3]), (2, [1]), (3, [])])
def test_the_log_says_that_a_run_is_resumed_and_only_then(folder, caplog, gone, said):
    for path in sorted(folder.glob("part-*"))[:gone]:
        path.unlink()
    with caplog.at_level("INFO", logger="benchmarks"):
        measure(folder)
    assert caplog.messages == [f"run resumed; texts done before: {n}" for n in said]


def test_blocks_are_read_when_they_are_wanted(tmp_path):
    order = []

    def read():
        for each in BLOCKS:
            order.append(("read", each.first))
            yield each

    measure(tmp_path, blocks=read(), function=lambda x: order.append(x.first) or squares(x))
    assert order == [("read", 0), 0, ("read", 2), 2, ("read", 4), 4]


OTHERS = {
    "another text in a part": [BLOCKS[0], block(2, [1, 5]), BLOCKS[2]],
    "fewer": BLOCKS[:2],
    "another division": [block(0, [2, 0, 1]), block(3, [3, 4])],
    "none": [],
}


@pytest.mark.parametrize("size", [1, 2**30])
@pytest.mark.parametrize("name", OTHERS)
def test_results_of_other_texts_are_not_mixed_in(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(manifest, "SIZE", size)
    measure(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"holds results of other texts .*pass another --output"):
        measure(tmp_path, blocks=OTHERS[name], function=never)
    assert contents(tmp_path) == before


def test_a_folder_at_work_is_left_alone(folder):
    with manifest.held(folder), pytest.raises(RunError, match="another run is at work in"):
        measure(folder)
    measure(folder)


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


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(manifest, "SECONDS", -1)


def _stopped(folder, at):
    """A run whose process ends just before its change number ``at`` of the folder."""
    left = [at]

    def before(change):
        def counted(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                os._exit(1)
            return change(*arguments, **options)

        return counted

    writing.os.replace = before(os.replace)
    manifest.Path.unlink = before(manifest.Path.unlink)
    manifest.shutil.rmtree = before(manifest.shutil.rmtree)
    measure(folder)


@pytest.mark.usefixtures("at_once")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # a fork is quick
def test_a_run_may_end_before_any_change_of_its_folder(tmp_path, monkeypatch):
    size = None
    for at in range(100):
        folder = tmp_path / str(at)
        monkeypatch.setattr(manifest, "SIZE", size or 2**30)
        process = multiprocessing.get_context("fork").Process(target=_stopped, args=(folder, at))
        process.start()
        process.join()
        texts = [row for path in folder.glob("part-*") for row in pq.read_table(path).to_pylist()]
        assert len({(row["variant"], row["example"]) for row in texts}) == len(texts)
        asked = []
        table = measure(folder, function=lambda x, asked=asked: asked.append(x) or squares(x))
        assert table.equals(pa.concat_tables([pa.table(squares(each)) for each in BLOCKS]))
        names = {path.name for path in folder.iterdir()}
        assert names == {"record.json", "manifest.json", *(each["file"] for each in files(folder))}
        if process.exitcode == 0:
            break
        size = size or int(1.5 * files(folder)[0]["bytes"] / 3)  # of two blocks
    assert at > 20
    assert not asked


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


FOLDERS, SECONDS = 20, 60


def _claim_each(output, name, both, answers):
    for n in range(FOLDERS):
        both.wait()
        try:
            folders.claim(output / str(n), {"by": name})
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


def test_a_measure_that_fails_leaves_the_blocks_before_it(tmp_path):
    def fail(of_block):
        if 4 in of_block.content:
            raise RuntimeError("out of memory")
        return squares(of_block)

    with pytest.raises(RuntimeError):
        measure(tmp_path, function=fail)
    assert [(each["first"], each["end"]) for each in files(tmp_path)] == [(0, 2), (2, 4)]
    assert not list(tmp_path.glob("part-*"))
    assert json.loads((tmp_path / "record.json").read_text())["record"] == RECORD
    asked = []
    measure(tmp_path, function=lambda x: asked.append(x.content) or squares(x))
    assert asked == [[4]]

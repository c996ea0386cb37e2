"""Runs of a folder: blocks are measured once, and none is lost, whenever a run ends."""

import json
import multiprocessing
import os
import sys
from operator import length_hint

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from axioms import writing
from benchmarks.errors import RunError
from benchmarks.running import folders, manifest, runner
from benchmarks.running.blocks import block
from tests.support.squares import (
    BLOCKS,
    PART,
    PARTS,
    RECORD,
    files,
    measure,
    never,
    squares,
    stopped,
)
from tests.support.traces import contents


def test_a_complete_run_is_read_and_not_measured(folder):
    table = measure(folder, function=never)
    assert table.equals(pa.concat_tables([pa.table(squares(each)) for each in BLOCKS]))
    assert sorted(contents(folder)) == ["manifest.json", *PARTS, "record.json"]
    assert table.schema.metadata is None
    found = runner.run(folder, RECORD, BLOCKS, never)
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
    with caplog.at_level("INFO", logger="lrp_axioms.benchmarks"):
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


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
def test_a_folder_and_a_record_may_have_names_that_are_not_utf8(tmp_path, size):
    name = os.fsdecode(b"out\xff")
    record = {**RECORD, "dataset": name, name: 1}
    table = measure(tmp_path / name, record)
    assert measure(tmp_path / name, record, function=never).equals(table)
    found = runner.verify(tmp_path / name)
    assert (found.texts, found.columns()) == (5, table.column_names)
    with pytest.raises(RunError, match="dataset: 'out&#56575;' there"):
        measure(tmp_path / name, RECORD)


OTHERS = {
    "another text in a part": [BLOCKS[0], block(2, [1, 5]), BLOCKS[2]],
    "fewer": BLOCKS[:2],
    "another division": [block(0, [2, 0, 1]), block(3, [3, 4])],
    "none": [],
}


@pytest.mark.parametrize("name", OTHERS)
def test_results_of_other_texts_are_not_mixed_in(tmp_path, name, size):
    measure(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"holds results of other texts .*pass another --output"):
        measure(tmp_path, blocks=OTHERS[name], function=never)
    assert contents(tmp_path) == before


def test_texts_behind_the_end_are_added_to_a_complete_run(tmp_path, monkeypatch, size):
    monkeypatch.setattr(manifest, "SECONDS", -1)
    measure(tmp_path)
    asked = []
    more = [*BLOCKS, block(5, [5, 6]), block(7, [7])]
    table = measure(tmp_path, blocks=more, function=lambda x: asked.append(x) or squares(x))
    assert asked == more[3:]
    assert table.equals(pa.concat_tables([pa.table(squares(each)) for each in more]))


def test_texts_inside_the_last_block_are_added_once_its_file_is_removed(tmp_path, size):
    measure(tmp_path)
    more, last = [*BLOCKS[:2], block(4, [4, 5])], files(tmp_path)[-1]["file"]
    with pytest.raises(RunError, match=rf"{last} ends at text 5, and .* more .* remove this file"):
        measure(tmp_path, blocks=more, function=never)
    (tmp_path / last).unlink()
    table = measure(tmp_path, blocks=more)
    assert table.equals(pa.concat_tables([pa.table(squares(each)) for each in more]))


def test_every_block_is_named_at_once_while_this_takes_little_time(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "SHARE", 1)
    named = []

    def measured(each):
        named.append(len(files(tmp_path)) if named else 0)
        return squares(each)

    measure(tmp_path, function=measured)
    assert named == [0, 1, 2]


def test_a_folder_at_work_is_left_alone(folder):
    with folders.held(folder), pytest.raises(RunError, match="another run is at work in"):
        measure(folder)
    measure(folder)


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
    manifest.Path.rmdir = before(manifest.Path.rmdir)
    measure(folder)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # a fork is quick
def test_a_run_may_end_before_any_change_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "SECONDS", -1)
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
    stopped(tmp_path)
    assert [(each["first"], each["end"]) for each in files(tmp_path)] == [(0, 2), (2, 4)]
    assert not list(tmp_path.glob("part-*"))
    assert json.loads((tmp_path / "record.json").read_text())["record"] == RECORD
    asked = []
    measure(tmp_path, function=lambda x: asked.append(x.content) or squares(x))
    assert asked == [[4]]

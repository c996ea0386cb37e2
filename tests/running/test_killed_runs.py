"""A run that is killed, at any moment, goes on and ends as if nothing had happened."""

import json
import signal
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.experiments import text
from tests.support import killable


@pytest.fixture
def measured(monkeypatch):
    """The shards that are measured from here on, and the row as it is otherwise run."""
    shards = []

    def counted(row, classifier, texts, shard):
        shards.append(tuple(shard))
        return text.maps(row, classifier, texts, shard)

    monkeypatch.setattr(text, "SHARD", killable.SHARD)
    monkeypatch.setattr(text, "measure_of", lambda _: counted)
    return shards


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The table of a run that nothing interrupted."""
    before = text.SHARD
    try:
        return killable.measure(tmp_path_factory.mktemp("whole")).table
    finally:
        text.SHARD = before


MOMENTS = {
    "after half of them": (5, None),
    "with a part half written": (3, 3),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_happened(
    tmp_path, measured, whole, moment
):
    count, draft = MOMENTS[moment]
    folder = tmp_path / killable.ROW
    parts = lambda: sorted((folder / "blocks").glob("[0-9]*"))
    begins = "" if draft is None else f".{killable.SHARD[0] * draft:012d}"
    drafts = lambda: [p for p in (folder / "blocks").glob(f"{begins}*") if p.stat().st_size]
    target = (killable.measure,) if draft is None else (killable.measure_until_draft, draft)
    with killable.process(target[0], tmp_path, *target[1:]) as process:
        killable.wait_for(lambda: drafts() if draft is not None else len(parts()) >= count, process)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    left = len(parts())
    assert count <= left < killable.PARTS
    if draft is not None:
        assert left == count
        with pytest.raises(pa.ArrowInvalid):
            pq.read_table(drafts()[0])
    manifest = folder / "manifest.json"  # which is not there before the first block is
    named = len(json.loads(manifest.read_text())["files"]) if manifest.exists() else 0

    run = killable.measure(tmp_path)

    assert not list(folder.glob(".*"))
    assert not (folder / "blocks").exists()  # the half-written block is gone
    assert named <= left  # it may be killed before it names a written part
    assert len(measured) == killable.PARTS - named
    assert len(list(folder.glob("part-*"))) == 1
    assert run.table.equals(whole)  # bit for bit
    assert Counter(run.table["example"].to_pylist()) == Counter(range(killable.SENTENCES))
    assert set(run.table["variant"].to_pylist()) == {"AttnLRP"}
    measured.clear()
    assert killable.measure(tmp_path).table.equals(whole)
    assert measured == []


def test_the_whole_table_is_what_all_texts_at_once_give(whole):
    """Against a test of nothing: the table has the maps, and they are not all alike."""
    assert whole.num_rows == killable.SENTENCES
    relevance = whole["relevance"].to_pylist()
    assert [len(line) for line in relevance] == whole["tokens"].to_pylist()
    assert len({tuple(line) for line in relevance}) == killable.SENTENCES

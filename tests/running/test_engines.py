"""Runs whose shards are measured elsewhere: by a Ray cluster of this machine, with lost workers."""

import json
import os
import re
import signal
import socket
import sys
from collections import Counter, deque
from unittest.mock import MagicMock

import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.errors import RunError
from benchmarks.experiments import rows, text
from benchmarks.running import blocks, cluster, manifest, runner, sending, timing, workers
from benchmarks.running.blocks import block
from benchmarks.running.workers import in_turn
from benchmarks.sources import data, models
from tests.support import clusters, killable

BLOCKS = [block(0, [2, 0]), block(2, [1, 3]), block(4, [4]), block(5, [5, 6])]
RECORD = {"what": "squares"}


def squares(of_block):
    shard = of_block.content
    return {"example": list(shard), "square": [float(n * n) for n in shard]}


def done(folder, measure, engine=workers.IN_PROCESS, blocks=BLOCKS):
    """The table of a run."""
    return runner.read(runner.run(folder, RECORD, blocks, measure, engine=engine))


@pytest.fixture(scope="module")
def started():
    """Two workers; started here, as a cluster that a user has is, and ended with these tests."""
    with clusters.started(gpus=0) as ray:  # a GPU's last bits differ from a CPU's
        yield ray


@pytest.fixture
def engine(started):
    return cluster.engine("ray")


@pytest.fixture
def one_thread():
    with timing.one_thread():
        yield


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def recorded(log, die_at=(), *, times=1):
    """``text.maps`` that leaves a file per call, and is killed ``times`` when it has measured."""

    def maps(row, classifier, texts, shard):
        columns = text.maps(row, classifier, texts, shard)
        before = len(list(log.glob(f"{shard[0]}-*")))
        (log / f"{shard[0]}-{before}-{os.getpid()}").touch()
        if shard[0] in die_at and before < times:
            os.kill(os.getpid(), signal.SIGKILL)
        return columns

    return maps


def calls(log):
    """First example of a shard -> how often it was measured; and by how many processes in all."""
    found = [path.name.split("-") for path in log.iterdir()]
    return Counter(int(name[0]) for name in found), len({name[2] for name in found})


def measure(output, log, monkeypatch, engine, **options):
    monkeypatch.setattr(text, "SHARD", killable.SHARD)
    monkeypatch.setattr(text, "measure_of", lambda _: recorded(log, **options))
    texts = data.load().first(killable.SENTENCES)
    return text.run(rows.load(killable.ROW), models.load(), texts, output=output, engine=engine)


def test_lost_workers_lose_nothing_and_double_nothing_bit_for_bit(
    tmp_path, log, monkeypatch, engine, one_thread
):
    here, there = tmp_path / "here", tmp_path / "there"
    one = measure(here, log, monkeypatch, workers.IN_PROCESS)
    firsts, _ = calls(log)
    assert len(firsts) == killable.PARTS
    for path in log.iterdir():
        path.unlink()
    victims = [sorted(firsts)[4]]
    other = measure(there, log, monkeypatch, engine, die_at=victims)
    assert other.table.equals(one.table)
    assert other.settings == one.settings
    counts, processes = calls(log)
    assert counts == {first: 2 if first in victims else 1 for first in firsts}
    assert processes >= 2  # the dead measured nothing more
    folders = [there / killable.ROW, here / killable.ROW]
    names = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert names[0] == names[1] == ["manifest.json", "part-000000000000.parquet", "record.json"]
    made = json.loads((folders[0] / "manifest.json").read_text())["provenance"]
    assert [each["threads"] for each in made] == [1]
    for path in (*log.iterdir(), *folders[0].glob("part-*")):
        path.unlink()
    again = measure(there, log, monkeypatch, workers.IN_PROCESS)  # engines share folders
    assert again.table.equals(one.table)
    assert calls(log)[0].total() == len(firsts)


def test_an_error_of_a_shard_is_raised_once_as_it_is_and_complete_parts_stay(tmp_path, engine, log):

    def fails(of_block):
        shard = of_block.content
        (log / f"{shard[0]}-{len(list(log.iterdir()))}").touch()
        if 4 in shard:
            raise KeyError("no such layer")
        return {"example": list(shard)}

    with pytest.raises(KeyError, match="no such layer"):
        done(tmp_path / "run", fails, engine)
    assert len(list(log.glob("4-*"))) == 1
    found = tmp_path / "run" / "manifest.json"
    named = json.loads(found.read_text())["files"] if found.exists() else []
    missing = len(BLOCKS) - len(named)
    asked = tmp_path / "asked"
    asked.mkdir()

    def works(of_block):
        (asked / str(of_block.first)).touch(exist_ok=False)
        return {"example": of_block.content}

    assert done(tmp_path / "run", works, engine).num_rows == 7
    assert len(list(asked.iterdir())) == missing
    assert not list((tmp_path / "run").rglob(".*"))  # drafts of workers that were stopped


def test_what_cannot_be_unpacked_is_tried_once_by_each_worker(tmp_path, engine, log):
    code = f"import os; open(f'{log}/{{os.getpid()}}', 'x'); raise ValueError('broken weights')"

    class Broken:
        def __reduce__(self):
            return exec, (code,)

    broken = Broken()
    with pytest.raises(ValueError, match=r"^broken weights$") as caught:
        done(tmp_path / "run", lambda of_block: broken, engine)
    assert not isinstance(caught.value, RunError)  # which would say that workers were lost
    assert len(list(log.iterdir())) in (1, 2)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["record.json"]


def test_a_shard_that_kills_every_worker_is_given_up_by_name(tmp_path, monkeypatch, engine, log):
    monkeypatch.setattr(cluster, "RETRIES", 1)

    def deadly(of_block):
        if 4 in of_block.content:
            (log / str(len(list(log.iterdir())))).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"example": of_block.content}

    says = r"2 workers were lost over texts 5 to 5; .*ActorDiedError.*\n.*run again"
    with pytest.raises(RunError, match=says):
        done(tmp_path / "run", deadly, engine)
    assert len(list(log.iterdir())) == 2


def test_what_a_lost_worker_had_is_tried_alone(monkeypatch):
    """Else an item is blamed whose answer was lost when the next one killed the worker."""
    monkeypatch.setattr(cluster, "packed", lambda *_: b"")
    crew = cluster._Crew(MagicMock(), "cpu", None)
    lost, left = MagicMock(), MagicMock()
    left.call.remote = lambda item: f"task {item}"
    crew.workers = {lost: {"task 1": ("harmless", 1), "task 2": ("deadly", 2)}, left: {}}
    waiting = deque([("next", 3)])
    crew._lost(lost, waiting, RuntimeError("killed"))
    crew.hand_out(waiting, 1)
    assert [*crew.workers[left].values()] == [("harmless", 1)]
    crew.workers[left].clear()
    crew.hand_out(waiting, 1)
    assert [*crew.workers[left].values()] == [("deadly", 2)]
    crew.workers[left].clear()
    waiting.append(("last", 4))
    crew.hand_out(waiting, 1)
    assert [*crew.workers[left].values()] == [("next", 3), ("last", 4)]
    assert not waiting


def test_a_machine_that_dies_while_its_workers_start_ends_no_run_of_others(monkeypatch):
    monkeypatch.setattr(cluster, "packed", lambda *_: b"")
    crew = cluster._Crew(MagicMock(), "cpu", None)
    crew.workers = {MagicMock(): {}} | {n: {"start": None} for n in range(8)}
    for n in range(8):
        crew._lost(n, deque(), RuntimeError("node died"))
    crew.workers = {8: {"start": None}}
    with pytest.raises(RunError, match="lost before they could start"):
        crew._lost(8, deque(), RuntimeError("node died"))


def test_a_device_that_the_cluster_lacks_is_refused(started):
    for device in ("cuda", "mps", "foo"):
        with pytest.raises(ValueError, match=f"device '{device}': this cluster has 0 GPUs"):
            cluster.engine("ray", device=device)
    assert cluster.engine("ray", device="cpu").device == "cpu"


# Without a cluster


LOSSY = {
    "it forgets a block": lambda items: items[1:],
    "it does the last one alone": lambda items: items[-1:],
    "it does nothing": lambda items: [],
}


@pytest.mark.parametrize("name", LOSSY)
def test_the_runner_notices_an_engine_that_loses_blocks(tmp_path, name):
    def lossy(function, items):
        yield from in_turn(function, LOSSY[name](list(items)))

    with pytest.raises(RunError, match=r"texts are missing; run the command again"):
        done(tmp_path, squares, workers.Engine(lossy))


def test_a_block_that_is_done_twice_is_there_once(tmp_path):
    def twice(function, items):
        items = list(items)
        yield from in_turn(function, [*items, *items[1:]])

    assert done(tmp_path, squares, workers.Engine(twice)).equals(done(tmp_path / "once", squares))


def test_weights_lie_where_they_were_sent():
    model = models.load().model
    sent = sending.packed(lambda: model, clusters.installed().cloudpickle.Pickler)
    again = sending.unpacked(sent)()
    size = sum(each.nbytes for each in sent[1:])
    assert size == 4 * sum(each.numel() for each in model.parameters())
    assert len(sent[0]) < size / 2
    places = {each.ctypes.data for each in sent[1:]}
    assert {each.data_ptr() for each in again.parameters()} == places
    one, other = model.state_dict(), again.state_dict()
    assert [*one] == [*other]
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    asked, found = ([x.requires_grad for x in m.parameters()] for m in (model, again))
    assert asked == found


REPRODUCE = ("reproduce", "table2", "--examples", "2")


def test_without_ray_the_extra_is_named(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run(*REPRODUCE, "--engine", "ray", "--output", tmp_path / "results")
    assert code == 2
    assert err.count("error:") == 1
    says = '--engine ray needs ray, not installed here; run pip install "lrp-axioms[cluster]"'
    assert says in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "head", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nowhere", "127.0.0.1:port"]
)
def test_an_address_without_a_cluster_is_named_within_seconds(run, tmp_path, monkeypatch, head):
    monkeypatch.setattr(clusters.installed(), "is_initialized", lambda: False)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = head.format(found.getsockname()[1])
    code, _, err = run(
        *REPRODUCE, "--engine", "ray", "--address", address, "--output", tmp_path / "results"
    )
    assert code == 2
    assert err.count("error:") == 1
    assert re.search(rf"--address {re.escape(address)}: no Ray cluster answers there", err)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("started", "one_thread")
def test_the_texts_of_a_file_are_explained_on_the_cluster_as_here(run, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", (1, 1, 1))
    monkeypatch.setattr(manifest, "SIZE", 1)
    file = tmp_path / "reviews.txt"
    file.write_text("a fine film\nnot bad , but far too long\ndull\n", "utf-8")
    found = {}
    for engine in ("local", "ray"):
        folder = tmp_path / engine / "found"
        code, _, err = run("attribute", file, "--engine", engine, "--output", folder)
        assert (code, err) == (0, "")
        parts = sorted(folder.glob("part-*.parquet"))
        found[engine] = [pq.read_table(path).to_pylist() for path in parts]
    assert len(found["ray"]) == 3
    assert found["ray"] == found["local"]

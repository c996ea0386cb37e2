"""Runs whose shards are measured elsewhere: by a Ray cluster of this machine, with lost workers."""

import os
import re
import signal
import socket
import sys
from collections import Counter

import pyarrow.parquet as pq
import pytest
import torch

from benchmarks.errors import RunError
from benchmarks.experiments import rows, text
from benchmarks.running import engines, runner
from benchmarks.sources import data, models
from tests.support import killable

SHARDS = [[2, 0], [1, 3], [4], [5, 6]]
RECORD = {"what": "squares"}


def squares(shard):
    return {"example": list(shard), "square": [float(n * n) for n in shard]}


def installed():
    return pytest.importorskip("ray", reason="pip install 'lrp-axioms[cluster]' brings Ray")


@pytest.fixture(scope="module")
def cluster():
    """Two workers; started here, as a cluster that a user has is, and ended with these tests."""
    ray = installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_raylet_start_wait_time_s", "120")  # on a busy machine
        patch.setenv("RAY_worker_niceness", "0")
        sizes = {"num_cpus": 2, "num_gpus": 0}  # a GPU's last bits are not those of a CPU
        ray.init("local", **sizes, include_dashboard=False, log_to_driver=False)
        yield ray
        ray.shutdown()


@pytest.fixture
def engine(cluster):
    return engines.on_ray()


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
    monkeypatch.setitem(text.MEASURES, "table2", recorded(log, **options))
    texts = data.load().first(killable.SENTENCES)
    return text.run(rows.load(killable.ROW), models.load(), texts, output=output, engine=engine)


def test_lost_workers_lose_nothing_and_double_nothing_bit_for_bit(
    tmp_path, monkeypatch, engine, one_thread
):
    here, there, log = tmp_path / "here", tmp_path / "there", tmp_path / "log"
    log.mkdir()
    one = measure(here, log, monkeypatch, engines.IN_PROCESS)
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
    assert names[0] == names[1]  # no draft stays
    assert {made(path)["threads"] for path in folders[0].glob("part-*")} == {1}

    gone = sorted(folders[0].glob("part-*"))[1::4]
    for path in (*log.iterdir(), *gone):
        path.unlink()
    again = measure(there, log, monkeypatch, engines.IN_PROCESS)  # engines share folders
    assert again.table.equals(one.table)
    assert calls(log)[0].total() == len(gone)


def made(path):
    return runner.json.loads(pq.read_schema(path).metadata[b"provenance"])


def test_an_error_of_a_shard_is_raised_once_as_it_is_and_complete_parts_stay(tmp_path, engine):
    log = tmp_path / "log"
    log.mkdir()

    def fails(shard):
        (log / f"{shard[0]}-{len(list(log.iterdir()))}").touch()
        if 4 in shard:
            raise KeyError("no such layer")
        return {"example": list(shard)}

    with pytest.raises(KeyError, match="no such layer"):
        runner.run(tmp_path / "run", RECORD, SHARDS, fails, engine=engine)
    assert len(list(log.glob("4-*"))) == 1
    assert sorted(p.name for p in (tmp_path / "run").iterdir() if p.name.startswith(".")) == []
    missing = len(SHARDS) - len(list((tmp_path / "run").glob("part-*")))
    asked = tmp_path / "asked"
    asked.mkdir()

    def works(shard):
        (asked / str(shard[0])).touch(exist_ok=False)
        return {"example": list(shard)}

    assert runner.run(tmp_path / "run", RECORD, SHARDS, works, engine=engine).num_rows == 7
    assert len(list(asked.iterdir())) == missing


def test_what_cannot_be_unpacked_is_tried_once_by_each_worker(tmp_path, engine):
    log = tmp_path / "log"
    log.mkdir()
    code = f"import os; open(f'{log}/{{os.getpid()}}', 'x'); raise ValueError('broken weights')"

    class Broken:
        def __reduce__(self):
            return exec, (code,)

    broken = Broken()
    with pytest.raises(ValueError, match=r"^broken weights$") as caught:
        runner.run(tmp_path / "run", RECORD, SHARDS, lambda shard: broken, engine=engine)
    assert not isinstance(caught.value, RunError)  # which would say that workers were lost
    assert len(list(log.iterdir())) in (1, 2)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["record.json"]


def test_a_shard_that_kills_every_worker_is_given_up_by_name(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(engines, "RETRIES", 1)
    log = tmp_path / "log"
    log.mkdir()

    def deadly(shard):
        if 4 in shard:
            (log / str(len(list(log.iterdir())))).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"example": list(shard)}

    says = r"2 workers were lost over part 2, examples \[4\]; .*ActorDiedError.*\n.*run again"
    with pytest.raises(RunError, match=says):
        runner.run(tmp_path / "run", RECORD, SHARDS, deadly, engine=engine)
    assert len(list(log.iterdir())) == 2


def test_a_device_that_the_cluster_lacks_is_refused(cluster):
    for device in ("cuda", "mps"):
        with pytest.raises(ValueError, match=f"device '{device}': this cluster has 0 GPUs"):
            engines.on_ray(device=device)
    assert engines.on_ray(device="cpu").device == "cpu"


# Without a cluster


def test_in_process_is_the_default_and_measures_in_order(tmp_path):
    asked = []
    runner.run(tmp_path, RECORD, SHARDS, lambda shard: asked.append(shard) or squares(shard))
    assert asked == SHARDS


LOSSY = {
    "it forgets a shard": lambda measure, shards: iter(
        [(n, engines.table(measure, shards[n])) for n in list(shards)[1:]]
    ),
    "it gives a shard twice": lambda measure, shards: iter(
        [(0, engines.table(measure, shards[0])) for _ in shards]
    ),
    "it swaps two shards": lambda measure, shards: iter(
        [(n, engines.table(measure, shards[1 - n if n < 2 else n])) for n in shards]
    ),
}


@pytest.mark.parametrize("name", LOSSY)
def test_the_runner_notices_an_engine_that_loses_or_doubles(tmp_path, name):
    def lossy(measure, shards):
        yield from LOSSY[name](measure, shards)

    with pytest.raises(RunError, match=r"is missing|other examples"):
        runner.run(tmp_path, RECORD, SHARDS, squares, engine=engines.Engine(lossy))


REPRODUCE = ("reproduce", "table2", "--examples", "2")


def test_without_ray_the_extra_is_named(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run(*REPRODUCE, "--engine", "ray", "--output", tmp_path / "results")
    assert code == 2
    assert err.count("error:") == 1
    assert (
        '--engine ray needs ray, not installed here; run pip install "lrp-axioms[cluster]"' in err
    )
    assert not list(tmp_path.iterdir())


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize(
    "head", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nowhere", "127.0.0.1:port"]
)
def test_an_address_without_a_cluster_is_named_within_seconds(run, tmp_path, monkeypatch, head):
    monkeypatch.setattr(installed(), "is_initialized", lambda: False)
    address = head.format(free_port())
    code, _, err = run(
        *REPRODUCE, "--engine", "ray", "--address", address, "--output", tmp_path / "results"
    )
    assert code == 2
    assert err.count("error:") == 1
    assert re.search(rf"--address {re.escape(address)}: no Ray cluster answers there", err)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("cluster", "one_thread")
def test_the_texts_of_a_file_are_explained_on_the_cluster_as_here(run, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SHARD", (1, 4096))
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

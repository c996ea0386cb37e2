"""Work that processes of this machine share out: the same results, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.errors import RunError
from benchmarks.experiments import rows, text
from benchmarks.running.workers import AHEAD, Engine, collected, in_turn, processes
from benchmarks.sources import data, models

ROOT = Path(__file__).resolve().parents[2]
ITEMS = {"a": 4, "b": -9, "c": 25}


def about(number):
    """A result, the process it comes from, and how many threads that has."""
    return abs(number), os.getpid(), os.environ.get("OMP_NUM_THREADS")


def fails(number):
    if number < 0:
        raise ValueError(f"{number} has no root")
    return number


def dies(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def pool():
    with processes(2) as each:
        yield each


def test_items_are_shared_out_to_other_processes_of_one_thread(pool):
    found = dict(pool(about, ITEMS.items()))
    assert {key: value for key, (value, _, _) in found.items()} == {"a": 4, "b": 9, "c": 25}
    assert {threads for _, _, threads in found.values()} == {"1"}
    assert os.getpid() not in {pid for _, pid, _ in found.values()}
    assert {pid for _, pid, _ in dict(in_turn(about, ITEMS.items())).values()} == {os.getpid()}


def test_no_more_items_are_asked_for_than_workers_have(pool):
    asked = []
    items = ((asked.append(n), (n, n))[1] for n in range(20))
    most = 0
    for done, _ in enumerate(pool(about, items)):
        most = max(most, len(asked) - done)
    assert (len(asked), most) == (20, 2 * AHEAD)


def test_an_error_of_an_item_is_raised_as_it_is_and_the_next_call_works(pool):
    with pytest.raises(ValueError, match="-9 has no root"):
        list(pool(fails, ITEMS.items()))
    assert len(list(pool(about, ITEMS.items()))) == len(ITEMS)


def test_maps_do_not_depend_on_who_measures_them(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(text, "SHARD", (2, 4096, 4096))
    classifier, texts = models.load(), data.load().first(3)
    row = rows.load("table2-sst2-cp-lrp")
    found = {}
    with processes(1) as alone:
        for name, each in {"here": alone, "there": pool}.items():
            run = text.run(row, classifier, texts, output=tmp_path / name, engine=Engine(each))
            found[name] = run.table
    assert found["here"].num_rows == 3
    assert found["there"].equals(found["here"])


def test_results_keep_the_order_of_their_items_whoever_is_first():
    backwards = lambda function, items: in_turn(function, reversed(list(items)))
    options = {"track": lambda items, _: items, "description": ""}
    found = collected(abs, [3, -1, 2], each=backwards, **options)
    assert list(found.items()) == [(3, 3), (-1, 1), (2, 2)]


def test_a_lost_worker_is_one_error_with_a_next_step():
    with processes(2) as each, pytest.raises(RunError, match=r"worker .* fewer --workers"):
        list(each(dies, ITEMS.items()))


BUSY = """
import os, sys, time
from pathlib import Path
from benchmarks.running.workers import processes

def sleeps(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)

if __name__ == "__main__":
    with processes(2) as each:
        list(each(sleeps, ((n, sys.argv[1]) for n in range(4))))
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def within(seconds, done):
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.05)
    return done()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed in /proc")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind_when_the_program_is_stopped(tmp_path, stop):
    program, pids = tmp_path / "busy.py", tmp_path / "pids"
    program.write_text(BUSY)
    pids.mkdir()
    started = subprocess.Popen(
        [sys.executable, program, pids],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert within(120, lambda: len(list(pids.iterdir())) == 2 or started.poll() is not None)
        workers = [int(path.name) for path in pids.iterdir()]
        assert len(workers) == 2
        # As a terminal does it, to the whole group; a kill reaches one process alone.
        (os.killpg if stop == signal.SIGINT else os.kill)(started.pid, stop)
        _, err = started.communicate(timeout=120)
    finally:
        started.kill()
    assert within(30, lambda: not any(map(alive, workers)))
    if stop == signal.SIGINT:
        assert err.count("Traceback") == 1  # of the program alone
        assert err.rstrip().endswith("KeyboardInterrupt")

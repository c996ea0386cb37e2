"""Runs on a Ray cluster of two nodes of this machine whose parts are killed at random moments.

python -m benchmarks.research.speed.scale.kills --kills 20 --seed 0

A worker, a node or the command itself is killed (SIGKILL) in turn, up to 6 seconds after the
manifest has changed; a killed command is started again.  Then all lines of all runs are compared
with the lines of one undisturbed process.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq

from lrp_axioms.benchmarks.research.speed.scale import small
from lrp_axioms.benchmarks.running import manifest
from lrp_axioms.benchmarks.running.folders import MANIFEST

VICTIMS = "worker", "node", "command"
TEXTS, ROWS = 6000, (32, 32, 32)
PART = 40_000  # bytes: parts are made all the time
LONGEST = 6.0  # seconds from a sign of life to a kill
PATIENCE = 300  # seconds without any


def explain(folder: Path, address: str | None, count: int) -> None:
    """Runs ``attribute`` on the cluster at ``address``, or without one in this process."""
    from lrp_axioms.benchmarks.experiments.explained import explain_texts
    from lrp_axioms.benchmarks.running import blocks, cluster
    from lrp_axioms.benchmarks.running.timing import one_thread

    engine = cluster.engine("ray" if address else "local", address=address)
    rows, size = patch.object(blocks, "ROWS", ROWS), patch.object(manifest, "SIZE", PART)
    with rows, size, one_thread():
        explain_texts(
            small.classifier(), small.texts(count), name="small", output=folder, engine=engine
        )


def lines(folder: Path) -> list[dict]:
    """Reads all lines of part-*.parquet, in the order of the files."""
    return [x for path in sorted(folder.glob("part-*")) for x in pq.read_table(path).to_pylist()]


class Cluster:
    """Two nodes with a worker each; the second can be killed."""

    def __enter__(self):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # else busy processors leave it no time
        from ray.cluster_utils import Cluster as OfRay

        self.cluster = OfRay(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
        self.node = self.cluster.add_node(num_cpus=1, num_gpus=0)
        return self

    def __exit__(self, *_):
        self.cluster.shutdown()

    def kill_node(self):
        self.cluster.remove_node(self.node, allow_graceful=False)
        self.node = self.cluster.add_node(num_cpus=1, num_gpus=0)


def workers() -> list[int]:
    """Finds the actors of the clusters that this process started."""
    parents, found = {}, []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[place.name] = (place / "stat").read_text().rpartition(")")[2].split()[1]
            if (place / "cmdline").read_bytes().startswith(b"ray::_Worker"):
                found.append(place.name)
        except OSError:  # it has just ended
            continue
    return [int(pid) for pid in found if _is_below(pid, parents)]


def _is_below(pid, parents):
    while pid in parents:
        if pid == str(os.getpid()):
            return True
        pid = parents[pid]
    return False


def disturb(folder: Path, *, kills: int, seed: int, texts: int = TEXTS) -> tuple[Counter, list]:
    """Runs in new folders until ``kills`` are done; returns kills by victim, and the folders."""
    draw, done, folders = random.Random(seed), Counter(), []
    with Cluster() as cluster:
        while not folders or done.total() < kills:
            folders.append(folder / f"run {len(folders)}")
            _run(cluster, folders[-1], texts, draw, done, kills)
    return done, folders


def _run(cluster, folder, texts, draw, done, kills):
    """Runs to the end, and starts a killed command again; RuntimeError if it fails by itself."""
    address, count = cluster.cluster.address, str(texts)
    command = [sys.executable, "-m", "lrp_axioms.benchmarks.research.speed.scale.kills"]
    command += ["--command", str(folder), "--address", address, "--texts", count]
    ended, log = None, folder.with_suffix(".log")
    while ended != 0:
        with log.open("wb") as said:
            started = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            while done.total() < kills and _goes_on(started, folder):
                time.sleep(draw.uniform(0, LONGEST))
                victim = VICTIMS[done.total() % len(VICTIMS)]
                done[victim] += _kill(victim, started, cluster, draw)
            ended = started.wait(PATIENCE)
        finally:
            started.kill()
        if ended not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the command ended with {ended}: {log.read_text()[-2000:]}")


def _kill(victim, started, cluster, draw):
    """Whether there was such a victim."""
    own = workers()
    if started.poll() is not None or (victim == "worker" and not own):
        return False
    if victim == "command":
        started.kill()
        started.wait()
    elif victim == "node":
        cluster.kill_node()
    else:
        os.kill(draw.choice(own), signal.SIGKILL)
    print(f"killed: {victim}", flush=True)
    return True


def _goes_on(started, folder):
    """Waits for the next change of the manifest; False if the command ends before."""
    path, end = folder / MANIFEST, time.monotonic() + PATIENCE
    when = lambda: path.stat().st_mtime_ns if path.exists() else None
    before = when()
    while when() == before:
        if started.poll() is not None:
            return False
        if time.monotonic() > end:
            raise TimeoutError(f"nothing happened in {folder}")
        time.sleep(0.01)
    return True


def compared(folders: list[Path], alone: Path, texts: int) -> dict[str, int]:
    """Counts lost and doubled lines, and runs that differ from one process alone."""
    explain(alone, None, texts)
    want = lines(alone)
    wrong = Counter(lost=0, doubled=0, different=0)
    for folder in folders:
        found = lines(folder)
        counts = Counter(line["example"] for line in found)
        wrong["lost"] += sum(line["example"] not in counts for line in want)
        wrong["doubled"] += counts.total() - len(counts)
        wrong["different"] += found != want
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", type=int, default=TEXTS, help="of one run")
    parser.add_argument("--command", type=Path, help="be the command of a run in this folder")
    parser.add_argument("--address", help="of its cluster")
    chosen = parser.parse_args()
    if chosen.command:
        explain(chosen.command, chosen.address, chosen.texts)
        return
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        options = {"kills": chosen.kills, "seed": chosen.seed, "texts": chosen.texts}
        done, folders = disturb(place, **options)
        wrong = compared(folders, place / "alone", chosen.texts)
        print(json.dumps({"runs": len(folders), "kills": done, **wrong}))
    if any(wrong.values()):
        raise SystemExit("lines were lost, doubled or changed")


if __name__ == "__main__":
    main()

"""Peak resident memory of ``attribute`` by the number of texts.

python -m benchmarks.research.speed.scale.memory [--workers 2]

Each size is a process of its own, which reads JSONL and writes Parquet.  --workers N also measures
N workers of Ray, which this process commands.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lrp_axioms.benchmarks.running import manifest

SIZES = 10_000, 1_000_000


def measure(count: int, workers: int = 0) -> dict:
    """Explains ``count`` texts, and measures peak resident memory, time, and written files."""
    from lrp_axioms.benchmarks.experiments.explained import explain_texts
    from lrp_axioms.benchmarks.research.speed.scale import kills, small
    from lrp_axioms.benchmarks.running.timing import one_thread
    from lrp_axioms.benchmarks.sources.streams import texts

    peaks = {}

    def looked(finished, _description):
        for each in finished:
            peaks.update((pid, _peak(pid)) for pid in (kills.workers() if workers else ()))
            yield each

    with tempfile.TemporaryDirectory() as folder, one_thread():
        place = Path(folder) / "texts.jsonl"
        with place.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in small.texts(count))
        classifier, start = small.classifier(), time.perf_counter()
        found = explain_texts(
            classifier,
            texts(str(place)),
            name=place.name,
            output=Path(folder) / "found",
            engine=_engine(workers),
            track=looked,
        )
        assert found.texts == sum(each.lines for each in found.files) == count
        return {
            "texts": count,
            "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "of workers": sorted(peaks.values()),
            "seconds": time.perf_counter() - start,
            "parts": len(found.files),
            "largest part": max(each.bytes for each in found.files),
            "bytes": sum(each.bytes for each in found.files),
        }


def _engine(workers):
    from lrp_axioms.benchmarks.running import cluster
    from lrp_axioms.benchmarks.running.workers import IN_PROCESS

    if not workers:
        return IN_PROCESS
    one = {"num_gpus": 0, "include_dashboard": False, "log_to_driver": False}
    cluster.library().init("local", num_cpus=workers, **one)
    return cluster.engine("ray", device="cpu")


def _peak(pid):
    """Returns the peak of a process's resident memory in MiB, with shared pages."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, nargs="+", default=SIZES)
    parser.add_argument("--part", type=float, default=128, help="MiB of a part")
    parser.add_argument("--workers", type=int, default=0, help="of Ray; 0 is this process alone")
    parser.add_argument("--one", type=int, help="measure this number in this process")
    chosen = parser.parse_args()
    if chosen.one:
        manifest.SIZE = chosen.part * 2**20
        print(json.dumps(measure(chosen.one, chosen.workers)))
        return
    program, found = [sys.executable, "-m", "lrp_axioms.benchmarks.research.speed.scale.memory"], []
    program += ["--part", str(chosen.part), "--workers", str(chosen.workers), "--one"]
    for count in sorted({*chosen.texts}):
        done = subprocess.run([*program, str(count)], check=True, stdout=subprocess.PIPE, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(found[-1], flush=True)
    if len(found) > 1:
        print(f"peak, last over first: {found[-1]['peak MiB'] / found[0]['peak MiB']:.3f}")
    if len(found) > 1 and chosen.workers:
        first, last = max(found[0]["of workers"]), max(found[-1]["of workers"])
        print(f"of the largest worker: {last / first:.3f}")


if __name__ == "__main__":
    main()

"""Peak resident memory of ``attribute`` by the number of texts.

python -m benchmarks.speed.scale.memory

Each size is a process of its own, which reads JSONL and writes Parquet.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.running import manifest

SIZES = 10_000, 1_000_000


def measure(count: int) -> dict:
    """Explains ``count`` texts here; MiB that were resident at most, seconds, files, their size."""
    from benchmarks.experiments.explained import explain_texts
    from benchmarks.running.threads import one_thread
    from benchmarks.sources.streams import texts
    from benchmarks.speed.scale import small

    with tempfile.TemporaryDirectory() as folder, one_thread():
        place, start = Path(folder) / "texts.jsonl", time.perf_counter()
        with place.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in small.texts(count))
        found = explain_texts(
            small.classifier(), texts(str(place)), name=place.name, output=Path(folder) / "found"
        )
        assert found.texts == sum(each.lines for each in found.files) == count
        return {
            "texts": count,
            "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "seconds": time.perf_counter() - start,
            "parts": len(found.files),
            "bytes": sum(each.bytes for each in found.files),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, nargs="+", default=SIZES, help="in rising order")
    parser.add_argument("--part", type=float, default=128, help="MiB of a part")
    parser.add_argument("--one", type=int, help="measure this number in this process")
    chosen = parser.parse_args()
    if chosen.one:
        manifest.SIZE = chosen.part * 2**20
        print(json.dumps(measure(chosen.one)))
        return
    program, found = [sys.executable, "-m", "benchmarks.speed.scale.memory"], []
    program += ["--part", str(chosen.part), "--one"]
    for count in chosen.texts:
        done = subprocess.run([*program, str(count)], check=True, stdout=subprocess.PIPE, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(found[-1], flush=True)
    print(f"peak, last over first: {found[-1]['peak MiB'] / found[0]['peak MiB']:.3f}")


if __name__ == "__main__":
    main()

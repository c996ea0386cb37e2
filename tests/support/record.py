"""Records everything that a change of structure keeps, and compares it with an earlier record.

``python -m tests.support.record write DIR [PART ...]`` writes a file of JSON for each part, and
``compare DIR [PART ...]`` makes the parts again, in ``DIR/now``, lists all keys that were added,
removed or changed, and exits with 1 if there are any.  A part goes on where it was interrupted,
if no file of the project has changed since.  The parts are in ``tests.support.recorded``.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.running.workers import cores, processes
from tests.support.recorded import PARTS, ROOT, entries, sha


def write(part: str, folder: Path, given: argparse.Namespace) -> dict:
    """Makes a part; entries of finished items are kept in a second file until all are there."""
    start, (function, items) = time.perf_counter(), PARTS[part]
    if given.only and isinstance(items[0], tuple):
        items = [item for item in items if item[0] in given.only]
    kept, now = folder / f"{part}.jsonl", tree()
    lines = kept.read_text("utf-8").split("\n")[:-1] if kept.exists() else []
    lines = lines if lines[:1] == [now] else [now]
    kept.write_text("".join(f"{line}\n" for line in lines), "utf-8")  # without a line cut short
    done = dict(map(json.loads, lines[1:]))
    left = [(key, item) for item in items if (key := json.dumps(item)) not in done]
    with kept.open("a", encoding="utf-8") as file, processes(given.workers) as each:
        for key, found in each(partial(entries, function), left):
            done[key] = found
            print(json.dumps([key, found]), file=file, flush=True)
    found = dict(entry for item in items for entry in done[json.dumps(item)])
    text = json.dumps(found, indent=0, sort_keys=True, ensure_ascii=False)
    (folder / f"{part}.json").write_text(text + "\n", "utf-8")
    kept.unlink()
    print(f"{part}: {len(found)} keys, {time.perf_counter() - start:.0f} s", flush=True)
    return json.loads(text)


def tree() -> str:
    """A hash of all files of code, as they are now."""
    folders = "axioms", "numeric", "benchmarks", "tests", "website"
    files = [path for name in folders for path in sorted((ROOT / name).rglob("*.py"))]
    return sha("".join(sha(path.read_bytes()) for path in files))


def differences(old: dict, new: dict) -> list[str]:
    """A line for each key that was added, removed or changed."""
    lines = [f"removed {x}: {old[x]}" for x in old if x not in new]
    lines += [f"added {x}: {new[x]}" for x in new if x not in old]
    both = [x for x in old if x in new]
    return lines + [f"changed {x}: {old[x]} -> {new[x]}" for x in both if old[x] != new[x]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.record", description=__doc__)
    add = parser.add_argument
    add("action", choices=("write", "compare"))
    add("folder", type=Path)
    add("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    add("--only", nargs="+", metavar="NAME", help="these types of model; for census, models, ends")
    add("--workers", type=int, default=cores(), help="processes that share out the work")
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; pass {', '.join(PARTS)}")
    torch.set_num_threads(1)
    folder = given.folder / "now" if given.action == "compare" else given.folder
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for part in given.parts or PARTS:
        new = write(part, folder, given)
        if given.action == "compare":
            old = json.loads((given.folder / f"{part}.json").read_text("utf-8"))
            if given.only and isinstance(PARTS[part][1][0], tuple):
                old = {x: y for x, y in old.items() if x.split(" | ")[0] in given.only}
            found = differences(old, new)
            print(f"{part}: {len(found)} differences", *found, sep="\n  ")
            total += len(found)
    sys.exit(total > 0)


if __name__ == "__main__":
    main()

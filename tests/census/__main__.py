"""``python -m tests.census``: measures every architecture and writes docs/MODELS.md."""

import argparse
from functools import partial

from benchmarks.running.workers import cores, processes
from tests.census import named
from tests.census.build import TASKS, architectures
from tests.census.measure import COLUMNS, measure
from tests.census.page import page, row


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.census", description=__doc__)
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="these types of model, such as gemma2; no page")
    add("--task", nargs="+", choices=TASKS, metavar="TASK", help="these tasks; no page")
    add("--columns", nargs="+", choices=COLUMNS, help="these measurements; no page")
    add("--trace", action="store_true", help="end with the traceback of the first error; no page")
    add("--workers", type=int, default=cores(), help="processes that share out the work")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    items = [(name, task) for task in chosen.task or TASKS for name in architectures(task)]
    items = [item for item in items if not chosen.only or item[0] in chosen.only]
    if not items:
        raise SystemExit(f"--only {' '.join(chosen.only)}: no architecture of these tasks")
    catch = () if chosen.trace else Exception
    run = partial(measure, columns=chosen.columns or tuple(COLUMNS), catch=catch)
    found = []
    with processes(min(chosen.workers, len(items))) as each:
        for (_, task), measured in each(run, zip(items, items, strict=True)):
            found.append(measured)
            print(task, row(measured), flush=True)
    if not (chosen.only or chosen.task or chosen.columns or chosen.trace):
        named.PAGE.write_text(page(found), encoding="utf-8")
        named.main()  # adds its part


if __name__ == "__main__":
    main()

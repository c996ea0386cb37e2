"""``python -m benchmarks.architectures``: measures every architecture, or some by name."""

import argparse
import warnings
from functools import partial

import transformers

from benchmarks.architectures.build import TASKS, architectures
from benchmarks.architectures.measure import COLUMNS, Found, measure
from benchmarks.workers import cores, processes


def line(found: Found) -> str:
    """One architecture as a line of text."""
    verdicts = [f"{column}: {verdict(column, x)}" for column, x in found.errors.items()]
    return " | ".join([found.task, found.architecture, *(verdicts or [found.refusal])])


def verdict(column: str, error: float | str) -> str:
    """Yes, or the error in words or as a number."""
    if isinstance(error, str):
        return error
    return "yes" if error <= COLUMNS[column][1] else f"no, {error:.0e}"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="types of model, such as gemma2")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--trace", action="store_true", help="end with the first error's traceback")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    items = [(name, task) for task in chosen.task for name in architectures(task)]
    items = {item: item for item in items if not chosen.only or item[0] in chosen.only}
    run = partial(measure, columns=chosen.columns, catch=() if chosen.trace else Exception)
    with processes(max(1, min(chosen.workers, len(items)))) as each:
        for _, found in each(run, items):
            print(line(found), flush=True)


if __name__ == "__main__":
    main()

"""Ratios that a benchmark notes are compared with the baseline, or replace it.

`make bench` compares and fails by name; `make baseline` replaces.  An ordinary test run executes
the benchmarks on small models and keeps no ratio, because a busy machine says nothing of speed.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lrp_axioms.benchmarks.research.speed import machine
from lrp_axioms.benchmarks.research.speed.ratios import (
    BASELINE,
    Ratio,
    compare,
    read,
    remarks,
    table,
    write,
)


def pytest_addoption(parser):
    group = parser.getgroup("ratios of time and memory")
    group.addoption(
        "--update-baseline",
        action="store_true",
        help="the ratios of this run replace those of the same name; RESULTS.md is rewritten",
    )
    group.addoption("--baseline", type=Path, default=BASELINE, help="default: %(default)s")


def pytest_configure(config):
    update = config.getoption("update_baseline", default=False)
    if update and not is_timed(config):
        raise pytest.UsageError(
            "--update-baseline: this run measures no time; add --benchmark-enable, or run "
            "`make baseline`"
        )
    config.stash[FOUND] = Found(config) if is_timed(config) else None


def is_timed(config) -> bool:
    """Whether this run measures: `make bench` and `make baseline` do."""
    option = config.getoption
    return option("benchmark_enable") or not option("benchmark_disable")


class Found:
    """The ratios of this run, beside the baseline."""

    def __init__(self, config):
        self.path = config.getoption("baseline", default=BASELINE)
        self.update = config.getoption("update_baseline", default=False)
        try:
            self.baseline = read(self.path)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
        self.here = machine.here()
        self.ratios: dict[str, Ratio] = {}
        self.names: set[str] = set()


FOUND = pytest.StashKey[Found | None]()


class Notes:
    """The ratios of one test, which count once it has passed."""

    def __init__(self, found: Found | None):
        self.found = found
        self.ratios: list[Ratio] = []

    def note(
        self,
        name: str,
        values: Sequence[float],
        *,
        group: str,
        better: str = "lower",
        goal: float | None = None,
    ) -> None:
        """Keeps a ratio, one value per alternating round; without timing it is only checked.

        Raises ValueError for a bad value and for a name that was noted before.
        """
        new = Ratio(name=name, group=group, values=tuple(values), better=better, goal=goal)
        if self.found is None:
            return
        if name in self.found.names:
            raise ValueError(f"ratio {name!r} is noted twice in this run; name one of them anew")
        self.found.names.add(name)
        self.ratios.append(new)

    def over(self, name: str, above: Sequence[float], below: Sequence[float], **about) -> None:
        """Keeps the ratio of two lists of seconds, as ``note``."""
        self.note(name, [a / b for a, b in zip(above, below, strict=True)], **about)


@pytest.fixture
def ratios(request):
    return Notes(request.config.stash[FOUND])


@pytest.fixture(scope="session")
def timed(request) -> bool:
    return is_timed(request.config)


@pytest.fixture
def only_when_timed(timed):
    if not timed:
        pytest.skip("this takes minutes of an idle machine; `make bench` measures it")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fails a passed test by its ratios; a failed one may have measured a wrong answer."""
    result = yield
    notes = pyfuncitem.funcargs.get("ratios")
    if isinstance(notes, Notes) and notes.found:
        notes.found.ratios |= {ratio.name: ratio for ratio in notes.ratios}
        complaints = compare(notes.ratios, notes.found.baseline)
        if complaints and not notes.found.update:  # which replaces the baseline
            pytest.fail("\n".join(complaints), pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter, config):
    found = config.stash.get(FOUND, None)
    if not (found and found.ratios):
        return
    ratios = found.ratios.values()
    terminalreporter.section("ratios of time and memory")
    for line in table(ratios, found.baseline):
        terminalreporter.write_line(line)
    if not found.update:
        for line in remarks(ratios, found.baseline, found.here):
            terminalreporter.write_line(f"- {line}")
        return
    new = {name: replace(ratio, where=found.here) for name, ratio in found.ratios.items()}
    write(found.path, found.baseline | new)
    terminalreporter.write_line(f"{len(new)} ratios written to {found.path}")

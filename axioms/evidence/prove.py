"""Runs the theorems, and returns the verdict of each."""

import contextlib
import os
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from lrp_axioms.axioms.decide.decisions import Decision
from lrp_axioms.axioms.evidence import evidence
from lrp_axioms.axioms.evidence.statements import ROOT, THEOREMS

NOT_ESTABLISHED = "not established"
TURN = threading.RLock()
"""Held by a run: pytest changes streams, modules and the environment of the whole process."""
MARKER = "theorem(number, statement, verdict): a statement, 'proved' or 'refuted' by its test"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict of one theorem test: one row of the table of theorems."""

    number: int
    statement: str
    verdict: str  # "proved", "refuted" or "not established"
    witness: str  # refutes the statement: words of the test, or else the first of ``points``
    method: str  # how a proof goes
    identities: int  # how many were decided over symbols
    points: str  # where two sides were found to differ, evaluated once more after the test
    ran: str  # the functions of the project that the test called
    seconds: float
    test: str  # such as axioms/theorems/test_linear.py::test_...
    error: str  # why nothing was established; empty otherwise
    label: str = ""  # such as 10b; the number alone if it has one statement
    given: str = ""  # assumptions on symbols, beside being real
    scope: str = ""  # how many inputs or channels a proof decides, and why it is so of others


class _Recorder:
    """Collects the marker and the reports of every theorem test, by test function."""

    def __init__(self) -> None:
        self.items: dict[str, list[pytest.Item]] = {}
        self.reports: dict[str, list[pytest.TestReport]] = {}
        self.unreadable: list[str] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", MARKER)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.unreadable.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if item.get_closest_marker("theorem"):
                self.items.setdefault(test_of(item), []).append(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.reports.setdefault(test_of(item), []).append(report)
        return report


def test_of(item: pytest.Item) -> str:
    """Path and name of a test function; a node id has no path outside the root directory."""
    path = item.path
    if path.is_relative_to(ROOT):
        path = path.relative_to(ROOT)
    return f"{path.as_posix()}::{item.nodeid.partition('::')[2].partition('[')[0]}"


def prove(
    *paths: str | Path,
    decisions: dict[str, list[Decision]] | None = None,
    plugins: Sequence[object] = (),
) -> list[Verdict]:
    """Runs the theorem tests under ``paths`` (default: all) and returns a verdict for each.

    The verdicts are in the order of ``numbered``.  ``decisions``, if given, receives the decisions
    of all runs of each test, in order, by the ``test`` of its verdict; ``plugins`` of pytest may
    look on.  Nothing is printed or written, and neither the current directory nor the user's pytest
    configuration matters.  Raises RuntimeError if a file cannot be read or holds no theorem, and
    ValueError for a marker that is not (number, statement, verdict).
    """
    chosen = [Path(path).resolve() for path in paths or (THEOREMS,)]
    recorder = _Recorder()
    with TURN, _isolated_pytest(chosen):
        status = pytest.main(
            [*_options(), *map(str, chosen)], plugins=[recorder, evidence, *plugins]
        )
    if recorder.unreadable:
        raise RuntimeError("theorems could not be collected:\n" + "\n".join(recorder.unreadable))
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not recorder.items:
        raise RuntimeError(
            f"no theorem ran in {', '.join(map(str, chosen))} ({status!r}); "
            "give test files whose tests carry @pytest.mark.theorem"
        )
    if decisions is not None:
        for test, items in recorder.items.items():
            runs = (item.stash.get(evidence.DECISIONS, []) for item in items)
            decisions[test] = [decision for run in runs for decision in run]
    return numbered(
        _verdict(test, items, recorder.reports.get(test, []))
        for test, items in recorder.items.items()
    )


def numbered(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Sorts verdicts by number, stably, and labels several of one number 10a, 10b, ..."""
    of_number: dict[int, list[Verdict]] = {}
    for verdict in verdicts:
        of_number.setdefault(verdict.number, []).append(verdict)
    return [
        replace(verdict, label=f"{number}{_letters(n) if len(of_number[number]) > 1 else ''}")
        for number in sorted(of_number)
        for n, verdict in enumerate(of_number[number])
    ]


def _letters(n: int) -> str:
    """a, b, ..., z, aa, ab, ... for n = 0, 1, ..."""
    return (_letters(n // 26 - 1) if n >= 26 else "") + chr(ord("a") + n % 26)


def _options() -> list[str]:
    return [
        f"-c{os.devnull}",  # no configuration file but this line of options
        f"--rootdir={ROOT}",
        "--noconftest",
        "--disable-plugin-autoload",
        "--import-mode=importlib",
        "--strict-markers",
        "--capture=sys",
        "-pno:terminal",
        "-pno:cacheprovider",
        "-pno:faulthandler",  # process-wide: an outer pytest run may be using it
        "-pno:unraisableexception",  # a tenth of the time, to look for garbage after each file
    ]


@contextlib.contextmanager
def _isolated_pytest(paths: list[Path]) -> Iterator[None]:
    """Keeps pytest settings of the environment out, and leaves no bytecode or modules behind."""
    before = set(sys.modules)
    try:
        with mock.patch.dict(os.environ), mock.patch.object(sys, "dont_write_bytecode", new=True):
            for setting in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
                os.environ.pop(setting, None)
            yield
    finally:
        # a module kept from this run would hide an edit of its file from the next one
        new = set(sys.modules) - before
        ours = [name for name in new if _lies_under(sys.modules[name], paths)]
        for name in new:
            if any(f"{our}.".startswith(f"{name}.") for our in ours):  # it or a parent of it
                del sys.modules[name]


def _lies_under(module: ModuleType, paths: list[Path]) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(Path(file).resolve().is_relative_to(path) for path in paths)


def _verdict(
    test: str, items: Sequence[pytest.Item], reports: Sequence[pytest.TestReport]
) -> Verdict:
    try:
        said = evidence.claim(next(items[0].iter_markers("theorem")))
    except ValueError as error:
        raise ValueError(f"{test}: {error}") from None
    found = _collect_records(reports)
    points = found.pop(evidence.POINT)
    why_not = _error(items, reports)
    return Verdict(
        number=said.number,
        statement=said.statement,
        verdict=NOT_ESTABLISHED if why_not else said.verdict,
        given="; ".join(said.given),
        scope=said.scope,
        witness="; ".join(found["witness"] or (points[:1] if said.verdict == "refuted" else [])),
        method="; ".join(found["method"]),
        identities=sum(found[evidence.COUNT]),
        points="; ".join(points),
        ran=", ".join(found[evidence.RAN]),
        seconds=sum(report.duration for report in reports),
        test=test,
        error=why_not,
    )


def _collect_records(reports: Sequence[pytest.TestReport]) -> dict[str, list[Any]]:
    """Records of one test's runs: the counts of every run, and each text once, in order."""
    keys = ("witness", "method", evidence.COUNT, evidence.POINT, evidence.RAN)
    found: dict[str, list[Any]] = {key: [] for key in keys}
    for report in reports:
        for key, value in report.user_properties if report.when == "call" else ():
            if key == evidence.COUNT or (key in found and value not in found[key]):
                found[key].append(value)
    return found


def _error(items: Sequence[pytest.Item], reports: Sequence[pytest.TestReport]) -> str:
    """The failures of the test's runs, or '' if every run passed."""
    failures = [report.longreprtext for report in reports if report.failed]
    if failures:
        return "\n".join(failures)
    passed = sum(report.when == "call" and report.passed for report in reports)
    if passed < len(items):
        return f"{len(items) - passed} of {len(items)} runs of the test were skipped"
    return ""

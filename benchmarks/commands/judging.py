"""A file of a user's own rules, judged in a process that is ended if it takes too long."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from lrp_axioms.axioms.verdict import UNDECIDED, Judged, Verdict
from lrp_axioms.benchmarks.errors import RunError
from lrp_axioms.numeric.spelling import printable

PIECE = 2**16  # bytes of a line that are passed on at once
MODULE = "lrp_axioms.axioms.own_rules.one_by_one"  # imported there alone: it takes half a second
Started: TypeAlias = Callable[[int, int, str], None]


@dataclass
class _Place:
    """Position of the next verdict among all rules."""

    number: int = 0  # of the rule
    verdict: int = 0  # the number of the next one of this rule
    claim: str = ""  # the one that is being decided
    rule: Judged | None = None  # with the verdicts so far

    @property
    def name(self) -> str:
        """File, line and name of the rule; '' before the first one."""
        return f"{self.rule.place}: {self.rule.name}" if self.rule else ""

    def after(self, verdict: Verdict) -> "_Place":
        """Returns the next place, once a verdict is found."""
        rule = self.rule and replace(self.rule, verdicts=[*self.rule.verdicts, verdict])
        return replace(self, verdict=self.verdict + 1, claim="", rule=rule)


def judge_rules(path: Path, limit: float, started: Started = lambda *_: None) -> Iterator[Judged]:
    """Yields every rule of a file with its verdicts, in order.

    Before each verdict ``started`` gets its number, the rule's number of verdicts, and the names of
    rule and claim.  A verdict is undecided after ``limit`` seconds, and the others go on.

    Raises ValueError for a file that cannot be run, or takes more than ``limit`` seconds; at the
    end, one for all rules that cannot be judged; and RunError if a process ends before it reads the
    file.
    """
    at, errors = _Place(), []
    while at:
        with _Process(path, at) as process:
            at = yield from _follow(process, path, limit, at, errors, started)
    if errors:
        raise ValueError("\n".join(errors))


def _follow(process, path, limit, at, errors, started):
    """Yields the rules that a process sends; returns the next process's place, None at the end."""
    while True:
        try:
            kind, *found = process.sent.get(timeout=limit)
        except queue.Empty:  # a loop without end can only be ended from outside
            if at.claim:
                why = f"{limit:g} seconds were not enough; --limit gives each verdict more"
                return at.after(Verdict(at.claim, UNDECIDED, "", reason=why))
            errors.append(
                f"{at.name or path}: no verdict after {limit:g} seconds; look for a loop without "
                "end, or give it more with --limit"
            )
            return _Place(at.number + 1) if at.name else None
        if kind == "gone" and at.claim:
            why = f"the process that decides it ended, with status {process.status}"
            return at.after(Verdict(at.claim, UNDECIDED, "", reason=why))
        if kind == "gone":
            errors.append(f"{at.name or path}: ended the process that runs it; take out what exits")
            return _Place(at.number + 1) if at.name else None
        if kind == "rule":
            at = replace(at, number=found[0], rule=at.rule or Judged(**found[1]))
        elif kind == "next":
            number, total, claim = found
            at = replace(at, verdict=number, claim=claim)
            started(number, total, f"{at.rule.name}: {claim}")
        elif kind == "found":
            at = at.after(Verdict(**found[0]))
        elif kind == "end":
            yield at.rule
            at = _Place(at.number + 1)
        elif kind == "error":
            errors += found
            at = _Place(at.number + 1)
        else:
            return None


class _Process:
    """A process that judges the rules from a place on, and sends lines of JSON."""

    def __init__(self, path: Path, at: _Place):
        self.sent = queue.Queue()  # lines, and "gone" after the last
        here = os.pathsep.join(x for x in sys.path if x)  # the same import path
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, path, str(at.number), str(at.verdict)],
            stdin=subprocess.PIPE,  # open until this process ends, and then so does that one
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": here},
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.printing = threading.Thread(target=self._print, daemon=True)
        self.printing.start()

    def __enter__(self):
        if self.sent.get() == ["gone"]:  # not ready: an import ended it, and no rule of the file
            self.__exit__()
            raise RunError(
                f"the process that judges rules ended, with status {self.status}, before it read "
                "the file; run again, or look at what it printed"
            )
        return self

    @property
    def status(self):
        """The exit status of a process that sends no more, which is ended if it still runs."""
        try:
            return self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def __exit__(self, *raised):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.printing.join(timeout=1)  # a process that the file started may print for ever

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.sent.put(json.loads(line))
        self.sent.put(["gone"])

    def _print(self):
        """Passes on the output of the file, piece by piece."""
        with self.process.stderr as lines:
            while line := lines.readline(PIECE):
                sys.stderr.write(printable(line.decode(errors="replace")))

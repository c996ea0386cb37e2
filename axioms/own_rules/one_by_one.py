"""Verdicts on the rules of a file, one line of JSON each, for a process that may end this one.

``python -m axioms.own_rules.one_by_one FILE SECONDS RULE VERDICT`` begins at a verdict of a rule,
both counted from 0.  What the file prints goes to standard error.  The lines are lists: ["ready"]
before the file is run; of each rule ["rule", number, file:line and name, heading], before each
verdict ["next", number, of how many, name, what to say if it takes more than SECONDS], then
["found", text], and ["end"]; or ["error", text], which counts for the whole rule.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from axioms.own_rules import report
from axioms.own_rules.formula import check_one_formula
from axioms.own_rules.rules import Rule, RuleError, load
from axioms.own_rules.verdicts import UNDECIDED, Finding, decisions

Send = Callable[..., None]


def judge_file(path: Path, seconds: str, first: int, skipped: int, send: Send) -> None:
    """Sends the lines about every rule from the ``first`` one on, of which some are ``skipped``."""
    send("ready")
    try:
        rules = load(path)
    except (RuleError, OSError) as error:
        send("error", str(error))
        rules = []
    for n, rule in enumerate(rules[first:], first):
        place = f"{rule.place}: {rule.name}"
        send("rule", n, place, report.heading(rule))
        try:
            _judge(rule, seconds, skipped if n == first else 0, send)
        except RuleError as error:
            send("error", str(error))
        except (ValueError, RecursionError, MemoryError) as error:
            said = error or type(error).__name__
            send("error", f"{place}: {said}; it returns too much to judge, mend it")
    send("done")


def _judge(rule: Rule, seconds: str, skipped: int, send: Send) -> None:
    check_one_formula(rule)
    decide = decisions(rule)
    for k, (name, decided) in list(enumerate(decide.items()))[skipped:]:
        why = f"{seconds} seconds were not enough; --limit gives each verdict more"
        stopped = Finding(claim=name, verdict=UNDECIDED, detail=why)
        send("next", k, len(decide), name, report.lines(rule, stopped))
        send("found", report.lines(rule, decided()))
    check_one_formula(rule)  # still: it may have counted its calls
    send("end")


def _end_with_parent(stdin: int) -> None:
    while os.read(stdin, 1):  # which it holds open
        pass
    os._exit(1)


def main(path: str, seconds: str, first: str, skipped: str) -> None:
    """Lines go to what was standard output, and the file has no standard input."""
    lines, stdin, nothing = os.fdopen(os.dup(1), "w"), os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(2, 1)
    os.dup2(nothing, 0)
    threading.Thread(target=_end_with_parent, args=(stdin,), daemon=True).start()

    def send(*line: object) -> None:
        print(json.dumps(line), file=lines, flush=True)

    judge_file(Path(path), seconds, int(first), int(skipped), send)


if __name__ == "__main__":
    main(*sys.argv[1:])

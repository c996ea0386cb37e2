"""Judges the rules of a file and prints lines of JSON, for a process that may end this one.

``python -m axioms.own_rules.one_by_one FILE RULE VERDICT`` begins at a verdict of a rule, both
counted from 0.  The output of the file goes to standard error.  Lines are lists: ["ready"] before
the file is run; ["rule", number, {name, kind, place}] for each rule; for each verdict ["next",
number, count, claim] and ["found", {claim, status, scope, witness, reason}]; ["end"] after a rule,
or ["error", text] about the whole rule; and ["done"].
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lrp_axioms.axioms.own_rules.files import load
from lrp_axioms.axioms.own_rules.formula import check_one_formula
from lrp_axioms.axioms.own_rules.rules import Rule, RuleError
from lrp_axioms.axioms.own_rules.verdicts import decisions
from lrp_axioms.axioms.verdict import UNDECIDED, Verdict


def judge_file(path: Path, first: int, skipped: int, send: Callable[..., None]) -> None:
    """Sends lines on the rules from the ``first`` one on, whose first verdicts are ``skipped``."""
    send("ready")
    try:
        rules = load(path)
    except (RuleError, OSError) as error:
        send("error", str(error))
        rules = []
    for n, rule in enumerate(rules[first:], first):
        send("rule", n, {"name": rule.name, "kind": rule.kind, "place": rule.place})
        try:
            _judge(rule, skipped if n == first else 0, send)
        except RuleError as error:
            send("error", str(error))
        except (ValueError, RecursionError, MemoryError) as error:
            said = f"{rule.place}: {rule.name}: {error or type(error).__name__}"
            send("error", f"{said}; it returns too much to judge, mend it")
    send("done")


def _judge(rule: Rule, skipped: int, send: Callable[..., None]) -> None:
    decide = decisions(rule)
    for k, (claim, decided) in list(enumerate(decide.items()))[skipped:]:
        send("next", k, len(decide), claim)
        send("found", asdict(_verdict(claim, decided)))
    check_one_formula(rule)  # still: it may have counted its calls
    send("end")


def _verdict(claim: str, decided: Callable[[], Verdict]) -> Verdict:
    """The verdict; undecided if an error stops it, and the other verdicts go on."""
    try:
        return decided()
    except RuleError:
        raise
    except Exception as error:
        why = f"deciding it failed with {type(error).__name__}: {error}"
        return Verdict(claim, UNDECIDED, "", reason=why)


def _end_with_parent(stdin: int) -> None:
    while os.read(stdin, 1):  # the parent holds it open
        pass
    os._exit(1)


def main(path: str, first: str, skipped: str) -> None:
    """Prints lines to the standard output of the process; the file has no standard input."""
    lines, stdin, nothing = os.fdopen(os.dup(1), "w"), os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(2, 1)
    os.dup2(nothing, 0)
    threading.Thread(target=_end_with_parent, args=(stdin,), daemon=True).start()

    def send(*line: object) -> None:
        print(json.dumps(line), file=lines, flush=True)

    judge_file(Path(path), int(first), int(skipped), send)


if __name__ == "__main__":
    main(*sys.argv[1:])

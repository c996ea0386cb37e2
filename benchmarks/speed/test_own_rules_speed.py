"""Verdicts on the rules of docs/my_rules.py, with the quick arithmetic and by SymPy alone.

Run by `make bench`; the ordinary test run compares the verdicts on one of these rules.
"""

import time
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from axioms.own_rules import steps, sweep, verdicts
from axioms.own_rules.quotients import Undecided
from axioms.own_rules.rules import load
from benchmarks.running.timing import alternate

RULES = Path(__file__).parents[2] / "docs" / "my_rules.py"
GOAL = 6.0
SECONDS = 5  # of processor time, for the ten rules of the page
ROUNDS = 3


@contextmanager
def by_sympy_alone():
    """In here the quick arithmetic leaves everything open."""
    for cached in (steps.formula, steps.number, sweep._ordered, sweep._by_name):
        cached.cache_clear()
    with mock.patch.object(sweep, "explained", side_effect=Undecided("not asked")):
        yield


def judged(rules):
    return {rule.name: verdicts.judge(rule) for rule in rules}


def test_the_quick_arithmetic_is_faster_and_says_the_same(timed, ratios):
    rules = load(RULES) if timed else load(RULES)[:1]
    answers = {}

    def quick():
        answers["quick"] = judged(rules)

    def slow():
        with by_sympy_alone():
            answers["slow"] = judged(rules)

    runs = {"quick": quick, "slow": slow}
    rounds = ROUNDS if timed else 1
    seconds = alternate(runs, repeats=rounds, warm_up=0, clock=time.process_time)
    assert answers["quick"] == answers["slow"]
    assert len(answers["quick"]) == (10 if timed else 1)
    if timed:
        assert min(seconds["quick"]) < SECONDS
    found = [slow / quick for quick, slow in zip(*map(seconds.get, runs), strict=True)]
    ratios.note(
        "SymPy alone / quick arithmetic", found, group="own rules", better="higher", goal=GOAL
    )

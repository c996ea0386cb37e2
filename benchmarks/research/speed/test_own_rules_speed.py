"""Verdicts on the rules of docs/my_rules.py take seconds.  Run by `make bench`."""

import time
from pathlib import Path

from lrp_axioms.axioms.own_rules.files import load
from lrp_axioms.axioms.own_rules.verdicts import judge

RULES = Path(__file__).parents[3] / "docs" / "my_rules.py"
SECONDS = 8  # twice the processor time of the ten rules on an AMD EPYC


def test_the_rules_of_the_page_are_judged_in_seconds(timed):
    rules = load(RULES) if timed else load(RULES)[:1]
    started = time.process_time()
    verdicts = [judge(own) for own in rules]
    seconds = time.process_time() - started
    assert all(verdicts)
    assert len(verdicts) == (10 if timed else 1)
    if timed:
        assert seconds < SECONDS

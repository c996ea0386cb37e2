"""AttnLRP and Integrated Gradients against other libraries: like answers, then ratios of time.

``make bench`` measures BERT-base, 128 tokens; an ordinary test run compares the answers of a small
BERT.  Where a library is missing its cases are skipped by name.
"""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

ROUNDS = 7
GROUP = "other libraries"
PAIRS = {
    "lxt / AttnLRP": ("lxt", "lxt", "AttnLRP"),
    "autolrp / AttnLRP": ("autolrp", "autolrp", "AttnLRP"),
    "Captum's IG / AttnLRP": ("captum", "captum", "AttnLRP"),
    "Captum's IG / IG": ("captum", "captum", "IG"),
}
"""Ratio -> package that it needs, numerator, denominator; names of ``peers.py``."""
ALIKE = {"lxt / AttnLRP": 1e-4, "Captum's IG / IG": 1e-4}
"""Tolerance as a share of the largest relevance.  autolrp's rules of LayerNorm and biases differ
from ours, so no agreement is due."""


class Process:
    """A process that explains once more for each line that it gets."""

    def __init__(self, name, size):
        module = "lrp_axioms.benchmarks.research.speed.peers"
        program = [sys.executable, "-W", "ignore", "-m", module]
        pipe = subprocess.PIPE
        self.running = subprocess.Popen([*program, name, size], stdin=pipe, stdout=pipe, text=True)

    def read(self):
        line = self.running.stdout.readline()
        assert line, "the process has ended; its own error is above"
        return json.loads(line)

    def seconds(self):
        self.running.stdin.write("\n")
        self.running.stdin.flush()
        return self.read()

    def close(self):
        self.running.stdin.close()
        self.running.stdout.close()
        self.running.wait()


@pytest.mark.parametrize("pair", PAIRS)
def test_the_answers_are_alike_and_times_are_noted(pair, timed, ratios, benchmark):
    package, *names = PAIRS[pair]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; it is in the group 'peers'")
    both = [Process(name, "base" if timed else "small") for name in names]
    try:
        theirs, ours = (np.array(each.read()) for each in both)
        assert np.isfinite(theirs).all()
        if pair in ALIKE:
            assert np.abs(theirs - ours).max() <= ALIKE[pair] * np.abs(ours).max()

        def alternate():
            return [[each.seconds() for each in both] for _ in range(ROUNDS if timed else 1)]

        seconds = benchmark.pedantic(alternate, rounds=1)
    finally:
        for each in both:
            each.close()
    values = [their / our for their, our in seconds]
    ratios.note(f"{pair}, 128 tokens", values, group=GROUP, better="higher", goal=1.0)

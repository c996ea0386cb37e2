"""Whatever is computed, a model on another device gets the same numbers, where the model is.

No GPU is needed: the other device is ``tests.support.second_device``.  What it cannot show is a
GPU's own kernels, and compiled code.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes():
    command = [sys.executable, "-m", "tests.support.on_another_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, f"after {list(lines)[-1:]}: {done.stderr[-2000:]}"
    return lines


def test_the_other_device_refuses_what_a_gpu_refuses_and_no_more(outcomes):
    mixtures = ("two devices", "another device")
    found = {name: wrong for name, wrong in outcomes.items() if name.endswith(mixtures)}
    assert len(found) > 10
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_every_computation_runs_where_the_model_is(outcomes):
    assert len(outcomes) > 90
    assert {name: wrong for name, wrong in outcomes.items() if wrong} == {}

"""Whatever is computed, a model on another device gets the same numbers, where the model is.

No GPU is needed: the other device is ``tests.support.second_device``.  What it cannot show is a
GPU's own kernels, and compiled code.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_computation_runs_where_the_model_is_and_mixtures_are_refused_as_by_a_gpu():
    command = [sys.executable, "-m", "tests.support.on_another_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, f"after {list(outcomes)[-1:]}: {done.stderr[-2000:]}"
    mixtures = ("two devices", "another device")
    assert sum(name.endswith(mixtures) for name in outcomes) > 10
    assert len(outcomes) > 90
    assert {name: wrong for name, wrong in outcomes.items() if wrong} == {}

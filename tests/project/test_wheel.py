"""What is installed holds all that the program needs: it runs far from the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, unpacked where it would be installed."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; print(build_wheel(__import__('sys').argv[1]))"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    place = folder / "site"
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as wheel:
        wheel.extractall(place)
    return place


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["explain", "not a bad film"], "bad"),
        (["explain", "--generate", "2", "anna apple bert pen ; anna"], "apple"),
        (["prove", "--show", "1"], "Theorem 1"),
        (["plan", "embedded"], "layer_norm"),
        (["methods"], "attnlrp"),
    ],
    ids=" ".join,
)
def test_commands_run_outside_the_repository(installed, arguments, shown, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    program = "import benchmarks.cli as c; print(c.__file__); c.main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout.splitlines()[0]
    assert shown in done.stdout

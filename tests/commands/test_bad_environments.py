"""Environment variables that make no sense: one message and exit code 2, or no difference at all.

Each runs the program in a process of its own, because libraries read their variables on import.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.traces import said

ROOT = Path(__file__).resolve().parents[2]
MODULE = sys.executable, "-m", "benchmarks.cli"
SCRIPT = (Path(sys.executable).with_name("lrp-axioms"),)
EXPLAIN = ("explain", "embedded", "a fine film")
ABSENT = ("explain", "nobody/nothing", "a fine film")  # a model of the Hub

REFUSED = {
    "no Hub": ({"HF_HUB_OFFLINE": "1"}, ABSENT, "error: model 'nobody/nothing' could not be"),
    "HF_HOME is a file": ({"HF_HOME": __file__}, ABSENT, "Point HF_HOME at a folder that can be"),
    "unknown logs": ({"TORCH_LOGS": "nonsense"}, EXPLAIN, "error: ...settings: nonsense"),
}
"""Variables and a command -> a part of its one message."""

LIBRARIES = {
    "HF_HUB_OFFLINE": "nonsense", "HF_HOME": __file__, "HF_TOKEN": "nonsense",
    "HF_ENDPOINT": "nonsense", "TRANSFORMERS_VERBOSITY": "error", "USE_HUB_KERNELS": "nonsense",
    "TMPDIR": "/nowhere", "HOME": "/nowhere", "OMP_NUM_THREADS": "nonsense",
    "MKL_NUM_THREADS": "-1", "CUDA_VISIBLE_DEVICES": "nonsense", "MPLBACKEND": "nonsense",
    "ATEN_CPU_CAPABILITY": "nonsense",
}  # fmt: skip
"""Broken variables, all at once, which the embedded model does not need."""

TERMINALS = {
    "COLUMNS": ("nonsense", "0", "-5", "", "9" * 20),
    "LINES": ("nonsense", "0"),
    "NO_COLOR": ("nonsense",),
    "TERM": ("nonsense", ""),
    "LC_ALL": ("nonsense", "C"),
    "PYTHONIOENCODING": ("ascii", "cp1252", "utf-8"),
    "PYTHONUTF8": ("0",),
}
"""Broken descriptions of a terminal: no word of the output is lost."""


def run(*arguments, program=MODULE, cwd=ROOT, stdout=subprocess.PIPE, **variables):
    """Exit code, words on stdout, and stderr."""
    done = subprocess.run(
        [*program, *arguments],
        cwd=cwd, env=os.environ | variables, stdout=stdout, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    out, err = ((stream or b"").decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return done.returncode, out.split(), err


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_one_message(name):
    variables, command, says = REFUSED[name]
    code, out, err = run(*command, **variables)
    assert (code, out, err.count("error: ")) == (2, [], 1), err
    assert "Traceback" not in err
    said(" ".join(err.split()), says)


def test_neither_another_directory_nor_what_is_not_needed_changes_anything(tmp_path):
    code, out, err = run(*EXPLAIN, program=SCRIPT, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out[:5] == ["attnlrp:", "why", "class", "1,", "'positive'?"]
    assert "fine +1." in " ".join(out)
    assert list(tmp_path.iterdir()) == []
    odd = run(*EXPLAIN, **LIBRARIES)
    assert odd[:2] == (0, out)
    assert "Traceback" not in odd[2]


@pytest.fixture(scope="module")
def plain():
    return words(run("--help"))


@pytest.mark.parametrize("name", TERMINALS)
def test_no_word_is_lost_whatever_a_terminal_says_of_itself(name, plain):
    assert {"explain", "reproduce"} <= plain
    for value in TERMINALS[name]:
        assert words(run("--help", **{name: value})) == plain, value


def words(ran):
    code, out, err = ran
    assert (code, err) == (0, "")
    return {word for word in out if word.isalpha()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to print to")
@pytest.mark.parametrize("command", ["--help", "prove --show 10", "explain embedded film"])
def test_a_full_disk_behind_standard_output_is_one_message(command):
    says = "error: standard output: No space left on device; send it elsewhere\n"
    with open("/dev/full", "w") as full:
        assert run(*command.split(), stdout=full) == (2, [], says)

"""The installed package is complete: the program runs far from the repository."""

import importlib
import os
import re
import socket
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PROGRAM = """
import shlex, sys
from importlib.machinery import PathFinder

ABSENT = {absent!r}

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        here = name.partition(".")[0] not in ABSENT
        return super().find_spec(name, path, target) if here else None

    @classmethod
    def find_distributions(cls, *context):
        hidden = set().union(*ABSENT.values())
        return [x for x in super().find_distributions(*context) if x.name not in hidden]

sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
import lrp_axioms.benchmarks.cli as c
print(c.__file__)
for command in sys.argv[1:]:
    sys.argv = ["lrp-axioms", *shlex.split(command)]
    try:
        sys.exit(c.main())
    except SystemExit as stopped:
        for stream in (sys.stdout, sys.stderr):
            print("", stopped.code or 0, "", sep="\\0", end="", file=stream, flush=True)
"""


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


@cache
def absent(*extras):
    """Returns module -> packages, for modules that the core with ``extras`` does not install."""
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    kept, left = set(), list(map(Requirement, wanted))
    while left:
        each = left.pop()
        key = (canonicalize_name(each.name), *sorted(each.extras))
        if key not in kept:
            kept.add(key)
            needs = map(Requirement, metadata.requires(each.name) or ())
            left += [x for x in needs if x.marker is None or _applies(x.marker, each.extras)]
    names = {name for name, *_ in kept}
    modules = metadata.packages_distributions().items()
    return {module: of for module, of in modules if not names & set(map(canonicalize_name, of))}


def _applies(marker, extras):
    return any(marker.evaluate({"extra": extra}) for extra in {"", *extras})


def run(installed, folder, commands, *extras):
    """Runs commands with no other libraries than the core's and the extras', in one process.

    Returns command -> exit code, stdout, stderr.
    """
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    program = PROGRAM.format(absent=absent(*extras))
    done = subprocess.run(
        [sys.executable, "-c", program, *commands],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout.splitlines()[0]
    out, err = (stream.split("\0") for stream in (done.stdout, done.stderr))
    ended = zip(map(int, out[1::2]), out[::2], err[::2], strict=False)  # nothing is behind the last
    return dict(zip(commands, ended, strict=True))


def test_the_core_has_none_of_the_libraries_of_the_paper():
    paper = {"datasets", "matplotlib", "pandas", "pytest", "sklearn"}
    assert paper <= set(absent())
    assert not {*paper, "torch", "sympy"} & set(absent("paper"))
    assert {"ruff", "hypothesis"} <= set(absent("paper"))


RULE = """
from lrp_axioms import rule

@rule("product")
def halves(x, y, z, R, eps):
    return R / 2, R / 2
"""


def test_the_wheel_states_the_licence_of_every_file_in_it(installed):
    (about,) = installed.glob("*.dist-info")
    names = {str(path.relative_to(about)) for path in about.rglob("*") if path.is_file()}
    assert {"licenses/LICENSE", "licenses/benchmarks/assets/README.md"} <= names
    assert "License-Expression: MIT AND CC0-1.0\n" in (about / "METADATA").read_text("utf-8")
    page = (about / "licenses/benchmarks/assets/README.md").read_text("utf-8")
    stated = re.findall(r"`([^`]+)`", page.split("\n## ")[1])
    files = [path.relative_to(installed) for path in installed.rglob("*") if path.is_file()]
    left = [path for path in files if about.name not in path.parts]
    assert len(left) > 200
    assert [x for x in left if not any(x.match(name) or name in x.parts for name in stated)] == [
        Path("lrp_axioms/benchmarks/assets/README.md")
    ]


def test_the_wheel_has_neither_research_nor_what_it_measured(installed):
    here = {path.name for path in (installed / "lrp_axioms" / "benchmarks").iterdir()}
    there = {path.name for path in (ROOT / "benchmarks").iterdir()} - {"__pycache__"}
    assert there - here == {"research", "baseline.json", "RESULTS.md"}


CLASH = """
import axioms, benchmarks, numeric
import lrp_axioms
from lrp_axioms import attribute, rule
from lrp_axioms.numeric.targets import logit
import lrp_axioms.axioms.kinds, lrp_axioms.benchmarks.names
assert all(mine.MINE for mine in (axioms, benchmarks, numeric))
assert all(callable(getattr(lrp_axioms, name)) for name in lrp_axioms.HOME)
print(lrp_axioms.__version__)
"""


@pytest.mark.parametrize("form", ["wheel", "checkout"])
def test_folders_of_ones_own_may_have_the_names_of_the_layers(installed, tmp_path, form):
    for layer in ("axioms", "benchmarks", "numeric"):
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "__init__.py").write_text("MINE = True", "utf-8")
    place = installed if form == "wheel" else ROOT
    commands = ["-c", CLASH], ["-m", "lrp_axioms", "--version"], ["-m", "lrp_axioms", "methods"]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(place)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert ("attnlrp" if "methods" in command else PROJECT["version"]) in done.stdout


def test_a_short_name_in_a_checkout_is_the_same_module():
    import axioms.kinds
    import lrp_axioms.axioms.kinds
    import lrp_axioms.numeric.engine.rules
    import numeric.engine.rules

    assert numeric.engine.rules is lrp_axioms.numeric.engine.rules
    assert axioms.kinds is lrp_axioms.axioms.kinds
    assert numeric.explain is lrp_axioms.explain
    assert numeric.engine.rules.__spec__.name == "lrp_axioms.numeric.engine.rules"
    with pytest.raises(ModuleNotFoundError, match=r"'numeric\.nowhere'"):
        importlib.import_module("numeric.nowhere")
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.cli", "--version"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert PROJECT["version"] in shown.stdout


CORE = {
    "explain 'not a bad film' --layers --html why.html": "wrote why.html",
    "explain --generate 2 'anna apple bert pen ; anna'": "apple",
    "attribute texts.csv --method attnlrp --method loo": "wrote results",
    "evaluate results/attribute --measure MoRF": "attnlrp",
    "audit embedded 'a dull film'": "residual",
    "plan embedded": "layer_norm",
    "methods": "attnlrp",
    "vocabulary embedded-lm": "anna",
    "prove rule.py": "proved",
    "search product conservation": "x gets 0, y gets R",
}


LACKS = {
    "prove": "lrp-axioms prove needs pytest",
    "prove --show 1": "lrp-axioms prove needs pytest",
    "reproduce": "lrp-axioms reproduce needs matplotlib, pytest, sklearn",
    "report": "lrp-axioms report needs matplotlib",
    "explain embedded 'a dull film' --layers --png why.png": "--png needs matplotlib",
}


def test_the_core_alone_explains_audits_and_judges_and_names_what_it_lacks(installed, tmp_path):
    (tmp_path / "texts.csv").write_text("text\nnot a bad film\na dull film\n", "utf-8")
    (tmp_path / "rule.py").write_text(RULE, "utf-8")
    found = run(installed, tmp_path, [*CORE, *LACKS])
    for command, shown in CORE.items():
        code, out, err = found[command]
        assert code == 0, err
        assert shown in out, command
    for command, lacks in LACKS.items():
        code, _, err = found[command]
        (said,) = [line for line in err.splitlines() if not line.startswith("note: ")]
        install = 'pip install "lrp-axioms[paper]"'
        assert (code, said) == (2, f"error: {lacks}, not installed here; run {install}")


def test_with_its_extra_the_page_is_served(installed, tmp_path):
    """A server that is told to take a port in use has loaded all that it serves."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        call = f"serve embedded --port {port}"
        code, _, err = run(installed, tmp_path, [call], "app")[call]
    assert (code, f"--port {port}: " in err) == (2, True), err


PAPER = {
    "reproduce table2 --examples 2": "report.html",
    "reproduce patching --examples 1": "report.html",
    "report": "report.md",
    "explain embedded 'a dull film' --layers --png why.png": "wrote why.png",
    "prove --show 1": "Theorem 1",
}


def test_with_its_extra_the_paper_is_measured(installed, tmp_path):
    found = run(installed, tmp_path, PAPER, "paper")
    for command, shown in PAPER.items():
        code, out, err = found[command]
        assert code == 0, err
        assert shown in out, command

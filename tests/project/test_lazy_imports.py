"""A command loads only modules that it uses: slow libraries by name, all modules by number."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.commands.console import loading

ROOT = Path(__file__).resolve().parents[2]
SLOW = {"torch", "transformers", "scipy", "sklearn", "pandas", "datasets", "sympy", "matplotlib",
        "pyarrow", "numpy", "pytest", "PIL", "jinja2", "scipy.stats"}  # fmt: skip
# A model of Transformers needs these, which load SymPy and a part of SciPy for themselves.
OF_A_MODEL = {"torch", "transformers", "scipy", "sympy", "numpy", "PIL", "jinja2"}
UNUSED = {"axioms.rules", "benchmarks.sources.data",
          "benchmarks.experiments.reproduce", "benchmarks.experiments.text",
          "numeric.auditing", "numeric.compiling", "numeric.evaluation", "numeric.layer_mixes",
          "numeric.reference", "torchvision", "transformers.pipelines",
          "transformers.trainer"}  # fmt: skip
"""Modules that explaining one text does not need."""
COMMAND = """
from benchmarks import cli
sys.argv = ["lrp-axioms", *{arguments}]
try:
    cli.main()
except SystemExit:
    pass
"""
LOADED = {
    "import lrp_axioms": (set(), 70),
    "import numeric": (set(), 80),
    "import numeric.evaluation.correlation": ({"numpy"}, 250),
    COMMAND.format(arguments=["--help"]): (set(), 421),
}
"""Code -> the slow libraries that it may load, and how many modules in all."""


def loaded(*steps):
    """The modules that a fresh interpreter has loaded after each of some steps."""
    show = '\nprint("LOADED", *sys.modules)\n'
    code = "import sys\n" + show.join([*steps, ""])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("LOADED ")]
    return [{name.removeprefix("lrp_axioms.") for name in names} for _, *names in lines]


@pytest.mark.parametrize("code", LOADED)
def test_code_loads_what_it_uses(code):
    allowed, most = LOADED[code]
    (modules,) = loaded(code)
    assert modules & SLOW <= allowed
    assert 20 < len(modules) <= most


def test_explain_loads_a_model_and_little_else_and_reproduce_what_its_tables_share():
    explain = COMMAND.format(arguments=["explain", "embedded", "a fine film"])
    before, after, later = loaded(
        "from transformers.models.bert import modeling_bert",
        explain,
        "import benchmarks.experiments.reproduce\n"
        "from benchmarks.experiments.record import experiment\n"
        "from benchmarks.names import TABLES\n"
        "for name in TABLES: experiment(name)",
    )
    assert before & SLOW == after & SLOW == OF_A_MODEL
    assert "numeric.attribution" in after
    assert not UNUSED & after
    assert len(after - before) <= 300
    assert later & SLOW <= OF_A_MODEL | {"pyarrow", "pytest"}
    assert len(later - after) <= 300


def test_nobody_looks_for_garbage_while_a_model_is_loaded_nor_at_the_end():
    """It took a fifth of the time of ``explain``, as all that is loaded stays."""
    with loading("a model"):
        assert not gc.isenabled()
    with pytest.raises(ValueError, match="broken"), loading("a model"):
        raise ValueError("broken")
    assert gc.isenabled()
    last = "import atexit, gc\natexit.register(lambda: print('LOADED', gc.get_freeze_count()))\n"
    _, at_the_end = loaded(last + COMMAND.format(arguments=["--help"]))
    assert int(*at_the_end) > 10_000

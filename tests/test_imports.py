"""The layers stay independent: none can borrow another's formulas."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FORBIDDEN = {
    "axioms.graph": ("sympy", "numpy", "torch", "numeric"),
    "axioms.kinds": ("sympy", "numpy", "torch", "numeric"),
    "axioms.composites": ("sympy", "numpy", "torch", "numeric"),
    "axioms.canonizers": ("sympy", "numpy", "torch", "numeric"),
    "axioms.rewrites": ("sympy", "numpy", "torch", "numeric"),
    "axioms.propagate": ("numpy", "torch", "numeric"),
    "axioms.prove": ("torch", "numeric"),
    "numeric.reference.rules": ("torch", "sympy", "axioms.rules", "numeric.fast"),
}


def imported_with(module: str, suspects: tuple[str, ...]) -> set[str]:
    """Which of ``suspects`` a fresh interpreter has loaded after ``import module``."""
    code = f"import sys, {module}; print(*(set({suspects!r}) & set(sys.modules)))"
    fresh = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(fresh.stdout.split())


@pytest.mark.parametrize("module", FORBIDDEN)
def test_importing_a_layer_leaves_the_others_alone(module):
    assert imported_with(module, FORBIDDEN[module]) == set()


@pytest.mark.parametrize(
    ("module", "suspects", "found"),
    [
        ("axioms.rules, axioms.graph", ("sympy", "numpy", "torch", "numeric"), {"sympy"}),
        # torch itself imports sympy
        ("numeric.fast.rules", ("torch", "axioms.rules", "numeric.reference"), {"torch"}),
    ],
)
def test_a_layer_imports_its_library_and_the_check_sees_it(module, suspects, found):
    assert imported_with(module, suspects) == found


def test_the_check_fails_on_a_module_that_does_not_exist():
    with pytest.raises(subprocess.CalledProcessError):
        imported_with("axioms.no_such_module", ("sympy",))

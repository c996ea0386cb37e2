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
    "axioms.rules": ("numpy", "torch", "numeric"),
    "axioms.propagate": ("numpy", "torch", "numeric"),
    "axioms.prove": ("torch", "numeric"),
    "numeric.reference": ("torch", "sympy", "axioms.rules", "numeric.fast"),
    "numeric.reference.rules": ("torch", "sympy", "axioms.rules", "numeric.fast"),
    "numeric.fast.rules": ("axioms.rules", "numeric.reference"),  # torch itself imports sympy
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
        ("axioms.rules", ("sympy", "numeric"), {"sympy"}),
        ("numeric.fast.rules", ("torch", "axioms.rules"), {"torch"}),
        ("axioms.rules, axioms.graph", ("axioms.graph", "torch"), {"axioms.graph"}),
    ],
)
def test_the_check_sees_what_is_imported(module, suspects, found):
    assert imported_with(module, suspects) == found


def test_the_check_fails_on_a_module_that_does_not_exist():
    with pytest.raises(subprocess.CalledProcessError):
        imported_with("axioms.no_such_module", ("sympy",))

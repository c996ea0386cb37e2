"""Tries every small change of the rules and of the reference models, which a test must notice.

`python -m tests.support.mutation` makes all mutants, one at a time and in this process, and lists
the survivors.  mutmut and cosmic-ray start a process for each mutant, which imports torch and SymPy
again for seconds, and they do not know the mistakes that rules invite: the letters of an einsum, an
epsilon that is doubled or left out, neighbours in a table of rules.
"""

import ast
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from axioms.composites import ATTNLRP
from tests.axioms import test_given_signs, test_gradient_messages
from tests.layers import test_layers_agree
from tests.reference import (
    test_evaluate,
    test_evaluate_by_hand,
    test_reference,
    test_reference_linear_attention,
)
from tests.support.equivalent_mutants import EQUIVALENT
from tests.support.mutants import ROOT, Mutant, applied, mutants
from tests.support.mutated_files import DECIDING, FORMULAS, SLOW

SECONDS = 120  # of processor time for all checks of one mutant


# The checks, in the order of how much they notice.


def agreement():
    """The three implementations of every rule, at four of the points of the tests."""
    test_layers_agree.check_names()
    for name, case in test_layers_agree.CASES.items():
        for operands, c in test_layers_agree.POINTS[name][:4]:
            test_layers_agree.check(case, operands, c)


def model():
    """A tiny random BERT against Transformers, and against independently modified gradients."""
    sentence = {"types": test_reference.TYPES, "keep": test_reference.KEEP}
    stock_and_model = test_reference.tiny()
    test_reference.check_forward(*stock_and_model, test_reference.IDS, **sentence)
    test_reference.check_relevance(composite=ATTNLRP, eps=0.25)


def factorizations():
    """Both factorizations of the linear attention against central differences."""
    for name in test_reference_linear_attention.PATHS:
        test_reference_linear_attention.check_theorem_8(name)


OPTIONS = [
    "-x", f"-c{os.devnull}", f"--rootdir={ROOT}", "--import-mode=importlib", "--capture=sys",
    "--disable-plugin-autoload", "-Wignore::pytest.PytestUnknownMarkWarning",
    # faulthandler is process-wide: an outer pytest run may be using it
    *(f"-pno:{plugin}" for plugin in ("terminal", "cacheprovider", "faulthandler")),
]  # fmt: skip


class Undecided(Exception):
    """A check that neither passed nor failed, so that it says nothing about a mutant."""


class BrokenCheck(Undecided):
    """Test files that pytest could not run."""


class TooSlow(Undecided):
    """Checks of one mutant that took longer than SECONDS."""


def tests(*files: str) -> Callable[[], None]:
    """A check that runs test files in this process, up to the first failure."""

    def run():
        with mock.patch.dict(os.environ):
            for setting in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
                os.environ.pop(setting, None)
            status = pytest.main([*OPTIONS, *(str(ROOT / file) for file in files)])
        failing = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)  # or not collected
        if status not in (pytest.ExitCode.OK, *failing):
            raise BrokenCheck(f"{status!r}: {', '.join(files)} could not be run")
        assert status == pytest.ExitCode.OK

    return run


MESSAGES = (
    agreement,
    test_evaluate.check_all,
    test_gradient_messages.check_all,
    test_given_signs.check_all,
)
FAST = {
    **dict.fromkeys(FORMULAS, MESSAGES),
    "numeric/reference/rules.py": (agreement, test_evaluate.check_all),
    "numeric/reference/dispatch.py": (agreement, test_evaluate.check_all),
    "numeric/reference/lemmas.py": (test_evaluate.check_all, test_evaluate_by_hand.check_all),
    "tests/oracles/bert.py": (model,),
    "tests/oracles/bert_relevance.py": (model,),
    "tests/oracles/linear_attention.py": (factorizations,),
    "numeric/reference/evaluate.py": (test_evaluate_by_hand.check_all, test_evaluate.check_all),
    "numeric/reference/mapped.py": (test_evaluate_by_hand.check_all,),
}
"""File -> the checks that notice most of its mutants, at once."""


def checks(mutant: Mutant) -> Iterator[Callable[[], None]]:
    """The checks of a mutant, the fast ones first, then all tests."""
    yield from FAST.get(mutant.path, ())
    yield tests(*_ordered(mutant))


def _ordered(mutant: Mutant) -> list[str]:
    """The test files, by how many of the functions that the mutant can affect they name."""
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    uses = {
        top.name: {node.id for node in ast.walk(top) if isinstance(node, ast.Name)}
        for top in tree.body
        if isinstance(top, (ast.FunctionDef, ast.ClassDef))
    }
    affected = {mutant.function}
    while more := {name for name, used in uses.items() if used & affected} - affected:
        affected |= more

    def named(path):
        text = path.read_text(encoding="utf-8")
        return sum(re.search(rf"\b{name}\b", text) is not None for name in affected)

    places = [ROOT / place for place in (SLOW | DECIDING)[mutant.path]]
    files = [f for p in places for f in (sorted(p.glob("test_*.py")) if p.is_dir() else [p])]
    return [str(path.relative_to(ROOT)) for path in sorted(files, key=named, reverse=True)]


def _alarm(*_):
    raise TooSlow


def noticed(mutant: Mutant) -> str:
    """The name of the check that fails on the mutant, or '' if it survives all of them.

    Raises Undecided if a check cannot be run, or takes too long.
    """
    start = time.process_time()
    before = signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with applied(mutant):
            return next((check.__name__ for check in checks(mutant) if fails(check)), "")
    except Undecided:
        raise
    except Exception:  # of its module, whose tables it breaks
        return "import"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if time.process_time() - start >= SECONDS:  # an interrupted test looks like a failure
            raise TooSlow(f"longer than {SECONDS} s")


def fails(check: Callable[[], None]) -> bool:
    """Whether a check raises anything but Undecided."""
    try:
        check()
    except Undecided:
        raise
    except Exception:
        return True
    return False


def all_mutants() -> list[Mutant]:
    """Every mutant of every file that is not known to be equivalent."""
    return [m for path in FAST for m in mutants(path) if m.key not in EQUIVALENT]


def sample(count: int, *, seed: int) -> list[Mutant]:
    """Some mutants, chosen by the seed alone."""
    return random.Random(seed).sample(all_mutants(), count)


def deciding() -> list[Mutant]:
    """Every mutant of the files that decide; tests draw no sample, which would take long."""
    found = [m for path in DECIDING for m in mutants(path, decides=True)]
    return [m for m in found if m.key not in EQUIVALENT]


def main(*paths: str) -> int:
    """Prints every survivor, of some files or of all, and every undecided mutant; 1 if any.

    Ends with an error if a test fails, or cannot be run, without any mutant.
    """
    known = SLOW | DECIDING
    if unknown := [path for path in paths if path not in known]:
        sys.exit(f"no mutants are made of {', '.join(unknown)}; pass some of {', '.join(known)}")
    files = {path: known[path] for path in paths or known}
    if broken := [path for path, of in files.items() if _is_broken(tests(*of))]:
        sys.exit(f"without a mutant, tests fail of {', '.join(broken)}; mend them first")
    chosen = [m for m in all_mutants() + deciding() if m.path in files]
    survive, undecided = 0, 0
    for n, mutant in enumerate(chosen, start=1):
        print(f"\r{n} of {len(chosen)}, {survive} survive", end="", file=sys.stderr)
        try:
            if not noticed(mutant):
                survive += 1
                print(f"\nsurvives: {mutant}")
        except Undecided as error:
            undecided += 1
            print(f"\nundecided ({error}): {mutant}")
    equivalent = sum(path in files for path, *_ in EQUIVALENT)
    print(f"\n{len(chosen)} mutants, {equivalent} more are equivalent; ", end="")
    print(f"{survive} survive, {undecided} are undecided")
    return bool(survive or undecided)


def _is_broken(check: Callable[[], None]) -> bool:
    try:
        return fails(check)
    except Undecided:
        return True


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

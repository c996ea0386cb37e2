"""Mutants: every small change to the texts of the rules must be noticed by a test.

`python -m tests.mutants` makes all of them, one at a time and in this process, and lists those
that no test notices.  A mutant takes effect by exchanging the code of the functions in place, so
that everything that has imported them runs the mutant too, and everything is put back.
"""

import ast
import contextlib
import copy
import importlib
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests import test_by_kind, test_checks_can_fail, test_given_signs, test_gradient_messages
from tests.equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 120  # for all checks of one mutant


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one expression; ``number`` and ``choice`` say where in the syntax tree."""

    path: str
    line: int
    function: str
    change: str  # such as "a - b -> a + b"
    number: int
    choice: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function}: {self.change}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is called in EQUIVALENT; line numbers move too easily."""
        return self.path, self.function, self.change


# Node type -> replacements of a node, each made of its parts.

OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARISONS = {
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
TWINS = {"rows": "cols", "cols": "rows"}


def _changed(node, **parts):
    """A copy with other parts; the parts that stay are shared, for every tree is used once."""
    new = copy.copy(node)
    for name, value in parts.items():
        setattr(new, name, value)
    return new


def _binary(node):
    """Another operator, or one operand alone."""
    if type(node.op) in OPERATORS:
        yield _changed(node, op=OPERATORS[type(node.op)]())
        yield node.left
        yield node.right


def _unary(node):
    if isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand


def _compare(node):
    for other in COMPARISONS.get(type(node.ops[0]), ()):
        yield _changed(node, ops=[other()])


def _constant(node):
    if isinstance(node.value, str):
        yield from _einsum(node)
    elif type(node.value) in (int, float):
        yield _changed(node, value=node.value + 1)
        if node.value > 0:
            yield _changed(node, value=node.value - 1)


def _einsum(node):
    """Letters exchanged in one operand, or in the result, of an einsum."""
    operands, arrow, result = node.value.partition("->")
    terms = [*operands.split(","), result]
    for n, term in enumerate(terms if arrow else ()):
        if len(letters := term.replace("...", "")) == 2:
            turned = [*terms[:n], term.replace(letters, letters[::-1]), *terms[n + 1 :]]
            yield _changed(node, value=f"{','.join(turned[:-1])}->{turned[-1]}")


def _call(node):
    """The first two arguments exchanged, an option left out, or epsilon doubled."""
    if len(node.args) > 1 and not isinstance(node.args[0], ast.Starred):
        first, second, *rest = node.args
        if ast.unparse(first) != ast.unparse(second):
            yield _changed(node, args=[second, first, *rest])
    for n, option in enumerate(node.keywords):
        if option.arg == "strict":  # checks and computes nothing
            continue
        others = node.keywords[:n], node.keywords[n + 1 :]
        yield _changed(node, keywords=[*others[0], *others[1]])
        if option.arg == "eps":
            doubled = ast.BinOp(ast.Constant(2), ast.Mult(), option.value)
            changed = _changed(option, value=doubled)
            yield _changed(node, keywords=[*others[0], changed, *others[1]])


def _tuple(node):
    if len(node.elts) > 1 and isinstance(node.ctx, ast.Load):
        yield _changed(node, elts=node.elts[::-1])


def _choice(node):
    yield _changed(node, body=node.orelse, orelse=node.body)


def _attribute(node):
    if node.attr in TWINS:
        yield _changed(node, attr=TWINS[node.attr])


def _table(node):
    """Neighbouring values exchanged."""
    for n in range(len(node.values) - 1):
        first, second = node.values[n : n + 2]
        if ast.unparse(first) == ast.unparse(second):
            continue
        yield _changed(node, values=[*node.values[:n], second, first, *node.values[n + 2 :]])


ALTERNATIVES: dict[type, Callable] = {
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.Tuple: _tuple,
    ast.IfExp: _choice,
    ast.Attribute: _attribute,
    ast.Dict: _table,
}


def _alternatives(node) -> list[ast.AST]:
    return list(ALTERNATIVES.get(type(node), lambda node: ())(node))


def _wording(tree) -> set[ast.AST]:
    """Nodes that say something instead of computing it: docstrings, errors, annotations."""
    said = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.arg, ast.JoinedStr)):
            said.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said.append(node)
        if isinstance(node, ast.FunctionDef) and node.returns:
            said.append(node.returns)
    return {part for node in said for part in ast.walk(node)}


def mutants(path: str) -> list[Mutant]:
    """All mutants of a file, in the order of the syntax tree."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    wording = _wording(tree)
    places = {
        part: top.name
        for top in tree.body
        if isinstance(top, ast.FunctionDef)
        for part in ast.walk(top)
    }
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if node in wording:
            continue
        for choice, other in enumerate(_alternatives(node)):
            found.append(
                Mutant(
                    path=path,
                    line=node.lineno,
                    function=places.get(node, "(table)"),
                    change=_change(node, other),
                    number=number,
                    choice=choice,
                )
            )
    return found


def _change(node, other) -> str:
    if isinstance(node, ast.Dict):
        texts = [[ast.unparse(value) for value in table.values] for table in (node, other)]
        keys = [ast.unparse(key) for key in node.keys]
        moved = [key for key, a, b in zip(keys, *texts, strict=True) if a != b]
        return f"exchanged: {' and '.join(moved)}"
    return f"{ast.unparse(node)} -> {ast.unparse(ast.fix_missing_locations(other))}"


def _compiled(mutant: Mutant):
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.number]
    other = copy.copy(_alternatives(node)[mutant.choice])
    node.__class__ = type(other)
    vars(node).update(vars(other))
    return compile(ast.fix_missing_locations(tree), mutant.path, "exec")


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The mutant in place of the module, functions and tables alike; then the module again."""
    module = importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
    changed = dict(vars(module))
    exec(_compiled(mutant), changed)
    own = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__code__")
    }
    parts = ("__code__", "__defaults__", "__kwdefaults__")
    before = {name: [getattr(function, part) for part in parts] for name, function in own.items()}
    try:
        with mock.patch.dict(getattr(module, "RULES", {}), changed.get("RULES", {}), clear=True):
            for name, function in own.items():
                for part in parts:
                    setattr(function, part, getattr(changed[name], part))
            yield
    finally:
        for name, function in own.items():
            for part, value in zip(parts, before[name], strict=True):
                setattr(function, part, value)


# The checks, those that notice most first.


def agreement():
    """The three texts of every rule, at four of the points of the tests."""
    for name, case in test_checks_can_fail.CASES.items():
        for operands, c in test_checks_can_fail.POINTS[name][:4]:
            test_checks_can_fail.check(case, operands, c)


def by_kind():
    """The table of the reference against the messages."""
    for kind, rule in test_by_kind.PLACES:
        test_by_kind.check(kind, rule)


OPTIONS = [
    "-x",
    f"-c{os.devnull}",
    f"--rootdir={ROOT}",
    "--import-mode=importlib",
    "--disable-plugin-autoload",
    "--capture=sys",
    "-pno:terminal",
    "-pno:cacheprovider",
    "-pno:faulthandler",  # process-wide: an outer pytest run may be using it
    "-Wignore::pytest.PytestUnknownMarkWarning",
]


class Undecided(Exception):
    """A check that neither passed nor failed, so that it says nothing about a mutant."""


class BrokenCheck(Undecided):
    """Test files that pytest could not run."""


class TooSlow(Undecided):
    """Checks of one mutant that took longer than SECONDS."""


def tests(*files: str) -> Callable[[], None]:
    """Those test files, up to the first failure, in this process."""

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


FAST = {
    "axioms/rules.py": (
        agreement,
        by_kind,
        test_gradient_messages.check_all,
        test_given_signs.check_all,
    ),
    "numeric/reference/rules.py": (agreement, by_kind),
    "numeric/reference/by_kind.py": (by_kind,),
}
"""By file: the checks that notice most of its mutants, at once."""

SLOW = {
    "axioms/rules.py": (
        "tests/test_gradient_messages.py",
        "tests/test_given_signs.py",
        "tests/test_symbolic_rules.py",
        "tests/test_symbolic_sweep.py",
        "tests/test_derive.py",
        "axioms/theorems",
    ),
    "numeric/reference/rules.py": ("tests/test_reference_rules.py", "tests/test_reference.py"),
    "numeric/reference/by_kind.py": ("tests/test_reference_rules.py", "tests/test_reference.py"),
}
"""By file: the tests, or folders of tests, that are to notice the others."""


def checks(mutant: Mutant) -> Iterator[Callable[[], None]]:
    """The checks of a mutant, the fast ones first, then all tests."""
    yield from FAST[mutant.path]
    yield tests(*_ordered(mutant))


def _ordered(mutant: Mutant) -> list[str]:
    """The test files, first those that name most of the functions that the mutant can affect."""
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    uses = {
        top.name: {node.id for node in ast.walk(top) if isinstance(node, ast.Name)}
        for top in tree.body
        if isinstance(top, ast.FunctionDef)
    }
    affected = {mutant.function}
    while more := {name for name, used in uses.items() if used & affected} - affected:
        affected |= more

    def named(path):
        text = path.read_text(encoding="utf-8")
        return sum(re.search(rf"\b{name}\b", text) is not None for name in affected)

    places = [ROOT / place for place in SLOW[mutant.path]]
    files = [f for p in places for f in (sorted(p.glob("test_*.py")) if p.is_dir() else [p])]
    return [str(path.relative_to(ROOT)) for path in sorted(files, key=named, reverse=True)]


def _alarm(*_):
    raise TooSlow


def noticed(mutant: Mutant) -> str:
    """The name of the check that fails on the mutant, or '' if it survives all of them.

    Raises Undecided if a check cannot be run, or takes too long.
    """
    start = time.monotonic()
    before = signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        with applied(mutant):
            return next((check.__name__ for check in checks(mutant) if fails(check)), "")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if time.monotonic() - start >= SECONDS:  # a test that is interrupted looks like a failure
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
    """Some of them, the same ones for one seed and one text of the rules."""
    return random.Random(seed).sample(all_mutants(), count)


def main() -> int:
    """Prints every survivor; 1 if there is one."""
    chosen = all_mutants()
    survivors = []
    for n, mutant in enumerate(chosen, start=1):
        print(f"\r{n} of {len(chosen)}, {len(survivors)} survive", end="", file=sys.stderr)
        try:
            verdict = "" if noticed(mutant) else "survives"
        except Undecided as error:
            verdict = f"undecided ({error})"
        if verdict:
            survivors.append(mutant)
            print(f"\n{verdict}: {mutant}")
    print(
        f"\n{len(chosen)} mutants, {len(EQUIVALENT)} more are equivalent; {len(survivors)} survive"
    )
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())

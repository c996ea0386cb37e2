"""Mutants: small changes of the rules and of the reference, made in the syntax tree.

A mutant takes effect by exchanging the code of the functions and the entries of the tables in
place, so that everything that has imported them runs the mutant too; classes and constants change
in their module.  Everything is put back.
"""

import ast
import contextlib
import copy
import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from unittest import mock

from tests.support.alternatives import alternatives, changed

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one expression; ``number`` and ``choice`` say where in the syntax tree."""

    path: str
    line: int
    function: str
    change: str  # such as "a - b -> a + b"
    number: int
    choice: int
    decides: bool = False  # one of a file that decides

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function}: {self.change}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Its key in EQUIVALENT, without the line number, which moves too easily."""
        return self.path, self.function, self.change


def _wording(tree) -> set[ast.AST]:
    """Nodes that say something and compute nothing: docstrings, errors, annotations, aliases."""
    said = []
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            is_alias = ast.unparse(node.annotation) == "TypeAlias"
            said.append(node if is_alias else node.annotation)
        if isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.arg, ast.JoinedStr)):
            said.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said.append(node)
        if isinstance(node, ast.FunctionDef) and node.returns:
            said.append(node.returns)
    return {part for node in said for part in ast.walk(node)}


def mutants(path: str, *, decides: bool = False) -> list[Mutant]:
    """All mutants of a file, in the order of the syntax tree; more where it decides."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    wording = _wording(tree)
    places = {
        part: top.name
        for top in tree.body
        if isinstance(top, (ast.FunctionDef, ast.ClassDef))
        for part in ast.walk(top)
    }
    above = {part: node for node in ast.walk(tree) for part in ast.iter_child_nodes(node)}
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if node in wording:
            continue
        for choice, other in enumerate(alternatives(node, decides=decides)):
            found.append(
                Mutant(
                    path=path,
                    line=getattr(node, "lineno", 0) or node.iter.lineno,
                    function=places.get(node, "(table)"),
                    change=_described(node, other, above),
                    number=number,
                    choice=choice,
                    decides=decides,
                )
            )
    return found


def _described(node, other, above) -> str:
    """The change, of a number with its sign and the expression around it."""
    value = getattr(getattr(node, "operand", node), "value", None)
    if type(value) not in (int, float):
        return _change(node, other)
    place = above[node]
    if isinstance(place, ast.UnaryOp):
        node, other, place = place, changed(place, operand=other), above[place]
    while isinstance(place, (ast.Subscript, ast.Tuple, ast.keyword)):
        place = above[place]
    around = f" in {ast.unparse(place)}" if isinstance(place, ast.expr) else ""
    return _change(node, other) + around


def _change(node, other) -> str:
    if isinstance(node, ast.For):  # its body stays
        node, other = ast.Expr(node.iter), ast.Expr(other.iter)
    if isinstance(node, ast.Dict):
        texts = [[ast.unparse(value) for value in table.values] for table in (node, other)]
        keys = [ast.unparse(key) if key else "**" for key in node.keys]
        moved = [key for key, a, b in zip(keys, *texts, strict=True) if a != b]
        return f"exchanged: {' and '.join(moved)}"
    return f"{ast.unparse(node)} -> {ast.unparse(ast.fix_missing_locations(other))}"


def _compiled(mutant: Mutant):
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    node = list(ast.walk(tree))[mutant.number]
    other = copy.copy(alternatives(node, decides=mutant.decides)[mutant.choice])
    node.__class__ = type(other)
    vars(node).update(vars(other))
    return compile(ast.fix_missing_locations(tree), mutant.path, "exec")


@contextlib.contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The mutant in place of the module: functions, tables, classes; then the module again."""
    _forget()
    module = importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
    changed = dict(vars(module))
    exec(_compiled(mutant), changed)
    own = {name: value for name, value in vars(module).items() if changed[name] is not value}
    with contextlib.ExitStack() as stack:
        for name, value in own.items():
            stack.enter_context(_exchanged(module, name, value, changed[name]))
        stack.callback(_forget)
        yield


def _forget() -> None:
    """Empties every cache of the proofs, which would answer for another mutant."""
    modules = [module for name, module in sys.modules.items() if name.startswith("axioms.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if inspect.isfunction(getattr(value, "__wrapped__", None)) and hasattr(
            value, "cache_clear"
        ):
            value.cache_clear()


@contextlib.contextmanager
def _code(function, other) -> Iterator[None]:
    """The function with the code of the other, behind whatever decorates both."""
    function, other = inspect.unwrap(function), inspect.unwrap(other)
    parts = ("__code__", "__defaults__", "__kwdefaults__")
    before = {part: getattr(function, part) for part in parts}
    try:
        for part in parts:
            setattr(function, part, getattr(other, part))
        yield
    finally:
        for part, value in before.items():
            setattr(function, part, value)


def _exchanged(module, name, value, other):
    """Puts ``other`` for ``value`` while a context is open, by a change in place if it can."""
    if isinstance(value, dict):
        return mock.patch.dict(value, other, clear=True)
    if hasattr(value, "__code__"):
        return _code(value, other)
    if isinstance(value, tuple) and any(map(is_dataclass, value)):
        return _records(value, other)
    return mock.patch.object(module, name, other)


@contextlib.contextmanager
def _records(records, others) -> Iterator[None]:
    """Records with the fields of others, wherever tables hold them."""
    with contextlib.ExitStack() as stack:
        for one, other in zip(records, others, strict=True):
            stack.enter_context(mock.patch.dict(vars(one), vars(other)))
        yield

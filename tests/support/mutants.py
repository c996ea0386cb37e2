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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

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
        if option.arg == "eps" and not isinstance(option.value, ast.Constant):  # 2 * 0 is 0
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


def mutants(path: str) -> list[Mutant]:
    """All mutants of a file, in the order of the syntax tree."""
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
        for choice, other in enumerate(_alternatives(node)):
            found.append(
                Mutant(
                    path=path,
                    line=node.lineno,
                    function=places.get(node, "(table)"),
                    change=_described(node, other, above),
                    number=number,
                    choice=choice,
                )
            )
    return found


def _described(node, other, above) -> str:
    """The change; that of a number with its sign, and with the expression that it stands in."""
    value = getattr(getattr(node, "operand", node), "value", None)
    if type(value) not in (int, float):
        return _change(node, other)
    place = above[node]
    if isinstance(place, ast.UnaryOp):
        node, other, place = place, _changed(place, operand=other), above[place]
    while isinstance(place, (ast.Subscript, ast.Tuple, ast.keyword)):
        place = above[place]
    around = f" in {ast.unparse(place)}" if isinstance(place, ast.expr) else ""
    return _change(node, other) + around


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
    """The mutant in place of the module: functions, tables, classes; then the module again."""
    module = importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
    changed = dict(vars(module))
    exec(_compiled(mutant), changed)
    own = {name: value for name, value in vars(module).items() if changed[name] is not value}
    with contextlib.ExitStack() as stack:
        for name, value in own.items():
            stack.enter_context(_exchanged(module, name, value, changed[name]))
        yield


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
    """A context in which ``other`` stands for ``value``, in place where that is possible."""
    if isinstance(value, dict):
        return mock.patch.dict(value, other, clear=True)
    if hasattr(value, "__code__"):
        return _code(value, other)
    return mock.patch.object(module, name, other)

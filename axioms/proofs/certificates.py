"""Certificates: every verdict as data, which ``axioms/check.py`` confirms without SymPy.

A folder has ``index.json`` and one file for each statement.  Both sides of a decision come from
graphs where rules ran (``axioms.proofs.references``), and are formulas elsewhere.
"""

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

from axioms import check
from axioms.algebra.decisions import DIFFER_AT, Decision, assumption
from axioms.algebra.denotation import as_rational
from axioms.graph import LEAVES
from axioms.proofs import evidence
from axioms.proofs.prove import NOT_ESTABLISHED, Verdict, prove, test_of
from axioms.proofs.references import References, Step, traced
from axioms.writing import write_atomically

MOST = 10**7  # steps of the checker for one decision: about a second
Data: TypeAlias = Any  # of JSON
Sides: TypeAlias = tuple[sp.Expr, sp.Expr]


class Uncertified(ValueError):
    """Why a decision cannot be written as data that the checker confirms."""


@contextmanager
def _within(steps: int) -> Iterator[None]:
    """Raises Uncertified if the checker takes more than ``steps`` steps in this block."""
    with mock.patch.object(check, "STEPS", steps), mock.patch.object(check.Value, "steps", 0):
        try:
            yield
        except ValueError as error:
            if check.Value.steps > steps:
                raise Uncertified(f"the checker takes {error}") from error
            raise


class _Symbols(dict[str, Any]):
    """Every symbol as itself."""

    def __missing__(self, name: str) -> Any:
        return check.Value(1, {frozenset({((name,), 1)}): 1})


@dataclass
class Writer:
    """Formulas as lists; what is no symbol and no number is written once, in ``shared``."""

    references: References
    names: dict[sp.Symbol, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # what is assumed, by name
    places: dict[sp.Expr, int] = field(default_factory=dict)  # in ``shared``
    shared: list[Data] = field(default_factory=list)
    variants: dict[tuple[int, tuple[sp.Expr, ...]], int] = field(default_factory=dict)
    graphs: list[Data] = field(default_factory=list)

    @cached_property
    def free(self) -> Any:
        """What the checker finds at symbols in general."""
        return check.Run(vars(self), _Symbols())

    def formula(self, e: sp.Expr) -> Data:
        if e.is_Rational:
            return str(e)
        if e.is_Symbol:
            return self.name(e)
        if e not in self.places:
            found = self._operation(e)
            self.places[e] = len(self.shared)
            self.shared.append(found)
        return self.places[e]

    def name(self, symbol: sp.Symbol) -> str:
        """The name of a symbol, which no other one has, whatever is assumed of it."""
        if symbol not in self.names:
            name = str(symbol)
            while name in self.facts:
                name += "'"
            fact = assumption(symbol)
            self.names[symbol], self.facts[name] = name, fact if fact in check.FACTS else ""
        return self.names[symbol]

    def _operation(self, e: sp.Expr) -> Data:
        if isinstance(e, AppliedUndef):
            graph, (what, *place) = self.references.places[e.func.__name__]
            return [what, self._graph(graph, e.args), *place]
        if e.is_Add or e.is_Mul:
            return ["+" if e.is_Add else "*", *map(self.formula, e.args)]
        if e.is_Pow and e.exp.is_Integer:
            return ["^", self.formula(e.base), int(e.exp)]
        if isinstance(e, sp.Abs):
            return ["abs", self.formula(e.args[0])]
        raise Uncertified(f"it has {e}, and the checker has no {e.func.__name__}")

    def _graph(self, k: int, at: tuple[sp.Expr, ...]) -> int:
        """The place of graph ``k`` where its symbols are ``at``."""
        if (k, at) not in self.variants:
            graph = self.references.graphs[k]
            changed = {x: y for x, y in zip(graph.symbols, at, strict=True) if x != y}
            steps = [self._step(step, changed) for step in graph.steps]
            if steps not in self.graphs:
                self.graphs.append(steps)
            self.variants[k, at] = self.graphs.index(steps)
        return self.variants[k, at]

    def _step(self, step: Step, changed: Mapping[sp.Symbol, sp.Expr]) -> Data:
        op, rule, operands, more = step
        more = {name: matrix.subs(changed, simultaneous=True) for name, matrix in more.items()}
        if "eps" in more and more["eps"][0] == 0:
            more.pop("sign", None)  # it is multiplied by 0
        opaque = {"exp"} if op in LEAVES else {"exp", "value"}  # of functions, which get names
        named = {
            name: matrix.applyfunc(as_rational) if name in opaque else matrix
            for name, matrix in more.items()
        }
        matrices = {
            name: [[self.formula(x) for x in row] for row in matrix.tolist()]
            for name, matrix in named.items()
        }
        return [op, rule, operands, matrices]

    def point(self, decision: Decision) -> dict[str, str]:
        """The point of a decision, by the names of those symbols that occur in formulas."""
        found = {self.names[x]: value for x, value in decision.point.items() if x in self.names}
        return {name: str(value) for name, value in found.items()}


def _run(
    name: str, decisions: Sequence[Decision], again: Sequence[Decision], references: References
) -> Data:
    """One run of a test as data; raises Uncertified, or as the checker does."""
    writer, final = Writer(references), Writer(references)
    check.Value.facts = writer.facts
    plain = [(d.left, d.right) for d in decisions]
    sides = [(d.left, d.right) for d in again] + plain[len(again) :]
    chosen = [
        one if _agree(writer, one, other, decision) else other
        for one, other, decision in zip(sides, plain, decisions, strict=True)
    ]
    formulas = [[final.formula(side) for side in pair] for pair in chosen]
    data = {
        "run": name,
        "symbols": final.facts,
        "graphs": final.graphs,
        "shared": final.shared,
        "decisions": [
            [_kind(d), pair, [], final.point(d), [list(case) for case in d.signs]]
            for pair, d in zip(formulas, decisions, strict=True)
        ],
    }
    with _within(check.STEPS):
        found: Data = check.completed(data)
    return found


def _kind(decision: Decision) -> str:
    if decision.kind == DIFFER_AT:
        return "apart"
    return "equal" if decision.verdict else "unequal"


def _agree(writer: Writer, one: Sides, other: Sides, decision: Decision) -> bool:
    """Whether the checker can say that sides from graphs are those that SymPy has found.

    Raises ValueError where it says that they are others.
    """
    if one == other:
        return False
    try:
        pairs = [(writer.formula(a), writer.formula(b)) for a, b in zip(one, other, strict=True)]
        at = _Symbols((x, check.Value(y)) for x, y in writer.point(decision).items())
        run = check.Run(vars(writer), at) if decision.kind == DIFFER_AT else writer.free
        minus = check.Value(-1)
        with _within(MOST):
            gaps = [check.total(run.value(a), minus * run.value(b)).number for a, b in pairs]
    except (ArithmeticError, LookupError, ValueError):  # a symbol without a value, say
        return False
    if any(gaps):
        raise ValueError(f"axioms/check.py finds other relevance than {other} at {decision.point}")
    return True


@dataclass
class Certifier:
    """A plugin of pytest that writes each run of a theorem's test as data."""

    runs: dict[str, list[Data]] = field(default_factory=dict)  # by test; or why there is none

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        if item.get_closest_marker("theorem"):
            decisions = item.stash[evidence.DECISIONS]
            try:
                found = _run(item.name, decisions, *traced(item, decisions))
            except Uncertified as error:
                found = str(error)
            self.runs.setdefault(test_of(item), []).append(found)
        return result


def certify(
    *paths: str | Path, folder: Path, decisions: dict[str, list[Decision]] | None = None
) -> list[Verdict]:
    """Runs the theorems under ``paths`` as ``prove`` does, and writes their certificates."""
    folder.mkdir(parents=True, exist_ok=True)
    certifier = Certifier()
    verdicts = prove(*paths, decisions=decisions, plugins=[certifier])
    statements: list[Data] = []
    left_out: dict[str, str] = {}
    for verdict in verdicts:
        runs = certifier.runs.get(verdict.test, [])
        reasons = [run for run in runs if isinstance(run, str)]
        if verdict.verdict == NOT_ESTABLISHED or reasons:
            left_out[verdict.label] = next(iter(reasons), NOT_ESTABLISHED)
            continue
        said = ("label", "statement", "given", "scope", "verdict")
        head = {name: getattr(verdict, name) for name in said}
        counts = Counter(kind for run in runs for kind, *_ in run["decisions"])
        statements.append({**head, "decisions": counts})
        _write(folder / f"{verdict.label}.json", {**head, "runs": runs})
    _write(folder / "index.json", {"statements": statements, "not certified": left_out})
    return verdicts


def _write(path: Path, data: Data) -> None:
    write_atomically(path, (_lines(data) + "\n").encode())


def _lines(data: Data, indent: str = "") -> str:
    """JSON with a line for each thing that fits one."""
    line = json.dumps(data)
    if len(indent + line) <= 100 or not isinstance(data, dict | list) or not data:
        return line
    inner = indent + " "
    if isinstance(data, dict):
        parts = [f"{json.dumps(name)}: {_lines(x, inner)}" for name, x in data.items()]
    else:
        parts = [_lines(x, inner) for x in data]
    begin, end = "{}" if isinstance(data, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"

"""Certificates: every verdict as data, which ``axioms/check.py`` confirms without SymPy.

A folder has ``index.json`` and one file for each statement.  Both sides of a decision come from
graphs where rules ran (``axioms.proofs.references``), and are formulas elsewhere.
"""

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

from axioms import check, kinds
from axioms.algebra.decisions import DIFFER_AT, Decision, assumption
from axioms.algebra.denotation import as_rational, canonical, named
from axioms.proofs import evidence
from axioms.proofs.prove import NOT_ESTABLISHED, Verdict, prove, test_of
from axioms.proofs.references import References, Step, traced
from axioms.writing import write_atomically

AS_WRITTEN = "both sides of all that it decides are one formula as written"
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
        return check.symbol(name)


@dataclass
class Writer:
    """Formulas as lists; what is no symbol and no number is written once, in ``shared``."""

    references: References
    verifies: bool = True  # that signs and exponentials are those of their operands
    known: dict[sp.Symbol, Any] = field(default_factory=dict)  # signs and exponentials
    names: dict[sp.Symbol, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # what is assumed, by name
    places: dict[str, int] = field(default_factory=dict)  # in ``shared``, by what stands there
    shared: list[Data] = field(default_factory=list)
    formulas: dict[sp.Expr, Data] = field(default_factory=dict)
    variants: dict[tuple[int, tuple[sp.Expr, ...]], int] = field(default_factory=dict)
    graphs: list[Data] = field(default_factory=list)

    @cached_property
    def free(self) -> Any:
        """What the checker finds at symbols in general."""
        return check.Run(vars(self), _Symbols())

    def formula(self, e: sp.Expr) -> Data:
        if e.is_Rational:
            return str(e)
        if e.is_Symbol and e not in self.known:
            return self.name(e)
        if e not in self.formulas:
            self.formulas[e] = (
                self._of_powers(e) if e.is_Symbol else self._place(self._operation(e))
            )
        return self.formulas[e]

    def _place(self, operation: Data) -> int:
        place = self.places.setdefault(json.dumps(operation), len(self.shared))
        self.shared += [operation] * (place == len(self.shared))
        return place

    def _of_powers(self, symbol: sp.Symbol) -> Data:
        """A sign or an exponential as the checker has it: a product of powers of its symbols."""
        value = self.known[symbol]
        factors: list[Data] = [] if value.number == 1 else [str(value.number)]
        for (((name,), _),), n in value.powers.items():
            self.facts.setdefault(name, "")
            factors.append(name if n == 1 else self._place(["^", name, n]))
        if len(factors) > 1:
            return self._place(["*", *factors])
        return factors[0] if factors else "1"

    def value(self, e: sp.Expr) -> Any:
        """What the checker finds for a formula."""
        return self.free.value(self.formula(e))

    def name(self, symbol: sp.Symbol) -> str:
        """The name of a symbol, which no other one has, whatever is assumed of it."""
        if symbol not in self.names:
            name = str(symbol)
            while name in self.names.values():
                name += "'"
            self.names[symbol] = name
        fact = assumption(symbol)
        self.facts[self.names[symbol]] = fact if fact in check.FACTS else ""
        return self.names[symbol]

    def _operation(self, e: sp.Expr) -> Data:
        if isinstance(e, AppliedUndef):
            graph, (what, *place) = self.references.places[e.func.__name__]
            return [what, self.graph(graph, e.args), *place]
        if e.is_Add or e.is_Mul:
            return ["+" if e.is_Add else "*", *map(self.formula, e.args)]
        if e.is_Pow and e.exp.is_Integer:
            return ["^", self.formula(e.base), int(e.exp)]
        if isinstance(e, sp.Abs):
            return ["abs", self.formula(e.args[0])]
        raise Uncertified(f"it has {e}, and the checker has no {e.func.__name__}")

    def graph(self, k: int, at: tuple[sp.Expr, ...]) -> int:
        """The place of graph ``k`` where its symbols are ``at``."""
        if (k, at) not in self.variants:
            graph = self.references.graphs[k]
            changed = {x: y for x, y in zip(graph.symbols, at, strict=True) if x != y}
            steps = [_substituted(step, changed) for step in graph.steps]
            written = [self._step(step) for step in steps]
            if written not in self.graphs:
                self.graphs.append(written)
            place = self.graphs.index(written)
            if self.verifies and any(
                check.minus(self.value(e), own).number for e, own in self._named(steps, place)
            ):
                raise Uncertified("a sign or an exponential is not the one of its operand")
            self.variants[k, at] = place
        return self.variants[k, at]

    def _step(self, step: Step) -> Data:
        op, rule, operands, more = step
        found: dict[str, Data] = {}
        for name in more.keys() - {"sign", "exp"}:
            given = more[name]
            if isinstance(given, sp.MatrixBase):
                given = given.applyfunc(as_rational) if op == "function" else given
                found[name] = [[self.formula(x) for x in row] for row in given.tolist()]
            else:
                found[name] = self.formula(given)
        return [op, rule, operands, dict(sorted(found.items()))]

    def _named(self, steps: Sequence[Step], k: int) -> Iterator[tuple[sp.Expr, Any]]:
        """Each sign and exponential of a graph: as the test has it, and as the checker does."""
        if not any({"sign", "exp"} & more.keys() for *_, more in steps):
            return
        values = self.free.swept(k)[0]
        for (_, rule, args, more), z in zip(steps, values, strict=True):
            if "sign" in more and more["eps"] != 0:
                xs = [values[a] for a in args[:2]]
                y = check.through(*xs) if rule == kinds.EPSILON_WITHOUT_BIAS else z
                yield from zip(more["sign"], (x.sign() for row in y for x in row), strict=True)
            if "exp" not in more:
                continue
            exponentials = check.each(self.free.exponential, values[args[0]])
            for row, own in zip(more["exp"].tolist(), exponentials, strict=True):
                known = [n for n, e in enumerate(row) if not self._unknown(as_rational(e))]
                # a softmax is the same for every multiple of a row
                times = self.value(as_rational(row[known[0]])) * own[known[0]] ** -1 if known else 1
                yield from ((e, times * x if known else x) for e, x in zip(row, own, strict=True))

    def _unknown(self, e: sp.Expr) -> list[sp.Symbol]:
        return [x for x in e.free_symbols if x not in self.known]

    def learn(self) -> None:
        """Finds what stands for a sign or an exponential in a test, graph by graph."""
        for graph in self.references.graphs:
            with suppress(ArithmeticError, LookupError, ValueError):
                self.graphs.append([self._step(step) for step in graph.steps])
                for e, own in self._named(graph.steps, len(self.graphs) - 1):
                    self._learn(e, own)

    def _learn(self, e: sp.Expr, own: Any) -> None:
        if isinstance(e, sp.exp):
            for term in sp.Add.make_args(sp.expand(canonical(e.args[0]))):
                multiple, rest = term.as_coeff_Mul()
                part = rest if multiple.is_Integer else term
                self.known[named("exp", part)] = self.free.exponential(self.value(part))
        elif len(unknown := self._unknown(e)) == 1 and (e / unknown[0]).is_constant(*unknown):
            self.known[unknown[0]] = own * self.value(e / unknown[0]) ** -1

    def point(self, decision: Decision) -> dict[str, str]:
        """The point of a decision, by the names of those symbols that occur in formulas."""
        names = self.names | {x: self.formula(x) for x in self.known.keys() & decision.point.keys()}
        found = {names[x]: value for x, value in decision.point.items() if x in names}
        return {
            name: str(value)
            for name, value in found.items()
            if name in self.facts and not name.startswith("sign[")
        }


def _substituted(step: Step, changed: Mapping[sp.Symbol, sp.Expr]) -> Step:
    *head, more = step
    return *head, {name: x.subs(changed, simultaneous=True) for name, x in more.items()}


def _run(
    name: str, decisions: Sequence[Decision], again: Sequence[Decision], references: References
) -> Data:
    """One run of a test as data; raises Uncertified, or as the checker does."""
    scratch = Writer(references)
    check.Value.facts, check.Value.steps = scratch.facts, 0
    scratch.learn()
    writer = Writer(references, known=scratch.known, names=scratch.names)
    check.Value.facts = writer.facts
    final = Writer(references, verifies=False, known=writer.known, names=writer.names)
    decisions = [_at_a_point(decision) for decision in decisions]
    plain = [(d.left, d.right) for d in decisions]
    sides = [(d.left, d.right) for d in again] + plain[len(again) :]
    rows = []
    for n, (one, other, decision) in enumerate(zip(sides, plain, decisions, strict=True)):
        signs = {x: y for x, y in decision.point.items() if x in writer.known and y in (1, -1)}
        other = tuple(side.subs(signs) for side in other)
        if decision.signs and n >= len(again):
            raise Uncertified("its cases of signs are not one formula")
        chosen = one if _agree(writer, one, other, decision) else other
        pair = [final.formula(side) for side in chosen]
        kind = "apart" if decision.kind == DIFFER_AT else "equal"
        if all(map(check.number, pair)) or pair[0] == pair[1]:
            continue  # it says nothing
        if (row := [kind, pair, final.point(decision)]) not in rows:
            rows.append(row)
    data = {
        "run": name,
        "symbols": final.facts,
        "graphs": final.graphs,
        "shared": final.shared,
        "decisions": rows,
    }
    check.Value.steps = 0
    with _within(check.STEPS):
        return data | {"nonzero": check.decided(data)}


def _at_a_point(decision: Decision) -> Decision:
    """What is not equal in general differs at a point of prime numbers."""
    if decision.kind == DIFFER_AT or decision.verdict:
        return decision
    point = {x: sp.Integer(sp.prime(k + 5)) for k, x in enumerate(decision.symbols)}
    return replace(decision, kind=DIFFER_AT, point=point)


def _agree(writer: Writer, one: Sides, other: Sides, decision: Decision) -> bool:
    """Whether the checker can say that sides from graphs are those that SymPy has found.

    Raises ValueError where it says that they are others.
    """
    if one == other:
        return False
    try:
        pairs = [(writer.formula(a), writer.formula(b)) for a, b in zip(one, other, strict=True)]
        if decision.signs:
            return True  # for all cases at once, of which ``other`` is one
        at = _Symbols((x, check.Value(y)) for x, y in writer.point(decision).items())
        free = writer.free
        run = check.Run(vars(writer), at, free) if decision.kind == DIFFER_AT else free
        with _within(MOST):
            gaps = [check.minus(run.value(a), run.value(b)).number for a, b in pairs]
    except (ArithmeticError, LookupError, ValueError):  # a symbol without a value, say
        return False
    if any(gaps):
        raise ValueError(f"axioms/check.py finds other relevance than {other} at {decision.point}")
    return True


def _of_one_case(decisions: Sequence[Decision]) -> list[Decision]:
    """Decisions where all signs are 1; Uncertified if another case has not as many."""
    cases = Counter(decision.signs for decision in decisions)
    first = {case: tuple((1,) * len(signs) for signs in case) for case in cases}
    if odd := [case for case, count in cases.items() if cases[first[case]] != count]:
        raise Uncertified(f"not as much is decided for the signs {odd[0]} as for others")
    return [decision for decision in decisions if first[decision.signs] == decision.signs]


@dataclass
class Certifier:
    """A plugin of pytest that writes each run of a theorem's test as data."""

    runs: dict[str, list[Data]] = field(default_factory=dict)  # by test; or why there is none

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        if item.get_closest_marker("theorem"):
            try:
                decisions = _of_one_case(item.stash[evidence.DECISIONS])
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
        head = {"label": verdict.label, "statement": verdict.statement, "verdict": verdict.verdict}
        kinds = [kind for run in runs for kind, *_ in run["decisions"]]
        if check.MAKES[verdict.verdict] not in kinds:
            left_out[verdict.label] = AS_WRITTEN
            continue
        statements.append(head)
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

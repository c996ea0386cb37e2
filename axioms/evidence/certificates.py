"""Certificates: every verdict as data, which ``axioms/check.py`` confirms without SymPy.

A folder has ``index.json`` and one file for each statement.  Both sides of a decision come from
graphs where rules ran (``axioms.evidence.references``), and are formulas elsewhere.
"""

import json
from collections import Counter
from collections.abc import Container, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from unittest import mock

import pytest
import sympy as sp

from lrp_axioms.axioms import check
from lrp_axioms.axioms.decide.decisions import DIFFER_AT, Decision
from lrp_axioms.axioms.evidence import evidence
from lrp_axioms.axioms.evidence.prove import NOT_ESTABLISHED, Verdict, prove, test_of
from lrp_axioms.axioms.evidence.references import References, traced
from lrp_axioms.axioms.evidence.writer import Data, Symbols, Uncertified, Writer
from lrp_axioms.axioms.writing import write_atomically

AS_WRITTEN = "both sides of all that it decides are one formula as written"
MOST = 10**7  # steps of the checker for one decision: about a second
Sides: TypeAlias = tuple[sp.Expr, sp.Expr]


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
    decisions = [_at_a_point(decision, writer.known) for decision in decisions]
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
        says = decision.verdict or decision.kind == DIFFER_AT
        if not says or all(map(check.number, pair)) or pair[0] == pair[1]:
            continue
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


def _at_a_point(decision: Decision, known: Container[sp.Symbol]) -> Decision:
    """Turns a general inequality into a difference at a point of prime numbers.

    Names of functions may hide that both sides are equal, so an inequality of them stays as it is.
    """
    symbols = [x for x in decision.symbols if x not in known]
    if decision.kind == DIFFER_AT or decision.verdict or any("[" in str(x) for x in symbols):
        return decision
    point = {x: sp.Integer(sp.prime(k + 5)) for k, x in enumerate(symbols)}
    return replace(decision, kind=DIFFER_AT, point=point)


def _agree(writer: Writer, one: Sides, other: Sides, decision: Decision) -> bool:
    """Whether the checker confirms that the sides from graphs equal the sides that SymPy found.

    Raises ValueError where the checker finds a difference.
    """
    if one == other:
        return False
    try:
        pairs = [(writer.formula(a), writer.formula(b)) for a, b in zip(one, other, strict=True)]
        if decision.signs:
            return True  # the pairs cover all cases at once, and ``other`` is one of them
        at = Symbols((x, check.Value(y)) for x, y in writer.point(decision).items())
        run = check.Run(vars(writer), at) if decision.kind == DIFFER_AT else writer.free
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
                made = item.stash[evidence.DECISIONS]
                decisions = _of_one_case(made)
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

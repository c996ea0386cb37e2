"""Records function calls and decisions, so that a verdict rests on them and not on words.

``axioms.evidence.evidence`` reads the record.  Inside ``disturbing()`` every noted function of the
project returns something else: a decision that comes out the same there is about nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, is_dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeAlias, TypeVar

import sympy as sp

from lrp_axioms.axioms.decide.decisions import DIFFER_AT, IDENTICAL, Decision

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")
Point: TypeAlias = Mapping[sp.Symbol, sp.Expr]
Instead: TypeAlias = Callable[[str, Mapping[str, Any], Any], Any]
"""Replaces a result, from the function's name, its arguments by name, and the result."""


class Depends(BaseException):
    """Ends a disturbed run: a decision depends on results of the project's functions."""


@dataclass(frozen=True)
class Record:
    """Functions that ran and decisions, in order: names and SymPy expressions, nothing else."""

    ran: dict[str, None] = field(default_factory=dict)  # functions of the project
    decisions: list[Decision] = field(default_factory=list)
    cases: list[tuple[int, ...]] = field(default_factory=list)  # of signs, that are under way
    answers: list[bool] = field(default_factory=list)  # of both sorts
    instead: Instead | None = None  # of a run that repeats the answers of another one
    disturbed: str = ""  # the sort that ends it
    free_signs: list[sp.Matrix] | None = None  # given out by `sign_cases` in the place of all cases

    @property
    def identities(self) -> list[Decision]:
        """The equalities that were found to hold."""
        return [d for d in self.decisions if d.kind == IDENTICAL and d.verdict]

    @property
    def differences(self) -> list[Decision]:
        """Every point that was put into two sides."""
        return [d for d in self.decisions if d.kind == DIFFER_AT]


_RECORD: ContextVar[Record | None] = ContextVar("record", default=None)


@contextmanager
def recording(record: Record | None = None) -> Iterator[Record]:
    """Records calls and decisions inside the block, in this context alone."""
    record = record or Record()
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


def disturbing(decision: str, answers: list[bool]) -> AbstractContextManager[Record]:
    """A block that raises Depends at the first True of ``answers`` that would now be another one.

    ``decision`` is the sort that counts, "identical" or "differ_at"; up to there every decision
    is answered as in the run before, whose answers these are.
    """
    unknown: Instead = lambda _name, _given, found: _times_unknown(found)
    return recording(Record(answers=answers[::-1], instead=unknown, disturbed=decision))


def replacing(
    instead: Instead, answers: Iterable[bool], *, free_signs: bool = False
) -> AbstractContextManager[Record]:
    """Lets noted functions return ``instead(...)`` inside the block, and decisions ``answers``.

    With ``free_signs`` every ``sign_cases`` gives one matrix of symbols instead of all its cases.
    """
    signs: list[sp.Matrix] | None = [] if free_signs else None
    return recording(Record(answers=[*answers][::-1], instead=instead, free_signs=signs))


def free_signs(rows: int, cols: int) -> sp.Matrix | None:
    """A matrix of new symbols for signs, where the record that is open asks for them."""
    record = _RECORD.get()
    if record is None or record.free_signs is None:
        return None
    name = f"case{len(record.free_signs)}_"
    made = sp.Matrix(rows, cols, lambda i, j: sp.Symbol(f"{name}{i}{j}", real=True))
    record.free_signs.append(made)
    return made


def answer(decision: str, *, now: bool) -> bool:
    """``now``; in a disturbed run the answer of the run before, unless Depends ends it."""
    if (record := _RECORD.get()) is None:
        return now
    if record.instead is None:
        record.answers.append(now)
        return now
    before = record.answers.pop() if record.answers else False
    if decision == record.disturbed and before and not now:
        raise Depends
    return before


def decided(
    kind: str, left: sp.Expr, right: sp.Expr, *, now: bool, point: Point | None = None
) -> bool:
    """Writes a decision into the record that is open; its answer, as ``answer`` gives it."""
    if (record := _RECORD.get()) is not None:
        found = Decision(
            kind=kind,
            left=left,
            right=right,
            verdict=now,
            point=dict(point or {}),
            signs=tuple(record.cases),
        )
        record.decisions.append(found)
    return answer(kind, now=now)


@contextmanager
def sign_case(signs: Iterable[int]) -> Iterator[None]:
    """Marks every decision inside the block with one case of signs."""
    if (record := _RECORD.get()) is None:
        yield
        return
    record.cases.append(tuple(map(int, signs)))
    try:
        yield
    finally:
        record.cases.pop()


def noted(function: Callable[Arguments, Found]) -> Callable[Arguments, Found]:
    """The function, which writes its name into the record that is open when it runs."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    bound = signature(function)

    @wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        if (record := _RECORD.get()) is None:
            return function(*args, **kwargs)
        record.ran[name] = None
        if record.instead is None:
            return function(*args, **kwargs)
        with recording():  # functions that it calls are not replaced
            found = function(*args, **kwargs)
        given = bound.bind(*args, **kwargs).arguments
        replaced: Found = record.instead(name, given, found)
        return replaced

    return run


class Unknown(sp.Dummy):  # type: ignore[misc]  # SymPy has no types
    """A positive factor that nothing else has."""


def _times_unknown(found: Any) -> Any:
    """Multiplies each number in a function's result by an unknown factor."""
    if isinstance(found, sp.MatrixBase):
        return found.applyfunc(_times_unknown)
    if isinstance(found, sp.Expr | int):
        return (found or 1) * Unknown(positive=True)
    if isinstance(found, list | tuple):
        return type(found)(map(_times_unknown, found))
    if isinstance(found, dict):
        return {key: _times_unknown(value) for key, value in found.items()}
    if is_dataclass(found) and not isinstance(found, type):
        return replace(found, **_times_unknown(vars(found)))
    return found

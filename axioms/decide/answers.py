"""Answers a question about a rule at every epsilon and in the limit: proved, refuted or open."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, TypeAlias

import sympy as sp

from lrp_axioms.axioms.decide.equality import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNDEFINED,
    Found,
    Part,
    Undecided,
    Values,
    at_every_eps,
    at_zero_eps,
)
from lrp_axioms.axioms.decide.limits import in_cells
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.verdict import IN_LIMIT, PROVED, REFUTED, UNDECIDED

QUARTER = sp.Rational(1, 4)  # stabiliser in the search for small witnesses
FEW = 8  # small points to try if the solver knows of no difference


class Tested(Part):
    """A case of a question, such as one number of inputs or one graph, with points to try."""

    first: ClassVar[int] = 0  # number of small points to try before the point of the solver

    @abstractmethod
    def points(self) -> Iterator[Any]:
        """Small points, the smallest first."""

    @abstractmethod
    def at(self, values: Values) -> Any:
        """A point from the values of symbols; values may be missing."""

    @abstractmethod
    def witness(
        self, point: Any, eps: sp.Expr, *, undefined: bool = False, nearby: bool = True
    ) -> str:
        """The failure of the rule itself at a point, in words; '' if it does not fail.

        A failure is a difference, in a limit also ``nearby``, or is ``undefined`` at both points.
        """


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The status of a claim, its scope, and the reason for any gap."""

    status: str
    divisors: tuple[sp.Expr, ...] = ()  # the sides are equal where no divisor is 0
    is_almost: bool = False  # except on a further thin set
    witness: str = ""
    reason: str = ""


Asked: TypeAlias = list[tuple[Tested, Found]]


def answer(parts: Sequence[Tested]) -> Answer:
    """Decides parts at every eps > 0, and in the limit where that fails."""
    finite = _ask(parts, at_every_eps)
    if not _left(finite):
        almost = any(found.is_almost for _, found in finite)
        return Answer(status=PROVED, divisors=_divisors(finite), is_almost=almost)
    limit = _ask(parts, at_zero_eps)
    if found := _witness(limit, sp.Integer(0)):
        return Answer(status=REFUTED, witness=found)
    cells = [(part, _recheck(part, found)) for part, found in limit if found.status == UNDEFINED]
    if not _left(cells):  # a part that was 0/0 came before others
        cells += _ask(parts[len(limit) :], in_limit)
    if found := _witness(cells, sp.Integer(0)):
        return Answer(status=REFUTED, witness=found)
    limit = [*cells, *(asked for asked in limit if asked[1].status != UNDEFINED)]
    at_quarter, why = _witness(finite, QUARTER), _why(finite)
    if not _left(limit):
        reason = "" if at_quarter else f"undecided at eps > 0: {why}"
        return Answer(
            status=IN_LIMIT,
            divisors=_divisors(limit),
            is_almost=any(found.is_almost for _, found in limit),
            witness=at_quarter,
            reason=reason,
        )
    if at_quarter:
        known = any(found.status == DIFFERENT for _, found in limit)  # a sign may jump in the limit
        said = "" if known else f"undecided as eps -> 0: {_why(limit)}"
        return Answer(status=REFUTED, witness=at_quarter, reason=said)
    return Answer(status=UNDECIDED, reason=f"{why}, and no witness was found")


def tried_further(found: Answer, points: Iterable[tuple[Tested, Any]]) -> Answer:
    """The answer, or a refutation if the claim fails at one of the points."""
    eps = QUARTER if found.status == PROVED else sp.Integer(0)
    said = (witness(part, point, eps) for part, point in points)
    return next((Answer(status=REFUTED, witness=x) for x in said if x), found)


def in_limit(part: Part) -> Found:
    """Decides a part as eps -> 0."""
    return _recheck(part, at_zero_eps(part))


def witness(part: Tested, point: Any, eps: sp.Expr, **how: bool) -> str:
    """The failure of the rule itself at a point; '' also where its numbers cannot be compared."""
    try:
        return part.witness(point, eps, **how)
    except Undecided:
        return ""


def _recheck(part: Part, found: Found) -> Found:
    """Decides a part by cells if it is 0/0 on an open set at eps = 0."""
    return in_cells(part) if found.status == UNDEFINED else found


def _ask(parts: Sequence[Tested], decide: Callable[..., Found]) -> Asked:
    asked: Asked = []
    for part in parts:
        asked.append((part, decide(part)))
        if asked[-1][1].status in (DIFFERENT, UNDEFINED):
            break
    return asked


def _left(asked: Asked) -> Asked:
    return [(part, found) for part, found in asked if found.status != EQUAL]


def _divisors(asked: Asked) -> tuple[sp.Expr, ...]:
    return tuple(dict.fromkeys(x for _, found in asked for x in found.divisors))


def _why(asked: Asked) -> str:
    whys = [found.why for _, found in _left(asked) if found.why]
    return next(iter(whys), "the rule itself does not differ where the solver says so")


def _witness(asked: Asked, eps: sp.Expr) -> str:
    """The failure of the rule itself at a small point, or at the solver's; '' if none is found."""
    for part, found in _left(asked):
        undefined = found.status in (UNDEFINED, DIFFERENT)
        at = found.point or {}
        plain = {x: v for x, v in at.items() if x.name[0] not in "RS"}  # relevance 1 shows it too
        options = {"undefined": undefined, "nearby": found.status != DIFFERENT}
        points = islice(part.points(), FEW if found.status == OPEN else None)
        small = ((point, eps, {"undefined": undefined}) for point in points)
        tried = [plain, at] if found.status == UNDEFINED else [at]
        known = [(part.at(values), at.get(EPS, eps), options) for values in tried if at]
        for point, number, how in chain(islice(small, part.first), known, small):
            if said := witness(part, point, number, **how):
                return said
    return ""

"""An answer names the verdict at every epsilon and in the limit, and its doubts."""

from dataclasses import dataclass

import pytest
import sympy as sp

from axioms.decide import answers
from axioms.decide.answers import Tested, answer, in_limit, tried_further
from axioms.decide.equality import DIFFERENT, EQUAL, OPEN, UNDEFINED, Found
from axioms.decide.reals import EPS

A, B, R = sp.symbols("a b R", real=True)
QUARTER = sp.Rational(1, 4)
N, A_0, B_0 = (Found(EQUAL, divisors=x, is_almost=not x) for x in ((), (A,), (B, A)))
E, D, G, O = Found(EQUAL), Found(DIFFERENT, {}), Found(UNDEFINED), Found(OPEN, why="why")
AT_177, AT_R = (Found(DIFFERENT, {A: 177, EPS: 3} | more) for more in ({}, {R: 1}))
GAP_R = Found(UNDEFINED, {A: 177, R: 1})


@dataclass(frozen=True)
class Told(Tested):
    """A part with known findings: at every epsilon, in the limit, in cells, and failures."""

    finite: Found
    limit: Found = E
    cells: Found = N
    fails: str = ""  # where the rule itself does: points, and epsilon
    first = 2

    def pairs(self):
        return []

    def points(self):
        return iter(range(100))

    def at(self, values):
        return f"{values.get(A, 'none')}{' and R' if R in values else ''}"

    def witness(self, point, eps, *, undefined=False, nearby=True):
        said = [f"{point} at {eps}"]
        said += [f"{said[0]} undefined"] * undefined + [f"{said[0]} alone"] * (not nearby)
        return next((x for x in self.fails.split(", ") if x in said), "")


@pytest.fixture(autouse=True)
def told(monkeypatch):
    for name, found in {"every_eps": "finite", "zero_eps": "limit"}.items():
        monkeypatch.setattr(answers, f"at_{name}", lambda part, found=found: getattr(part, found))
    monkeypatch.setattr(answers, "in_cells", lambda part: part.cells)


ANSWERS = """
proved; almost <- T(E), T(N), T(E)
proved; a; b <- T(A_0), T(B_0)
proved as eps -> 0; almost; b; a; 7 at 1/4 <- T(D, B_0, fails="7 at 1/4"), T(A_0, N)
proved as eps -> 0; b; a; 7 at 1/4 <- T(D, B_0, fails="7 at 1/4"), T(A_0, E)
proved as eps -> 0; undecided at eps > 0: why <- T(O)
proved as eps -> 0; almost; 7 at 1/4 <- T(G, G, fails="7 at 1/4")
refuted; 6 at 0 <- T(E), T(D, D, fails="5 at 1/4, 6 at 0")
refuted; 6 at 0 <- T(G, G, D, fails="5 at 1/4, 6 at 0")
refuted; 7 at 1/4 <- T(E), T(D, D, fails="7 at 1/4")
refuted; 7 at 1/4; undecided as eps -> 0: why <- T(E), T(O, O, fails="7 at 1/4")
refuted; 6 at 0 <- T(D, D, fails="6 at 0"), T(None, None)
refuted; 6 at 0 undefined <- T(G, G, fails="6 at 0 undefined"), T(None, None)
refuted; 6 at 0 undefined <- T(D, D, fails="6 at 0 undefined")
refuted; 177 and R at 3 alone <- T(AT_R, AT_R, fails="177 and R at 3 alone")
refuted; 177 at 0 <- T(D, GAP_R, fails="177 at 0")
proved as eps -> 0; almost; 177 at 1/4 <- T(GAP_R, GAP_R, fails="177 at 0 alone, 177 at 1/4")
undecided; why, and no witness was found <- T(O, O, fails="1 at 0 undefined, 1 at 0 alone")
undecided; why, and no witness was found <- T(O, O), T(G, G)
undecided; why, and no witness was found <- T(O, O, fails="8 at 1/4")
proved as eps -> 0; 1 at 1/4 <- T(AT_177, fails="1 at 1/4, 177 at 3")
proved as eps -> 0; 177 at 3 <- T(AT_177, fails="2 at 1/4, 177 at 3")
proved as eps -> 0; 99 at 1/4 <- T(AT_177, fails="99 at 1/4")
"""


@pytest.mark.parametrize("row", ANSWERS.strip().splitlines())
def test_an_answer_is_what_was_found_of_all_parts(row):
    expected, parts = row.split(" <- ")
    found = answer(eval(f"[{parts}]", {"T": Told, **globals()}))
    almost = "almost" if found.is_almost else ""
    said = (found.status, almost, *map(str, found.divisors), found.witness, found.reason)
    assert "; ".join(filter(None, said)) == expected


@pytest.mark.parametrize(("finite", "at"), [(E, QUARTER), (D, 0)])
def test_what_is_tried_further_is_tried_where_the_claim_is_said_to_hold(finite, at):
    found = answer([Told(finite)])
    for eps in (QUARTER, 0):
        part = Told(E, fails=f"4 at {eps}")
        more = tried_further(found, [(part, 3), (part, 4)])
        assert (more.status, more.witness) == (
            ("refuted", f"4 at {at}") if eps == at else (found.status, "")
        )


def test_a_limit_is_decided_by_cells_where_it_is_0_over_0_alone():
    assert [in_limit(Told(E, found, G)) for found in (E, D, O, G)] == [E, D, O, G]
    assert in_limit(Told(E, G, D)) == D

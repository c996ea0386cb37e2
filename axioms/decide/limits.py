"""Decides limits eps -> 0 where eps = 0 is 0/0 on an open set, such as z+ without positive parts.

Signs for every small enough eps > 0 cut the space into cells.  In a cell a side is a rational
function, and its lowest terms show the limit.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import sympy as sp
import z3

from lrp_axioms.axioms.decide import equality
from lrp_axioms.axioms.decide.equality import (
    DIFFERENT,
    EQUAL,
    OPEN,
    UNDEFINED,
    Found,
    Part,
    Undecided,
    solved,
)
from lrp_axioms.axioms.decide.identity import is_large, is_rational_function, lowest_terms
from lrp_axioms.axioms.decide.reals import EPS, Reals, point, solver
from lrp_axioms.axioms.decide.signs import UNDEFINED as NO_NUMBER
from lrp_axioms.axioms.decide.signs import Sign, by_sizes

CELLS = 64
Conditions: TypeAlias = tuple[sp.Basic, ...]  # relations that hold in a cell


def in_cells(part: Part) -> Found:
    """Whether pairs have one limit in every cell; thin sets between cells are left out."""
    facts = tuple(part.facts())
    gaps = [_name_signs(solved(one - other, facts)) for one, other in part.pairs()]
    messages = [*gaps, *(_name_signs(solved(x, facts)) for x in part.messages())]
    divisors = {p.base for x in messages for p in x.atoms(sp.Pow) if p.exp.is_negative}
    divisors |= {_name_signs(solved(x, facts)) for x in part.divisors()}
    try:
        if any(x.has(*NO_NUMBER) for x in messages):  # facts made a divisor 0
            return Found(UNDEFINED, _point(facts))
        for k, (conditions, found) in enumerate(_cells([*gaps, *divisors], facts)):
            if k == CELLS:
                raise Undecided(f"the limit eps -> 0 has more than {CELLS} cells")
            if any(x == 0 for x in map(_fraction, found[len(gaps) :])):
                return Found(UNDEFINED, _point(conditions))
            for gap in map(_fraction, found[: len(gaps)]):
                above, below = (side.subs(EPS, 0) for side in sp.fraction(gap))
                if below == 0:
                    return Found(UNDEFINED, _point(conditions))
                if above != 0:
                    return Found(DIFFERENT, _point((*conditions, sp.Ne(above, 0), sp.Ne(below, 0))))
    except Undecided as error:
        return Found(OPEN, why=str(error))
    return Found(EQUAL, is_almost=True)


def _cells(
    found: Sequence[sp.Expr], conditions: Conditions
) -> Iterator[tuple[Conditions, list[sp.Expr]]]:
    """Every open cell: its relations, and the expressions without signs in it."""
    signs = {s for x in found for s in x.atoms(Sign) if not s.args[0].has(Sign)}
    if not signs:
        yield conditions, list(found)
        return
    sign = min(signs, key=str)
    lead = _leading(sign.args[0])
    if lead.is_number:
        cases = [(1 if lead >= 0 else -1, conditions)]
    else:
        cases = [(1, (*conditions, lead > 0)), (-1, (*conditions, lead < 0))]
    for value, more in cases:
        if more == conditions or _model(more)[1] is not None:
            yield from _cells([x.xreplace({sign: sp.Integer(value)}) for x in found], more)


def _leading(argument: sp.Expr) -> sp.Expr:
    """A polynomial with the sign of a rational function at almost all points as eps -> 0."""
    sides = sp.fraction(_fraction(argument))
    return sp.prod(sp.Poly(side, EPS).EC() for side in sides)


def _fraction(value: sp.Expr) -> sp.Expr:
    if not is_rational_function(value) or is_large(value):
        raise Undecided("the limit eps -> 0 is not one of short rational functions")
    return lowest_terms(value)


def _model(conditions: Conditions) -> tuple[Reals, object]:
    reals = Reals()
    facts = [reals.fact(each) for each in conditions]
    asked = solver([*facts, *reals.facts], equality.LONG)
    found = asked.check()
    if found == z3.unknown:
        raise Undecided("the solver gave up on a cell of the limit eps -> 0")
    return reals, asked.model() if found == z3.sat else None


def _point(conditions: Conditions) -> dict[sp.Symbol, sp.Expr] | None:
    reals, model = _model(conditions)
    return None if model is None else point(model, reals.symbols)


def _name_signs(value: sp.Expr) -> sp.Expr:
    """An expression with signs in place of sizes and maxima."""
    return by_sizes(value).replace(sp.Abs, lambda z: z * Sign(z))

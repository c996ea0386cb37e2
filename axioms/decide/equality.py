"""Decides with z3 whether expressions of real symbols are equal everywhere.

"unsat" of the opposite is a proof, a model is a point where they differ, and "unknown" is open.
A side that divides by 0 on an open set is undefined there, and counts as different; divisors that
are 0 on a thinner set are listed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any, TypeAlias

import sympy as sp
import z3

from lrp_axioms.axioms.decide.identity import identical, is_large, is_rational_function
from lrp_axioms.axioms.decide.reals import EPS, Divisor, Fact, Reals, point, solver
from lrp_axioms.axioms.decide.signs import UNDEFINED as NO_NUMBER
from lrp_axioms.axioms.decide.signs import Sign, by_sizes

Pairs: TypeAlias = Sequence[tuple[sp.Expr, sp.Expr]]
Values: TypeAlias = dict[sp.Symbol, sp.Expr]


class Part(ABC):
    """Pairs of expressions that a claim equates."""

    @abstractmethod
    def pairs(self) -> Pairs:
        """The pairs of expressions that must be equal."""

    def messages(self) -> Sequence[sp.Expr]:
        """Further expressions that must be defined, because divisors may cancel in pairs."""
        return ()

    def divisors(self) -> Sequence[sp.Expr]:
        """Divisors that have cancelled in all pairs and messages."""
        return ()

    def facts(self) -> Sequence[sp.Basic]:
        """Facts about the symbols."""
        return ()

    @cached_property
    def translated(self) -> tuple[Reals, list[tuple[Any, Any]], list[Fact]]:
        """The pairs and facts for the solver."""
        reals = Reals()
        terms = [(reals.term(one), reals.term(other)) for one, other in self.pairs()]
        for message in self.messages():
            reals.term(message)
        for divisor in self.divisors():
            reals.divisors.append(Divisor(divisor, reals.term(divisor), z3.And([])))
        known = list(map(reals.fact, self.facts()))
        return reals, terms, [*known, *reals.facts]


def solved(value: sp.Expr, facts: Sequence[sp.Basic]) -> sp.Expr:
    """An expression without the symbols that facts such as z = x y define."""
    given = {}
    for fact in facts:
        if isinstance(fact, sp.Eq):
            *others, symbol = sorted(sp.Add.make_args(fact.lhs), key=str)
            given[symbol] = fact.rhs - sp.Add(*others)
    for _ in given:  # one may hold another
        value = value.xreplace(given)
    return value


EQUAL, DIFFERENT, UNDEFINED, OPEN = "equal", "different", "undefined", "open"
QUICK, LONG = 30_000, 1_000_000
"""Steps of z3: enough for most decisions; and until z3 gives up, about a second."""
POINTS = ((1,), (1, 2), (2, 3, 5, 7, 11, 13, 17, 19), (1, -1, 1, 1, -1))  # in turn, for all symbols
LARGEST = 30_000  # terms of an identity before anything cancels
CELLS = 200  # cells, and thin sets in them, before the search gives up


class Undecided(ArithmeticError):
    """The solver gave up."""


@dataclass(frozen=True)
class Found:
    """The decision on some pairs, with a point of difference, and divisors that may be 0.

    is_almost: whether the sides may differ on a thin set that ``divisors`` do not name
    """

    status: str
    point: dict[sp.Symbol, sp.Expr] | None = None
    divisors: tuple[sp.Expr, ...] = ()
    is_almost: bool = False
    why: str = ""


def at_every_eps(part: Part) -> Found:
    """Decides whether pairs are equal wherever both are defined, at every eps > 0."""
    return _decide(part, {})


def at_zero_eps(part: Part) -> Found:
    """Decides pairs at epsilon = 0, which is the limit wherever no divisor is 0 there.

    A sign that depends on epsilon may jump where its argument is 0 at epsilon = 0: such a point
    counts as a division by 0.
    """
    return _decide(part, {EPS: sp.Integer(0)})


def _decide(part: Part, at: Values) -> Found:
    (reals, terms, known), pairs = part.translated, part.pairs()
    jumps = {of: term == 0 for of, term in reals.atoms.items() if at and of.has(EPS)}
    try:
        if at and (EPS in reals.symbols or reals.unknown):
            reals, terms, known, jumps = _set_to_zero(reals, terms, known, jumps)
        undefined = [divisor.vanishes for divisor in reals.divisors] + [*jumps.values()]
        asked = [*known, *map(z3.Not, undefined)]
        found, model = _model([*asked, _apart(terms)], QUICK)
        small = None if found == z3.unsat else _small_model(asked, _apart(terms), reals)
        if small is not None:  # a model without numbers is falsy
            found, model = z3.sat, small
        if found == z3.unknown:
            left = [x for x, pair in zip(terms, pairs, strict=True) if not _cancels(*pair, at)]
            found, model = _model([*asked, _apart(left)], LONG)
        if found == z3.sat:
            return Found(DIFFERENT, point(model, reals.symbols))
        if found == z3.unknown:
            return Found(OPEN, why="the solver gave up")
        return _where_defined(part, reals, known, jumps, at)
    except Undecided as error:
        return Found(OPEN, why=str(error))


def _set_to_zero(
    reals: Reals, terms: list[tuple[Any, Any]], known: list[Fact], jumps: dict[sp.Basic, Fact]
) -> tuple[Reals, list[tuple[Any, Any]], list[Fact], dict[sp.Basic, Fact]]:
    """Terms, facts and jumps at epsilon = 0, without the fact that epsilon is positive."""
    if without_limit := [x for x in reals.unknown if x.has(EPS)]:
        raise Undecided(f"the limit of {without_limit[0]} as epsilon goes to 0 is not known")
    eps, zero = reals.symbols.get(EPS, z3.Real(EPS.name)), z3.RealVal(0)

    def put(term: Any) -> Any:
        return z3.substitute(term, (eps, zero))

    moved = Reals(
        divisors=[Divisor(x.expression, put(x.term), put(x.guard)) for x in reals.divisors],
        atoms={part: put(term) for part, term in reals.atoms.items()},
        symbols={x: term for x, term in reals.symbols.items() if x != EPS},
    )
    facts = [put(fact) for fact in known if not z3.eq(fact, eps > 0)]
    return moved, [(put(a), put(b)) for a, b in terms], facts, {x: put(y) for x, y in jumps.items()}


def _small_model(asked: list[Fact], apart: Fact, reals: Reals) -> Any:
    """A model of small numbers; most pairs that differ have one."""
    for row in POINTS:
        at = zip(reals.symbols.values(), cycle(row), strict=False)
        found, model = _model([*asked, apart, *(term == value for term, value in at)], QUICK)
        if found == z3.sat:
            return model
    return None


def _apart(terms: Sequence[tuple[Any, Any]]) -> Fact:
    return z3.Or([one != other for one, other in terms])


def _cancels(one: sp.Expr, other: sp.Expr, at: Values) -> bool:
    """Whether sides are one rational function of symbols, signs and other functions.

    Arguments of functions are multiplied out, so that equal ones are the same.
    """
    gap = by_sizes((one - other).xreplace(at))
    if gap.has(*NO_NUMBER):
        return False
    named = gap.replace(_is_opaque, _symbol)
    return is_rational_function(named) and not is_large(named, than=LARGEST) and identical(named, 0)


def _is_opaque(part: sp.Expr) -> bool:
    return bool(part.is_Function or (part.is_Pow and not part.exp.is_Integer))


def _symbol(part: sp.Expr) -> sp.Expr:
    """A symbol for a function; a positive factor in a size stays in front."""
    arguments = [sp.expand(x) if isinstance(x, sp.Expr) else x for x in part.args]
    if not isinstance(part, sp.Abs | Sign):
        return sp.Symbol(f"{part.func}{arguments}", real=True)
    content, primitive = arguments[0].as_content_primitive()
    if isinstance(part, Sign):
        return sp.Symbol(f"sign[{primitive}]", real=True)
    return content * sp.Symbol(f"size[{sp.Abs(primitive)}]", real=True)


def _model(facts: Iterable[Fact], effort: int) -> tuple[Any, Any]:
    asked = solver(facts, effort)
    found = asked.check()
    return found, asked.model() if found == z3.sat else None


def _where_defined(
    part: Part, reals: Reals, known: list[Fact], jumps: dict[sp.Basic, Fact], at: Values
) -> Found:
    """Equal sides, unless one of them is undefined on an open set."""
    divisors = [x for x in reals.divisors if at or not _is_stabilised(x.expression)]
    of = [(solved(x.expression.xreplace(at), part.facts()), x) for x in divisors]
    cut = [*(x.vanishes for value, x in of if not _is_thin(value)), *jumps.values()]
    model = _open_model(reals, known, cut) if cut else None
    if model is not None:
        return Found(UNDEFINED, point(model, reals.symbols))
    thin = [*((x.expression, x.vanishes) for x in divisors), *jumps.items()]
    zero = [x for x, vanishes in thin if _model([*known, vanishes], QUICK)[0] != z3.unsat]
    named = [x for x in zero if isinstance(x, sp.Expr) and x is not sp.nan]  # not of a maximum
    return Found(EQUAL, divisors=tuple(dict.fromkeys(named)), is_almost=len(named) < len(zero))


def _is_stabilised(divisor: sp.Expr) -> bool:
    """Whether a divisor is never 0: a positive number, or a multiple of z + k eps sign(z)."""
    if isinstance(divisor, sp.Piecewise):
        return all(_is_stabilised(value) for value, _ in divisor.args)
    if divisor.is_positive:
        return True
    for sign in divisor.atoms(Sign):
        rest, pushed = divisor.xreplace({sign: sp.Integer(0)}), divisor.coeff(sign)
        one, other = (side.as_content_primitive()[1] for side in (rest, sign.args[0]))  # signs stay
        is_sum = divisor == rest + pushed * sign and not rest.has(Sign) and not pushed.has(Sign)
        if is_sum and one == other and pushed.is_positive:
            return True
    return False


def _is_thin(divisor: sp.Expr) -> bool:
    """Whether a divisor is a rational function that is not 0 at almost all points."""
    if not is_rational_function(divisor) or divisor.has(*NO_NUMBER):
        return False
    at = {x: sp.prime(k + 20) for k, x in enumerate(sorted(divisor.free_symbols, key=str))}
    value = divisor.xreplace({x: sp.Integer(p) for x, p in at.items()})
    return bool(value.is_Rational and value != 0)


def _possible(facts: Iterable[Fact]) -> bool:
    """Whether facts hold together at some point; Undecided if the solver gives up."""
    found = solver(facts, LONG, by_cases=True).check()
    if found == z3.unknown:
        raise Undecided("the solver gave up on where something is divided by 0")
    return bool(found == z3.sat)


def _open_model(reals: Reals, known: list[Fact], zeros: list[Fact]) -> Any:
    """A point of an open set where one of ``zeros`` holds throughout, or None.

    The signs of all atoms cut the space into cells, and every expression is a rational function
    within a cell.  A rational function is 0 in a whole cell, or only in a thin part.  So a point
    with a zero names a cell, and the solver decides whether the zero fills the cell.
    """
    atoms = list(reals.atoms.values())
    search = solver([*known, z3.Or(zeros)], LONG, by_cases=True)
    for _ in range(CELLS):
        found = search.check()
        if found == z3.unsat:
            return None
        if found == z3.unknown:
            break
        model = search.model()
        cell, thin = _cell(atoms, known, model)
        if thin is not None:
            search.add(z3.Implies(z3.And(cell), thin))
            continue
        for zero in zeros:
            if z3.is_true(model.eval(zero, model_completion=True)):
                if not _possible([*known, *cell, z3.Not(zero)]):
                    return model
                search.add(z3.Not(z3.And(*cell, zero)))
    raise Undecided("the solver gave up on where something is divided by 0")


def _cell(atoms: list[Any], known: list[Fact], model: Any) -> tuple[list[Fact], Fact | None]:
    """The signs of atoms at a point; and for an atom that is 0 only on a thin set, atom != 0."""
    cell: list[Fact] = []
    for atom in atoms:
        if z3.is_true(model.eval(atom > 0, model_completion=True)):
            cell.append(atom > 0)
        elif z3.is_true(model.eval(atom < 0, model_completion=True)):
            cell.append(atom < 0)
        elif _possible([*known, *cell, atom != 0]):
            return cell, atom != 0
        else:
            cell.append(atom == 0)
    return cell, None

"""Finds every propagation rule of a template that obeys some axioms, or proves that none does.

z3 decides over the reals whether the polynomial equations of the axioms have a solution with other
shares than the rules found so far.  Rules without |x| and |y| come first: they have few unknown
coefficients, and for positive inputs every rule is one of them.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any, TypeAlias

import sympy as sp
import z3
from sympy.polys.rings import PolyElement

from lrp_axioms.axioms.decide.reals import number
from lrp_axioms.axioms.kinds import ADD, PRODUCT
from lrp_axioms.axioms.search.confirm import Rule, confirm
from lrp_axioms.axioms.search.templates import AXIOMS, QUADRANTS, Axiom, Part, Signs, Template

LISTED = 8
"""Number of rules in an incomplete list."""
SECONDS = 60
ALL, MORE, UNDECIDED = "all", "more", "undecided"
ALONE: Mapping[str, Sequence[Signs]] = {PRODUCT: [(1, 1)], ADD: [(1, 1), (-1, -1)]}
"""Quadrants closed under an operation; in each, a rule is a rule without |x| and |y|."""
Parts: TypeAlias = Mapping[Signs, Part]


@dataclass(frozen=True)
class Found:
    """Rules of a template that obey some axioms, no two with the same shares.

    ends: ALL if z3 proves that there is no other rule, MORE if z3 has one more, else UNDECIDED
    numbers: equations of a and b if z3 proves that the rules are a R to x and b R to y for all
        numbers that obey them, and more than the list; else []
    """

    rules: list[Rule]
    ends: str
    numbers: list[sp.Expr]


class _Undecided(Exception):
    """z3 does not decide in time."""


def search(template: Template, axioms: Iterable[str], *, seconds: float = SECONDS) -> Found:
    """Finds the rules of ``template`` that obey ``axioms``, and confirms each at points.

    axioms: keys of ``AXIOMS`` for the operation
    seconds: time of z3 for the whole search
    """
    names, until = list(dict.fromkeys(axioms)), time.monotonic() + seconds
    asked = [AXIOMS[template.operation][name] for name in names]
    plain = _System.of(replace(template, signs=False), asked, until)
    system = _System.of(template, asked, until) if template.signs else plain
    found, ends = _first(plain.solutions({}, []), LISTED)
    if found and ends == ALL and template.signs:
        corners = ALONE[template.operation]
        extended = (
            system.solutions({s: each[s] for s, each in zip(corners, chosen, strict=True)}, found)
            for chosen in product(found, repeat=len(corners))
        )
        others, ends = _first(chain.from_iterable(extended), LISTED - len(found))
        found = found + others
    rules = sorted(map(_rule, found), key=lambda rule: (len(str(rule)), str(rule)))
    for rule in rules:
        confirm(template.operation, rule, names)
    pairs = [{*rule.values()} for rule in rules]
    constant = all(len(p) == 1 and not any(s.free_symbols for s in next(iter(p))) for p in pairs)
    return Found(rules, ends, _numbers(system, asked) if ends == MORE and constant else [])


def _first(solutions: Iterator[Parts], count: int) -> tuple[list[Parts], str]:
    """The first ``count`` solutions, and ALL, MORE or UNDECIDED."""
    found: list[Parts] = []
    try:
        for each in solutions:
            if len(found) == count:
                return found, MORE
            found.append(each)
    except _Undecided:
        return found, UNDECIDED
    return found, ALL


@dataclass(frozen=True)
class _System:
    """Conditions on the unknown coefficients: equations, and divisors that are not 0.

    A divisor is the set of its coefficients; at least one of them is not 0.
    """

    template: Template
    equations: frozenset[PolyElement]
    divisors: frozenset[frozenset[PolyElement]]
    until: float

    @classmethod
    def of(cls, template: Template, axioms: Iterable[Axiom], until: float) -> "_System":
        equations: set[PolyElement] = set()
        divisors = {frozenset(template.part(template.unknowns, s)[2]) for s in QUADRANTS}
        for axiom in axioms:
            for cell in axiom.cells(template):
                for left, right in axiom.identities(template, *cell):
                    difference = left.above * right.below - right.above * left.below
                    equations |= template.coefficients(difference)
                    divisors |= {template.coefficients(x.below) for x in (left, right)}
        return cls(template, frozenset(equations), frozenset(divisors), until)

    def solutions(
        self, fixed: Parts, known: Iterable[Parts], facts: Sequence[Any] = ()
    ) -> Iterator[Parts]:
        """One rule after another with shares that are ``fixed`` in some quadrants, and not known.

        facts: further conditions on the coefficients

        Shares do not change if P1, P2 and Q are multiplied by one number.  So the first coefficient
        of Q other than 0 may be taken as 1, and each coefficient of Q is the first in one case.
        """
        part, names = self.template.part, [z3.Real(str(c)) for c in self.template.unknowns]
        facts = [*facts, *(_in_z3(e, names) == 0 for e in sorted(self.equations, key=str))]
        facts += [
            z3.Or([_in_z3(c, names) != 0 for c in sorted(d, key=str)])
            for d in sorted(self.divisors, key=lambda d: sorted(map(str, d)))
        ]
        facts += [x == 0 for s in fixed for x in _differences(part(names, s), fixed[s])]
        facts += [self._other(names, parts) for parts in known]
        size = len(self.template.monomials)
        for case in range(size):
            scaled = [names[2 * size + n] == int(n == case) for n in range(case + 1)]
            while (model := self._model(facts + scaled)) is not None:
                values = [model.eval(c, model_completion=True) for c in names]
                yield (found := {s: part(values, s) for s in QUADRANTS})
                facts.append(self._other(names, found))

    def _other(self, names: Sequence[Any], parts: Parts) -> Any:
        """The condition that some share differs from ``parts``."""
        of = self.template.part
        return z3.Or([x != 0 for s in QUADRANTS for x in _differences(of(names, s), parts[s])])

    def _model(self, facts: Sequence[Any]) -> Any:
        """Real numbers that obey ``facts``; None if z3 proves that there are none."""
        solver = z3.Then("simplify", "propagate-values", "solve-eqs", "qfnra-nlsat").solver()
        left = 1000 * (self.until - time.monotonic())
        solver.set("timeout", int(max(1, min(left, 2**31))))  # milliseconds
        solver.add(*facts)
        answer = solver.check()
        if answer == z3.unknown:
            raise _Undecided
        return solver.model() if answer == z3.sat else None


def _numbers(system: _System, axioms: Sequence[Axiom]) -> list[sp.Expr]:
    """Equations of shares that do not depend on inputs; [] unless z3 proves that no share does."""
    size, names = len(system.template.monomials), [*map(str, system.template.unknowns)]
    first, second, below = (z3.Reals(names[k * size : (k + 1) * size]) for k in range(3))
    depends = [
        p[m] * below[n] != p[n] * below[m]
        for p in (first, second)
        for m, n in combinations(range(size), 2)
    ]
    _, ends = _first(system.solutions({}, [], [z3.Or(depends)]), 0)
    if ends != ALL:
        return []
    a, b = sp.symbols("a b")
    constant = _System.of(Template(system.template.operation, 0, signs=False), axioms, 0)
    at = dict(zip(map(str, constant.template.unknowns), (a, b, 1), strict=True))
    equations = [e.as_expr().subs(at) for e in constant.equations]
    return list(sp.groebner(equations or [sp.S.Zero], a, b).exprs)


def _differences(one: Part, other: Part) -> list[Any]:
    """The coefficients of P Q' - P' Q for both shares; all are 0 where the shares are equal."""
    terms: dict[tuple[int, int], list[Any]] = {}
    for which in (0, 1):
        for m, n in product(range(len(one[2])), repeat=2):
            term = one[which][m] * other[2][n] - other[which][m] * one[2][n]
            terms.setdefault((which, m + n), []).append(term)
    return [z3.Sum(x) for x in terms.values()]


def _rule(parts: Parts) -> Rule:
    x, y = sp.symbols("x y", real=True)
    rule = {}
    for signs, part in parts.items():
        first, second, below = (
            sum(number(c, radicals=True) * x ** (len(cs) - n) * y**n for n, c in enumerate(cs, 1))
            for cs in part
        )
        rule[signs] = sp.factor(first / below), sp.factor(second / below)
    return rule


def _in_z3(x: PolyElement, names: Sequence[Any]) -> Any:
    terms = []
    for powers, c in x.iterterms():
        factors = chain.from_iterable([names[n]] * power for n, power in enumerate(powers) if power)
        terms.append(z3.Product([z3.Q(int(c.numerator), int(c.denominator)), *factors]))
    return z3.Sum(terms)

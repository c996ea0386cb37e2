"""Finds every propagation rule of a template that obeys some axioms, or proves that none does.

SymPy solves a system of linear equations in the unknown coefficients, and z3 decides any other
system over the reals: the answer "no rule" is a proof that the system has no solution.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import sympy as sp
import z3
from sympy.polys.rings import PolyElement

from axioms.templates import AXIOMS, QUADRANTS, Axiom, Template

LISTED = 12
"""How many rules are listed where the solutions are no linear family."""
SMALL = range(-2, 3)
"""Coefficients that are looked for first, for rules that read well."""
SECONDS = 60

Shares = tuple[sp.Expr, sp.Expr]
Rule = dict[tuple[int, int], Shares]
"""By the signs of x and y: their shares of the relevance."""


@dataclass(frozen=True)
class Found:
    """Rules of a template that obey some axioms.

    free: symbols of coefficients in ``rules`` that may have any value
    complete: whether no other rule of the template obeys the axioms, by z3 or by linear algebra
    """

    rules: list[Rule]
    free: list[sp.Symbol]
    complete: bool


def search(
    template: Template, axioms: Iterable[str], *, listed: int = LISTED, seconds: float = SECONDS
) -> Found:
    """Every rule of ``template`` that obeys ``axioms``, which are names in ``AXIOMS``.

    listed: how many rules are enough where there is no linear family of them
    seconds: how long z3 may take for one rule
    Raises ValueError that lists all names that are no axioms of the operation.
    """
    known = AXIOMS[template.operation]
    if wrong := sorted(set(axioms) - known.keys()):
        raise ValueError(
            f"no axioms of a {template.operation}: {', '.join(wrong)}; pass some of "
            f"{', '.join(known)}"
        )
    system = _System.of(template, [known[name] for name in axioms])
    if not system.nonlinear:
        return system.family()
    rules: list[Rule] = []
    for found in system.solutions(seconds):
        if found is None or len(rules) == listed:
            return Found(rules, [], complete=False)
        rules.append(_rule(template, found))
    return Found(rules, [], complete=True)


@dataclass(frozen=True)
class _System:
    """What axioms ask of the unknown coefficients: equations, and divisors that are not 0.

    A divisor is the set of its coefficients, of which one at least is not 0.
    """

    template: Template
    equations: frozenset[PolyElement]
    divisors: frozenset[frozenset[PolyElement]]

    @classmethod
    def of(cls, template: Template, axioms: Iterable[Axiom]) -> "_System":
        equations, divisors = set(), set()
        for axiom in axioms:
            for cell in axiom.cells(template):
                for left, right in axiom.identities(template, *cell):
                    difference = left.above * right.below - right.above * left.below
                    equations |= template.coefficients(difference)
                    divisors |= {template.coefficients(x.below) for x in (left, right)}
        return cls(template, frozenset(equations), frozenset(divisors))

    @property
    def nonlinear(self) -> bool:
        return any(max(map(sum, e.itermonoms())) > 1 for e in self.equations)

    def family(self) -> Found:
        template = self.template
        names = [sp.Symbol(str(c)) for c in template.unknowns]
        solved = sp.linsolve([e.as_expr() for e in self.equations] or [sp.S.Zero], names)
        for values in solved:
            at = dict(zip(names, values, strict=True))
            if all(any(c.as_expr().subs(at) != 0 for c in d) for d in self.divisors):
                free = sorted(set().union(*(v.free_symbols for v in values)), key=str)
                return Found([_rule(template, values)], free, complete=True)
        return Found([], [], complete=True)

    def solutions(self, seconds: float) -> Iterator[list[Any] | None]:
        """Coefficients of one rule after another, and None where z3 does not decide.

        z3 looks at positive inputs first, which leave fewer unknowns, and for small coefficients.
        """
        names = [z3.Real(str(c)) for c in self.template.unknowns]
        solver = z3.SolverFor("QF_NRA")
        solver.set("timeout", int(1000 * seconds))
        for positive in (True, False):
            for e in self.equations:
                if not positive or self.template.is_positive(e):
                    solver.add(_in_z3(e, names) == 0)
            for d in self.divisors:
                if not positive or all(map(self.template.is_positive, d)):
                    solver.add(z3.Or([_in_z3(c, names) != 0 for c in d]))
            if solver.check() == z3.unsat:
                return
        while True:
            solver.push()
            solver.add(*(z3.Or([c == n for n in SMALL]) for c in names))
            small = solver.check() == z3.sat
            model = solver.model() if small else None
            solver.pop()
            if model is None:
                answer = solver.check()
                if answer != z3.sat:
                    if answer == z3.unknown:
                        yield None
                    return
                model = solver.model()
            values = [model.eval(c, model_completion=True) for c in names]
            yield [_in_sympy(v) for v in values]
            solver.add(self._differ(names, values))

    def _differ(self, names: Sequence[Any], values: Sequence[Any]) -> Any:
        """The condition that the coefficients ``names`` give other shares than ``values``."""
        template, size = self.template, len(self.template.monomials)
        differences = []
        for signs, first in product(QUADRANTS, (0, size)):
            by: dict[int, list[Any]] = {}  # P Q' - P' Q by the power of x
            for m, n in product(template.in_quadrant(signs), repeat=2):
                p, q = first + m, 2 * size + n
                power = template.monomials[m][0] + template.monomials[n][0]
                by.setdefault(power, []).append(names[p] * values[q] - values[p] * names[q])
            differences += [z3.Sum(terms) != 0 for terms in by.values()]
        return z3.Or(differences)


def _rule(template: Template, coefficients: Sequence[Any]) -> Rule:
    x, y = sp.symbols("x y", real=True)
    size, shares = len(template.monomials), {}
    for signs in QUADRANTS:
        inside = [(n, *template.monomials[n][:2]) for n in template.in_quadrant(signs)]
        first, second, below = (
            sum(coefficients[k * size + n] * x**i * y**j for n, i, j in inside) for k in range(3)
        )
        shares[signs] = sp.factor(first / below), sp.factor(second / below)
    return shares


def _in_z3(x: PolyElement, names: Sequence[Any]) -> Any:
    return z3.Sum(
        [
            z3.Product([z3.Q(int(c.numerator), int(c.denominator)), *_powers(powers, names)])
            for powers, c in x.iterterms()
        ]
    )


def _powers(powers: Sequence[int], names: Sequence[Any]) -> Iterator[Any]:
    for n, power in enumerate(powers):
        yield from [names[n]] * power if power else ()


def _in_sympy(value: Any) -> sp.Expr:
    if z3.is_rational_value(value):
        return sp.Rational(value.numerator_as_long(), value.denominator_as_long())
    coefficients = [_in_sympy(c) for c in reversed(value.poly())]
    return sp.rootof(sp.Poly(coefficients, sp.Symbol("t")), value.index() - 1)

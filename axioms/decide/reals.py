"""Translates SymPy's expressions of real symbols into terms of z3, and lists their divisors.

    reals = Reals()
    term = reals.term(x / (abs(x) + y))     # reals.divisors holds |x| + y
    solver.add(*reals.facts, term > 1)

Signs, sizes, maxima, minima and cases are translated exactly, ties included.  An exponential is a
positive number, one number for equal exponents; a square root is a number >= 0 with the square; any
other function or irrational number is an unknown number.  So facts that z3 finds impossible are
impossible, and a model with such a number must be confirmed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import sympy as sp
import z3

from lrp_axioms.axioms.decide.signs import UNDEFINED, Sign

EPS = sp.Symbol("epsilon", positive=True)  # the stabiliser
Term: TypeAlias = Any  # a real number of z3, which has no types
Fact: TypeAlias = Any  # true or false, in z3
LONGEST = 5_000  # milliseconds: z3 counts no steps in arithmetic with roots of polynomials
RELATIONS = {
    sp.Gt: lambda a, b: a > b,
    sp.Ge: lambda a, b: a >= b,
    sp.Lt: lambda a, b: a < b,
    sp.Le: lambda a, b: a <= b,
    sp.Eq: lambda a, b: a == b,
    sp.Ne: lambda a, b: a != b,
}
JUNCTIONS = {
    sp.And: z3.And,
    sp.Or: z3.Or,
    sp.Not: z3.Not,
    sp.ITE: z3.If,
    sp.Implies: z3.Implies,
    sp.Xor: lambda *facts: reduce(z3.Xor, facts),
    sp.Equivalent: lambda *facts: z3.And([facts[0] == fact for fact in facts[1:]]),
}


@dataclass(frozen=True)
class Divisor:
    """One divisor of an expression; ``guard`` is the condition of the case around the division."""

    expression: sp.Expr
    term: Term
    guard: Fact

    @property
    def vanishes(self) -> Fact:
        """Whether there is a division by 0."""
        return z3.And(self.guard, self.term == 0)


@dataclass
class Reals:
    """Terms of expressions, with the facts, divisors and symbols that they need."""

    divisors: list[Divisor] = field(default_factory=list)
    atoms: dict[sp.Basic, Term] = field(default_factory=dict)
    """Arguments of signs, sizes, maxima and cases; the innermost come first."""
    facts: list[Fact] = field(default_factory=list)
    symbols: dict[sp.Symbol, Term] = field(default_factory=dict)
    unknown: list[sp.Expr] = field(default_factory=list)
    """Exponentials, other functions and numbers that z3 does not know: named, not looked into."""
    _terms: dict[tuple[sp.Basic, Fact], Term] = field(default_factory=dict)
    _guards: list[Fact] = field(default_factory=list)

    def term(self, expression: sp.Expr) -> Term:
        """The term of an expression, made once for each case around it."""
        key = expression, tuple(self._guards)
        if key not in self._terms:
            self._terms[key] = self._made(expression)
        return self._terms[key]

    def fact(self, relation: sp.Basic) -> Fact:
        """The fact that a relation, or a combination of relations, holds."""
        if relation in (sp.true, sp.false):
            return z3.BoolVal(relation == sp.true)
        if type(relation) in JUNCTIONS:
            return JUNCTIONS[type(relation)](*map(self.fact, relation.args))
        if type(relation) not in RELATIONS:
            raise ValueError(f"{relation} is no relation; compare two expressions by <, <=, >, >=")
        self._atom(relation.lhs - relation.rhs)
        return RELATIONS[type(relation)](*map(self.term, relation.args))

    def _made(self, part: sp.Expr) -> Term:
        if part.is_Rational:
            return z3.Q(int(part.p), int(part.q))
        if part in (*UNDEFINED, -sp.oo):
            return self._no_number()
        if part.is_Symbol:
            return self._symbol(part)
        if part.is_Add:
            return z3.Sum([self.term(x) for x in part.args])
        if part.is_Mul:
            return z3.Product([self.term(x) for x in part.args])
        if part.is_Pow and part.exp.is_Integer and part.base != sp.E:
            return self._power(part.base, int(part.exp))
        if isinstance(part, Sign):
            return z3.If(self._atom(part.args[0]) >= 0, z3.RealVal(1), z3.RealVal(-1))
        if isinstance(part, sp.Abs):
            size = self._atom(part.args[0])
            return z3.If(size >= 0, size, -size)
        if isinstance(part, sp.Max | sp.Min):
            return reduce(lambda a, b: self._extreme(part, a, b), part.args, None)
        if isinstance(part, sp.Piecewise):
            return self._cases(list(part.args))
        return self._named_term(part)

    def _symbol(self, symbol: sp.Symbol) -> Term:
        self.symbols[symbol] = term = z3.Real(symbol.name)
        if symbol.is_positive:
            self.facts.append(term > 0)
        return term

    def _power(self, base: sp.Expr, power: int) -> Term:
        term = self.term(base)
        product = z3.Product([term] * abs(power)) if abs(power) > 1 else term
        if power > 0:
            return product
        self.divisors.append(Divisor(base, term, z3.And(self._guards)))
        return 1 / product

    def _atom(self, argument: sp.Expr) -> Term:
        term = self.term(argument)
        if not argument.is_Rational:
            self.atoms.setdefault(argument, term)
        return term

    def _extreme(self, part: sp.Expr, so_far: Term, other: sp.Expr) -> Term:
        term = self.term(other)
        if so_far is None:
            return term
        gap = so_far - term
        self.atoms.setdefault(sp.Tuple(part, other), gap)
        return z3.If(gap >= 0, *((so_far, term) if isinstance(part, sp.Max) else (term, so_far)))

    def _cases(self, cases: list[sp.Tuple]) -> Term:
        """The value in the first case that holds; undefined where no case holds."""
        if not cases:
            return self._no_number()
        (value, case), *rest = cases
        holds = self.fact(case)
        found = self._guard(holds, lambda: self.term(value))
        if case == sp.true:
            return found
        return z3.If(holds, found, self._guard(z3.Not(holds), lambda: self._cases(rest)))

    def _no_number(self) -> Term:
        """No number, as after a division by 0."""
        self.divisors.append(Divisor(sp.nan, z3.RealVal(0), z3.And(self._guards)))
        return z3.RealVal(0)

    def _guard(self, guard: Fact, made: Any) -> Term:
        self._guards.append(guard)
        term = made()
        self._guards.pop()
        return term

    def _named_term(self, part: sp.Expr) -> Term:
        base, power = part.as_base_exp()
        if part.is_Pow and base != sp.E and power.is_Rational and power.q == 2:
            return self._root(base, int(power.p))
        self.unknown.append(part)
        for argument in part.args:
            if not argument.is_polynomial():  # and may be undefined somewhere
                self.term(argument)
        if isinstance(part, sp.log) or (part.is_Pow and base != sp.E):
            above_0 = part.args[0]  # the argument of a logarithm, or the base of a power
            if not above_0.is_positive:
                self._guard(self._atom(above_0) <= 0, self._no_number)  # also at 0, a thin set
        if base == sp.E and part != sp.E:
            return self._exponential(power)
        return self._fresh(part, positive=part.is_positive)

    def _exponential(self, exponent: sp.Expr) -> Term:
        terms = []
        for added in sp.Add.make_args(sp.expand(exponent)):
            times, rest = added.as_coeff_Mul()
            whole = times.is_Integer
            term = self._fresh(sp.exp(rest if whole else added), positive=True)
            power = z3.Product([term] * abs(int(times))) if whole else term
            terms.append(1 / power if whole and times < 0 else power)
        return z3.Product(terms)

    def _root(self, base: sp.Expr, power: int) -> Term:
        square, root = self.term(base), self._fresh(sp.sqrt(base), positive=None)
        facts = z3.And(root >= 0, root * root == square)
        if not base.is_nonnegative:  # in this case alone, and undefined for a base below 0
            is_real = self._atom(base) >= 0
            self._guard(z3.Not(is_real), self._no_number)
            facts = z3.Implies(z3.And(*self._guards, is_real), facts)
        self.facts.append(facts)
        return self._power(sp.sqrt(base), power) if power != 1 else root

    def _fresh(self, part: sp.Expr, *, positive: bool | None) -> Term:
        key = part, ()
        if key not in self._terms:
            self._terms[key] = z3.Real(f"[{part}]")
            if positive:
                self.facts.append(self._terms[key] > 0)
        return self._terms[key]


def point(model: Any, symbols: Mapping[sp.Symbol, Term]) -> dict[sp.Symbol, sp.Expr]:
    """The values of symbols in a model, algebraic numbers as roots of their polynomials."""
    return {x: number(model.eval(term, model_completion=True)) for x, term in symbols.items()}


def number(value: Any, *, radicals: bool = False) -> sp.Expr:
    """A number of z3 as one of SymPy's: rational, or the root of a polynomial.

    ``radicals``: such a root is written by roots of numbers, where it can be.
    """
    if z3.is_rational_value(value):
        return sp.Rational(value.numerator_as_long(), value.denominator_as_long())
    coefficients = [number(c) for c in reversed(value.poly())]  # last of 1, x, x^2 ...
    return sp.rootof(sp.Poly(coefficients, sp.Symbol("t")), value.index() - 1, radicals=radicals)


def solver(facts: Iterable[Fact], effort: int, *, by_cases: bool = False) -> Any:
    """A solver that knows the facts, and answers "unknown" after ``effort`` steps.

    ``by_cases`` suits many cases of short polynomials; otherwise few cases of long polynomials.
    """
    found = z3.Solver() if by_cases else z3.Tactic("qfnra-nlsat").solver()
    found.set("rlimit", effort)
    found.set("timeout", LONGEST)
    found.add(*facts)
    return found

"""States claims for every number of inputs, with one operand in the place of all inputs.

A rule is uniform if one formula gives each message from its own input, the number n of inputs and
sums over all inputs.  The formula is compared with the rule for SEEN numbers of inputs.  For larger
numbers it is assumed to go on, because code in Python may count its inputs.

The sum of such a formula over all inputs consists of monomials of one input, each times a factor
that all inputs share.  The sum of a monomial is a symbol with three facts: the operation may fix it
(sum x w = z - b), a sum of nonnegative terms is nonnegative, and a sum of sizes is at least the
size of the sum.  A proof for these symbols therefore holds for any number of inputs.  The form
alone shows that the order of inputs does not matter.
"""

import re
from dataclasses import dataclass, field
from functools import cache, cached_property

import sympy as sp

from lrp_axioms.axioms.decide.equality import EQUAL, Found, Pairs, Part, Values
from lrp_axioms.axioms.decide.reals import EPS
from lrp_axioms.axioms.decide.signs import by_sizes, shown
from lrp_axioms.axioms.own_rules.operations import ZERO
from lrp_axioms.axioms.own_rules.properties import OTHER, Claim
from lrp_axioms.axioms.own_rules.rules import Nested, Rule, flat, for_symbols

SEEN = range(1, 11)  # numbers of inputs
READ = 7  # inputs when the formula is read: a prime that is in few formulas by chance
N = sp.Symbol("n", positive=True)  # number of inputs


@dataclass(frozen=True)
class Uniform(Part):
    """The formula of a rule for any number of inputs; sums over all inputs are symbols."""

    rule: Rule
    claim: Claim
    formulas: tuple[sp.Expr, ...]  # messages to one input, one for each factor of a matrix product
    sums: dict[sp.Symbol, sp.Expr]  # and the term of one input
    named: dict[sp.Expr, sp.Symbol] = field(default_factory=dict)  # sums of monomials

    @cached_property
    def given(self) -> dict[str, Nested]:
        """The arguments of the rule by name, with one input in the place of a list."""
        arguments, _ = for_symbols(self.rule, 1)
        one = (flat(x)[0] for x in arguments)
        found = dict(zip(self.rule.operation.names[:-1], one, strict=False))
        return {**found, OTHER: sp.Symbol(OTHER, real=True)}

    @property
    def own(self) -> set[sp.Symbol]:
        """The symbols whose values differ from input to input."""
        lists = self.rule.operation.lists.replace("R", f"R{OTHER}")
        return {x for name, x in self.given.items() if name in lists}

    def pairs(self) -> Pairs:
        """The pairs that the claim equates, in one input, n and sums over all inputs."""
        return list(zip(*self.claim.sides(self, *self._changed_formulas), strict=True))

    def messages(self) -> list[sp.Expr]:
        """The expressions that must be defined."""
        terms = (
            term.xreplace(change(self.given))
            for change in self.claim.changes
            for term in self.sums.values()
        )
        return [*flat(self._changed_formulas), *terms]

    @cached_property
    def _changed_formulas(self) -> list[Nested]:
        found = []
        for values in (change(self.given) for change in self.claim.changes):
            sums = {x: self.total([term.xreplace(values)]) for x, term in self.sums.items()}
            found.append([message.xreplace({**values, **sums}) for message in self.formulas])
        return found

    def total(self, entries: list[sp.Expr]) -> sp.Expr:
        """The sum of entries over all inputs, by sums of monomials of one input."""
        found = sp.Integer(0)
        for term in sp.Add.make_args(sp.expand(by_sizes(sum(entries, sp.Integer(0))))):
            number, monomial = term.as_independent(*self.own, as_Add=False)
            found += number * self._sum(monomial)
        return found

    def holds(self, found: Found, *, in_limit: bool) -> bool:
        """Whether a decision, which takes n for a real number, is one for every number of inputs.

        A thin set of n and sums may be one whole number, or terms of one sign; and a sum over
        inputs may grow as eps -> 0.
        """
        thin = found.is_almost and (self.named or any(x.has(N) for x in self.messages()))
        grows = in_limit and any(x.has(EPS) for x in self.named)
        return found.status == EQUAL and not thin and not grows

    @property
    def relevance(self) -> sp.Expr:
        """All of it."""
        r = self.given["R"]
        return self.total([r]) if r in self.own else r

    def _sum(self, monomial: sp.Expr) -> sp.Expr:
        operation, given = self.rule.operation, self.given
        if monomial == 1:
            return N
        if operation.attends and monomial == given["a"]:
            return sp.Integer(1)
        if operation.computed and monomial == sp.prod(given[x] for x in operation.lists):
            output, bias = (flat(given.get(x, ZERO))[0] for x in (operation.output[0], "b"))
            return output - bias
        name = re.sub(r"\b([a-zR])0\b", r"\1", f"sum of {shown(monomial)}")  # not of input 0 alone
        return self.named.setdefault(monomial, sp.Symbol(name, real=True))

    def facts(self) -> list[sp.Basic]:
        """Facts about sums over inputs; call ``pairs`` first."""
        found: list[sp.Basic] = [sp.Ge(N, 1)]
        if self.rule.operation.attends:
            found += [sp.Gt(self.given["a"], 0), sp.Le(self.given["a"], 1)]
        for monomial in list(self.named):
            bare = sp.prod(map(_without_size, sp.Mul.make_args(monomial)))
            if monomial.is_nonnegative:
                found.append(sp.Ge(self.named[monomial], 0))
            if bare != monomial and monomial.is_nonnegative:
                size = self._sum(bare)
                found += [sp.Ge(self.named[monomial], size), sp.Ge(self.named[monomial], -size)]
        return found


def _without_size(factor: sp.Expr) -> sp.Expr:
    """A factor without its size; a size inside of another function stays."""
    base, power = factor.as_base_exp()
    return base.args[0] ** power if isinstance(base, sp.Abs) and power.is_Integer else factor


def uniform(claim: Claim, rule: Rule) -> Uniform | None:
    """The claim for any number of inputs; None if no formula of the rule is found."""
    found = read(rule)
    return Uniform(rule, claim, *found) if found else None


@cache
def read(rule: Rule) -> tuple[tuple[sp.Expr, ...], dict[sp.Symbol, sp.Expr]] | None:
    """Messages to one input, and the sums in them, for ``Uniform``; None if there is no formula."""
    given, messages = for_symbols(rule, READ)
    groups = messages if isinstance(messages[0], list) else [messages]
    swaps = [_swap(given, 0, k) for k in range(READ)]
    sums: dict[sp.Expr, sp.Symbol] = {}
    found = [_collect(group[0], swaps, sums) for group in groups]
    if any(x is None for x in found):
        return None
    for counted in (True, False):
        formulas = tuple(_counting(x) if counted else x for x in found)
        terms = {symbol: _counting(t) if counted else t for t, symbol in sums.items()}
        if all(_is_seen(rule, formulas, terms, count) for count in SEEN):
            return formulas, terms
    return None


def _swap(given: list[Nested], one: int, other: int) -> Values:
    lists = [x for x in given if isinstance(x, list)]
    return {a: b for x in lists for a, b in ((x[one], x[other]), (x[other], x[one]))}


def _collect(value: sp.Expr, swaps: list[Values], sums: dict[sp.Expr, sp.Symbol]) -> sp.Expr | None:
    """A message to input 0 with symbols for sums over all inputs; None if other inputs remain."""
    others = {x for swap in swaps[1:] for x in swap} - set(swaps[1])  # of inputs 2 and on
    others |= {swaps[1][x] for x in swaps[1] if x in swaps[2]}  # of input 1
    if not value.free_symbols & others:
        return value
    if value.is_Add:
        terms = set(value.args)
        for term in value.args:
            own = term.xreplace(swaps[1])
            each = [own.xreplace(swap) for swap in swaps]
            if own != term and own.free_symbols.isdisjoint(others) and terms.issuperset(each[1:]):
                symbol = sums.setdefault(own, sp.Symbol(f"sum {own}", real=True))
                rest = sp.Add(*(terms - set(each[1:]))) - own + symbol
                return _collect(rest, swaps, sums)
    if not value.args:
        return None
    parts = [_collect(part, swaps, sums) for part in value.args]
    return None if any(part is None for part in parts) else value.func(*parts)


def _counting(value: sp.Expr) -> sp.Expr:
    """An expression with n in place of the number READ."""
    powers = {x: sp.multiplicity(READ, x) for x in value.atoms(sp.Rational) if x != 0}
    return value.xreplace({x: x * (N / READ) ** power for x, power in powers.items() if power})


def _is_seen(
    rule: Rule, formulas: tuple[sp.Expr, ...], terms: dict[sp.Symbol, sp.Expr], count: int
) -> bool:
    """Whether the rule and its formula agree for ``count`` inputs."""
    given, messages = for_symbols(rule, count)
    groups = messages if isinstance(messages[0], list) else [messages]
    first = for_symbols(rule, 1)[0]
    of = [dict(zip(flat(first), (_entry(x, k) for x in given), strict=True)) for k in range(count)]
    read = for_symbols(rule, READ)[0]
    names = {x: y for x, y in zip((_entry(x, 0) for x in read), flat(first), strict=True)}
    sums = {
        x: sum((term.xreplace(names).xreplace(at) for at in of), sp.Integer(0)).xreplace({N: count})
        for x, term in terms.items()
    }
    return all(
        _agree(message.xreplace(names).xreplace(at).xreplace({**sums, N: sp.Integer(count)}), seen)
        for message, group in zip(formulas, groups, strict=True)
        for at, seen in zip(of, group, strict=True)
    )


def _agree(one: sp.Expr, other: sp.Expr) -> bool:
    return bool(one == other or sp.expand(one - other) == 0)


def _entry(found: Nested, k: int) -> sp.Expr:
    return found[k] if isinstance(found, list) else found

"""Decides whether a rational function is 0, by polynomials over products of polynomials.

Terms over one denominator are added up first: most identities end there, and one fraction of all
terms would be far longer.  The arithmetic is done in SymPy's rings of polynomials.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import mul
from typing import TypeAlias

import sympy as sp
from sympy import QQ, ring
from sympy.polys.rings import PolyElement

Powers: TypeAlias = frozenset[tuple[PolyElement, int]]  # factors, all different polynomials
Fractions: TypeAlias = dict[Powers, PolyElement]  # denominator -> numerator

ONE: Powers = frozenset()


def is_zero(expression: sp.Expr) -> bool:
    """Whether a rational function is 0; ZeroDivisionError if one of its divisors is."""
    found = _Ring(expression.free_symbols).fractions(expression)
    return not any(found.values()) or not _over_one(found)[0]


class _Ring:
    """The polynomials in some symbols."""

    def __init__(self, symbols: Iterable[sp.Symbol]):
        ordered = sorted(symbols, key=str)
        self.ring, *self.symbols = ring([f"x{n}" for n in range(len(ordered))], QQ)
        known = zip(ordered, self.symbols, strict=True)
        self.known: dict[sp.Expr, Fractions] = {x: {ONE: own} for x, own in known}

    def fractions(self, e: sp.Expr) -> Fractions:
        """The terms of an expression; one that occurs many times is multiplied out once."""
        if e not in self.known:
            self.known[e] = self._operation(e)
        return self.known[e]

    def _operation(self, e: sp.Expr) -> Fractions:
        if e.is_Rational:
            return {ONE: self.ring(QQ(e.p, e.q))}
        if e.is_Add:
            return _add(*map(self.fractions, e.args))
        if e.is_Mul:
            return reduce(_multiply, map(self.fractions, e.args))
        factor = self.fractions(e.base)
        return reduce(_multiply, [factor if e.exp > 0 else self._inverse(factor)] * abs(e.exp))

    def _inverse(self, terms: Fractions) -> Fractions:
        above, below = _over_one(terms)
        if not above:
            raise ZeroDivisionError("a divisor is 0 everywhere")
        shared = tuple(map(min, zip(*above, strict=True)))  # the symbols in all of its terms
        powers = {x: n for x, n in zip(self.symbols, shared, strict=True) if n}
        rest = above.monic().quo_term((shared, QQ(1)))
        if rest != 1:
            powers[rest] = 1
        return {frozenset(powers.items()): below.quo_ground(above.LC)}


def _add(*sums: Fractions) -> Fractions:
    found: defaultdict[Powers, list[PolyElement]] = defaultdict(list)
    for below, above in itertools.chain.from_iterable(terms.items() for terms in sums):
        found[below].append(above)
    return {below: _total(above) for below, above in found.items()}


def _total(polynomials: Sequence[PolyElement]) -> PolyElement:
    """Adds polynomials term by term; adding one to another would copy all terms each time."""
    first, *others = polynomials
    if not others:
        return first
    terms = Counter(dict(first))
    for monomial, c in itertools.chain.from_iterable(other.items() for other in others):
        terms[monomial] += c
    return first.ring.from_dict(terms)


def _multiply(one: Fractions, other: Fractions) -> Fractions:
    pairs = itertools.product(one.items(), other.items())
    return _add(*({_join(b, d): a * c} for (b, a), (d, c) in pairs))


def _join(one: Powers, other: Powers) -> Powers:
    if not one or not other:
        return one or other
    return frozenset((Counter(dict(one)) + Counter(dict(other))).items())


def _over_one(terms: Fractions) -> tuple[PolyElement, PolyElement]:
    """Numerator and denominator of the sum."""
    common: Counter[PolyElement] = Counter()
    for powers in terms:
        common |= Counter(dict(powers))
    above = [
        reduce(mul, (common - Counter(dict(below))).elements(), above)
        for below, above in terms.items()
    ]
    return _total(above), reduce(mul, common.elements(), above[0].ring(1))

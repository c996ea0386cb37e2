"""States axioms as equations in the unknown coefficients of a propagation rule.

A rule for x y, or x + y, gives x the share P1 / Q of the relevance R, and y the share P2 / Q.  P1,
P2 and Q are homogeneous polynomials in x and y.  With ``signs`` they are polynomials in x, y, |x|
and |y|: negative x or y may have other coefficients.  An axiom is an identity of shares at almost
all inputs.  On every open cell of signs both sides are rational functions of the inputs, and the
axiom is a set of polynomial equations in the unknown coefficients.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias

import sympy as sp
from sympy.polys.rings import PolyElement, PolyRing, ring

from lrp_axioms.axioms.kinds import ADD, PRODUCT

LEAVES = 3
Signs: TypeAlias = tuple[int, int]
QUADRANTS: list[Signs] = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
"""Signs of x and y."""
Part: TypeAlias = list[Sequence[Any]]
"""Coefficients of P1, P2 and Q in one quadrant, by falling powers of x."""


@dataclass(frozen=True)
class Value:
    """A number that is computed from the leaves, and its sign in one cell."""

    of: PolyElement
    sign: int


@dataclass(frozen=True)
class Share:
    """A fraction of polynomials in the leaves and the unknown coefficients."""

    above: PolyElement
    below: PolyElement

    def __mul__(self, other: "Share") -> "Share":
        return Share(self.above * other.above, self.below * other.below)

    def __add__(self, other: "Share") -> "Share":
        if self.below == other.below:
            return Share(self.above + other.above, self.below)
        above = self.above * other.below + other.above * self.below
        return Share(above, self.below * other.below)


Identity: TypeAlias = tuple[Share, Share]


@dataclass(frozen=True)
class Template:
    """Shares P1 / Q and P2 / Q of two inputs, with homogeneous polynomials of one degree."""

    operation: str = PRODUCT
    degree: int = 1
    signs: bool = True  # whether |x| and |y| occur beside x and y

    @cached_property
    def monomials(self) -> list[tuple[int, int, int, int]]:
        """Powers of x and y, and the signs of x and y where the coefficient counts; 0: any."""
        of: Callable[[int], tuple[int, ...]] = lambda n: (1, -1) if self.signs and n else (0,)
        return [
            (n, self.degree - n, *which)
            for n in range(self.degree, -1, -1)
            for which in product(of(n), of(self.degree - n))
        ]

    @cached_property
    def ring(self) -> PolyRing:
        unknowns = [f"c{n}" for n in range(3 * len(self.monomials))]
        return ring([*unknowns, *(f"x{n}" for n in range(LEAVES))], sp.QQ)[0]

    @property
    def unknowns(self) -> tuple[PolyElement, ...]:
        return tuple(self.ring.gens[:-LEAVES])

    @property
    def leaves(self) -> tuple[PolyElement, ...]:
        return tuple(self.ring.gens[-LEAVES:])

    def polynomial(self, which: int, x: Value, y: Value) -> PolyElement:
        """P1, P2 or Q (0, 1, 2) at two values."""
        size = len(self.monomials)
        terms = zip(self.unknowns[which * size : (which + 1) * size], self.monomials, strict=True)
        return sum(
            (
                c * _power(x.of, m) * _power(y.of, n)
                for c, (m, n, left, right) in terms
                if (not left or not x.sign or left == x.sign)
                and (not right or not y.sign or right == y.sign)
            ),
            self.ring.zero,
        )

    def coefficients(self, x: PolyElement) -> frozenset[PolyElement]:
        """The coefficients of ``x`` as a polynomial in the leaves: polynomials in the unknowns."""
        count = len(self.unknowns)
        found: dict[tuple[int, ...], dict[tuple[int, ...], Any]] = {}
        for powers, c in x.iterterms():
            found.setdefault(powers[count:], {})[(*powers[:count], *[0] * LEAVES)] = c
        return frozenset(self.ring.from_dict(terms).monic() for terms in found.values())

    def share(self, which: int, x: Value, y: Value) -> Share:
        return Share(self.polynomial(which, x, y), self.polynomial(2, x, y))

    def constant(self, number: int) -> Share:
        return Share(self.ring(number), self.ring.one)

    def part(self, coefficients: Sequence[Any], signs: Signs) -> Part:
        """The coefficients that hold for these signs of x and y."""
        size = len(self.monomials)
        inside = [
            n
            for n, (*_, left, right) in enumerate(self.monomials)
            if left in (0, signs[0]) and right in (0, signs[1])
        ]
        return [[coefficients[k * size + n] for n in inside] for k in range(3)]


def _power(x: PolyElement, n: int) -> PolyElement:
    return x**n if n else x.ring.one


# Axioms: identities of shares in one cell of signs


def _conserves(t: Template, x: Value, y: Value, *_: Value) -> Iterator[Identity]:
    yield t.share(0, x, y) + t.share(1, x, y), t.constant(1)


def _commutes(t: Template, x: Value, y: Value, *_: Value) -> Iterator[Identity]:
    yield t.share(0, x, y), t.share(1, y, x)


def _reassociates(
    t: Template, x: Value, y: Value, z: Value, left: Value, right: Value
) -> Iterator[Identity]:
    """(x y) z against x (y z); ``left`` is the result of x y, ``right`` the result of y z."""
    outer = t.share(0, left, z), t.share(1, x, right)
    yield outer[0] * t.share(0, x, y), t.share(0, x, right)
    yield outer[0] * t.share(1, x, y), outer[1] * t.share(0, y, z)
    yield t.share(1, left, z), outer[1] * t.share(1, y, z)


def _knows_no_units(
    t: Template, x: Value, y: Value, _unit: Value, scaled: Value, other: Value
) -> Iterator[Identity]:
    for which in (0, 1):
        yield t.share(which, scaled, y), t.share(which, x, y)
        yield t.share(which, x, other), t.share(which, x, y)


def _passes_neutral(t: Template, x: Value, *_: Value) -> Iterator[Identity]:
    """x gets all relevance of x 1, and of x + 0."""
    number = 1 if t.operation == PRODUCT else 0
    yield t.share(0, x, Value(t.ring(number), number)), t.constant(1)


def _leaves_out(t: Template, x: Value, y: Value, *_: Value) -> Iterator[Identity]:
    yield t.share(0, x, y), t.constant(1)
    yield t.share(1, x, y), t.constant(1)


def _is_symmetric(t: Template, x: Value, *_: Value) -> Iterator[Identity]:
    """Equal factors of x x, (x x) x and x (x x) get equal relevance."""
    square = Value(x.of * x.of, 1)
    yield t.share(0, x, x), t.share(1, x, x)
    for which in (0, 1):
        yield t.share(0, square, x) * t.share(which, x, x), t.share(1, square, x)
        yield t.share(1, x, square) * t.share(which, x, x), t.share(0, x, square)


def _distributes(
    t: Template, x: Value, y: Value, w: Value, z: Value, *_: Value
) -> Iterator[Identity]:
    """(x + y) w against x w + y w, and w (x + y) against w x + w y; sums share by Eq. 1."""
    of = [Share(v.of, z.of) for v in (x, y)]
    yield t.share(0, z, w), t.share(0, x, w)
    yield t.share(1, z, w), t.share(1, x, w) * of[0] + t.share(1, y, w) * of[1]
    yield t.share(1, w, z), t.share(1, w, x)
    yield t.share(0, w, z), t.share(0, w, x) * of[0] + t.share(0, w, y) * of[1]


@dataclass(frozen=True)
class Axiom:
    """Identities of shares that hold at all inputs.

    identities: called with the template, the three leaves and the results of ``pairs``
    pairs: numbers of two leaves each, joined by the operation ``joined_by``
    """

    identities: Callable[..., Iterator[Identity]]
    pairs: Sequence[tuple[int, int]] = ()
    joined_by: str = PRODUCT

    def cells(self, template: Template) -> Iterator[list[Value]]:
        """Leaves and results on every open cell of signs; x + y may have the sign of x or of y."""
        for signs in product((1, -1), repeat=LEAVES):
            leaves = [Value(x, sign) for x, sign in zip(template.leaves, signs, strict=True)]
            pairs = [(leaves[m], leaves[n]) for m, n in self.pairs]
            for chosen in product(*(self._signs(x, y) for x, y in pairs)):
                joined = [self._join(*pair, sign) for pair, sign in zip(pairs, chosen, strict=True)]
                yield leaves + joined

    def _signs(self, x: Value, y: Value) -> set[int]:
        return {x.sign * y.sign} if self.joined_by == PRODUCT else {x.sign, y.sign}

    def _join(self, x: Value, y: Value, sign: int) -> Value:
        return Value(x.of * y.of if self.joined_by == PRODUCT else x.of + y.of, sign)


AXIOMS = {
    PRODUCT: {
        "conservation": Axiom(_conserves),
        "locality": Axiom(lambda *_: iter(())),  # every rule of a template is local
        "symmetry": Axiom(_is_symmetric),
        "freedom of units": Axiom(_knows_no_units, [(0, 2), (1, 2)]),
        "leave-one-out of products": Axiom(_leaves_out),
        "commute products": Axiom(_commutes),
        "re-associate products": Axiom(_reassociates, [(0, 1), (1, 2)]),
        "distribute products": Axiom(_distributes, [(0, 1)], ADD),
        "factor sums": Axiom(_distributes, [(0, 1)], ADD),
        "multiply by one": Axiom(_passes_neutral),
    },
    ADD: {
        "conservation": Axiom(_conserves),
        "commute sums": Axiom(_commutes),
        "re-associate sums": Axiom(_reassociates, [(0, 1), (1, 2)], ADD),
        "add zero": Axiom(_passes_neutral),
    },
}
"""Axioms by operation, and by name in docs/AXIOMS.md."""

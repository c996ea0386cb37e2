"""Points to compare two explanations at: small integers in order, random fractions."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias

import sympy as sp

from lrp_axioms.axioms.decide.identity import generic
from lrp_axioms.axioms.rewrites.rewrite import Shapes, Template

LeafMatrices: TypeAlias = Mapping[str, sp.Matrix]  # a point: the value of every leaf
Rows: TypeAlias = list[list[Any]]  # of a matrix; at a point these are ints and Fractions

KEPT = 200  # shapes whose points are kept


class Point(Mapping[str, sp.Matrix]):
    """The numbers of every leaf in ``rows``, and its SymPy matrices, made when they are asked for.

    Most points show nothing, and making a matrix takes longer than computing with its numbers.
    """

    def __init__(self, rows: Mapping[str, Rows]):
        self.rows = rows
        self._matrices: dict[str, sp.Matrix] = {}

    def __getitem__(self, name: str) -> sp.Matrix:
        if name not in self._matrices:
            self._matrices[name] = sp.Matrix(self.rows[name])
        return self._matrices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    __eq__, __hash__ = object.__eq__, object.__hash__  # the same only as itself, as a key of caches

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def moved(self) -> "Point":
        """As ``moved``."""
        factors = map(_factor, itertools.count(9))
        return Point(
            {
                name: [[v * next(factors) for v in row] for row in rows]
                for name, rows in self.rows.items()
            }
        )


def symbols(template: Template) -> LeafMatrices:
    """A point of different real symbols in the generic shapes."""
    return {name: generic(name, *shape) for name, shape in template.generic.items()}


@cache
def _factor(k: int) -> Fraction:
    return 1 + Fraction(int(sp.prime(k)), 10**4)


def moved(point: LeafMatrices) -> LeafMatrices:
    """A nearby point without accidental cancellation."""
    if isinstance(point, Point):
        return point.moved
    return Point(
        {x: [list(map(_exact, row)) for row in m.tolist()] for x, m in point.items()}
    ).moved


def _exact(value: sp.Expr) -> Fraction | sp.Expr:
    return Fraction(int(value.p), int(value.q)) if value.is_Rational else value


def random_point(chance: random.Random, shapes: Shapes) -> Point:
    """Fractions of both signs in the given shapes, none of them 0."""

    def entry() -> Fraction:
        size = Fraction(chance.randint(1, 30), chance.choice((1, 1, 2, 3, 7)))
        return chance.choice((1, -1)) * size

    return _fill(shapes, entry)


@lru_cache(maxsize=KEPT)
def many_inputs(seed: int, *shapes: tuple[str, tuple[int, int]]) -> Point:
    """Random integers of both signs in the given shapes: with many inputs, fractions take long."""
    chance = random.Random(seed)
    return _fill(dict(shapes), lambda: chance.choice((1, -1)) * chance.randint(1, 99))


def _fill(shapes: Shapes, entry: Callable[[], int | Fraction]) -> Point:
    return Point(
        {
            name: [[entry() for _ in range(columns)] for _ in range(rows)]
            for name, (rows, columns) in shapes.items()
        }
    )


def points(shapes: Shapes) -> Iterator[Point]:
    """Integer matrices without zeros in the given shapes, the smallest and most positive first."""
    made, more = _pool(tuple(shapes.items()))
    for k in itertools.count():
        if k == len(made):
            made.append(next(more))
        yield made[k]


@lru_cache(maxsize=KEPT)
def _pool(shapes: tuple[tuple[str, tuple[int, int]], ...]) -> tuple[list[Point], Iterator[Point]]:
    """Points made so far, and the iterator of further points: every search begins with the same."""
    return [], _points(dict(shapes))


def _points(shapes: Shapes) -> Iterator[Point]:
    n = sum(rows * columns for rows, columns in shapes.values())
    for level in itertools.count(n):
        for negative in range(min(n, level - n) + 1):  # a sign costs as much as a step
            for sizes in _parts_of(level - negative, n):
                for flipped in itertools.combinations(range(n), negative):
                    entries = iter([-v if k in flipped else v for k, v in enumerate(sizes)])
                    yield Point(
                        {
                            name: [list(itertools.islice(entries, columns)) for _ in range(rows)]
                            for name, (rows, columns) in shapes.items()
                        }
                    )


def _parts_of(total: int, n: int) -> Iterator[tuple[int, ...]]:
    """All tuples of ``n`` positive integers with the given sum."""
    if n == 1:
        yield (total,)
        return
    for first in range(1, total - n + 2):
        for rest in _parts_of(total - first, n - 1):
            yield (first, *rest)

"""Points at which two explanations are compared: small integers in order, random fractions."""

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import sympy as sp

Shapes: TypeAlias = Mapping[str, tuple[int, int]]  # by the name of the leaf
LeafMatrices: TypeAlias = Mapping[str, sp.Matrix]  # a point: the value of every leaf


def random_point(chance: random.Random, shapes: Shapes) -> LeafMatrices:
    """Fractions of both signs in the given shapes, none of them 0."""

    def entry(*_: int) -> sp.Rational:
        size = sp.Rational(chance.randint(1, 30), chance.choice((1, 1, 2, 3, 7)))
        return chance.choice((1, -1)) * size

    return {name: sp.Matrix(*shape, entry) for name, shape in shapes.items()}


def moved(point: LeafMatrices) -> LeafMatrices:
    """A point nearby at which nothing cancels by accident."""
    primes = map(sp.prime, itertools.count(9))
    return {
        name: sp.Matrix(*m.shape, [v * (1 + sp.Rational(next(primes), 10**4)) for v in m])
        for name, m in point.items()
    }


def points(shapes: Shapes) -> Iterator[LeafMatrices]:
    """Integer matrices without zeros in the given shapes, the smallest and most positive first."""
    n = sum(rows * columns for rows, columns in shapes.values())
    for level in itertools.count(n):
        for negative in range(min(n, level - n) + 1):  # a sign costs as much as a step
            for sizes in _parts_of(level - negative, n):
                for flipped in itertools.combinations(range(n), negative):
                    entries = iter([-v if k in flipped else v for k, v in enumerate(sizes)])
                    yield {
                        name: sp.Matrix(*shape, [next(entries) for _ in range(shape[0] * shape[1])])
                        for name, shape in shapes.items()
                    }


def _parts_of(total: int, n: int) -> Iterator[tuple[int, ...]]:
    """All tuples of ``n`` positive integers with the given sum."""
    if n == 1:
        yield (total,)
        return
    for first in range(1, total - n + 2):
        for rest in _parts_of(total - first, n - 1):
            yield (first, *rest)

"""Points to compare two explanations at: small integers in order, random fractions."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms.decide.identity import generic
from lrp_axioms.axioms.rewrites.rewrite import Shapes, Template

LeafMatrices: TypeAlias = Mapping[str, sp.Matrix]  # a point: the value of every leaf


def symbols(template: Template) -> LeafMatrices:
    """A point of different real symbols in the generic shapes."""
    return {name: generic(name, *shape) for name, shape in template.generic.items()}


def moved(point: LeafMatrices) -> LeafMatrices:
    """A nearby point without accidental cancellation."""
    factors = (1 + sp.Rational(sp.prime(k), 10**4) for k in itertools.count(9))
    return {x: sp.Matrix(*m.shape, [v * next(factors) for v in m]) for x, m in point.items()}


def random_point(chance: random.Random, shapes: Shapes) -> LeafMatrices:
    """Fractions of both signs in the given shapes, none of them 0."""

    def entry() -> sp.Rational:
        size = sp.Rational(chance.randint(1, 30), chance.choice((1, 1, 2, 3, 7)))
        return chance.choice((1, -1)) * size

    return _fill(shapes, entry)


def many_inputs(seed: int, *shapes: tuple[str, tuple[int, int]]) -> LeafMatrices:
    """Random integers of both signs in the given shapes: with many inputs, fractions take long."""
    chance = random.Random(seed)
    return _fill(dict(shapes), lambda: chance.choice((1, -1)) * chance.randint(1, 99))


def _fill(shapes: Shapes, entry: Callable[[], sp.Expr | int]) -> LeafMatrices:
    return {
        name: sp.Matrix(rows, columns, [entry() for _ in range(rows * columns)])
        for name, (rows, columns) in shapes.items()
    }


def points(shapes: Shapes) -> Iterator[LeafMatrices]:
    """Integer matrices without zeros in the given shapes, the smallest and most positive first."""
    n = sum(rows * columns for rows, columns in shapes.values())
    for level in itertools.count(n):
        for negative in range(min(n, level - n) + 1):  # a sign costs as much as a step
            for sizes in _parts_of(level - negative, n):
                for flipped in itertools.combinations(range(n), negative):
                    entries = iter([-v if k in flipped else v for k, v in enumerate(sizes)])
                    yield _fill(shapes, entries.__next__)


def _parts_of(total: int, n: int) -> Iterator[tuple[int, ...]]:
    """All tuples of ``n`` positive integers with the given sum, in their order."""
    for cuts in itertools.combinations(range(1, total), n - 1):
        yield tuple(b - a for a, b in itertools.pairwise((0, *cuts, total)))

"""Rules for operations that are no plain product of arrays, such as convolutions, einsums.

Rules are ``(f, xs, relevance, eps) -> relevance of each of xs``.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lrp_axioms.numeric.reference.rules import share


class Map(Protocol):
    """A function of arrays, and ``back``, its transposed Jacobian."""

    def __call__(self, *xs: np.ndarray) -> np.ndarray: ...

    def back(self, xs: Sequence[np.ndarray], cotangent: np.ndarray) -> list[np.ndarray]: ...


def bias(f: Map, xs: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the constant term of an affine map."""
    return f(*(np.zeros(x.shape) for x in xs))


def epsilon(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    """Applies Eq. 1 to an affine map of all ``xs`` together, the bias in the denominator."""
    return _weigh(f, xs, share(relevance, f(*xs), eps))


def epsilon_without_bias(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    """Applies Eq. 1 as printed to an affine map."""
    return _weigh(f, xs, share(relevance, f(*xs) - bias(f, xs), eps))


@np.errstate(over="ignore")  # logits hidden by a mask
def bilinear_epsilon(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    """Applies Eqs. 3 and 4 to any map that is linear in each of two factors."""
    return _weigh(f, xs, share(relevance, 2 * f(*xs), eps))


def value_only(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    """Applies CP-LRP's readout: all to the second factor, or to none if that is fixed."""
    weights, *values = xs
    of_values = epsilon(f, xs, relevance, eps=eps)[1:] if values else []
    return [np.zeros(weights.shape), *of_values]


def held(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    """Passes all on where a map scales each entry by a held number."""
    return [relevance]


def constant(
    f: Map, xs: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> list[np.ndarray]:
    return [np.zeros(x.shape) for x in xs]


def _weigh(f: Map, xs: Sequence[np.ndarray], part: np.ndarray) -> list[np.ndarray]:
    return [x * c for x, c in zip(xs, f.back(xs, part), strict=True)]

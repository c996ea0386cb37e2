"""The rules for operations that are no plain product of arrays, such as convolutions and einsums.

A map has the form of ``numeric.auditing.maps.Map``: ``f(*xs)`` and ``f.back(xs, cotangent)``, its
transposed Jacobian.  Rules are ``(f, xs, relevance, eps) -> relevance of each of xs``.
"""

import numpy as np

from axioms import kinds
from numeric.reference.rules import share


def bias(f, xs):
    """What an affine map adds to the linear one."""
    return f(*(np.zeros(x.shape) for x in xs))


def epsilon(f, xs, relevance, *, eps):
    """Eq. 1 for an affine map of all ``xs`` together, the bias in the denominator."""
    return _weighed(f, xs, share(relevance, f(*xs), eps))


def epsilon_without_bias(f, xs, relevance, *, eps):
    """Eq. 1 as printed, of an affine map."""
    return _weighed(f, xs, share(relevance, f(*xs) - bias(f, xs), eps))


@np.errstate(over="ignore")  # of logits that a mask took out
def bilinear_epsilon(f, xs, relevance, *, eps):
    """Eqs. 3 and 4 for any map that is linear in each of two factors."""
    return _weighed(f, xs, share(relevance, 2 * f(*xs), eps))


def value_only(f, xs, relevance, *, eps):
    """CP-LRP's readout: all to the second factor, or to none if that is fixed."""
    weights, *values = xs
    of_values = epsilon(f, xs, relevance, eps=eps)[1:] if values else []
    return [np.zeros(weights.shape), *of_values]


def held(f, xs, relevance, *, eps):
    """A map that scales each entry by a number that is held."""
    return [relevance]


def constant(f, xs, relevance, *, eps):
    return [np.zeros(x.shape) for x in xs]


def _weighed(f, xs, part):
    return [x * c for x, c in zip(xs, f.back(xs, part), strict=True)]


RULES = {
    (kinds.LINEAR, kinds.EPSILON): epsilon,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): epsilon_without_bias,
    (kinds.SCORES, kinds.BILINEAR_EPSILON): bilinear_epsilon,
    (kinds.SCORES, kinds.CONSTANT): constant,
    (kinds.READOUT, kinds.BILINEAR_EPSILON): bilinear_epsilon,
    (kinds.READOUT, kinds.VALUE_ONLY): value_only,
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): bilinear_epsilon,
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): held,
    (kinds.ACTIVATION, kinds.IDENTITY): held,
}
"""By kind and rule, of nodes that have a map."""

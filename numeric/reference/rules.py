"""Computes each propagation rule as one einsum of its equation, on activations and relevance.

Axis letters as in the equations: ``i`` input neuron or key row, ``j`` output neuron or
query row, ``p`` value channel, ``r`` query/key channel, ``c`` and ``k`` channels.  ``...`` stands
for any leading axes (tokens, heads).  Relevance is in units of the explained logit.

``eps`` may be 0, the limit.  An output that is exactly 0 then passes on nothing if nothing
arrives, and raises ZeroDivisionError otherwise: the limit does not exist there.
"""

from collections.abc import Sequence

import numpy as np


def stabilize(z: np.ndarray | float, eps: float) -> np.ndarray:
    """Returns ``z + eps * sign(z)`` with ``sign(0) = +1``, the denominator of Eqs. 1, 3 and 4.

    Raises ValueError if ``eps`` is negative.
    """
    if not eps >= 0:
        raise ValueError(
            f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be >= 0; "
            "pass eps=0 for the limit"
        )
    stable: np.ndarray = z + eps * np.where(np.asarray(z) >= 0, 1.0, -1.0)
    return stable


def share(relevance: np.ndarray, z: np.ndarray | float, eps: float) -> np.ndarray:
    """Returns relevance per unit of contribution, ``R / (z + eps * sign(z))``; 0 where R is 0."""
    denominator = stabilize(z, eps)
    lost: np.ndarray = (denominator == 0) & (relevance != 0)
    if np.any(lost):
        raise ZeroDivisionError(
            f"eps={eps!r}: {np.count_nonzero(lost)} of {lost.size} outputs are exactly 0 and carry "
            "relevance, which has no limit there; pass eps > 0"
        )
    nothing = np.zeros(lost.shape)
    per_unit: np.ndarray = np.divide(relevance, denominator, out=nothing, where=denominator != 0)
    return per_unit


def product(equation: str, *factors: np.ndarray) -> np.ndarray:
    """Computes one einsum, summed pair by pair so that the intermediate products stay small."""
    found: np.ndarray = np.einsum(equation, *factors, optimize=True)
    return found


def epsilon(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | float,
    relevance: np.ndarray,
    *,
    eps: float,
) -> np.ndarray:
    """Applies Eq. 1 to ``z = x W + b``, with the bias in the denominator.

    x: (..., i)   weight: (i, j)   bias: (j)   relevance of z: (..., j)   ->   of x: (..., i)
    The bias absorbs ``R_j b_j / (z_j + eps s_j)``, the stabiliser ``R_j eps s_j / (...)``.
    """
    z = product("...i,ij->...j", x, weight) + bias
    return product("...i,ij,...j->...i", x, weight, share(relevance, z, eps))


def epsilon_without_bias(
    x: np.ndarray, weight: np.ndarray, relevance: np.ndarray, *, eps: float
) -> np.ndarray:
    """Applies Eq. 1 as printed: the denominator is ``sum_k x_k W_kj``, and the bias gets nothing.

    x: (..., i)   weight: (i, j)   relevance of x W + b: (..., j)   ->   of x: (..., i)
    Only the stabiliser absorbs.
    """
    z = product("...i,ij->...j", x, weight)
    return product("...i,ij,...j->...i", x, weight, share(relevance, z, eps))


def add(
    operands: Sequence[np.ndarray], relevance: np.ndarray, *, eps: float
) -> tuple[np.ndarray, ...]:
    """Applies Eq. 1 to an elementwise sum: each operand in proportion to its (signed) value.

    operands: any number of (...)   relevance of the sum: (...)   ->   tuple, one per operand
    Only the stabiliser absorbs.
    """
    part = share(relevance, sum(operands), eps)
    return tuple(operand * part for operand in operands)


def bilinear_epsilon(
    a: np.ndarray, v: np.ndarray, relevance: np.ndarray, *, eps: float, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Applies Eq. 3 to ``O = scale * A V``; the stabiliser acts after the scaling.

    a: (..., j, i)   v: (..., i, p)   relevance of O: (..., j, p)   ->   of a, of v
    Each factor receives ``sum R O / (2 O + eps s)`` in total, half as eps -> 0.
    """
    o = scale * product("...ji,...ip->...jp", a, v)
    part = scale * share(relevance, 2 * o, eps)
    of_a = product("...ji,...ip,...jp->...ji", a, v, part)
    of_v = product("...ji,...ip,...jp->...ip", a, v, part)
    return of_a, of_v


def scores_epsilon(
    q: np.ndarray, k: np.ndarray, relevance: np.ndarray, *, eps: float, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Applies Eq. 4 to ``Z = scale * Q K^T``, scale = 1/sqrt(d); the stabiliser acts after it.

    q: (..., j, r)   k: (..., i, r)   relevance of Z: (..., j, i)   ->   of q, of k
    Each factor receives ``sum R Z / (2 Z + eps s)`` in total, half as eps -> 0.
    """
    z = scale * product("...jr,...ir->...ji", q, k)
    part = scale * share(relevance, 2 * z, eps)
    of_q = product("...jr,...ir,...ji->...jr", q, k, part)
    of_k = product("...jr,...ir,...ji->...ir", q, k, part)
    return of_q, of_k


def value_only(a: np.ndarray, v: np.ndarray, relevance: np.ndarray, *, eps: float) -> np.ndarray:
    """Applies CP-LRP's readout (Sec. 2.3): Eq. 1 to ``O = A V``, linear in V, A held constant.

    a: (..., j, i)   v: (..., i, p)   relevance of O: (..., j, p)   ->   of v: (..., i, p)
    Only the stabiliser absorbs.
    """
    o = product("...ji,...ip->...jp", a, v)
    return product("...ji,...ip,...jp->...ip", a, v, share(relevance, o, eps))


def softmax(z: np.ndarray) -> np.ndarray:
    """Computes a row-wise softmax; a logit of -inf marks a masked key, whose weight is exactly 0.

    z: (..., i).  Raises ValueError if a row has no key left.
    """
    top = z.max(axis=-1, keepdims=True)
    if np.isneginf(top).any():
        raise ValueError(
            f"{np.isneginf(top).sum()} of {top.size} softmax rows have all their keys masked; "
            "leave at least one key in"
        )
    weight = np.exp(z - top)
    weights: np.ndarray = weight / weight.sum(axis=-1, keepdims=True)
    return weights


def softmax_taylor(z: np.ndarray, relevance: np.ndarray) -> np.ndarray:
    """Applies Eq. 5, ``R_Z = Z (R_A - A sum R_A)``, along each row; masked keys (-inf) receive 0.

    z: (..., i)   relevance of softmax(z): (..., i)   ->   of z: (..., i)
    Does not conserve: a row keeps ``sum_i R_A,i (z_i - sum_k A_k z_k)``.
    """
    finite = np.where(np.isneginf(z), 0.0, z)
    of_z: np.ndarray = finite * (relevance - softmax(z) * relevance.sum(axis=-1, keepdims=True))
    return of_z


def equal_split(factors: Sequence[np.ndarray], relevance: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gives ``R / n`` to each of n factors of an elementwise product (Sec. 3.1); conserves.

    factors: n of (...)   relevance of the product: (...)   ->   tuple, one per factor
    """
    return tuple(relevance / len(factors) for _ in factors)


def held_deviation(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    relevance: np.ndarray,
    *,
    layer_norm_eps: float,
    eps: float,
) -> np.ndarray:
    """Holds LayerNorm's standard deviation constant, and applies Eq. 1 to the linear rest.

    x: (..., k)   weight, bias: (c)   relevance of the output: (..., c)   ->   of x: (..., k)
    The rest is linear: ``z_c = sum_k x_k (delta_kc - 1/n) weight_c / std + bias_c``.
    The bias absorbs ``R_c bias_c / (z_c + eps s_c)``.
    """
    inverse = 1 / np.sqrt(x.var(axis=-1) + layer_norm_eps)  # (...)
    centre = np.eye(x.shape[-1]) - 1 / x.shape[-1]
    z = (x - x.mean(axis=-1, keepdims=True)) * inverse[..., None] * weight + bias
    part = share(relevance, z, eps)
    return product("...k,kc,c,...,...c->...k", x, centre, weight, inverse, part)


def held_root_mean_square(
    x: np.ndarray, weight: np.ndarray, relevance: np.ndarray, *, rms_norm_eps: float, eps: float
) -> np.ndarray:
    """Holds RMSNorm's root mean square constant, and applies Eq. 1 channel by channel.

    x: (..., c)   weight: (c)   relevance of the output: (..., c)   ->   of x: (..., c)
    The rest is ``z_c = x_c weight_c / rms``.  Only the stabiliser absorbs.
    """
    inverse = 1 / np.sqrt(product("...c,...c->...", x, x) / x.shape[-1] + rms_norm_eps)
    z = x * inverse[..., None] * weight
    return product("...c,c,...,...c->...c", x, weight, inverse, share(relevance, z, eps))


def identity(relevance: np.ndarray) -> np.ndarray:
    """An operation passes relevance on entry by entry, as if it were the identity; conserves."""
    return relevance

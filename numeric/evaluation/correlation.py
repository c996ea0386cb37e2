"""Measures the agreement of two attribution maps per example, and its mean with an interval.

Maps are (example, token) arrays; ``keep`` (example, token) says which tokens count, so that
sentences of different length, or special tokens left out, need no second code path.
Undefined values are NaN: they stay visible, and `bootstrap_mean` counts them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

AT_ONCE = 1 << 18  # values that the bootstrap draws


class BootstrapMean(NamedTuple):
    """A mean over examples and the ends of its 95 % percentile interval."""

    mean: float
    low: float
    high: float
    undefined: int  # examples left out because their value is NaN


def pearson(a: ArrayLike, b: ArrayLike, keep: np.ndarray) -> np.ndarray:
    """Returns Pearson's r of every example's two maps over its kept tokens (§4.1).

    a, b: (example, token), any unit; keep: (example, token), bool -> (example,) float64.
    NaN where fewer than two tokens are kept, where a map is constant on them, or where one
    of its kept values is not finite; values outside ``keep`` are never read.
    Raises ValueError or TypeError if the shapes differ or ``keep`` is not boolean.
    """
    with np.errstate(all="ignore"):  # undefined values end as 0 / 0
        x, y = _centre(a, keep), _centre(b, keep)
        r: np.ndarray = (x * y).sum(axis=-1) / np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    return r.clip(-1, 1)


def kendall(a: ArrayLike, b: ArrayLike, keep: np.ndarray) -> np.ndarray:
    """Returns Kendall's tau-b of every example's two maps over its kept tokens, by rank alone.

    Arguments, shapes and NaN as in ``pearson``.
    """
    a, b = _keep(a, keep), _keep(b, keep)
    with np.errstate(all="ignore"):  # undefined values end as 0 / 0
        taus = [_tau(x[k], y[k]) for x, y, k in zip(a, b, keep, strict=True)]
    return np.array(taus, dtype=float).clip(-1, 1)


def _tau(a: np.ndarray, b: np.ndarray) -> float:
    """Equals SciPy's, which also tests for significance and takes twenty times as long."""
    a, b = (np.sign(np.subtract.outer(x, x)).ravel() for x in (a, b))  # each pair, both ways round
    tau: float = (a @ b / 2) / np.sqrt(a @ a / 2) / np.sqrt(b @ b / 2)
    return tau


def normalise(a: ArrayLike, keep: np.ndarray) -> np.ndarray:
    """Divides every map by its sum over the kept tokens, as §4.1 does before it correlates.

    a, keep: (example, token) -> (example, token) float64, 0 outside ``keep``.
    NaN for a map whose kept values sum to zero.  A negative sum turns the map around, so r
    of two normalised maps is -r of the raw ones whenever exactly one of the sums is negative.
    """
    a = _keep(a, keep)
    total = a.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):  # an overflow becomes inf, which `pearson` calls undefined
        return np.where(total == 0, np.nan, np.where(keep, a / total, 0.0))


def flipped(raw: ArrayLike, normalised: ArrayLike) -> np.ndarray:
    """Marks examples whose r changes its sign once both maps sum to one (theorem 76).

    raw, normalised: r, (example,) -> (example,) float64, 0 or 1, and NaN where an r is undefined.
    """
    product = np.multiply(raw, normalised)
    return np.where(np.isnan(product), np.nan, product < 0)


def bootstrap_mean(values: ArrayLike, *, seed: int, resamples: int = 2000) -> BootstrapMean:
    """Returns the mean of defined values, and SciPy's 95 % percentile bootstrap interval.

    values: (example,).  NaN values are left out and counted; if nothing is left, mean and
    interval are NaN.  A single value is its own interval.  The interval covers the choice of
    examples, not the training.
    """
    from scipy import stats  # slow to load, and correlations do without

    values = np.asarray(values, dtype=np.float64)
    defined = values[~np.isnan(values)]
    undefined = values.size - defined.size
    if defined.size == 0:
        return BootstrapMean(np.nan, np.nan, np.nan, undefined)
    mean = float(defined.mean())
    if defined.size == 1:
        return BootstrapMean(mean, mean, mean, undefined)
    # A few resamples at a time: 25,000 examples times 2,000 resamples would fill the memory.
    at_once = max(1, AT_ONCE // defined.size)
    rng = np.random.default_rng(seed)
    found = stats.bootstrap(
        (defined,), np.mean, n_resamples=resamples, batch=at_once, method="percentile", rng=rng
    )
    low, high = found.confidence_interval
    return BootstrapMean(mean, float(low), float(high), undefined)


def _keep(a: ArrayLike, keep: ArrayLike) -> np.ndarray:
    a, keep = np.asarray(a, dtype=np.float64), np.asarray(keep)
    if keep.dtype != bool:
        raise TypeError(f"keep has dtype {keep.dtype}: it must be bool; pass keep.astype(bool)")
    if a.ndim != 2 or a.shape != keep.shape:
        raise ValueError(
            f"map of shape {a.shape}, keep of shape {keep.shape}: both must be (example, token); "
            "pass np.ones(a.shape, dtype=bool) to keep every token"
        )
    return np.where(keep, a, 0.0)


def _centre(a: ArrayLike, keep: np.ndarray) -> np.ndarray:
    """Centres kept values, in units of the largest; 0 outside ``keep``."""
    kept = _keep(a, keep)
    # Scaled first: squares neither overflow nor vanish, and a constant map becomes all 1 or
    # all -1, whose mean is exact, so that it is centred to 0 and not to rounding errors.
    scaled = kept / abs(kept).max(axis=-1, keepdims=True, initial=0)
    mean = scaled.sum(axis=-1, keepdims=True) / np.sum(keep, axis=-1, keepdims=True)
    return np.where(keep, scaled - mean, 0.0)

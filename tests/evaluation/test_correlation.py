"""Per-example correlations agree with SciPy, and are NaN where they have no value."""

import numpy as np
import pytest
from scipy import stats

from numeric.evaluation.correlation import bootstrap_mean, flipped, kendall, normalise, pearson

rng = np.random.default_rng(0)
A = rng.normal(size=(40, 9))
B = A * rng.normal(size=(40, 1)) + rng.normal(size=(40, 9))
KEEP = np.arange(9) < rng.integers(3, 10, size=(40, 1))
KEEP[:, 0] = rng.random(40) < 0.5  # not only trailing tokens are left out
ALL = np.ones(A.shape, dtype=bool)


def assert_is_pearson(r):
    want = [stats.pearsonr(a[k], b[k]).statistic for a, b, k in zip(A, B, KEEP, strict=True)]
    np.testing.assert_allclose(r(A, B, KEEP), want, rtol=1e-12, atol=1e-12)


def cosine(a, b, keep):
    a, b = a * keep, b * keep
    return (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))


def ranks(a, keep):
    return np.where(keep, np.where(keep, a, np.inf).argsort(-1).argsort(-1), 0.0)


WRONG_PEARSON = {
    "keep ignored": lambda a, b, keep: pearson(a, b, ALL),
    "left-out tokens counted as zeros": lambda a, b, keep: pearson(a * keep, b * keep, ALL),
    "not centred": cosine,
    "rank correlation": lambda a, b, keep: pearson(ranks(a, keep), ranks(b, keep), keep),
    "sign lost": lambda a, b, keep: abs(pearson(a, b, keep)),
    "pooled over examples": lambda a, b, keep: np.full(
        len(a), stats.pearsonr(a[keep], b[keep]).statistic
    ),
}


C, D = np.round(A), np.round(B)  # with many ties


def assert_is_kendall(tau):
    """By SciPy, and by counting pairs: ties leave the denominator (tau-b)."""
    for a, b in ((A, B), (C, D)):
        want = [stats.kendalltau(x[k], y[k]).statistic for x, y, k in zip(a, b, KEEP, strict=True)]
        np.testing.assert_array_equal(tau(a, b, KEEP), want)
        want = [pairs(x[k], y[k]) for x, y, k in zip(a, b, KEEP, strict=True)]
        np.testing.assert_allclose(tau(a, b, KEEP), want, rtol=1e-12, atol=1e-12)


def pairs(a, b):
    x, y = (np.sign(values[:, None] - values)[np.triu_indices(len(values), 1)] for values in (a, b))
    untied = np.sqrt((x != 0).sum() * (y != 0).sum())
    return (x * y).sum() / untied if untied else np.nan


WRONG_KENDALL = {
    "keep ignored": lambda a, b, keep: kendall(a, b, ALL),
    "left-out tokens counted as zeros": lambda a, b, keep: kendall(a * keep, b * keep, ALL),
    "Pearson": pearson,
    "Spearman": lambda a, b, keep: pearson(ranks(a, keep), ranks(b, keep), keep),
    "sign lost": lambda a, b, keep: abs(kendall(a, b, keep)),
    "tau-a": lambda a, b, keep: np.array(
        [
            np.nan_to_num(pairs(x[k], y[k])) * np.sqrt(share_untied(x[k]) * share_untied(y[k]))
            for x, y, k in zip(a, b, keep, strict=True)
        ]
    ),
}


def share_untied(a):
    return np.mean(np.sign(a[:, None] - a)[np.triu_indices(len(a), 1)] != 0)


def test_values_outside_keep_are_never_read():
    poisoned = np.where(KEEP, A, np.nan)
    for r in (pearson, kendall):
        np.testing.assert_array_equal(r(poisoned, B, KEEP), r(A, B, KEEP))
    np.testing.assert_array_equal(normalise(poisoned, KEEP), normalise(A, KEEP))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_the_size_of_a_map_does_not_matter(size):
    np.testing.assert_allclose(pearson(A * size, B, KEEP), pearson(A, B, KEEP), rtol=1e-12)


def test_rounding_never_pushes_r_beyond_one():
    r = pearson(A, -3 * A, ALL)
    assert (r >= -1).all()
    np.testing.assert_allclose(r, -1, rtol=1e-12)


VARIED = [1.0, 2.0, 4.0]
NAN_MAPS = {
    "constant": ([3.0, 3.0, 3.0], [True, True, True]),
    "constant, but not its mean": ([0.1, 0.1, 0.1], [True, True, True]),
    "all zero": ([0.0, 0.0, 0.0], [True, True, True]),
    "constant where kept": ([7.0, 7.0, 1.0], [True, True, False]),
    "one token": (VARIED, [False, True, False]),
    "no token": (VARIED, [False, False, False]),
    "a value is NaN": ([1.0, np.nan, 2.0], [True, True, True]),
    "a value is infinite": ([1.0, np.inf, 2.0], [True, True, True]),
}


@pytest.mark.parametrize("name", NAN_MAPS)
def test_an_undefined_correlation_is_nan_in_either_argument(name):
    values, keep = (np.array([part]) for part in NAN_MAPS[name])
    other = np.array([VARIED])
    for r in (pearson, kendall):  # and none of them warns
        assert np.isnan(r(values, other, keep)).tolist() == [True]
        assert np.isnan(r(other, values, keep)).tolist() == [True]


def test_examples_without_any_token_are_nan():
    empty = np.empty((3, 0))
    for r in (pearson, kendall):
        assert np.isnan(r(empty, empty, empty.astype(bool))).tolist() == [True] * 3
        assert r(empty[:0], empty[:0], empty[:0].astype(bool)).shape == (0,)


def test_an_undefined_example_leaves_the_others_alone():
    a = A.copy()
    a[3] = 5.0
    for r in (pearson, kendall):
        got, want = r(a, B, KEEP), r(A, B, KEEP)
        assert np.isnan(got[3])
        np.testing.assert_array_equal(np.delete(got, 3), np.delete(want, 3))


def assert_sums_to_one(norm):
    got = norm(A, KEEP)
    np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-12)
    np.testing.assert_array_equal(got[~KEEP], 0)
    sums = np.where(KEEP, A, 0).sum(-1, keepdims=True)
    np.testing.assert_allclose((got * sums)[KEEP], A[KEEP], rtol=1e-12)


WRONG_NORMALISE = {
    "absolute sum": lambda a, keep: a * keep / abs((a * keep).sum(-1, keepdims=True)),
    "sum of absolutes": lambda a, keep: a * keep / abs(a * keep).sum(-1, keepdims=True),
    "sum over all tokens": lambda a, keep: a * keep / a.sum(-1, keepdims=True),
    "left-out tokens kept": lambda a, keep: a / (a * keep).sum(-1, keepdims=True),
    "largest becomes one": lambda a, keep: a * keep / abs(a * keep).max(-1, keepdims=True),
    "softmax": lambda a, keep: np.exp(a) * keep / (np.exp(a) * keep).sum(-1, keepdims=True),
}


def test_a_map_that_sums_to_zero_has_no_normalised_form():
    maps = np.array([[1.0, -1.0, 5.0], [1.0, 1.0, 2.0]])
    keep = np.array([[True, True, False], [True, True, True]])
    got = normalise(maps, keep)
    assert np.isnan(got[0]).all()
    np.testing.assert_array_equal(got[1], [0.25, 0.25, 0.5])
    assert np.isnan(pearson(got, np.array([VARIED, VARIED]), keep)).tolist() == [True, False]


def test_normalisation_flips_r_where_exactly_one_sum_is_negative():
    negative = [np.where(KEEP, x, 0).sum(-1) < 0 for x in (A, B)]
    differ = negative[0] ^ negative[1]
    assert 0 < differ.sum() < len(A)
    assert (negative[0] & negative[1]).any()  # two flips cancel
    got = pearson(normalise(A, KEEP), normalise(B, KEEP), KEEP)
    np.testing.assert_allclose(got, np.where(differ, -1, 1) * pearson(A, B, KEEP), rtol=1e-9)
    np.testing.assert_array_equal(flipped(pearson(A, B, KEEP), got), differ)
    np.testing.assert_array_equal(flipped([np.nan, 0.5], [0.5, np.nan]), [np.nan, np.nan])


def assert_binomial_interval(mean):
    """Resampled means of zeros and ones are binomial: their quantiles are known exactly."""
    values = np.array([1.0] * 120 + [0.0] * 280 + [np.nan] * 7)
    got = mean(values)
    assert got[0] == pytest.approx(0.3, rel=1e-12)
    want = stats.binom.ppf([0.025, 0.975], 400, 0.3) / 400
    # Three standard errors (0.0014) of a 2.5 % quantile that is estimated from 2000 means.
    np.testing.assert_allclose(got[1:3], want, rtol=0, atol=0.0042)
    assert got[3] == 7


def interval(means, values):
    return (np.nanmean(values), *np.quantile(means, [0.025, 0.975]), int(np.isnan(values).sum()))


WRONG_BOOTSTRAP = {
    "NaN counted as zero": lambda v: bootstrap_mean(np.nan_to_num(v), seed=0),
    "NaN not counted": lambda v: bootstrap_mean(v[~np.isnan(v)], seed=0),
    "spread of the values": lambda v: interval(v[~np.isnan(v)], v),
    "90 % interval": lambda v: (0.3, *stats.binom.ppf([0.05, 0.95], 400, 0.3) / 400, 7),
    "no interval": lambda v: interval(np.full(9, np.nanmean(v)), v),
}


RIGHT = {
    assert_is_pearson: (pearson, WRONG_PEARSON),
    assert_is_kendall: (kendall, WRONG_KENDALL),
    assert_sums_to_one: (normalise, WRONG_NORMALISE),
    assert_binomial_interval: (lambda values: bootstrap_mean(values, seed=0), WRONG_BOOTSTRAP),
}
WRONG = [(check, name) for check, (_, wrong) in RIGHT.items() for name in wrong]


@pytest.mark.parametrize("check", RIGHT)
def test_a_measure_is_its_definition(check):
    check(RIGHT[check][0])


@pytest.mark.parametrize(("check", "name"), WRONG)
def test_a_wrong_measure_is_rejected(check, name):
    with pytest.raises(AssertionError):
        check(RIGHT[check][1][name])


def test_the_seed_fixes_the_interval():
    assert bootstrap_mean(A[0], seed=3) == bootstrap_mean(A[0], seed=3)
    assert bootstrap_mean(A[0], seed=3)[1:3] != bootstrap_mean(A[0], seed=4)[1:3]


@pytest.mark.parametrize("values", [[], [np.nan, np.nan]])
def test_no_defined_value_means_no_mean(values):
    got = bootstrap_mean(values, seed=0)
    assert np.isnan(got[:3]).all()
    assert got.undefined == len(values)


def test_a_mask_of_numbers_and_a_wrong_shape_are_errors():
    for r in (pearson, kendall):
        with pytest.raises(TypeError, match=r"int64.*bool"):
            r(A, B, KEEP.astype(int))
        with pytest.raises(ValueError, match=r"\(40, 8\)"):
            r(A, B[:, :8], KEEP)
    with pytest.raises(ValueError, match=r"\(9,\)"):
        normalise(A[0], KEEP)

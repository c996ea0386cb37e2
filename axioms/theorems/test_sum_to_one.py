"""Pearson's r of maps that are divided by their sums, as the paper's §4.1 does.

A map a has the sum s, and deviations a_i - s/n whose squares add up to V(a); r of two maps is
C(a, b)/(D(a) D(b)) with C the sum of products of deviations and D(a) > 0 the root of V(a).
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, sign_cases
from lrp_axioms.axioms.rules.effects import sum_to_one

THEMES = {76: ["Leave-One-Out and patching"]}
MEANINGS = {
    76: "Where maps are made to sum to one, the mean of r over examples also counts how often two "
    "maps disagree about the sign of their sum. Near 0 it may hide a correlation near 1, of which "
    "half was turned around: read it beside r of the maps themselves and the share of turned ones.",
}

A, B, SIZES = generic("a", 1, 3), generic("b", 1, 3), generic("s", 1, 2, positive=True)
D = generic("d", 1, 2, positive=True)  # D(a) and D(b)


def summing_to(a, total):
    """The map ``a`` with its last entry such that the entries sum to ``total``."""
    return sp.Matrix([[*a[:-1], total - sum(a[:-1])]])


def product(a, b):
    """C(a, b); V(a) is C(a, a)."""
    return sum((x - sum(a) / len(a)) * (y - sum(b) / len(b)) for x, y in zip(a, b, strict=True))


def r_of_sums_to_one(a, b):
    """Pearson's r of a/s and b/t, where a and b have sums of the sizes ``SIZES``."""
    return product(sum_to_one(a), sum_to_one(b)) / (D[0] / SIZES[0] * D[1] / SIZES[1])


@pytest.mark.theorem(
    76,
    "Of maps a and b with sums s and t that are not 0, a/s and b/t have sign(s t) times Pearson's "
    "r of a and b.",
    "proved",
    given=["s, d > 0: sizes of the sums, and roots of the sums of squared deviations"],
    scope="2 maps of 3 tokens; either sign of each sum",
)
def test_r_of_maps_that_sum_to_one_has_the_sign_of_both_sums(record_property):
    for signs in sign_cases(1, 2):
        totals = [sign * size for sign, size in zip(signs, SIZES, strict=True)]
        maps = [summing_to(a, total) for a, total in zip((A, B), totals, strict=True)]
        for a, total in zip(maps, totals, strict=True):
            one = sum_to_one(a)
            assert identical(product(one, one), product(a, a) / total**2)  # so D(a/s) = D(a)/|s|
        raw = product(*maps) / (D[0] * D[1])
        assert identical(signs[0] * signs[1] * r_of_sums_to_one(*maps), raw)
    record_property("method", "D(a/s) = D(a)/|s| by squares, then cancel in each case of signs")


@pytest.mark.theorem(
    76,
    "If n examples have one r and the sums of k of them differ in sign, the mean of r of maps that "
    "sum to one is r (1 - 2 k/n): 0 where they are half.",
    "proved",
    given=["s, d > 0: sizes of the sums, and roots of the sums of squared deviations"],
    scope="2 maps of 3 tokens; n = 1 to 4 examples, all k",
)
def test_a_share_of_turned_examples_takes_twice_its_size_off_the_mean():
    a, b = (summing_to(m, size) for m, size in zip((A, B), SIZES, strict=True))
    other = b - sp.ones(1, 3) * 2 * SIZES[1] / 3  # the sum of b, turned around
    raw = product(a, b) / (D[0] * D[1])
    assert identical(product(a, other), product(a, b))
    assert identical(product(other, other), product(b, b))
    kept, turned = r_of_sums_to_one(a, b), r_of_sums_to_one(a, other)
    for n in range(1, 5):
        for k in range(n + 1):
            mean = ((n - k) * kept + k * turned) / n
            assert identical(mean, raw * (1 - 2 * sp.Rational(k, n)))


@pytest.mark.theorem(
    76,
    "A number that is added to a whole map, which leaves Pearson's r with another map as it is, "
    "leaves r as it is if both are made to sum to one.",
    "refuted",
)
def test_a_number_beside_a_map_may_turn_r_of_the_maps_that_sum_to_one(record_property):
    a, b, c = sp.Matrix([[3, -1]]), sp.Matrix([[2, 0]]), sp.Symbol("c", real=True)
    moved = b + c * sp.ones(1, 2)
    assert identical(product(a, moved), product(a, b))
    before, after = (product(sum_to_one(a), sum_to_one(each)) for each in (b, moved))
    assert differ_at(before, after, {c: -3})
    record_property(
        "witness", f"a = (3, -1), b = (2, 0), c = -3: {before} versus {after.subs(c, -3)}"
    )

"""Rules of the reference at their edges: limits, masks, leading axes, large logits.

tests/layers/test_layers_agree.py and test_evaluate.py compare every rule with its equation.
"""

import numpy as np
import pytest

from numeric.reference import rules


def test_a_softmax_of_large_logits_is_that_of_their_differences():
    z, r = np.array([0.5, -np.inf, 2.0, -1.0]), np.array([1.0, 0.0, -2.0, 3.0])
    np.testing.assert_allclose(rules.softmax(z + 1000), rules.softmax(z), rtol=1e-12)
    weights = rules.softmax(z)[[0, 2, 3]]
    want = (z + 1000)[[0, 2, 3]] * (r[[0, 2, 3]] - weights * r.sum())
    np.testing.assert_allclose(rules.softmax_taylor(z + 1000, r)[[0, 2, 3]], want, rtol=1e-9)


def test_leading_axes_are_independent_problems_and_a_scale_is_of_one_factor():
    rng = np.random.default_rng(1)
    a, v, r = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 2)), rng.normal(size=(5, 2, 2))
    for scale in (1, 0.5):
        found = rules.bilinear_epsilon(a, v, r, eps=0.25, scale=scale)
        for n in range(5):
            alone = rules.bilinear_epsilon(scale * a[n], v[n], r[n], eps=0.25)
            for got, want in zip(found, alone, strict=True):
                np.testing.assert_allclose(got[n], want, rtol=1e-12)


def test_the_limit_passes_nothing_on_where_nothing_arrives():
    x, w = np.array([1.0, 1.0]), np.array([[1.0, 2.0], [-1.0, 2.0]])
    np.testing.assert_array_equal(rules.epsilon(x, w, 0.0, np.array([0.0, 6.0]), eps=0), [3, 3])


def test_the_limit_is_refused_where_it_does_not_exist():
    x, w = np.array([1.0, 1.0]), np.array([[1.0], [-1.0]])
    with pytest.raises(ZeroDivisionError, match="1 of 1 outputs are exactly 0"):
        rules.epsilon(x, w, 0.0, np.array([1.0]), eps=0)


def test_the_stabiliser_has_the_sign_of_the_output_and_0_is_positive():
    found = rules.stabilize(np.array([-3.0, 0.0, 3.0]), 0.25)
    np.testing.assert_array_equal(found, [-3.25, 0.25, 3.25])


@pytest.mark.parametrize("eps", [-1.0, float("nan")])
def test_eps_below_zero_is_refused(eps):
    with pytest.raises(ValueError, match="must be >= 0; pass eps=0"):
        rules.stabilize(1.0, eps)


def test_a_row_without_keys_is_refused():
    with pytest.raises(ValueError, match="1 of 2 softmax rows have all their keys masked"):
        rules.softmax(np.array([[0.0, 1.0], [-np.inf, -np.inf]]))


def test_a_masked_key_receives_nothing_whatever_arrives_at_it():
    got = rules.softmax_taylor(np.array([0.0, -np.inf, 1.0]), np.array([1.0, 2.0, 3.0]))
    assert got[1] == 0
    assert got[2] != 0


def test_nothing_is_shared_where_nothing_arrives_whatever_the_memory_holds(monkeypatch):
    def leaves_rubbish(z, eps):
        denominator = z + 0.0
        np.full(z.shape, np.nan)  # freed at once, and first in line to be used again
        return denominator

    monkeypatch.setattr(rules, "stabilize", leaves_rubbish)
    part = rules.share(np.array([0.0, 6.0, 0.0]), np.array([0.0, 2.0, 0.0]), 0)
    np.testing.assert_array_equal(part, [0, 3, 0])

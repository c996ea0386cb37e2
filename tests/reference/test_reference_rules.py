"""Rules of the reference against their equations written as messages, entry by entry.

The messages are loops over indices in exact rationals (mpmath for exp), at eps = 1/4 on small
integers: relevance arrives at outputs of 0 and of both signs, and every convention for the
stabiliser, which all rules share, gives different numbers.  All rules are compared with those in
SymPy and in PyTorch in tests/layers/test_layers_agree.py.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from numeric.reference import rules

EPS = Fraction(1, 4)


def sign(z):
    return 1 if z >= 0 else -1


def sums(*ranges):
    """All index tuples of the given ranges."""
    return [tuple(index) for index in np.ndindex(*ranges)]


def real(array):
    return [mpmath.mpf(float(x)) for x in array]


def linear_messages(x, w, b, r):
    rows, columns = w.shape
    z = [sum(x[k] * w[k, j] for k in range(rows)) + b[j] for j in range(columns)]
    part = [r[j] / (z[j] + EPS * sign(z[j])) for j in range(columns)]
    return [np.array([sum(x[i] * w[i, j] * part[j] for j in range(columns)) for i in range(rows)])]


def add_messages(x, y, u, r):
    def message(operand, n):
        z = x[n] + y[n] + u[n]
        return operand[n] * r[n] / (z + EPS * sign(z))

    return [np.array([message(operand, n) for n in range(len(r))]) for operand in (x, y, u)]


def bilinear_messages(a, v, r, *, scale=1):
    of_a, of_v = np.full(a.shape, Fraction(0)), np.full(v.shape, Fraction(0))
    for j, p in sums(*r.shape):
        o = scale * sum(a[j, i] * v[i, p] for i in range(len(v)))
        for i in range(len(v)):
            message = scale * a[j, i] * v[i, p] * r[j, p] / (2 * o + EPS * sign(o))
            of_a[j, i] += message
            of_v[i, p] += message
    return [of_a, of_v]


@mpmath.workdps(30)
def softmax_messages(z, r):
    z, r = real(z), real(r)
    weight = [mpmath.exp(value) for value in z]  # exp(-inf) is 0
    total = sum(r)
    return [
        np.array([
            0 if a == 0 else value * (share - a / sum(weight) * total)
            for value, a, share in zip(z, weight, r, strict=True)
        ])
    ]  # fmt: skip


def rational(array):
    """Fractions of small integers; -inf stays what it is."""
    return np.vectorize(lambda x: Fraction(int(x)) if np.isfinite(x) else x, otypes=[object])(array)


def at_eps(rule, **options):
    return lambda *operands: rule(*operands, eps=float(EPS), **options)


# Name: (rule under test, its equation as messages, shapes of the activations and of R).
CASES = {
    "epsilon": (at_eps(rules.epsilon), linear_messages, [3, (3, 2), 2, 2]),
    "add": (
        lambda x, y, u, r: rules.add((x, y, u), r, eps=float(EPS)), add_messages, [4, 4, 4, 4],
    ),
    "readout": (at_eps(rules.bilinear_epsilon), bilinear_messages, [(2, 3), (3, 2), (2, 2)]),
    "scaled product": (
        at_eps(rules.bilinear_epsilon, scale=0.5),
        lambda *operands: bilinear_messages(*operands, scale=Fraction(1, 2)),
        [(2, 3), (3, 2), (2, 2)],
    ),
    "softmax": (rules.softmax_taylor, softmax_messages, [4, 4]),
}  # fmt: skip


def points(name, *, count=40):
    rng = np.random.default_rng(0)
    shapes = CASES[name][2]
    drawn = [[rng.integers(-2, 3, shape).astype(float) for shape in shapes] for _ in range(count)]
    if name == "softmax":
        for z, r in drawn[::2]:  # every other row has a masked key
            z[1], r[1] = -np.inf, 0
        drawn += [[z + 1000, r] for z, r in drawn]  # exp overflows unless the maximum is taken out
    return drawn


@pytest.mark.parametrize("name", CASES)
def test_every_entry_is_the_equation(name):
    rule, messages, _ = CASES[name]
    for operands in points(name):
        found, want = rule(*operands), messages(*map(rational, operands))
        found = found if isinstance(found, (tuple, list)) else [found]
        for got, exact in zip(found, want, strict=True):
            assert np.shape(got) == exact.shape
            np.testing.assert_allclose(got, exact.astype(float), rtol=1e-12, atol=1e-12)


def test_leading_axes_are_independent_problems():
    rng = np.random.default_rng(1)
    a, v, r = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 2)), rng.normal(size=(5, 2, 2))
    of_a, of_v = rules.bilinear_epsilon(a, v, r, eps=0.25)
    for n in range(5):
        alone = rules.bilinear_epsilon(a[n], v[n], r[n], eps=0.25)
        np.testing.assert_allclose(of_a[n], alone[0], rtol=1e-12)
        np.testing.assert_allclose(of_v[n], alone[1], rtol=1e-12)


def test_the_limit_passes_nothing_on_where_nothing_arrives():
    x, w = np.array([1.0, 1.0]), np.array([[1.0, 2.0], [-1.0, 2.0]])
    np.testing.assert_array_equal(rules.epsilon(x, w, 0.0, np.array([0.0, 6.0]), eps=0), [3, 3])


def test_the_limit_is_refused_where_it_does_not_exist():
    x, w = np.array([1.0, 1.0]), np.array([[1.0], [-1.0]])
    with pytest.raises(ZeroDivisionError, match="1 of 1 outputs are exactly 0"):
        rules.epsilon(x, w, 0.0, np.array([1.0]), eps=0)


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

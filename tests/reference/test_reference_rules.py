"""Every rule of the reference against its equation written as messages, entry by entry.

The messages are loops over indices in exact rationals (mpmath where exp or a root occurs), at
eps = 1/4 on small integers: outputs of 0 and of both signs occur, and every convention for the
stabiliser gives different numbers.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from axioms import kinds
from numeric.reference import rules
from numeric.reference.dispatch import RULES

EPS = Fraction(1, 4)
SCALE = 0.5
REJECTS = (AssertionError, ZeroDivisionError)


def sign(z):
    return 1 if z >= 0 else -1


def sums(*ranges):
    """All index tuples of the given ranges."""
    return [tuple(index) for index in np.ndindex(*ranges)]


def real(array):
    return [mpmath.mpf(float(x)) for x in array]


def linear_messages(x, w, b, r, *, bias=True):
    rows, columns = w.shape
    z = [sum(x[k] * w[k, j] for k in range(rows)) + bias * b[j] for j in range(columns)]
    part = [r[j] / (z[j] + EPS * sign(z[j])) for j in range(columns)]
    return [np.array([sum(x[i] * w[i, j] * part[j] for j in range(columns)) for i in range(rows)])]


def add_messages(x, y, u, r):
    def message(operand, n):
        z = x[n] + y[n] + u[n]
        return operand[n] * r[n] / (z + EPS * sign(z))

    return [np.array([message(operand, n) for n in range(len(r))]) for operand in (x, y, u)]


def bilinear_messages(a, v, r, *, halves=2, scale=1):
    of_a, of_v = np.full(a.shape, Fraction(0)), np.full(v.shape, Fraction(0))
    for j, p in sums(*r.shape):
        o = scale * sum(a[j, i] * v[i, p] for i in range(len(v)))
        for i in range(len(v)):
            message = scale * a[j, i] * v[i, p] * r[j, p] / (halves * o + EPS * sign(o))
            of_a[j, i] += message
            of_v[i, p] += message
    return [of_a, of_v]


def scores_messages(q, k, r):
    of_q, of_k = bilinear_messages(q, k.T, r, scale=Fraction(1, 2))
    return [of_q, of_k.T]


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


@mpmath.workdps(30)
def layer_norm_messages(x, w, b, r):
    x, w, b, r = map(real, (x, w, b, r))
    n, eps = len(x), mpmath.mpf(1) / 4
    mean = sum(x) / n
    std = mpmath.sqrt(sum((value - mean) ** 2 for value in x) / n + mpmath.mpf(1) / 8)
    out = np.zeros(n, object)
    for c in range(n):
        z = (x[c] - mean) * w[c] / std + b[c]
        for k in range(n):
            jacobian = (int(k == c) - mpmath.mpf(1) / n) * w[c] / std
            out[k] += x[k] * jacobian * r[c] / (z + eps * sign(z))
    return [out]


@mpmath.workdps(30)
def rms_norm_messages(x, w, r):
    x, w, r = map(real, (x, w, r))
    rms = mpmath.sqrt(sum(value**2 for value in x) / len(x) + mpmath.mpf(1) / 8)
    z = [value * weight / rms for value, weight in zip(x, w, strict=True)]
    eps = mpmath.mpf(1) / 4
    return [np.array([z[c] * r[c] / (z[c] + eps * sign(z[c])) for c in range(len(x))])]


def rational(array):
    """Fractions of small integers; -inf stays what it is."""
    return np.vectorize(lambda x: Fraction(int(x)) if np.isfinite(x) else x, otypes=[object])(array)


def at_eps(rule, **options):
    return lambda *operands: rule(*operands, eps=float(EPS), **options)


# Name: (rule under test, its equation as messages, shapes of the activations and of R).
CASES = {
    "epsilon": (at_eps(rules.epsilon), linear_messages, [3, (3, 2), 2, 2]),
    "epsilon without bias": (
        lambda x, w, b, r: rules.epsilon_without_bias(x, w, r, eps=float(EPS)),
        lambda *operands: linear_messages(*operands, bias=False),
        [3, (3, 2), 2, 2],
    ),
    "add": (
        lambda x, y, u, r: rules.add((x, y, u), r, eps=float(EPS)), add_messages, [4, 4, 4, 4],
    ),
    "readout": (at_eps(rules.bilinear_epsilon), bilinear_messages, [(2, 3), (3, 2), (2, 2)]),
    "scaled product": (
        at_eps(rules.bilinear_epsilon, scale=SCALE),
        lambda *operands: bilinear_messages(*operands, scale=Fraction(1, 2)),
        [(2, 3), (3, 2), (2, 2)],
    ),
    "scores": (
        at_eps(rules.scores_epsilon, scale=SCALE), scores_messages, [(2, 3), (2, 3), (2, 2)],
    ),
    "value only": (
        at_eps(rules.value_only),
        lambda *operands: bilinear_messages(*operands, halves=1)[1:],
        [(2, 3), (3, 2), (2, 2)],
    ),
    "softmax": (rules.softmax_taylor, softmax_messages, [4, 4]),
    "held deviation": (
        at_eps(rules.held_deviation, layer_norm_eps=0.125), layer_norm_messages, [4, 4, 4, 4],
    ),
    "held root mean square": (
        at_eps(rules.held_root_mean_square, rms_norm_eps=0.125), rms_norm_messages, [4, 4, 4],
    ),
    "equal split": (
        lambda x, y, u, r: rules.equal_split((x, y, u), r),
        lambda x, y, u, r: [r / 3] * 3,
        [4, 4, 4, 4],
    ),
    "identity": (lambda x, r: rules.identity(r), lambda x, r: [r], [4, 4]),
    "identity layer norm": (lambda x, r: rules.identity_layer_norm(r), lambda x, r: [r], [4, 4]),
}  # fmt: skip
STABILISED = sorted(set(CASES) - {"softmax", "equal split", "identity", "identity layer norm"})


def points(name, *, count=40):
    rng = np.random.default_rng(0)
    shapes = CASES[name][2]
    drawn = [[rng.integers(-2, 3, shape).astype(float) for shape in shapes] for _ in range(count)]
    if name == "softmax":
        for z, r in drawn[::2]:  # every other row has a masked key
            z[1], r[1] = -np.inf, 0
        drawn += [[z + 1000, r] for z, r in drawn]  # exp overflows unless the maximum is taken out
    return drawn


def parts(relevance):
    return relevance if isinstance(relevance, (tuple, list)) else (relevance,)


def check_entries(name, rule):
    for operands in points(name):
        want = CASES[name][1](*map(rational, operands))
        for got, exact in zip(parts(rule(*operands)), want, strict=True):
            assert np.shape(got) == exact.shape
            np.testing.assert_allclose(got, exact.astype(float), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_every_entry_is_the_equation(name):
    check_entries(name, CASES[name][0])


WRONG_STABILISERS = {
    "without sign": lambda z, eps: z + eps,
    "doubled": lambda z, eps: z + 2 * eps * np.where(z >= 0, 1, -1),
    "missing": lambda z, eps: z,
    "sign(0) = 0": lambda z, eps: z + eps * np.sign(z),
    "sign(0) = -1": lambda z, eps: z + eps * np.where(z > 0, 1, -1),
    "opposite sign": lambda z, eps: z - eps * np.where(z >= 0, 1, -1),
}


# An output of RMSNorm has one input, which gets R z / (z + ...): at z = 0 nothing of either sign.
PLACES = [(name, wrong) for name in STABILISED for wrong in WRONG_STABILISERS]
PLACES.remove(("held root mean square", "sign(0) = -1"))


@pytest.mark.parametrize(("name", "wrong"), PLACES)
def test_a_wrong_stabiliser_is_rejected(name, wrong, monkeypatch):
    monkeypatch.setattr(rules, "stabilize", WRONG_STABILISERS[wrong])
    with pytest.raises(REJECTS):
        check_entries(name, CASES[name][0])


def scaled(name, factor):
    return lambda *operands: [factor * part for part in parts(CASES[name][0](*operands))]


def reversed_shares(name):
    return lambda *operands: [part[::-1] for part in parts(CASES[name][0](*operands))]


def split_by_magnitude(*operands_and_relevance):
    *operands, r = operands_and_relevance
    return [abs(x) * r / (sum(map(abs, operands)) + float(EPS)) for x in operands]


def product_rule(*, inside, outside):
    def rule(a, v, r):
        share = r / (outside * rules.stabilize(inside * (a @ v), float(EPS)))
        return a * (share @ v.T), v * (a.T @ share)

    return rule


def factors_exchanged(a, v, r):
    of_a, of_v = CASES["readout"][0](a, v, r)
    return of_v.T, of_a.T


def stabilised_before_scaling(q, k, r):
    share = r / (SCALE * rules.stabilize(2 * q @ k.T, float(EPS)))
    return SCALE * q * (share @ k), SCALE * k * (share.T @ q)


def softmax_gradient(z, r):
    a = rules.softmax(z)
    return a * (r - (a * r).sum())


def layer_norm_rule(*, hold_mean):
    """LayerNorm with the mean held as well, or with neither mean nor deviation held."""

    def rule(x, w, b, r):
        deviation = np.sqrt(x.var() + 0.125)
        normal = (x - x.mean()) / deviation
        g = w * r / rules.stabilize(normal * w + b, float(EPS))
        return x / deviation * (g if hold_mean else g - g.mean() - normal * (normal * g).mean())

    return rule


def rms_norm_gradient(x, w, r):
    rms = np.sqrt((x**2).mean() + 0.125)
    g = w * r / rules.stabilize(x / rms * w, float(EPS)) / rms
    return x * (g - x * (x * g).mean() / rms**2)


WRONG_RULES = {
    "epsilon": {
        "gradient x input": lambda x, w, b, r: x * (w @ r),
        "bias not in the denominator": CASES["epsilon without bias"][0],
        "bias shared out to the inputs": lambda x, w, b, r: CASES["epsilon"][0](x, w + b, 0 * b, r),
    },
    "epsilon without bias": {"bias in the denominator": CASES["epsilon"][0]},
    "add": {"split by magnitude": split_by_magnitude, "split evenly": CASES["equal split"][0]},
    "readout": {
        "not halved": scaled("readout", 2),
        "not halved before the stabiliser": product_rule(inside=1, outside=1),
        "halved after the stabiliser": product_rule(inside=1, outside=2),
        "gradient x input": lambda a, v, r: (a * (r @ v.T), v * (a.T @ r)),
        "factors exchanged": factors_exchanged,
    },
    "scores": {"stabilised before the scaling": stabilised_before_scaling},
    "value only": {"halved": scaled("value only", 0.5)},
    "softmax": {
        "conserving": lambda z, r: r,
        "gradient": softmax_gradient,
        "gradient x input": lambda z, r: np.where(np.isinf(z), 0, z) * softmax_gradient(z, r),
    },
    "held deviation": {
        "nothing held": layer_norm_rule(hold_mean=False),
        "mean held too": layer_norm_rule(hold_mean=True),
        "identity": lambda x, w, b, r: r,
    },
    "held root mean square": {
        "nothing held": rms_norm_gradient,
        "deviation in its place": lambda x, w, r: rules.held_deviation(
            x, w, 0 * x, r, layer_norm_eps=0.125, eps=float(EPS)
        ),
        "identity": lambda x, w, r: r,
    },
    "equal split": {"not divided": scaled("equal split", 3)},
}


WRONG = [(name, wrong) for name, table in WRONG_RULES.items() for wrong in table]


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_a_wrong_rule_is_rejected(name, wrong):
    with pytest.raises(REJECTS):
        check_entries(name, WRONG_RULES[name][wrong])


@pytest.mark.parametrize("name", CASES)
def test_permuted_shares_are_rejected(name):
    with pytest.raises(AssertionError):
        check_entries(name, reversed_shares(name))


def fraction_kept(numerator, z):
    return numerator / (z + float(EPS) * np.where(z >= 0, 1, -1))


def normal(x, w):
    return (x - x.mean()) / np.sqrt(x.var() + 0.125) * w


def scaled_by_rms(x, w):
    return x / np.sqrt((x**2).mean() + 0.125) * w


# What each input (or, where they sum up, all of them) keeps of the relevance; the rest is absorbed.
KEPT = {
    "epsilon": lambda x, w, b, r: [(r * fraction_kept(x @ w, x @ w + b)).sum()],
    "epsilon without bias": lambda x, w, b, r: [(r * fraction_kept(x @ w, x @ w)).sum()],
    "readout": lambda a, v, r: [(r * fraction_kept(a @ v, 2 * a @ v)).sum()] * 2,
    "scores": lambda q, k, r: [(r * fraction_kept(SCALE * q @ k.T, 2 * SCALE * q @ k.T)).sum()] * 2,
    "value only": lambda a, v, r: [(r * fraction_kept(a @ v, a @ v)).sum()],
    "add": lambda x, y, u, r: [(r * fraction_kept(o, x + y + u)).sum() for o in (x, y, u)],
    "softmax": lambda z, r: [
        sum(r[i] * (z[i] - rules.softmax(z)[~np.isinf(z)] @ z[~np.isinf(z)])
            for i in np.flatnonzero(~np.isinf(z)))
    ],
    "held deviation": lambda x, w, b, r: [
        (r * fraction_kept(normal(x, w), normal(x, w) + b)).sum()
    ],
    "held root mean square": lambda x, w, r: [
        (r * fraction_kept(scaled_by_rms(x, w), scaled_by_rms(x, w))).sum()
    ],
    "equal split": lambda x, y, u, r: [r.sum() / 3] * 3,
    "identity": lambda x, r: [r.sum()],
    "identity layer norm": lambda x, r: [r.sum()],
}  # fmt: skip


def check_totals(name, rule):
    for operands in points(name):
        got = [part.sum() for part in parts(rule(*operands))]
        np.testing.assert_allclose(got, KEPT[name](*operands), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", KEPT)
def test_the_totals_are_known_at_finite_eps(name):
    check_totals(name, CASES[name][0])


SAME_TOTALS = {("readout", "factors exchanged")}  # only the entries give it away


@pytest.mark.parametrize(("name", "wrong"), [pair for pair in WRONG if pair not in SAME_TOTALS])
def test_a_wrong_rule_has_wrong_totals(name, wrong):
    with pytest.raises(REJECTS):
        check_totals(name, WRONG_RULES[name][wrong])


def test_at_uniform_logits_the_softmax_rule_loses_everything():
    np.testing.assert_array_equal(rules.softmax_taylor(np.zeros(3), np.array([1.0, 2, 3])), 0)


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


def test_every_rule_name_but_gradient_has_a_function():
    named = {(kind, rule) for kind, names in kinds.RULES.items() for rule in names}
    assert {place for place in named if place[1] != kinds.GRADIENT} == set(RULES)


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

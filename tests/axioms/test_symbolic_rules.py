"""The further symbolic rules, entry by entry against their equations as loops over fractions.

Small integers at eps = 1/4: contributions of both signs and of 0 occur, and an output without any
positive one, so that every other convention gives different numbers.
"""

from fractions import Fraction
from itertools import product

import pytest
import sympy as sp

from axioms.algebra import norms, rules
from axioms.algebra.leave_one_out import leave_key_out

EPS = Fraction(1, 4)
X = [2, -1, 3]
W = [[1, -2, 1], [0, 1, -1], [1, -1, -1]]  # nothing positive reaches the second output
B = [1, -3, 2]
R = [3, 5, 7]
INPUTS, OUTPUTS = range(3), range(3)


def sign(z):
    return 1 if z >= 0 else -1


def matrix(rows):
    return sp.Matrix(rows)


def entries(matrix):
    return [Fraction(int(value.p), int(value.q)) for value in map(sp.nsimplify, matrix)]


def positive(c):
    return max(c, 0)


def negative(c):
    return min(c, 0)


def linear_messages(part, *, eps=EPS, bias=True):
    """Eq. 1 over ``part`` of every contribution c."""

    def message(i, j):
        z = sum(part(X[k] * W[k][j]) for k in INPUTS) + bias * part(B[j])
        return part(X[i] * W[i][j]) * R[j] / (z + eps * sign(z))

    return [sum(message(i, j) for j in OUTPUTS) for i in INPUTS]


def z_plus_messages(**options):
    return linear_messages(positive, **options)


def gamma_messages(strength=Fraction(1, 2), **options):
    return linear_messages(lambda c: c + strength * positive(c), **options)


def alpha_beta_messages(alpha=2, beta=1, below=negative):
    above, other = linear_messages(positive), linear_messages(below)
    return [alpha * p - beta * n for p, n in zip(above, other, strict=True)]


OPERANDS = [[2, -3, 0], [-1, -1, 0], [4, 2, -5]]


def add_messages(size=abs, eps=EPS):
    def message(x, n):
        return size(x[n]) * R[n] / (sum(size(y[n]) for y in OPERANDS) + eps)

    return [message(x, n) for x in OPERANDS for n in range(3)]


CHAIN = [[1, 2], [3, -1]], [[2, 1, 1], [1, 1, -1]], [[1], [-2], [3]]
CHAIN_R = [[3], [5]]


def chain_messages(n=3, stabiliser=1, eps=EPS):
    a, b, c = CHAIN
    received = {"a": {}, "b": {}, "c": {}}
    for j, k, i in product(range(2), range(2), range(3)):
        o = sum(a[j][s] * b[s][t] * c[t][0] for s, t in product(range(2), range(3)))
        z = n * o
        message = a[j][k] * b[k][i] * c[i][0] * CHAIN_R[j][0] / (z + stabiliser * eps * sign(z))
        for name, place in (("a", (j, k)), ("b", (k, i)), ("c", (i, 0))):
            received[name][place] = received[name].get(place, 0) + message
    return [received[name][place] for name in "abc" for place in sorted(received[name])]


EXP_Z, V = [1, 2, 5], [[1, 0], [3, -1], [-2, 4]]


def leave_key_out_messages(*, kept_total=False):
    def readout(keys, total):
        return [sum(EXP_Z[k] * V[k][p] for k in keys) / Fraction(total) for p in range(2)]

    everything = readout(range(3), sum(EXP_Z))
    found = []
    for i in range(3):
        keys = [k for k in range(3) if k != i]
        total = sum(EXP_Z) if kept_total else sum(EXP_Z[k] for k in keys)
        found += [o - w for o, w in zip(everything, readout(keys, total), strict=True)]
    return found


def given():
    x, w, b, r = matrix([X]), matrix(W), matrix([B]), matrix([R])
    layer = {"x": x, "w": w, "relevance": r, "eps": sp.Rational(1, 4), "bias": b}
    half = sp.Rational(1, 2)
    return {
        "z_plus": lambda: rules.z_plus(**layer)[0],
        "gamma": lambda: rules.gamma(**layer, strength=half)[0],
        "alpha_beta": lambda: rules.alpha_beta(**layer, alpha=2, beta=1)[0],
        "add_by_size": lambda: [
            e
            for part in rules.add_by_size(
                [matrix([row]) for row in OPERANDS], r, eps=sp.Rational(1, 4)
            )
            for e in part
        ],
        "chain_epsilon": lambda: [
            e
            for part in rules.chain_epsilon(
                tuple(map(matrix, CHAIN)), matrix(CHAIN_R), eps=sp.Rational(1, 4)
            )
            for e in part
        ],
        "leave_key_out": lambda: leave_key_out(matrix([EXP_Z]), matrix(V)),
    }


WANTED = {
    "z_plus": z_plus_messages,
    "gamma": gamma_messages,
    "alpha_beta": alpha_beta_messages,
    "add_by_size": add_messages,
    "chain_epsilon": chain_messages,
    "leave_key_out": leave_key_out_messages,
}


WRONG = {
    "z_plus": [
        lambda: z_plus_messages(bias=False),
        lambda: z_plus_messages(eps=2 * EPS),
        lambda: z_plus_messages(eps=-EPS),
        lambda: linear_messages(lambda c: c),
        lambda: linear_messages(abs),
    ],
    "gamma": [
        lambda: gamma_messages(bias=False),
        lambda: gamma_messages(eps=2 * EPS),
        lambda: gamma_messages(strength=0),
        lambda: gamma_messages(strength=1),
        lambda: linear_messages(lambda c: c + negative(c) / 2),
    ],
    "alpha_beta": [
        lambda: alpha_beta_messages(1, 0),
        lambda: alpha_beta_messages(2, -1),
        lambda: alpha_beta_messages(below=positive),
        lambda: alpha_beta_messages(below=lambda c: c),
    ],
    "add_by_size": [
        lambda: add_messages(eps=2 * EPS),
        lambda: add_messages(size=lambda x: x * x),
        lambda: add_messages(size=positive),
    ],
    "chain_epsilon": [
        lambda: chain_messages(n=2),
        lambda: chain_messages(n=1),
        lambda: chain_messages(stabiliser=3),
        lambda: chain_messages(stabiliser=-1),
        lambda: chain_messages(eps=0),
    ],
    "leave_key_out": [
        lambda: leave_key_out_messages(kept_total=True),
        lambda: [-value for value in leave_key_out_messages()],
    ],
}


@pytest.mark.parametrize("name", WANTED)
def test_a_rule_is_its_equation_entry_by_entry(name):
    assert entries(given()[name]()) == WANTED[name]()


@pytest.mark.parametrize(
    ("name", "k"), [(name, k) for name, wrong in WRONG.items() for k in range(len(wrong))]
)
def test_a_wrong_rule_is_rejected(name, k):
    found, wrong = entries(given()[name]()), WRONG[name][k]()
    assert len(found) == len(wrong)
    assert found != wrong


def test_every_rule_has_wrong_texts_to_reject():
    assert set(WANTED) == set(WRONG) == set(given())
    assert all(WRONG.values())


def test_a_product_of_two_matrices_is_eq_3():
    a, b, r = (sp.Matrix(value) for value in ([[1, 2]], [[3], [-1]], [[5]]))
    eps = sp.Rational(1, 4)
    assert rules.chain_epsilon((a, b), r, eps=eps) == rules.bilinear_epsilon(a, b, r, eps=eps)


REFUSED = {
    "an undecided sign": (
        lambda: rules.z_plus(sp.Matrix([[sp.Symbol("x")]]), sp.eye(1), sp.eye(1), eps=1),
        ValueError,
        "undecided",
    ),
    "no positive contribution at eps = 0": (
        lambda: rules.z_plus(-sp.eye(1), sp.eye(1), sp.eye(1), eps=0),
        ZeroDivisionError,
        "eps > 0",
    ),
    "a negative stabiliser": (
        lambda: rules.gamma(sp.eye(1), sp.eye(1), sp.eye(1), eps=-1, strength=1),
        ValueError,
        "must be >= 0",
    ),
    "one key, left out": (
        lambda: leave_key_out(sp.ones(1, 1), sp.ones(1, 1)),
        ValueError,
        "at least 2 keys",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_value_is_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_rms_norm_by_gradient_is_input_times_derivative_row_by_row():
    """Its own root mean squares, in two rows of different size; norm_eps is 0 unless given."""
    x, w, r = sp.Matrix([[1, 2], [7, 1]]), sp.Matrix([[3, 5]]), sp.Matrix([[1, 4], [2, 3]])
    a, b = sp.symbols("a b", positive=True)

    def expected(n, i, norm_eps):
        rms = sp.sqrt((a**2 + b**2) / 2 + norm_eps)
        z = [a * w[0] / rms, b * w[1] / rms]
        at = {a: x[n, 0], b: x[n, 1]}
        shares = (sp.diff(z[k], (a, b)[i]) * r[n, k] / z[k] for k in range(2))
        return sp.nsimplify((x[n, i] * sum(shares)).subs(at))

    for options, norm_eps in (({}, 0), ({"norm_eps": sp.Rational(1, 2)}, sp.Rational(1, 2))):
        (found,) = norms.rms_norm_gradient(x, w, r, **options)
        difference = found - sp.Matrix(2, 2, lambda n, i, e=norm_eps: expected(n, i, e))
        assert difference.applyfunc(sp.simplify) == sp.zeros(2, 2)


def test_a_held_root_mean_square_is_that_of_the_row_without_norm_eps():
    x, w, r = sp.Matrix([[1, 7]]), sp.Matrix([[3, 5]]), sp.Matrix([[2, 4]])  # rms is 5
    (found,) = norms.held_root_mean_square(x, w, r, eps=1)
    z = [sp.Rational(3, 5), sp.Integer(7)]
    assert found == sp.Matrix([[2 * z[0] / (z[0] + 1), 4 * z[1] / (z[1] + 1)]])

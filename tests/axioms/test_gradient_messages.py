"""Gradient x input as messages, for the kinds where it is no share, against loops in fractions."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from axioms.rules import norms
from axioms.rules.activations import activation_gradient


def exact(values):
    return sp.Matrix([[sp.Rational(v.numerator, v.denominator) for v in values]])


def layer_norm_loop(x, w, b, r):
    """By the quotient rule, from y = w (x - mean) / s + b with s^2 = var + h and s = 4."""
    n, s = len(x), 4
    mean = sum(x) / n
    out = [Fraction(0)] * n
    for k in range(n):
        y = w[k] * (x[k] - mean) / s + b[k]
        for i in range(n):
            top, bottom = (i == k) - Fraction(1, n), (x[i] - mean) / (n * s)
            slope = w[k] * (top * s - (x[k] - mean) * bottom) / s**2
            out[i] += x[i] * slope * r[k] / y
    return out


def cubic_loop(x, r):
    return [v * (3 * v**2 - 2) * s / (v**3 - 2 * v) for v, s in zip(x, r, strict=True)]


def layer_norm(x, w, b, r):
    mean = sum(x) / len(x)
    h = 16 - sum((v - mean) ** 2 for v in x) / len(x)
    norm_eps = sp.Rational(h.numerator, h.denominator)
    return norms.layer_norm_gradient(*map(exact, (x, w, b, r)), norm_eps=norm_eps)


def cubic(x, r):
    return activation_gradient(exact(x), lambda t: t**3 - 2 * t, exact(r))


CASES = {"LayerNorm": (layer_norm, layer_norm_loop, 4), "cubic": (cubic, cubic_loop, 2)}


def points(name):
    """Small integers that are not 0, and biases that keep the outputs of the norm off 0."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        drawn = rng.choice([-3, -2, -1, 1, 2, 3], size=(CASES[name][2], 3))
        operands = [[Fraction(int(v)) for v in row] for row in drawn]
        if name == "LayerNorm":
            operands[2] = [20 + v for v in operands[2]]
        yield operands


def check(name):
    """Raises AssertionError unless every entry is the fraction that the loop gives."""
    rule, loop, _ = CASES[name]
    for operands in points(name):
        (got,) = rule(*operands)
        assert got == exact(loop(*operands))


def check_defaults():
    """LayerNorm without a word on its stabiliser has none: at (-3, 3) the deviation is 3."""
    x, w, b, r = (sp.Matrix([v]) for v in ([-3, 3], [1, 2], [5, 7], [1, -2]))
    three = [sp.Integer(3)]
    held = norms.held_deviation(x, w, b, r, eps=0)
    assert held == norms.held_deviation(x, w, b, r, eps=0, deviation=three)
    slopes = norms.layer_norm_gradient(x, w, b, r)
    assert slopes == norms.layer_norm_gradient(x, w, b, r, deviation=three)
    assert held != slopes
    s = sp.Symbol("s", positive=True)  # a deviation by name, which 5 = sqrt(9 + 16) makes concrete
    (named,) = norms.layer_norm_gradient(x, w, b, r, deviation=[s])
    assert activation_gradient(x, abs, r) == (r,)  # x sign(x) / |x| = 1 on the reals
    assert named.subs(s, 5) == norms.layer_norm_gradient(x, w, b, r, norm_eps=16)[0]


def check_all():
    """Every case, and the defaults."""
    for name in CASES:
        check(name)
    check_defaults()


@pytest.mark.parametrize("name", CASES)
def test_every_message_is_the_fraction_of_its_loop(name):
    check(name)


def test_the_stabiliser_of_layer_norm_is_0_unless_given():
    check_defaults()

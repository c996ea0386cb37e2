"""The quick arithmetic of user's rules says of equality and signs what SymPy says."""

import itertools
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import isqrt, prod

import pytest
import sympy as sp

from axioms.algebra.decide import apart, identical
from axioms.algebra.propagate import ACTIVATIONS
from axioms.invariance import points
from axioms.invariance.scoreboard import FINITE, STABILISERS, lemma
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import NEAR_0, rewritten
from axioms.own_rules import steps, sweep
from axioms.own_rules.claims import same_in_every_case
from axioms.own_rules.messages import rule_set
from axioms.own_rules.quotients import (
    CASES,
    LARGE,
    ROOTS,
    VALUES,
    Quotient,
    Undecided,
    root,
    value_of,
)
from axioms.own_rules.rules import rule
from axioms.own_rules.signs import Sign, sign
from axioms.own_rules.steps import COMPUTED, Formula
from axioms.own_rules.verdicts import rewrites_of
from tests.support.own_rules import (
    eq3,
    eq5,
    gamma,
    halves,
    identity,
    positive,
    shares,
    value_only,
    w_square,
    with_bias,
)

X, Y, Z = symbols = sp.symbols("x y z", real=True)
x, y, z = numbers = tuple(map(Quotient.of, symbols))
EPS = STABILISERS[FINITE][0]


def random_expression(chance, depth):
    if not depth:
        return chance.choice((X, Y, Z, sp.Integer(chance.randint(1, 3))))
    one, other = (random_expression(chance, depth - 1) for _ in "ab")
    power = chance.choice((1, 2, -1))
    return chance.choice((one + other, one * other, one - other)) ** power if one != other else one


@pytest.mark.parametrize("seed", range(20))
def test_quotients_are_equal_where_sympy_says_so(seed):
    chance = random.Random(seed)
    one, other = (random_expression(chance, 3) for _ in "ab")
    sides = (one * (other + X), other * one + X * one, other * one + X * one + Y)
    try:
        same, expanded, another = Formula(symbols, list(sides)).at(numbers, Fraction(1))
    except (Undecided, ZeroDivisionError):
        assert any(identical(1 / p.base, 0) for s in sides for p in s.atoms(sp.Pow) if p.exp < 0)
        return
    assert not same - expanded
    assert bool(same - another)


def test_signs_have_two_values_and_those_of_a_multiple_are_known():
    assert not (x * y).sign() * (x * y).sign() - 1
    assert not (2 * x * Quotient.of(EPS)).sign() - x.sign()
    assert not (-x).sign() + x.sign()
    assert not ((x + y) * (x - y)).sign() - (x * x - y * y).sign()
    assert not abs(x * y) - abs(x) * abs(-y)
    assert (x + y).sign() - x.sign()
    assert x.sign() * y.sign() - (x * y).sign()  # not at x = 0
    assert (Quotient.of(EPS) * Quotient.of(EPS) + 1).sign().number == 1


P, Q = sp.symbols("p q", positive=True)
SIGNED = (X, Y, 1 / X, X**2 * Y, X * Y, X * P + Q, P - Q, P + Q, P - X)


def test_what_is_said_of_signs_holds_at_numbers():
    chance, of = random.Random(0), Formula((X, Y, P, Q), [*SIGNED])
    found = of.at([*map(Quotient.of, (X, Y, P, Q))], Fraction(1))
    points = [[*chance.sample((-3, -2, -1, 1, 2, 3), 2), *chance.sample(range(1, 6), 2)]
              for _ in range(50)]  # fmt: skip
    at = [[Fraction(value) for value in of.at([*map(Fraction, p)], Fraction(1))] for p in points]
    signs = [tuple(value > 0 for value in values) for values in zip(*at, strict=True)]
    for (one, sign_of_one), (other, sign_of_other) in itertools.product(
        zip(found, signs, strict=True), repeat=2
    ):
        same = not one.sign() - other.sign()
        assert same == (sign_of_one == sign_of_other)
        assert (not abs(one) - one) == all(sign_of_one)


def test_the_sign_of_a_product_is_that_of_what_it_multiplies_out_to():
    for a, b, c in itertools.product((-2, -1, 1, 2), repeat=3):
        product = (a * x + 1) * (b * y + c * z)
        multiplied_out = a * b * x * y + a * c * x * z + b * y + c * z
        assert product.powers != multiplied_out.powers
        assert not product.sign() - multiplied_out.sign()


@pytest.mark.parametrize("n", range(1, 5))
def test_one_case_of_the_signs_is_not_overlooked(n):
    symbols = [Quotient.of(sp.Symbol(f"u{k}", real=True)) for k in range(n)]
    for case in itertools.product((1, -1), repeat=n):
        one_case = prod(1 + c * s.sign() for c, s in zip(case, symbols, strict=True))
        assert not (x + one_case - x).is_zero()
        assert (one_case * one_case - 2**n * one_case).is_zero()
        assert x / (2**n + one_case)
        with pytest.raises(Undecided, match="0 for some signs"):
            x / (2**n - one_case)


def test_what_is_0_for_some_signs_has_no_sign_there():
    """sign(2 max(x, 0) y) is 1 where x < 0, and that of -y is not -1 times it."""
    with pytest.raises(Undecided):
        ((x + abs(x)) * y).sign()
    with pytest.raises(Undecided):
        (x - x).sign()


def test_limits_are_those_of_sympy_and_none_is_infinite():
    e = Quotient.of(NEAR_0)
    assert not ((x * e + y * e * e) / (e * z)).at_zero(NEAR_0) - x / z
    assert not (x * e / (y + e)).at_zero(NEAR_0)
    assert not ((x + e) / (y + e * z)).at_zero(NEAR_0) - x / y
    with pytest.raises(ZeroDivisionError):
        (x / e).at_zero(NEAR_0)
    with pytest.raises(Undecided):
        (x / (y + abs(y) + e)).at_zero(NEAR_0)


def test_roots_are_numbers():
    two, eight, third = root(Fraction(2)), root(Fraction(8)), root(Fraction(1, 3))
    assert root(Fraction(9, 4)) == Fraction(3, 2)
    assert not (1 + two) * (two - 1) - 1
    assert not third * third - Fraction(1, 3)
    assert (7 - 5 * two).sign().number == -1 == -(17 - 12 * two).sign().number
    assert not (eight - 2 * two).differs_from_zero()  # it is 0, and not found to be
    assert (eight - 2 * two + Fraction(1, 10**30)).differs_from_zero()
    assert not (x + two).differs_from_zero()
    with pytest.raises(Undecided):
        (eight - 2 * two).sign()
    with pytest.raises(Undecided):
        root(Fraction(-1))


def test_values_without_digits_are_equal_by_name_alone():
    one, two, again = (value_of("exp", v, positive=True) for v in (1, 2, Fraction(1)))
    assert (one - again).is_zero()
    for gap in (one - two, one * one - two):  # the second one is 0
        assert not gap.is_zero()
        assert not gap.differs_from_zero()
        with pytest.raises(Undecided):
            gap.sign()
    assert (one + two).sign().number == 1
    with pytest.raises(Undecided):
        value_of("slope of gelu", 1, positive=False).sign()
    assert value_of("exp", x, positive=False).sign().powers


def test_roots_of_unequal_values_are_unequal():
    values = (x, 2 * x, x * x, x * x + 1, x * x + 2, y)
    for one, other in itertools.combinations(values, 2):
        assert not (root(one) - root(other)).is_zero()
        assert not root(one * other) - root(other * one)


@pytest.mark.parametrize("function", COMPUTED)
def test_a_function_of_numbers_is_that_of_sympy(function):
    arguments = symbols[: 1 if function in (sp.Abs, Sign) else 2]
    for given in itertools.product(range(-2, 3), repeat=len(arguments)):
        found = Formula(arguments, function(*arguments)).at([*map(Fraction, given)], Fraction(1))
        assert found == function(*given)
    with pytest.raises(Undecided, match="the sign of 0 in the limit"):
        Formula((X,), Sign(X)).at([Fraction(0)], Fraction(0))


def test_more_signs_than_cases_are_undecided():
    signs = [Quotient.of(sp.Symbol(f"u{k}", real=True)).sign() for k in range(CASES + 1)]
    with pytest.raises(Undecided, match="signs in one divisor"):
        x / (2 ** len(signs) - prod(1 + s for s in signs))


def test_what_is_large_is_not_multiplied_out():
    total = sum(Quotient.of(sp.Symbol(f"u{k}", real=True)) for k in range(1 + isqrt(LARGE)))
    assert not total * total / total - total
    with pytest.raises(Undecided, match="more than"):
        total * total + 1


STATED = (halves, shares, with_bias, eq3, eq5, identity, value_only, positive, gamma)


@pytest.mark.parametrize("own", STATED, ids=lambda own: f"{own.kind}: {own.name}")
def test_the_sweep_gives_the_relevance_of_the_sweep_with_sympy(own):
    chance, known, compared = random.Random(0), rule_set(own), 0
    for name in rewrites_of(own.operations):
        template = TEMPLATES[name][-1]
        for graph in (template.root, *rewritten(name, template.root)):
            point = points.random_point(chance, template.generic)
            for eps in (0, sp.Rational(1, 4)):
                try:
                    found = sweep.explained(own, graph, point.rows, steps.number(sp.sympify(eps)))
                except (Undecided, ZeroDivisionError):
                    continue
                expected = known.explain(graph, point, eps=eps)
                for operand, matrix in expected.items():
                    values = [value(v) for row in found[operand] for v in row]
                    assert not any(itertools.starmap(apart, zip(values, matrix, strict=True)))
                    compared += 1
    assert compared >= 4


def value(found):
    """A Fraction, or a Quotient of roots and values of functions, as SymPy writes it."""
    if isinstance(found, int | Fraction):
        return sp.Rational(found.numerator, found.denominator)
    terms = (
        (sum(c * prod(map(number, m)) for m, c in factor), power)
        for factor, power in found.powers.items()
    )
    return value(Fraction(found.number)) * prod(base**power for base, power in terms)


def number(symbol):
    if symbol in ROOTS:
        return sp.sqrt(ROOTS[symbol])
    function, argument = VALUES[symbol]
    return ACTIVATIONS[function](value(argument))


@rule("add")
def nearly(x, y, z, R, eps):
    """It keeps what it gets, as the rule that it is close to, but sees the order."""
    share = R / (z + eps * sign(z))
    return x * share + eps * (x - y) * R / 10**9, y * share - eps * (x - y) * R / 10**9


@pytest.mark.parametrize("own", [nearly, shares, w_square], ids=lambda own: own.name)
def test_a_lemma_is_decided_as_by_sympy(own):
    quick, decided = rule_set(own), Counter()
    slow = replace(quick, compare=lambda *_: None)
    for name in rewrites_of(own.operations):
        for eps, _ in STABILISERS.values() if name in SOME else ():
            given = (name, TEMPLATES[name][0], eps)
            found, expected = (lemma(x, *given, same=same_in_every_case) for x in (quick, slow))
            assert found == expected, given
            decided[found] += 1
    assert len(decided) == 2


def of_the_same_name():
    @rule("add")
    def shares(x, y, z, R, eps):
        return R, 0 * R

    return shares


def test_two_rules_of_one_name_are_two_rules():
    given = ("commute sums", TEMPLATES["commute sums"][0], EPS)
    rules = (shares, of_the_same_name(), shares)
    assert [lemma(rule_set(own), *given) for own in rules] == [True, False, True]


SOME = {"commute sums", "re-associate sums", "distribute linear", "permute neurons", "add zero"}


@pytest.mark.parametrize(
    ("own", "name"),
    [(halves, "commute products"), (positive, "permute neurons"), (with_bias, "permute heads")],
)
def test_lemmas_are_proved_without_sympy(own, name):
    quick = replace(rule_set(own), composite=None)  # with which SymPy explains nothing
    assert lemma(quick, name, TEMPLATES[name][0], EPS)

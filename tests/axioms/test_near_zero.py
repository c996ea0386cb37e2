"""What is found at a point, in the limit eps -> 0 too, is what SymPy finds there."""

import itertools
import random
from collections import Counter
from fractions import Fraction

import pytest
import sympy as sp

from axioms.invariance.scoreboard import STABILISERS
from axioms.invariance.templates import TEMPLATES
from axioms.invariance.witness import NEAR_0, differ, explained, rewritten, searched_points
from axioms.own_rules.messages import rule_set
from axioms.own_rules.near_zero import EPS
from axioms.own_rules.quotients import Quotient, Undecided
from axioms.own_rules.signs import sign
from tests.support.own_rules import (
    alpha_beta_less_bias,
    halves,
    positive_weights,
    shares,
    unstabilised,
    with_bias,
)


def random_pair(chance, depth):
    """The same expression of eps, for SymPy and as a number near 0."""
    if not depth:
        number = Fraction(chance.randint(-3, 3), chance.randint(1, 3))
        both = sp.Rational(number.numerator, number.denominator), number + 0 * EPS
        return chance.choice((both, (NEAR_0, EPS)))
    (a, x), (b, y) = (random_pair(chance, depth - 1) for _ in "ab")
    power = chance.choice((-1, 2))
    operations = [(a + b, x + y), (a - b, x - y), (a * b, x * y)]
    if x:
        operations.append((a**power, x**power))
    if y:
        operations.append((a / b, x / y))
    return chance.choice(operations)


@pytest.mark.parametrize("seed", range(40))
def test_signs_and_limits_are_those_of_sympy(seed):
    expression, number = random_pair(random.Random(seed), 4)
    expression = sp.cancel(expression)
    assert number.sign() == sign(expression)
    assert bool(number) == (expression != 0)
    if (expected := sp.limit(expression, NEAR_0, 0)).is_infinite:
        with pytest.raises(ZeroDivisionError):
            number.limit()
    else:
        assert number.limit() == Fraction(int(expected.p), int(expected.q))


def test_the_small_number_is_above_0_and_below_all_fractions():
    tiny = Fraction(1, 10**40)
    assert 0 < EPS < tiny
    assert max(EPS, tiny) == tiny
    assert max(EPS, EPS * EPS, 0) is EPS
    assert abs(tiny * EPS - EPS).sign() == 1
    assert (tiny - 1 / EPS).sign() == -1
    with pytest.raises(ZeroDivisionError):
        EPS / (EPS - EPS)
    with pytest.raises(Undecided):
        EPS + Quotient.of(sp.Symbol("x", real=True))


NAMES = ["distribute linear", "fold batch norm", "permute neurons", "commute sums", "fold linear"]
NAMES += ["re-associate sums", "insert identity layer", "commute products", "distribute products"]
OWN = [with_bias, unstabilised, positive_weights, alpha_beta_less_bias, shares, halves]


@pytest.mark.parametrize("own", OWN, ids=lambda own: own.name)
def test_graphs_are_compared_at_a_point_as_by_sympy(own):
    known, compared = rule_set(own), Counter()
    for name, (_, eps) in itertools.product(NAMES, STABILISERS.values()):
        root = TEMPLATES[name][-1].root
        for point in itertools.chain(
            *(itertools.islice(p, 4) for p in searched_points(TEMPLATES[name][-1]))
        ):
            before = explained(known, root, point, eps)
            for other in rewritten(name, root):
                found = known.compare((root, other), point, eps, None)
                after = explained(known, other, point, eps)
                if before is None or after is None:
                    expected = "undefined"
                else:
                    apart = any(differ(before[x], after[x]) for x in before)
                    expected = "different" if apart else "equal"
                assert found in (expected, None), (name, eps, dict(point), str(other))
                compared[found] += 1
    assert compared[None] < 0.2 * compared.total()
    assert compared["equal"] > 20

"""Verdicts are for every number of inputs where the rule is one formula, and say so."""

import pytest

from axioms.own_rules import rule
from axioms.own_rules.properties import CONSERVES, claims
from axioms.own_rules.uniform import read, uniform
from axioms.own_rules.verdicts import verdict
from axioms.verdict import REFUTED
from tests.support.own_rules import LITERATURE, eq3, eq5, with_bias

FEW = "for 1, 2 and 3 inputs"
ANY = "for any number of inputs, if the formula goes on as for 1 to 10"


@rule("linear")
def half_to_each(x, w, b, z, R, eps):
    return [R / 2 for _ in x]


@rule("softmax")
def all_to_the_middle(z, a, R, eps):
    return [sum(R) if 2 * k + 1 == len(z) else 0 for k in range(len(z))]


@rule("linear")
def twice_to_many(x, w, b, z, R, eps):
    return [(2 if len(x) > 5 else 1) * r for r in with_bias.function(x, w, b, z, R, eps)]


def twice_to(n):
    @rule("softmax")
    def twice(z, a, R, eps):
        return [r * (2 if len(z) == n else 1) for r in R]

    return twice


@rule("linear")
def all_to_the_first(x, w, b, z, R, eps):
    return [R if k == 0 else 0 for k in range(len(x))]


@rule("linear")
def undefined_for_four(x, w, b, z, R, eps):
    return [R / len(x) * (len(x) - 4) / (len(x) - 4) if len(x) != 4 else 0 * R for _ in x]


@pytest.mark.parametrize(("own", "claim", "witness"), [
    (half_to_each, CONSERVES, "x = 1, w = 1, b = 1, R = 1: 1/2 versus 1"),
    (all_to_the_middle, CONSERVES, "z = [1 1]"),
    (twice_to_many, CONSERVES, "R = 1: 1/2 versus 1"),
    (twice_to(7), CONSERVES, "194 versus 97"),
    (undefined_for_four, CONSERVES, "0 versus"),
    (twice_to_many, "insert identity layer", "eps -> 0, a = "),
])  # fmt: skip
def test_what_fails_for_some_number_of_inputs_is_refuted(own, claim, witness):
    found = verdict(own, claim)
    assert found.status == REFUTED
    assert witness in found.witness


@pytest.mark.parametrize("n", range(1, 11))
def test_no_number_of_inputs_up_to_ten_is_left_out(n):
    assert verdict(twice_to(n), CONSERVES).status == REFUTED


@pytest.mark.parametrize("name", ["w_square", "flat", "epsilon", "alpha_2_beta_1", "gamma"])
def test_a_rule_that_goes_on_alike_is_one_formula_of_sums_and_of_the_number_of_inputs(name):
    assert read(LITERATURE[name])
    assert all(read(own) is None for own in (twice_to_many, twice_to(7), all_to_the_first))


def test_scopes_are_said_in_the_same_words_everywhere():
    order = "the same for inputs in another order"
    assert verdict(LITERATURE["epsilon"], order).scope == ANY
    assert verdict(all_to_the_first, CONSERVES).scope == FEW
    assert verdict(with_bias, "insert identity layer").scope.startswith("for 2 inputs, where")


def test_sums_over_all_inputs_are_those_of_the_operation():
    """The sum of x w is z - b, and attention has the sum 1."""
    ((arrived, total),) = uniform(claims("linear")[CONSERVES], with_bias).pairs()
    assert str(arrived) == "R*(-b + z)/(epsilon*Sign(z) + z)"
    assert str(total) == "R"
    ((arrived, total),) = uniform(claims("softmax")[CONSERVES], eq5).pairs()
    assert str(arrived - total) == "-sum of R*sum of a*z - sum of R + sum of R*z"
    ((arrived, _),) = uniform(claims("bilinear")[CONSERVES], eq3).pairs()
    assert str(arrived) == "2*R*o/(epsilon*Sign(o) + 2*o)"


def test_all_of_r_to_every_input_is_n_times_r():
    @rule("linear")
    def whole(x, w, b, z, R, eps):
        return [R for _ in x]

    ((arrived, total),) = uniform(claims("linear")[CONSERVES], whole).pairs()
    assert (str(arrived), str(total)) == ("R*n", "R")

"""``lrp-axioms search`` prints the rules, the verdict, and the template that it decides."""

import json

import pytest
import sympy as sp

from axioms import kinds
from axioms.search import solve
from axioms.search.confirm import Unconfirmed, confirm

NAMES = {name: sp.Symbol(name, real=True) for name in "xy"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["product", "conservation, leave-one-out of products"],
         "z3 proves that no rule of the template obeys the axioms, even at positive inputs alone."),
        (["product", "conservation", "freedom of units", "commute products"],
         "- x gets R/2, y gets R/2: equal shares\n"
         "z3 proves that no other rule of the template obeys the axioms.\n"),
        (["product", "conservation, distribute products"],
         "x·y: conservation, distribute products\n"  # and no list of some of them
         "The rules: x gets a*R, y gets b*R, for any numbers a and b with a + b = 1. "
         "z3 proves that no other rule of the template obeys the axioms."),
        (["product", "conservation, commute products"], "the template has more"),
        (["product", "conservation, re-associate products, conservation"],
         "x·y: conservation, re-associate products\n- x gets 0, y gets R: the last takes all\n"
         "- x gets R, y gets 0: the first takes all\n"
         "z3 proves that no rule of the template obeys the axioms but these 2."),
        (["product", "symmetry", "--degree", 3, "--limit", 1],
         "Undecided after 1 s: the template may have"),
        (["sum", "conservation, commute sums, re-associate sums"],
         "- x gets R*x/(x + y), y gets R*y/(x + y): as Eq. 1 shares a sum"),
        (["product", "re-associate products"],
         " where x > 0, y > 0"),
    ],
)  # fmt: skip
def test_an_answer_is_never_wider_than_its_template(run, call, says):
    code, out, err = run("search", *call)
    assert (code, err) == (0, "")
    one_line = lambda text: " ".join(text.split())
    assert one_line(says) in one_line(out)
    degree = call[-3] if "--degree" in call else 1
    assert f"homogeneous polynomials of degree {degree} in x" in one_line(out)
    assert "Rules of other forms are not decided." in one_line(out)


def test_data_has_the_rules_that_are_printed(run):
    code, out, _ = run("search", "product", "re-associate products", "--json")
    found = json.loads(out)
    assert (code, found["ends"], found["numbers"]) == (0, "all", [])
    assert len(found["rules"]) == 8
    for parts in found["rules"]:
        rule = {}
        for part in parts:
            shares = tuple(sp.sympify(part[name], NAMES) for name in "xy")
            for signs in part["signs"]:
                rule[tuple(1 if ">" in x else -1 for x in signs.split(","))] = shares
        assert len(rule) == 4
        confirm(kinds.PRODUCT, rule, found["axioms"])


def test_a_rule_that_is_not_confirmed_is_never_shown(run, monkeypatch):
    def refuse(*_):
        raise Unconfirmed("no")

    monkeypatch.setattr(solve, "confirm", refuse)
    with pytest.raises(Unconfirmed):
        run("search", "product", "leave-one-out of products")

"""The page of axioms is up to date, and lists all sets of axioms that exclude each other."""

import itertools
import random
from unittest import mock

import pytest
import sympy as sp

from axioms.decide.denotation import same_value
from axioms.decide.identity import generic
from axioms.graph import leaf
from axioms.rules import attention
from axioms.scoreboard.axiom_cells import AXIOMS as NO_REWRITES
from axioms.scoreboard.axiom_cells import (
    BY_GRADIENT,
    FUNCTIONALS,
    LOCALITY,
    Decided,
    by_rules,
    decide_axiom,
)
from axioms.scoreboard.rule_sets import RULE_SETS
from axioms.scoreboard.scoreboard import OPEN, PROVED, REFUTED
from axioms.theorems.axiom_rules import AXIOM_RULES, EQUAL, by_logarithms, logarithm
from axioms.theorems.axiom_sets import largest, largest_without, smallest, smallest_not_had
from website.axiom_table import (
    AXIOMS,
    EXCLUDED,
    METHODS,
    PAGE,
    SCOREBOARD,
    excluded_as_markdown,
    filled,
    from_scoreboard,
    obeyed,
    table,
)


@pytest.fixture(scope="module")
def cells():
    return table(SCOREBOARD.read_text("utf-8"))


def test_the_page_is_what_is_computed(cells):
    page = PAGE.read_text("utf-8")
    said = "docs/AXIOMS.md: run `python -m website.axiom_table`, which writes it"
    assert filled(page, cells) == page, said
    assert filled(page.replace("| ✓", "| x"), cells) == page


def test_the_excluded_sets_are_all_that_no_method_obeys(cells):
    holds, axioms = obeyed(cells).values(), frozenset(AXIOMS)
    assert smallest_not_had(holds, axioms) == set(EXCLUDED)
    assert largest(holds) == largest_without(EXCLUDED, axioms)
    assert len(AXIOMS) == 37
    assert len(cells) == 37 * len(METHODS)


def test_what_is_not_had_and_has_no_theorem_is_an_error(cells):
    weaker = dict(cells)
    weaker["commute sums", "leave-one-out"] = Decided(verdict=OPEN)
    with pytest.raises(
        ValueError, match="leave-one-out of attention, commute sums, duplicate keys"
    ):
        excluded_as_markdown(weaker)


def test_every_axiom_that_is_no_rewrite_holds_for_some_methods_and_not_for_others(cells):
    for axiom in NO_REWRITES:
        verdicts = [cells[axiom, method].verdict for method in METHODS]
        assert verdicts.count(PROVED) > 1
        assert verdicts.count(REFUTED) > 0
        assert OPEN not in verdicts
        assert all(
            bool(cells[axiom, x].witness) == (cells[axiom, x].verdict == REFUTED) for x in METHODS
        )


def test_the_scoreboard_is_read_by_its_first_marks():
    found = from_scoreboard(SCOREBOARD.read_text("utf-8"))
    assert found["re-associate sums", "AttnLRP"].verdict == PROVED  # ✓ / ✗
    assert found["re-associate products", "AttnLRP"].verdict == REFUTED
    assert found["duplicate keys", "mask relevance"].verdict == REFUTED
    assert len(found) == 23 * 11 + 8 * 6


def test_a_rule_that_looks_beyond_its_operation_is_not_local():
    canonized = next(rules for rules in RULE_SETS if rules.prepare)
    assert decide_axiom(LOCALITY, by_rules(canonized)).verdict == REFUTED
    assert decide_axiom(LOCALITY, by_rules(EQUAL)).verdict == PROVED


def test_a_key_has_what_its_logit_and_its_value_receive():
    z, v, c = generic("z", 1, 3), generic("v", 3, 1), sp.Symbol("c", positive=True)
    a = attention.softmax(z)
    output = (a * v)[0]
    by_gradient = [a[i] * (v[i] + z[i] * (v[i] - output)) for i in range(3)]
    assert same_value(BY_GRADIENT.of_keys(z, v), sp.Matrix(by_gradient))
    alone = [(output - a[i] * v[i]) / (1 - a[i]) for i in range(3)]
    for name in ("leave-one-out", "mask relevance"):
        effects = FUNCTIONALS[name].of_keys(z, v)
        assert same_value(effects, sp.Matrix([output - x for x in alone]))
    equal = sp.Matrix([[c, c]])
    found = FUNCTIONALS["Integrated Gradients"].of_keys(equal, sp.Matrix([1, 3]))
    assert same_value(found, sp.Matrix([sp.Rational(1, 2) - c / 4, sp.Rational(3, 2) + c / 4]))


@pytest.mark.parametrize("rules", AXIOM_RULES, ids=lambda rules: rules.name)
def test_a_matrix_product_gives_all_to_its_first_factor(rules):
    a, v, r = generic("a", 2, 3), generic("v", 3, 4), generic("r", 2, 4)
    found = rules.explain(leaf("a") @ leaf("v"), {"a": a, "v": v}, eps=0, relevance=r)
    share = r.multiply_elementwise((a * v).applyfunc(lambda x: 1 / x))
    assert same_value(found["a"], a.multiply_elementwise(share * v.T))
    assert found["v"] == sp.zeros(3, 4)


def test_logarithms_of_sizes_turn_products_into_sums():
    x, y = sp.symbols("x y", real=True)
    parts = (x, x - y, x**2 + y, 1 / (x + 2), sp.Integer(-6), sp.Rational(1, 3))
    for one, other in itertools.product(parts, repeat=2):
        assert sp.expand(logarithm(one * other) - logarithm(one) - logarithm(other)) == 0
        assert logarithm(-one) == logarithm(one)
        assert logarithm(one**3) == sp.expand(3 * logarithm(one))
    assert len({logarithm(part) for part in parts}) == len(parts)
    for factors in ([sp.sqrt(x**2 + 1), y], [sp.sqrt(x**2 + 1), x, y], [x * y, y]):
        found = by_logarithms(factors)
        assert len(found) == len(factors)
        assert same_value(sum(found), 1)
    with pytest.raises(ZeroDivisionError, match="can share nothing out"):
        by_logarithms([sp.Integer(-6), sp.Rational(1, 2), sp.Rational(1, 3)])


AT_ONE_POINT = {  # x is 2, 3 and 4 there, z is 0 and 0, and v is 1 and 3
    "x0": lambda x, z, v: x[0] - 2,
    "x1": lambda x, z, v: x[1] - x[0] - 1,
    "x alike": lambda x, z, v: (x[0] - x[1]) * (x[1] - x[2]) * (x[0] - 2),
    "logits": lambda x, z, v: z[0] - z[1],
    "values": lambda x, z, v: v[1] - 3 * v[0],
}


@pytest.mark.parametrize("name", AT_ONE_POINT)
def test_an_axiom_is_proved_by_all_of_its_claims_in_general(name):
    def claims(method, at, row):
        yield "nothing", at["x0"], at["x0"]
        yield name, AT_ONE_POINT[name]([*at.values()], *row), 0 * at["x0"]

    def verdict(claims):
        with mock.patch.dict(NO_REWRITES, {LOCALITY: claims}):
            return decide_axiom(LOCALITY, by_rules(EQUAL)).verdict

    assert verdict(claims) == OPEN
    assert verdict(lambda *given: [*claims(*given)][:1]) == PROVED
    assert verdict(lambda *given: []) == OPEN


def every(axioms):
    return [
        frozenset(chosen)
        for n in range(len(axioms) + 1)
        for chosen in itertools.combinations(axioms, n)
    ]


def test_the_enumerators_find_what_a_look_at_every_set_finds():
    chance, axioms = random.Random(0), "abcdef"
    for _ in range(60):
        sets = [frozenset(chance.sample(axioms, chance.randint(0, 6))) for _ in range(4)]
        had = [x for x in every(axioms) if any(x <= holds for holds in sets)]
        free = [x for x in every(axioms) if not any(bad <= x for bad in sets)]
        assert smallest_not_had(sets, frozenset(axioms)) == smallest(set(every(axioms)) - set(had))
        assert largest_without(sets, frozenset(axioms)) == largest(free)
    assert largest(map(frozenset, ("a", "ab", "c"))) == {frozenset("ab"), frozenset("c")}
    assert smallest(map(frozenset, ("a", "ab", "c"))) == {frozenset("a"), frozenset("c")}

"""The search finds all rules of a template and no others, and sees when an axiom is weaker."""

from dataclasses import replace
from unittest import mock

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.own_rules.rules import Rule
from axioms.own_rules.verdicts import judge
from axioms.search.confirm import Unconfirmed, confirm
from axioms.search.solve import ALL, MORE, UNDECIDED, _System, search
from axioms.search.templates import AXIOMS, QUADRANTS, Template
from axioms.search.words import by_shares
from axioms.theorems.excluded import EXCLUDED
from axioms.verdict import IN_LIMIT, PROVED

X, Y = sp.symbols("x y", real=True)
C, S, U, ONE = "conservation", "symmetry", "freedom of units", "multiply by one"
K, A, D = "commute products", "re-associate products", "distribute products"
NOTHING, LAST, FIRST, HALVES, BOTH = "0 0", "0 1", "1 0", "1/2 1/2", "1 1"
EQ_1 = "x/(x + y) y/(x + y)"
ANSWERS = {
    (C, "leave-one-out of products"): [],
    (C, S): [],
    (C, K, A): [],
    (C, U, K, ONE): [],
    (C, U, K): [HALVES],
    (C, D, K): [HALVES],
    (C, U, A): [LAST, FIRST],
    (C, A): [LAST, FIRST],
    (C, A, ONE): [FIRST],
    (C, U, ONE): [FIRST],
    (S, U): [NOTHING, BOTH],
    (K, A): [NOTHING, BOTH],
    (U, A): [NOTHING, LAST, FIRST, BOTH],
    (D, A): [NOTHING, LAST, FIRST, BOTH],
    ("factor sums", A): [NOTHING, LAST, FIRST, BOTH],
    (U, K, A): [NOTHING, BOTH],
    ("leave-one-out of products",): [BOTH],
    (C, "re-associate sums", "commute sums"): [EQ_1],
    (C, "re-associate sums"): [LAST, FIRST, EQ_1],
    (C, "re-associate sums", "add zero"): [FIRST, EQ_1],
}
"""Axioms -> all rules of degree 1 that obey them."""
ABOUT_PRODUCTS = [x for x in EXCLUDED if x <= AXIOMS[kinds.PRODUCT].keys()]


def operation(axioms):
    return kinds.PRODUCT if AXIOMS[kinds.PRODUCT].keys() >= {*axioms} else kinds.ADD


def shares(found):
    """The shares of every rule that is one formula."""
    return [" ".join(map(str, *by_shares(rule))) for rule in found.rules]


@pytest.mark.parametrize("axioms", ANSWERS, ids=", ".join)
def test_all_rules_are_found(axioms):
    found = search(Template(operation(axioms)), axioms)
    assert (shares(found), found.ends, found.numbers) == (ANSWERS[axioms], ALL, [])


@pytest.mark.parametrize("degree", [0, 1, 3])  # the page has 2
def test_the_excluded_sets_of_the_page_have_no_rule(degree):
    assert len(ABOUT_PRODUCTS) == 10
    for axioms in ABOUT_PRODUCTS:
        found = search(Template(degree=degree), axioms)
        assert (found.rules, found.ends) == ([], ALL)


@pytest.mark.parametrize("degree", [1, 2])
def test_groebner_bases_say_so_without_z3(degree):
    """The ideal of the equations holds 1: they have no complex solution either."""
    template = Template(degree=degree, signs=False)
    *_, q = template.part([c.as_expr() for c in template.unknowns], (1, 1))
    t = sp.Symbol("t")  # 1 / Q at equal factors, where symmetry asks for shares
    for axioms in ABOUT_PRODUCTS:
        asked = [AXIOMS[kinds.PRODUCT][name] for name in axioms]
        equations = [e.as_expr() for e in _System.of(template, asked, 0).equations]
        equations += [t * sum(q) - 1] if S in axioms else []
        for case in range(degree + 1):
            at = {q[n]: int(n == case) for n in range(case + 1)}
            given = [e.subs(at) for e in equations]
            names = sorted(set().union(*(e.free_symbols for e in given)), key=str)
            assert sp.groebner(given, *names, order="grevlex").exprs == [1]


@pytest.mark.parametrize("axioms", [(C, D), (C, U), (C, "factor sums")])
def test_one_share_for_all_products_is_left_as_theorem_67_says(axioms):
    found = search(Template(degree=2), axioms)
    assert (found.ends, str(found.numbers)) == (MORE, "[a + b - 1]")


@settings(max_examples=15)
@given(st.fractions(-9, 9), st.fractions(-9, 9))
def test_what_is_confirmed_is_what_the_family_says(a, b):
    rule = dict.fromkeys(QUADRANTS, (sp.Rational(a), sp.Rational(b)))
    confirm(kinds.PRODUCT, dict.fromkeys(QUADRANTS, (sp.Rational(a), sp.Rational(1 - a))), [C, D])
    if a + b != 1:
        with pytest.raises(Unconfirmed, match=C):
            confirm(kinds.PRODUCT, rule, [C, D])


def as_own(kind, shares):
    of = [[sp.lambdify((X, Y), part) for part in sp.fraction(share)] for share in shares]
    return Rule(
        kind, lambda x, y, z, R, eps: [R * above(x, y) / below(x, y) for above, below in of], "a:1"
    )


@pytest.mark.parametrize("axioms", [(C, U, A), (C, U, K), (U, K, A), (C, "re-associate sums")])
def test_the_judge_of_rules_says_the_same(axioms):
    kind = operation(axioms)
    said = {C: "conserves relevance", U: "the same for x y and (c x) (y / c), c > 0"}
    for rule in search(Template(kind), axioms).rules:
        verdicts = {v.claim: v.status for v in judge(as_own(kind, rule[1, 1]))}
        for axiom in axioms:
            claim = said.get(axiom, f"the same if you {axiom}")
            assert verdicts[claim] in (PROVED, IN_LIMIT), (rule, axiom)


def test_signs_make_rules_that_positive_inputs_do_not_show():
    plain = search(Template(signs=False), [A])
    assert (shares(plain), plain.ends) == ([NOTHING, LAST, FIRST, BOTH], ALL)
    found = search(Template(), [A])
    assert (found.ends, len(found.rules)) == (ALL, 8)
    assert sum(len(by_shares(rule)) > 1 for rule in found.rules) == 4


def test_time_that_is_up_decides_nothing():
    found = search(Template(degree=3), [S], seconds=0.01)
    assert (found.rules, found.ends) == ([], UNDECIDED)


WEAKER = [
    (C, 0), (S, None), (U, 1), (U, 2), ("leave-one-out of products", 0), (K, 0), (A, 0), (A, 2),
    ("leave-one-out of products", 1), (D, 1), (D, 3), ("factor sums", 1), (ONE, 0),
    ("commute sums", 0), ("re-associate sums", None), ("add zero", 0),
]  # fmt: skip
"""Axiom, and an identity without which an answer above changes, or None for all identities."""


def answer(template, axioms):
    try:
        found = search(template, axioms, seconds=10)
    except Unconfirmed:
        return None
    return shares(found), found.ends


@pytest.mark.parametrize(("name", "n"), WEAKER)
def test_an_axiom_that_lacks_an_identity_is_noticed(name, n):
    template = Template(operation([name]), signs=name in (U, D, "factor sums"))
    of = AXIOMS[template.operation]
    whole = of[name].identities
    lacks = lambda *at: (x for m, x in enumerate(whole(*at)) if n not in (m, None))
    sets = [x for x in ANSWERS if name in x and operation(x) == template.operation]
    with mock.patch.dict(of, {name: replace(of[name], identities=lacks)}):
        assert any(answer(template, x) != (ANSWERS[x], ALL) for x in sets)

"""Symbols are written as in the paper, and a formula too wide for a page is broken."""

import pytest
import sympy as sp

from axioms.decide.identity import generic, identical
from axioms.graph import leaf, parameter
from axioms.pages.abbreviations import Abbreviations
from axioms.pages.display import WIDTH, array, displayed, width
from axioms.pages.notation import notation
from axioms.pages.origins import written
from tests.axioms.test_show import check_latex

X, W, E = generic("x", 1, 3), generic("w", 2, 2), generic("e", 1, 2, positive=True)


def names(*words, capitals=False):
    symbols = [sp.Symbol(word) for word in words]
    found = notation(symbols, capitals=capitals)
    return [(found.of(x).text, found.of(x).latex) for x in symbols]


@pytest.mark.parametrize(("words", "written"), [
    (["x00", "x01"], [("x1", "x_{1}"), ("x2", "x_{2}")]),
    (["v00", "v10"], [("v1", "v_{1}"), ("v2", "v_{2}")]),
    (["w00", "w11"], [("w11", "w_{11}"), ("w22", "w_{22}")]),
    (["w01", "w10"], [("w12", "w_{12}"), ("w21", "w_{21}")]),
    (["x1", "x2"], [("x1", "x_{1}"), ("x2", "x_{2}")]),
    (["c0", "c1"], [("c1", "c_{1}"), ("c2", "c_{2}")]),
    (["r00", "epsilon"], [("R", "R"), ("epsilon", r"\varepsilon")]),
    (["exp_c", "exp_minus_c"], [("exp(c)", r"\exp(c)"), ("exp(-c)", r"\exp(-c)")]),
    (["log_t", "log_x00"], [("log(t)", r"\log(t)"), ("log(x)", r"\log(x)")]),
    (["z00", "R_z00"], [("z", "z"), ("R_z", "R_{z}")]),
    (["v0_00", "v0_11"], [("v0_11", "v_{0,11}"), ("v0_22", "v_{0,22}")]),
    (["w100", "w111"], [("w1_11", "w_{1,11}"), ("w1_22", "w_{1,22}")]),
    (["w_now", "w_A"], [("w_now", r"w_{\mathrm{now}}"), ("w_A", r"w_{\mathrm{A}}")]),
    (["a00", "a"], [("a00", r"a_{00}"), ("a", "a")]),  # both would be a
])  # fmt: skip
def test_indices_count_from_1_and_vectors_have_one(words, written):
    assert names(*words) == written


def test_a_derivation_has_the_matrices_of_the_paper():
    found = names("a00", "a01", "w00", "w10", "b00", capitals=True)
    assert [text for text, _ in found] == ["A11", "A12", "W11", "W21", "b"]


def test_words_of_a_sentence_are_named_as_the_formulas_are():
    found = notation([*X, *W])
    assert found.words("w10 is negative, and x is x00") == "w21 is negative, and x is x1"
    assert found.latex(sp.erf(X[0])) == r"\mathrm{erf}{\left(x_{1} \right)}"
    assert found.text(sp.Eq(X[0] ** 2, W[0, 1], evaluate=False)) == "x1^2 = w12"


LONG = sp.Add(*(W[i, j] * x**n for i in (0, 1) for j in (0, 1) for x in X for n in (1, 2)))


def test_a_wide_formula_has_several_rows():
    found = notation([*X, *W, *E])
    narrow, long = (sp.Eq(X[0], side, evaluate=False) for side in (X[1] + X[2], LONG))
    assert displayed(found, narrow) == ["x_{1} = x_{2} + x_{3}"]
    rows = displayed(found, long)
    assert len(rows) >= 3
    assert max(map(width, rows)) <= WIDTH
    for relation in (narrow, long, sp.Ne(X[0], 1 / LONG)):
        check_latex(rf"\[ {array(displayed(found, relation))} \]")


@pytest.mark.parametrize(("source", "letters"), [
    ("x_{1} = x_{2}", 1.75 + 2.4 + 1.75),
    (r"\frac{x\,y}{z}", 2.9),
    (r"R^{(1)}_{x_{1}}", 1 + 0.75 * 2.6),
    (r"\log{\left(a \right)}", 3 + 2.6),
])  # fmt: skip
def test_a_formula_is_about_as_wide_as_its_letters(source, letters):
    assert width(source) == pytest.approx(letters)


def test_a_sum_that_is_too_wide_for_its_term_has_a_name_wherever_it_is():
    parts = Abbreviations(notation([*X, *W, *E]))
    wide = [sp.Eq(x, X[1] / (LONG + 1) * x, evaluate=False) for x in X]
    shown = [parts.short(relation) for relation in wide]
    (definition,) = parts.definitions()
    assert [parts.named().text(x.rhs) for x in shown] == ["x1*x2/D1", "x2^2/D1", "x2*x3/D1"]
    assert parts.named().latex(definition).startswith("D_{1} = ")
    assert all(
        identical(x.rhs.xreplace({definition.lhs: definition.rhs}), y.rhs)
        for x, y in zip(shown, wide, strict=True)
    )


def test_a_part_has_one_name_however_often_it_comes_to_light():
    inner, others = sp.Add(*X, LONG), [sp.Add(*(LONG * x for x in X), n) for n in range(1, 5)]
    parts = Abbreviations(notation([*X, *W, *E]))
    whole = [sp.Eq(X[0], x / (inner + x), evaluate=False) for x in others]
    shown = [parts.short(relation) for relation in whole]
    given = {x.lhs: x.rhs for x in parts.definitions()}
    names = [parts.named().text(x) for x in given]
    assert names == [f"D{n}" for n in range(1, len(names) + 1)]
    for one, other in zip(shown, whole, strict=True):
        right = one.rhs
        while right.free_symbols & given.keys():
            right = right.xreplace(given)
        assert identical(right, other.rhs)


def test_a_relevance_from_several_outputs_is_the_sum_of_its_messages():
    outputs = [sp.Symbol(f"R{n}") for n in (1, 2)]
    terms = [r * x / (LONG + 1) for r, x in zip(outputs, X, strict=False)]
    parts = Abbreviations(notation([*X, *W, *outputs, sp.Symbol("R_x00")]))
    whole = sp.Eq(sp.Symbol("R_x00"), sum(terms), evaluate=False)
    total, *messages = parts.by_messages(whole)
    assert parts.named().text(total) == "R_x1 = R_x1<-1 + R_x1<-2"
    assert parts.named().latex(messages[0].lhs) == r"R_{x_{1}\leftarrow 1}"
    assert [message.rhs for message in messages] == terms
    mixed = sp.Eq(whole.lhs, whole.rhs + outputs[0] * outputs[1], evaluate=False)
    for relation in (mixed, sp.Eq(whole.lhs, sum(outputs), evaluate=False), whole.reversed):
        assert parts.by_messages(relation) == [relation]


def test_both_values_stand_between_the_sides_once():
    found = notation(X)
    shown = displayed(found, sp.Ne(X[0], X[1], evaluate=False), values=(sp.S(6), sp.S(12)))
    assert shown == [r"x_{1} = 6 \neq 12 = x_{2}"]
    shown = displayed(found, sp.Ne(sp.S(0), X[1], evaluate=False), values=(sp.S(0), sp.S(3)))
    assert shown == [r"0 \neq 3 = x_{2}"]


def test_networks_are_written_with_the_brackets_that_they_have():
    a, b, c, w = leaf("a"), leaf("b"), leaf("c"), parameter("W")
    assert written((a * b) * c) == "(a b) c"
    assert written((a + b) * c + a) == "(a + b) c + a"
    assert written(a @ w) == "a W"

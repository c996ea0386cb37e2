"""Symbols are written as in the paper, and what is too wide for a page is broken."""

import pytest
import sympy as sp

from axioms.algebra.decide import generic
from axioms.graph import leaf, parameter
from axioms.proofs.display import WIDTH, displayed
from axioms.proofs.notation import notation
from axioms.proofs.origins import written
from tests.axioms.test_show import check_latex

X, W, E = generic("x", 1, 3), generic("w", 2, 2), generic("e", 1, 2, positive=True)


def names(*words, capitals=False):
    symbols = [sp.Symbol(word) for word in words]
    found = notation(symbols, capitals=capitals)
    return [(found.of(x).text, found.of(x).latex) for x in symbols]


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["x00", "x01"], [("x1", "x_{1}"), ("x2", "x_{2}")]),
        (["v00", "v10"], [("v1", "v_{1}"), ("v2", "v_{2}")]),
        (["w00", "w11"], [("w11", "w_{11}"), ("w22", "w_{22}")]),
        (["x1", "x2"], [("x1", "x_{1}"), ("x2", "x_{2}")]),
        (["c0", "c1"], [("c1", "c_{1}"), ("c2", "c_{2}")]),
        (["r00", "epsilon"], [("R", "R"), ("epsilon", r"\varepsilon")]),
        (["exp_c", "exp_minus_c"], [("exp(c)", r"\exp(c)"), ("exp(-c)", r"\exp(-c)")]),
        (["z00", "R_z00"], [("z", "z"), ("R_z", "R_{z}")]),
        (["v0_00", "v0_11"], [("v0_11", "v_{0,11}"), ("v0_22", "v_{0,22}")]),
        (["w100", "w111"], [("w1_11", "w_{1,11}"), ("w1_22", "w_{1,22}")]),
        (["a00", "a"], [("a00", r"a_{00}"), ("a", "a")]),  # both would be a
    ],
)
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


def test_a_wide_formula_has_several_rows_and_a_wide_sum_a_name():
    found = notation([*X, *W, *E])
    narrow = sp.Eq(X[0], X[1] + X[2], evaluate=False)
    assert displayed(found, narrow) == "x_{1} = x_{2} + x_{3}"
    long = sp.Add(*(W[i, j] * x**n for i in (0, 1) for j in (0, 1) for x in X for n in (1, 2)))
    rows = displayed(found, sp.Eq(X[0], long, evaluate=False)).split(r"\\[2ex]")
    assert len(rows) >= 3
    assert max(len(row.replace("{", "").replace("}", "")) for row in rows) < 3 * WIDTH
    wide = displayed(found, sp.Eq(X[0], X[1] / (long + 1), evaluate=False))
    assert r"\frac{x_{2}}{D_{1}}" in wide
    assert "D_{1} = " in wide
    for source in (narrow, sp.Eq(X[0], long, evaluate=False), sp.Ne(X[0], 1 / long)):
        check_latex(rf"\[ {displayed(found, source)} \]")


def test_both_values_stand_between_the_sides_once():
    found = notation(X)
    shown = displayed(found, sp.Ne(X[0], X[1], evaluate=False), values=(sp.S(6), sp.S(12)))
    assert shown == r"x_{1} = 6 \neq 12 = x_{2}"
    shown = displayed(found, sp.Ne(sp.S(0), X[1], evaluate=False), values=(sp.S(0), sp.S(3)))
    assert shown == r"0 \neq 3 = x_{2}"


def test_networks_are_written_with_the_brackets_that_they_have():
    a, b, c, w = leaf("a"), leaf("b"), leaf("c"), parameter("W")
    assert written((a * b) * c) == "(a b) c"
    assert written((a + b) * c + a) == "(a + b) c + a"
    assert written(a @ w) == "a W"

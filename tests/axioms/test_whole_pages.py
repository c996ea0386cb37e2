"""A whole page of small theorems is compared word by word."""

import re
from unittest import mock

import pytest

from axioms.evidence import statements
from axioms.pages import show

THEOREMS = '''
"""Sums, products and their relevance.

A sum passes on what arrives.

    z = x + y
"""

import pytest
import sympy as sp

from axioms.decide.identity import differ_at, generic, identical, limit, sign_cases
from axioms.rules.effects import integrated_gradients, leave_one_out, mask_relevance, shapley
from axioms.rules.propagate import explain
from axioms.rules.attention import taylor
from axioms.rules.linear import add, epsilon
from axioms.rules.products import bilinear_epsilon, equal_split
from axioms.composites import ATTNLRP
from axioms.graph import leaf

EPS = sp.Symbol("epsilon", positive=True)
X, Y, Z = sp.symbols("x y z", positive=True)


@pytest.mark.theorem(90, "All bracketings give one relevance.", "refuted")
def test_brackets(record_property):
    a, b, c = map(leaf, "abc")
    at = {"a": X, "b": Y, "c": Z}
    left, right = (explain(g, at, ATTNLRP) for g in ((a * b) * c, a * (b * c)))
    assert differ_at(left["a"], right["a"], {X: 2, Y: 3, Z: 4})
    assert differ_at(left["c"], right["c"], {X: 1, Y: 3, Z: 4})
    record_property("witness", "the first of three, where x = 2: 6 versus 12")


@pytest.mark.theorem(90, "A layer gives Leave-One-Out as eps -> 0.", "proved")
@pytest.mark.parametrize("n", [1, 2])
def test_layer(n, record_property):
    x, w = generic("x", 1, n), generic("w", n, 1)
    z = (x * w)[0]
    for sign in sign_cases(1, 1):
        (found,) = epsilon(x, w, sp.Matrix([[z]]), eps=EPS, sign=sign)
        effects = leave_one_out(z, {v: v for v in x})
        for v, e in zip(x, limit(found, EPS), strict=True):
            assert identical(e, effects[v])
        assert identical(limit(found, EPS)[0] * z, found[0] * (z + EPS * sign[0]))
    record_property("method", "x = 0 is left out")


@pytest.mark.theorem(91, "A sum of five loses what the stabiliser takes.", "proved")
def test_sum(record_property):
    xs = [sp.Matrix([[x]]) for x in sp.symbols("x:5", positive=True)]
    r, c = sp.Matrix([[sp.Symbol("r", real=True)]]), sp.Symbol("c")
    found = [part[0] for part in add(xs, r, eps=EPS)]
    total = sum(x[0] for x in xs)
    for part, x in zip(found, xs, strict=True):
        assert identical(c * part, c * r[0] * x[0] / (total + EPS))
    assert identical(sum(found) ** 9 * (total + EPS) ** 9, (r[0] * total) ** 9)
    record_property("method", "cancel")


@pytest.mark.theorem(91, "Matrices get halves, and logits nothing of c e.", "proved")
def test_matrices(record_property):
    a, b, r = generic("a", 2, 2), generic("b", 2, 1), generic("r", 2, 1)
    left, right = bilinear_epsilon(a, b, r, eps=0)
    for j in range(2):
        assert identical(sum(left[j, :]), r[j] / 2)
    assert identical(sum(right), sum(r) / 2)
    e, c = generic("e", 1, 2, positive=True), sp.Symbol("c", real=True)
    (found,) = taylor(generic("z", 1, 2), c * e, exp_z=e)
    assert identical(found[0], 0)
    record_property("method", "add up")


@pytest.mark.theorem(92, "Of x y all effects are alike.", "refuted")
def test_effects(record_property):
    f, at = X * Y, {X: X, Y: Y}
    values = [of(f, at)[X] for of in (shapley, leave_one_out, integrated_gradients)]
    for value in values[::2]:
        assert differ_at(value, values[1], {X: 2, Y: 1})
    record_property("witness", "x = 2, y = 1: 1 versus 2")


@pytest.mark.theorem(92, "A part of a part is a part.", "proved")
def test_parts(record_property):
    xs = [sp.Matrix([[x]]) for x in sp.symbols("x:3", positive=True)]
    whole = sp.Matrix([[sp.Symbol("r", real=True)]])
    part = add(xs, whole, eps=0)[0]
    found = add(xs, part, eps=0)
    assert identical(found[0][0] * xs[1][0], found[1][0] * xs[0][0])
    record_property("method", "cancel")


@pytest.mark.theorem(92, "Masks have relevance.", "refuted")
def test_masks(record_property):
    e, v = generic("e", 1, 2, positive=True), generic("v", 2, 1)
    found = mask_relevance(e, v, sp.Matrix([[1]]))
    one = {e[0]: 1, e[1]: 3, v[0]: 1, v[1]: 2}
    assert differ_at(found[0], found[1], one)
    record_property("witness", "e = 1, 3 and v = 1, 2: -1/4 versus 3/4")
'''
PAGES = """
Theorem 90

Notation
  A sum passes on what arrives.
    z = x + y
  R_x is the relevance that x receives, and R what arrives at an output, or R_j
  at output j. LOO is Leave-One-Out. R(1)_x is that of network (1). Equations
  are those of the paper When LRP Diverges from Leave-One-Out in Transformers;
  epsilon is their stabiliser, and s_j, where it occurs, a sign. A statement
  without epsilon is about epsilon -> 0. No denominator is 0.

Counterexample to 90a
  [refuted] All bracketings give one relevance.
  Assumptions: x, y, z are positive.
  Network: (1) y = (a b) c, by the equal split, where a = x, b = y, c = z; (2) y
    = a (b c), by the equal split, where a = x, b = y, c = z.
  Witness: The first of three, where x = 2: 6 versus 12.
    (1) R(1)_a = 6 != 12 = R(2)_a
    (2) R(1)_c = 6 != 3 = R(2)_c
  This is so at x = 2, y = 3, z = 4; and x = 1, y = 3, z = 4.
    where R(1)_a = x*y*z/4
    and R(2)_a = x*y*z/2
    and R(1)_c = x*y*z/2
    and R(2)_c = x*y*z/4
  Checked by test_brackets in FILE; it ran
    propagate.propagate, propagate.evaluate, products.equal_split.

Theorem 90b
  [proved] A layer gives Leave-One-Out as eps -> 0.
  Assumptions: w1, w2, x1, x2 are real.
  Rule: Eq. 1 for x, w.
  Proof: x = 0 is left out. Both sides of every identity come out as one
    formula, in 2 cases of signs:
    (3) lim R_x1 = LOO_x1 as epsilon -> 0
    (4) R_x2 = LOO_x2 as epsilon -> 0
    (5) lim R_x1*(w1*x1 + w2*x2) = R_x1*(epsilon + w1*x1 + w2*x2)
    where lim R_x1 = w1*x1 as epsilon -> 0
    and LOO_x1 = w1*x1
    and R_x2 = w2*x2 as epsilon -> 0
    and LOO_x2 = w2*x2
    and R_x1 = w1*x1*(w1*x1 + w2*x2)/(epsilon + w1*x1 + w2*x2)
  Checked by test_layer in FILE; it ran linear.epsilon,
    effects.leave_one_out.

Theorem 91

Notation
  A sum passes on what arrives.
    z = x + y
  R_x is the relevance that x receives, and R what arrives at an output, or R_j
  at output j. e_i is the exponential of logit i, exp(z_i). Equations are those
  of the paper When LRP Diverges from Leave-One-Out in Transformers; epsilon is
  their stabiliser, and s_j, where it occurs, a sign. A statement without epsilon is about
  epsilon -> 0. No denominator is 0.

Theorem 91a
  [proved] A sum of five loses what the stabiliser takes.
  Assumptions: c is arbitrary; epsilon, x1, ..., x5 are positive; r is real.
  Rule: Eq. 1 for a sum for x1, x2, x3, x4, x5.
  Proof: Cancel. This decides 1 identity over symbols; both sides of others come
    out as one formula:
    (1) c*R_x1 = c*r*x1/(epsilon + x1 + x2 + x3 + x4 + x5)
    (2) c*R_x2 = c*r*x2/(epsilon + x1 + x2 + x3 + x4 + x5)
    (3) c*R_x3 = c*r*x3/(epsilon + x1 + x2 + x3 + x4 + x5)
    (4) c*R_x4 = c*r*x4/(epsilon + x1 + x2 + x3 + x4 + x5)
    where R_x1 = r*x1/(epsilon + x1 + x2 + x3 + x4 + x5)
    and R_x2 = r*x2/(epsilon + x1 + x2 + x3 + x4 + x5)
    and R_x3 = r*x3/(epsilon + x1 + x2 + x3 + x4 + x5)
    and R_x4 = r*x4/(epsilon + x1 + x2 + x3 + x4 + x5)
  Checked by test_sum in FILE; it ran linear.add.

Theorem 91b
  [proved] Matrices get halves, and logits nothing of c e.
  Assumptions: a11, ..., a22, b1, b2, c, R1, R2, z are real; e1, e2 are
    positive.
  Rule: Eqs. 3 and 4 for a, b; Eq. 5 for z.
  Proof: Add up. This decides 4 identities over symbols:
    (5) R_a11 + R_a12 = R1/2
    (6) R_a21 + R_a22 = R2/2
    (7) R_b1 + R_b2 = R1/2 + R2/2
    (8) R_z = 0
    where R_a11 = a11*b1*R1/(2*a11*b1 + 2*a12*b2)
    and R_a12 = a12*b2*R1/(2*a11*b1 + 2*a12*b2)
    and R_a21 = a21*b1*R2/(2*a21*b1 + 2*a22*b2)
    and R_a22 = a22*b2*R2/(2*a21*b1 + 2*a22*b2)
    and R_b1 = a11*b1*R1/(2*a11*b1 + 2*a12*b2) + a21*b1*R2/(2*a21*b1 + 2*a22*b2)
    and R_b2 = a12*b2*R1/(2*a11*b1 + 2*a12*b2) + a22*b2*R2/(2*a21*b1 + 2*a22*b2)
    and R_z = z*(c*e1 - e1*(c*e1 + c*e2)/(e1 + e2))
  Checked by test_matrices in FILE; it ran
    products.bilinear_epsilon, attention.taylor, attention.softmax.

Theorem 92

Notation
  A sum passes on what arrives.
    z = x + y
  R_x is the relevance that x receives, and R what arrives at an output, or R_j
  at output j. LOO is Leave-One-Out. IG is Integrated Gradients from zero.
  Shapley is the Shapley value, absent inputs being zero. M is mask relevance.
  R(1)_x is that of network (1). e_i is the exponential of logit i, exp(z_i).
  Equations are those of the paper When LRP Diverges from Leave-One-Out in
  Transformers; epsilon is their stabiliser, and s_j, where it occurs, a sign. A
  statement without epsilon is about epsilon -> 0. No denominator is 0.

Counterexample to 92a
  [refuted] Of x y all effects are alike.
  Assumptions: x, y are positive.
  Witness: x = 2, y = 1: 1 versus 2.
    (1) Shapley_x = 1 != 2 = LOO_x
    (2) IG_x = 1 != 2 = LOO_x
  This is so at x = 2, y = 1.
    where Shapley_x = x*y/2
    and LOO_x = x*y
    and IG_x = x*y/2
  Checked by test_effects in FILE; it ran
    effects.shapley, effects.leave_one_out,
    effects.integrated_gradients.

Theorem 92b
  [proved] A part of a part is a part.
  Assumptions: r is real; x1, x2, x3 are positive.
  Rule: (1) Eq. 1 for a sum for x1, x2, x3; (2) Eq. 1 for a sum for x1, x2, x3.
  Proof: Cancel. Both sides of every identity come out as one formula:
    (3) R(1)_x1*x2 = R(1)_x2*x1
    where R(1)_x1 = R(2)_x1*x1/(x1 + x2 + x3)
    and R(1)_x2 = R(2)_x1*x2/(x1 + x2 + x3)
    and R(2)_x1 = r*x1/(x1 + x2 + x3)
  Checked by test_parts in FILE; it ran linear.add.

Counterexample to 92c
  [refuted] Masks have relevance.
  Assumptions: e1, e2 are positive; v1, v2 are real.
  Witness: e = 1, 3 and v = 1, 2: -1/4 versus 3/4.
    (4) M_1 = -1/4 != 3/4 = M_2
  This is so at e1 = 1, e2 = 3, v1 = 1, v2 = 2.
    where M_1 = e1*(-e1*v1/(e1 + e2) - e2*v2/(e1 + e2) + v1)/((e1 + e2)*(-e1/(e1
        + e2) + 1))
    and M_2 = e2*(-e1*v1/(e1 + e2) - e2*v2/(e1 + e2) + v2)/((e1 + e2)*(-e2/(e1 +
        e2) + 1))
  Checked by test_masks in FILE; it ran
    effects.mask_relevance.
"""


def flat(shown):
    return " ".join(shown.split())


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The text of a page by its label."""
    path = tmp_path_factory.mktemp("theorems") / "test_few.py"
    path.write_text(THEOREMS, "utf-8")
    with mock.patch.object(statements, "THEOREMS", path.parent):
        found = {label: show.text(show.page(label)) for label in ("90", "91", "92", "90b")}
    return {label: flat(shown).replace(path.as_posix(), "FILE") for label, shown in found.items()}


def test_every_word_of_a_page_is_meant(pages):
    assert " ".join(pages[label] for label in ("90", "91", "92")) == flat(PAGES)


def test_a_statement_alone_has_the_words_of_its_page_from_number_1_and_what_it_needs(pages):
    (_, _, whole), (head, _, alone) = (
        pages[label].partition("Theorem 90b [proved]") for label in ("90", "90b")
    )
    assert re.sub(r"\((\d)\)", lambda n: f"({int(n[1]) + 2})", alone) == whole
    assert "network (1)" in pages["90"]
    assert "network (1)" not in head

"""The rules of linear layers follow from roots on lines, or are said to be definitions."""

import re

import pytest
import sympy as sp
from sympy import Matrix

from axioms.decide.identity import identical
from axioms.derivations.derive import EPS
from axioms.derivations.roots import ALPHA, BETA, GAMMA, ROOTS, on_a_line
from axioms.rules.linear import add_by_size, alpha_beta, epsilon, gamma, z_plus


def at_layer(rule, d, **options):
    """The messages of a rule at a layer with a bias, under its stabiliser."""
    (x,) = d.operation.operands.values()
    inputs = x[:, :-1]
    w = Matrix(inputs.cols, d.relevance.cols, lambda i, j: sp.diff(d.operation.outputs[j], x[i]))
    bias = d.operation.outputs - inputs * w
    return rule(inputs, w, d.relevance, bias=bias, eps=EPS, **options)


def split_by_size(d):
    (x,) = d.operation.operands.values()
    parts = add_by_size([Matrix([[v]]) for v in x], d.relevance, eps=EPS)
    return (Matrix.hstack(*parts),)


TEXTS = {  # the formula of axioms.rules on the same symbols
    "z+ of a linear layer": lambda d: at_layer(z_plus, d),
    "gamma rule of a linear layer": lambda d: at_layer(gamma, d, strength=GAMMA, sign=d.signs),
    "alpha-beta rule of a linear layer": lambda d: at_layer(alpha_beta, d, alpha=ALPHA, beta=BETA),
    "sum split by absolute value": split_by_size,
}


@pytest.mark.parametrize("name", ROOTS)
def test_the_last_formula_is_the_message(name):
    wide = {"inputs": 4, "outputs": 2, "bias": True}
    d = ROOTS[name](**(wide if "layer" in name else {"operands": 4}))
    (derived,), (message,) = d.messages, TEXTS[name](d)
    assert identical(derived[:, : message.cols], message)  # the bias, if any, comes last


def said(d):
    return {str(eq.lhs): eq.rhs for step in d.steps for eq in step.formulas}


ON_LINES = [name for name in ROOTS if "alpha-beta" not in name]


SHAPES = [{}, {"outputs": 2}, {"inputs": 2, "outputs": 3}]  # the steps show output 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in ON_LINES for shape in SHAPES[: 3 if "layer" in name else 1]],
)
def test_the_printed_steps_lead_to_the_printed_message(name, shape):
    """Read from the steps alone: f is 0 at x - t v, c sums to f, and R_x = R c / f."""
    d = ROOTS[name](**shape)
    (x,) = d.operation.operands.values()
    s = said(d)
    (negative,) = re.findall(r"(\w+) is negative", d.steps[0].text)
    assert [str(v) for v in s["f"].free_symbols if v.is_negative] == [negative]
    (line,) = re.findall(r"v = (.+?),? \(a choice", d.steps[1].text.replace("|x|", "Abs(x)"))
    first, _, other = line.removesuffix(" for others").partition(" for positive contributions and ")
    for v in x:
        chosen = first if not other or (v * sp.diff(s["f"], v)).is_positive else other
        assert sp.sympify(chosen.replace(" (", "*("), {"x": v, "gamma": GAMMA}) == s[f"v_{v}"]
    root = {v: v - s["t"] * s[f"v_{v}"] for v in x}
    assert identical(s["f"].subs(root, simultaneous=True), 0)
    assert not identical(s["f"], 0)
    for v in x:
        slope = sp.diff(s["f"], v)
        assert identical(s[f"c_{v}"], (v - root[v]) * slope)
        received = s[f"R_{v}"].subs(EPS, 0).subs(dict.fromkeys(d.relevance[1:], 0))
        assert identical(received, d.relevance[0] * s[f"c_{v}"] / s["f"])
    assert identical(sum(s[f"c_{v}"] for v in x), s["sum"])
    assert identical(s["f"] - s["sum"], s["rest"])
    assert identical(s["rest"], 0)


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 1), (2, 2), (2, 5), (3, 4), (1, 2)])
def test_each_output_has_one_weight_below_0_also_where_there_are_more_outputs_than_inputs(
    inputs, outputs
):
    d = ROOTS["z+ of a linear layer"](inputs, outputs)
    (x,) = d.operation.operands.values()
    for f in d.operation.outputs:
        assert [sp.diff(f, v).is_negative for v in x].count(True) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_printed_steps_of_a_definition_lead_to_its_message(shape):
    d = ROOTS["alpha-beta rule of a linear layer"](**shape)
    others = dict.fromkeys(d.relevance[1:], 0)
    (x,) = d.operation.operands.values()
    s = said(d)
    (parts,) = re.findall("so f = (.+)[.]", d.steps[2].text)
    assert identical(s["f"], sp.sympify(parts, {name: s[name] for name in "PN"}))
    assert identical(s["d_P"] - s["P"], EPS)
    assert identical(s["d_N"] - s["N"], EPS)
    for v in x:
        c = s[f"c_{v}"]
        received = re.findall("receives (.+) or (.+), summed", d.steps[4].text)[0]
        known = {"alpha": ALPHA, "beta": BETA, "R": d.relevance[0], "c": c, **s}
        share = received[0 if c.is_positive else 1].replace(" R c ", "*R*c")
        assert identical(s[f"R_{v}"].subs(others), sp.sympify(share, known))
    to_all = sum(s[f"R_{v}"] for v in x).subs(EPS, 0).subs(others)
    assert identical(to_all, (ALPHA - BETA) * d.relevance[0])
    assert "alpha R is shared among the positive contributions and -beta R" in d.steps[3].text


def test_a_direction_that_knows_p_and_n_leads_to_the_alpha_beta_rule():
    """Such a line exists, as for any conserving rule: it derives nothing."""
    d = ROOTS["alpha-beta rule of a linear layer"]()
    (x,) = d.operation.operands.values()
    s, w = said(d), Matrix([sp.diff(d.operation.outputs[0], v) for v in x])
    line = on_a_line(
        "alpha-beta",
        x,
        w,
        lambda c: ALPHA / s["P"] if c.is_positive else BETA / s["N"],
        direction="",
        signs=d.signs,
    )
    conserving = {BETA: ALPHA - 1, EPS: 0}
    assert identical(line.messages[0].subs(conserving), d.messages[0].subs(conserving))
    assert not identical(line.messages[0].subs(EPS, 0), d.messages[0].subs(EPS, 0))


def test_eq_1_is_the_line_through_0():
    x, w = sp.symbols("x:2", positive=True), sp.symbols("w:2", real=True)
    line = on_a_line(
        "epsilon",
        Matrix([x]),
        Matrix(w),
        lambda c: 1,
        direction="",
        signs=Matrix([[sp.Symbol("s")]]),
    )
    (r,) = epsilon(Matrix([x]), Matrix(w), line.relevance, eps=EPS, sign=line.signs)
    assert identical(line.messages[0], r)
    assert said(line)["t"] == 1

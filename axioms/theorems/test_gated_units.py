"""Gated units (GLU, ReGLU, GEGLU, SwiGLU) and soft caps: conservation and invariance of rules.

    unit   y = g(a) b, a = x W, b = x V        soft cap   z = c tanh(s / c)

GLU variants are those of Shazeer (2020, arXiv 2002.05202), soft caps those of Gemma 2 (2024, arXiv
2408.00118).  The half rule of a gate is that of AttnLRP, MambaLRP (Jafari et al., 2024, Sec. 4.3)
and of RelP; all to the signal is the rule of Arras et al. (2017, arXiv 1706.07206).
"""

import pytest
import sympy as sp

from lrp_axioms.axioms.composites import ATTNLRP, DEGREE, GRADIENT_X_INPUT
from lrp_axioms.axioms.decide.denotation import denoted, same_value
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import activation, leaf, linear, relu
from lrp_axioms.axioms.rules.activations import ACTIVATIONS, activation_gradient, identity
from lrp_axioms.axioms.rules.attention import taylor
from lrp_axioms.axioms.rules.ledger import ledger
from lrp_axioms.axioms.rules.linear import add
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {71: ["Conservation"]}
DERIVATIONS = {71: ["product", "softmax", "activation"]}
MEANINGS = {
    71: "Half to a gate and half to its signal conserves for every gated unit. For bilinear and "
    "ReLU gates it is half of gradient x input. A SiLU that is multiplied from the other side "
    "takes more. A soft cap by the identity rule conserves, and bounds what a softmax absorbs.",
}

A, B = sp.symbols("a b", real=True)
R, C = sp.Symbol("R", real=True), sp.Symbol("c", positive=True)
SMOOTH = ("silu", "gelu", "sigmoid", "tanh")


def unit(function):
    """g(a) b of two inputs."""
    return activation(function, leaf("a")) * leaf("b")


AT = {"a": A, "b": B}


@pytest.mark.theorem(
    71,
    "Gradient x input of a gated unit whose g is SiLU, GELU, a sigmoid or tanh is R a g'(a)/g(a) "
    "at a and R at b, so its residual is -R a g'(a)/g(a).",
    "proved",
    scope="four gates",
)
def test_gradient_x_input_of_a_gated_unit_has_the_degree_of_its_gate():
    for function in SMOOTH:
        found = explain(unit(function), AT, GRADIENT_X_INPUT, relevance=R)
        g = ACTIVATIONS[function](A)
        assert same_value(found["a"], R * A * sp.diff(g, A) / g)
        assert identical(found["b"], R)
        books = ledger(unit(function), AT, GRADIENT_X_INPUT, relevance=R)
        assert {cause for _, cause in books.absorbed} == {DEGREE}
        assert same_value(sum(books.absorbed.values()), R - found["a"] - found["b"])


def gated(middle):
    """A unit of two channels whose gate and signal are both projections of x."""
    x = leaf("x")
    return linear(middle(linear(x, "w")) * linear(x, "v"), "out")


def at_gated(**others):
    x, w, v = generic("x", 1, 2), generic("w", 2, 2), generic("v", 2, 2)
    return {"x": x, "w": w, "v": v, "out": generic("o", 2, 1)} | others


POSITIVE = {"positive": True}


@pytest.mark.theorem(
    71,
    "Before bilinear units (x W)(x V), and ReGLU units with gates off 0, the half rule is half of "
    "gradient x input, entry by entry, as epsilon -> 0, which sums to 2 R.",
    "proved",
    given=["v, w, x > 0: weights and inputs of the ReGLU unit, whose gates have both signs"],
    scope="2 channels; one gate open and one shut",
)
def test_the_half_rule_of_a_homogeneous_gate_is_half_of_gradient_x_input(record_property):
    x, w = generic("x", 1, 2, **POSITIVE), generic("w", 2, 2, **POSITIVE)
    w[:, 1] = -w[:, 1]  # so that one gate is open and one is shut
    units = [
        (gated(lambda h: h), at_gated()),
        (gated(relu), at_gated(x=x, w=w, v=generic("v", 2, 2, **POSITIVE))),
    ]
    for root, at in units:
        value = denoted(root, at)[0]
        half = explain(root, at, ATTNLRP, relevance=R * value)["x"]
        slope = [R * x * sp.diff(value, x) for x in at["x"]]
        assert identical(2 * half, sp.Matrix([slope]))
        assert identical(sum(slope), 2 * R * value)
    record_property("method", "one gate open and one shut")


@pytest.mark.theorem(
    71,
    "A ReGLU or bilinear unit with its gate multiplied by c > 0 and its signal divided by c gets "
    "the same relevance by the half rule as epsilon -> 0.",
    "proved",
    given=["c, w, x > 0: the factor, and weights and inputs of the ReGLU unit"],
    scope="2 channels; gates open",
)
def test_the_half_rule_survives_scales_between_gate_and_signal():
    x, w, v = generic("x", 1, 2, **POSITIVE), generic("w", 2, 1, **POSITIVE), generic("v", 2, 1)
    for middle in (lambda h: h, relu):
        found = []
        for factor in (1, C):
            root = middle(linear(leaf("x"), "w")) * linear(leaf("x"), "v")
            at = {"x": x, "w": w * factor, "v": v / factor}
            found.append((denoted(root, at)[0], explain(root, at, ATTNLRP)["x"]))
        assert identical(found[0][0], found[1][0])
        assert identical(found[0][1], found[1][1])


def spelled(*, gate_first):
    """a sigmoid(a) b, multiplied from the left or from the right."""
    a, b = leaf("a"), leaf("b")
    sigmoid = activation("sigmoid", a)
    return (a * sigmoid) * b if gate_first else a * (sigmoid * b)


@pytest.mark.theorem(
    71,
    "A SwiGLU unit (a sigmoid(a)) b gets the same relevance by equal shares as a (sigmoid(a) b).",
    "refuted",
)
def test_a_silu_that_is_multiplied_from_the_other_side_gets_more(record_property):
    one, other = (explain(spelled(gate_first=f), AT, ATTNLRP, relevance=R) for f in (True, False))
    assert identical(one["a"], R / 2)
    assert identical(other["a"], R * sp.Rational(3, 4))
    assert differ_at(one["b"], other["b"], {R: 1})
    record_property("witness", "R = 1: the signal gets 1/2 versus 1/4")


# Soft caps


def capped():
    """c tanh(s / c) in three steps."""
    return linear(activation("tanh", linear(leaf("s"), "1/c")), "c")


@pytest.mark.theorem(
    71,
    "By the identity rule a soft cap c tanh(s/c) hands on all of R, as one activation or in three "
    "steps, as epsilon -> 0; gradient x input loses R (1 - 2 u/sinh(2 u)), u = s/c.",
    "proved",
    given=["c > 0: the cap"],
    scope="any score and cap",
)
def test_a_soft_cap_conserves_by_identity_and_not_by_its_gradient(record_property):
    s = sp.Symbol("s", real=True)
    at = {"s": s, "c": C, "1/c": 1 / C}
    found = explain(capped(), at, ATTNLRP, relevance=R)["s"]
    (whole,) = identity(sp.Matrix([[R]]))
    assert identical(found, whole[0])
    (slope,) = activation_gradient(
        sp.Matrix([[s]]), lambda x: C * sp.tanh(x / C), sp.Matrix([[R]])
    )  # fmt: skip
    e = sp.exp(2 * s / C)
    sinh = (e - 1 / e) / 2
    told = slope[0].replace(sp.tanh, lambda x: 1 - 2 / (sp.exp(2 * x) + 1))
    assert same_value(told, R * 2 * s / C / sinh)
    record_property("method", "tanh by its exponentials")


@pytest.mark.theorem(
    71,
    "Scores that are capped before a softmax lose R (1 - z + zbar) of the capped logit z in Eq. 5, "
    "which lies between (1 - 2 c) R and (1 + 2 c) R.",
    "proved",
    given=["c > 0: the cap"],
    scope="3 logits",
)
def test_a_cap_bounds_what_a_softmax_absorbs(record_property):
    n = 3
    z, e = generic("z", 1, n), generic("e", 1, n, positive=True)
    for i in range(n):
        r = sp.zeros(1, n)
        r[i] = R
        (found,) = taylor(z, r, exp_z=e)
        zbar = (z * e.T)[0] / sum(e)
        assert identical(R - sum(found), R * (1 - z[i] + zbar))
    # at z_i = -c, and all other logits c, the mean is as near to c as their weight is to 1
    (found,) = taylor(sp.Matrix([[-C, C]]), sp.Matrix([[R, 0]]), exp_z=sp.Matrix([[1, e[1]]]))
    assert identical(R - sum(found), R * (1 + 2 * C * e[1] / (1 + e[1])))
    record_property("method", "|z| < c, so that |z - zbar| < 2 c")


@pytest.mark.theorem(
    71,
    "A soft cap of a logit that is linear in its inputs gives each input one number times the "
    "relevance that the logit gives it, the same number for all, by LRP as epsilon -> 0 and by "
    "gradient x input.",
    "proved",
    scope="2 inputs, a cap of 1",
)
def test_a_final_soft_cap_only_scales_an_explanation():
    x, w = generic("x", 1, 2), generic("w", 2, 1)
    logit = linear(leaf("x"), "w")
    at = {"x": x, "w": w}
    for rules in (ATTNLRP, GRADIENT_X_INPUT):
        plain = explain(logit, at, rules)["x"]
        cap = explain(activation("tanh", logit), at, rules)["x"]
        ratio = cap[0] / plain[0]
        assert same_value(cap[1], ratio * plain[1])


@pytest.mark.theorem(
    71,
    "The difference of two capped logits is explained by a multiple of the relevance of the "
    "difference of the logits.",
    "refuted",
)
def test_a_soft_cap_changes_how_a_difference_of_logits_is_explained(record_property):
    t, v = sp.symbols("t v", positive=True)  # t: tanh v, so that tanh 2 v = 2 t/(1 + t^2)
    one = lambda x: sp.Matrix([[x]])
    plain, caps = (
        add([one(x), one(-y)], one(x - y), eps=0) for x, y in ((2 * v, v), (2 * t / (1 + t**2), t))
    )
    ratios = [larger[0] / smaller[0] for larger, smaller in (plain, caps)]
    assert differ_at(ratios[0], ratios[1], {t: sp.Rational(1, 2), v: 1})
    record_property("witness", "logits 2 v and v, tanh v = 1/2: in the ratio -2 versus -8/5")

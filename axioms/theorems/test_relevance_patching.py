"""RelP and attribution patching: the origin of their coefficients, and the exact error of each.

Both predict the effect of replacing activations x by x' by <c, x - x'>.  Attribution patching takes
the gradient as c (Nanda, 2023), and RelP (Jafari et al., 2025, arXiv 2508.21258) relevance per unit
R/x by the rules of CP-LRP.  ``axioms.composites.RELP`` is that composite.  Norms and products of
two are theorems 57 and 58; this is what is left.  LibraGrad (Mehri et al., 2024, arXiv 2411.16760)
detaches and halves the gradients that RelP holds.
"""

from dataclasses import replace

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import GRADIENT_X_INPUT, LIBRAGRAD, RELP, Composite
from lrp_axioms.axioms.decide.denotation import denoted, same_value
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, value_at, where
from lrp_axioms.axioms.graph import Node, activation, leaf, linear, parameter
from lrp_axioms.axioms.rules.activations import ACTIVATIONS, activation_gradient, identity
from lrp_axioms.axioms.rules.ledger import ledger
from lrp_axioms.axioms.rules.propagate import RULES, evaluate, explain
from lrp_axioms.axioms.theorems.test_conservation import DEVIATION, one_operation
from lrp_axioms.axioms.theorems.test_conservation import same as same_logits
from lrp_axioms.axioms.theorems.test_patching import estimate

THEMES = {73: ["Softmax and attention", "Linear layers, sums and activations", "Norms"]}
DERIVATIONS = {
    73: ["value only", "LayerNorm, deviation held", "RMSNorm, root mean square held", "activation"],
}
MEANINGS = {
    73: "RelP and LibraGrad are CP-LRP per unit of activation, and DePass is CP-LRP carried "
    "forwards: exact where a patch keeps what is held, and different from RelP at gates. Gradient "
    "x input counts a product once per factor, which a ledger by operation shows.",
}

R = sp.Symbol("R", real=True)
S = sp.Symbol("S", positive=True)  # the root mean square of the row
X, P = sp.symbols("x p", real=True)  # an activation in both runs
ON = sp.Symbol("x", positive=True)  # where a ReLU is on


def gated_block(norm_eps):
    """A row of two channels, its RMSNorm, a head that reads it, and a gated MLP with a bias."""
    normed = Node(
        kinds.RMS_NORM, (leaf("x"), parameter("w")), attributes={"norm_eps": norm_eps}
    )  # fmt: skip
    read = Node(kinds.READOUT, (leaf("weights"), linear(normed, "v")))
    unit = activation("reciprocal", linear(normed, "gate")) * linear(normed, "up")
    return read + linear(unit, "down", "shift")


def held_block(x, at, known):
    """``block`` by hand, with all that RelP holds at ``known``."""
    row, old = x.multiply_elementwise(at["w"]) / S, known.multiply_elementwise(at["w"]) / S
    read = at["weights"] * (row * at["v"])
    ratio = 1 / (old * at["gate"])[0] ** 2
    gate, up = (row * at["gate"])[0] * ratio, (row * at["up"])[0]
    held_gate, held_up = 1 / (old * at["gate"])[0], (old * at["up"])[0]
    return read[0] + at["down"] * (gate * held_up + held_gate * up) / 2 + at["shift"]


@pytest.mark.theorem(
    73,
    "RelP's coefficients, relevance per unit by the rules of CP-LRP as epsilon -> 0, are the "
    "gradient of the model in which deviations, weights of attention, ratios of activations and "
    "half of each gate are held; together its estimates for a patch by zeros are the output less "
    "what biases absorb.",
    "proved",
    scope="a block of 2 channels and one key",
)
def test_coefficients_of_relp_are_the_gradient_of_the_held_model():
    x = generic("x", 1, 2)
    h = S**2 - sum(v**2 for v in x) / 2
    at = {"x": x, "w": generic("w", 1, 2), "weights": generic("a", 1, 1)}
    at |= {name: generic(name, 2, 1) for name in ("gate", "up", "v")}
    at |= {name: sp.Symbol(name, real=True) for name in ("down", "shift")}
    root = gated_block(h)
    relevance = explain(root, at, RELP)["x"]
    moved = generic("m", 1, 2)
    f = held_block(moved, at, x)
    back = dict(zip(moved, x, strict=True))
    for k in range(2):
        assert identical(relevance[k], x[k] * sp.diff(f, moved[k]).subs(back))
    assert identical(sum(relevance), denoted(root, at)[0] - at["shift"])


DETACHED = {
    kinds.LINEAR: lambda m, x: m[0] * x[1] + m[2],
    kinds.ADD: lambda m, x: m[0] + m[1],
    kinds.READOUT: lambda m, x: x[0] * m[1],
    kinds.PRODUCT: lambda m, x: (
        m[0].multiply_elementwise(x[1]) + x[0].multiply_elementwise(m[1])
    ) / 2,
    kinds.LAYER_NORM: lambda m, x: (
        (m[0] - sp.ones(*m[0].shape) * sum(m[0]) / len(m[0])).multiply_elementwise(x[1])
        / DEVIATION + m[2]
    ),
    kinds.RMS_NORM: lambda m, x: m[0].multiply_elementwise(x[1]) / DEVIATION,
    kinds.ACTIVATION: lambda m, x: m[0].multiply_elementwise(
        x[0].applyfunc(lambda v: ACTIVATIONS["silu"](v) / v)
    ),
}  # fmt: skip
"""LibraGrad's operations of moved operands, whose gradients at the operands x are its own."""


@pytest.mark.theorem(
    73,
    "LibraGrad's gradient times the input is the relevance of CP-LRP as epsilon -> 0, and its "
    "gradient times the bias is what biases absorb; the two add up to the output, which is "
    "FullGrad-completeness.",
    "proved",
    scope="each operation that relevance comes to, 2 channels, SiLU",
)
@pytest.mark.parametrize("kind", DETACHED)
def test_libragrad_is_cp_lrp_and_its_terms_of_biases_are_what_biases_absorb(kind):
    root, point = one_operation(kind, 2)
    if kind == kinds.ACTIVATION:
        root = replace(root, attributes={"function": "silu"})
    known = [point[x.name] for x in root.args]
    moved = [generic(f"m{k}_", *x.shape) for k, x in enumerate(known)]
    back = {m: v for ms, x in zip(moved, known, strict=True) for m, v in zip(ms, x, strict=True)}
    detached, z = DETACHED[kind](moved, known), evaluate(root, point)[root]
    for j in range(len(z)):
        r = sp.zeros(*z.shape)
        r[j] = z[j]
        terms = [
            sum(v * sp.diff(detached[j], m).subs(back) for m, v in zip(ms, x, strict=True))
            for ms, x in zip(moved, known, strict=True)
        ]
        found = explain(root, point, LIBRAGRAD, relevance=r)
        absorbed = ledger(root, point, LIBRAGRAD, relevance=r).absorbed
        for arg, term in zip(root.args, terms, strict=True):
            if arg.name in found:
                assert same_value(sum(found[arg.name]), term)
        bias = terms[2] if kind in (kinds.LINEAR, kinds.LAYER_NORM) else sp.Integer(0)
        assert same_value(sum(absorbed.values(), sp.Integer(0)), bias)
        assert same_value(sum(terms), z[j])


@pytest.mark.theorem(
    73,
    "Patching attention weights A and values v together has the effect that RelP predicts plus (A "
    "- A') v': its prediction is exact if the patch keeps the weights.",
    "proved",
    scope="2 keys",
)
def test_relp_misses_the_change_of_the_weights_of_attention():
    root = Node(kinds.READOUT, (leaf("weights"), leaf("v")))
    runs = [{"weights": generic(a, 1, 2), "v": generic(v, 2, 1)} for a, v in ("av", "bw")]
    clean, patched = runs
    found = explain(root, clean, RELP)
    effect = denoted(root, clean)[0] - denoted(root, patched)[0]
    missed = effect - estimate(found["v"], clean["v"], patched["v"])
    assert identical(missed, ((clean["weights"] - patched["weights"]) * patched["v"])[0])
    assert all(r == 0 for r in found["weights"])


@pytest.mark.theorem(
    73,
    "Patching the input x of an activation y has the effect that RelP predicts plus x' (y/x - "
    "y'/x'): so RelP is exact where the ratio stays, as of a ReLU whose sign does, and where x' "
    "and y' are 0. Gradient x change is exact there only if y = x dy/dx.",
    "proved",
    given=["a, b > 0: sizes of inputs of a ReLU, of either sign"],
    scope="four activations; ReLU on and off",
)
def test_relp_misses_the_change_of_the_ratio_of_an_activation():
    unit = lambda function: activation(function, leaf("x"))
    for function in ("silu", "gelu", "tanh", "reciprocal"):
        y, patched = (denoted(unit(function), {"x": x})[0] for x in (X, P))
        found = explain(unit(function), {"x": X}, RELP)["x"]
        missed = y - patched - estimate([found], [X], [P])
        assert same_value(missed, P * (y / X - patched / P))
    for function in ("silu", "gelu", "tanh"):  # which are 0 at 0
        y = denoted(unit(function), {"x": X})[0]
        slope = explain(unit(function), {"x": X}, GRADIENT_X_INPUT)["x"]
        derivative = sp.diff(ACTIVATIONS[function](X), X)
        assert same_value(explain(unit(function), {"x": X}, RELP)["x"], y)
        assert same_value(y - slope, y - X * derivative)
    a, b = sp.symbols("a b", positive=True)
    for one, other in ((a, b), (-a, -b)):
        (y, other_y) = (denoted(unit("relu"), {"x": x})[0] for x in (one, other))
        found = explain(unit("relu"), {"x": one}, RELP)["x"]
        assert identical(y - other_y, estimate([found], [one], [other]))


def errors():
    """Squared, of RelP and gradient x change, at a squared ReLU, x positive (arXiv 2109.08668)."""
    x, y = sp.Matrix([[ON]]), sp.Matrix([[ON**2]])
    effect = ON**2 - P**2
    found = (identity(y), activation_gradient(x, lambda v: v**2, y))
    return [(effect - estimate(r, x, [P])) ** 2 for (r,) in found]


@pytest.mark.theorem(
    73,
    "At an activation, one of RelP and gradient x change is at least as close to the effect of a "
    "patch as the other, whatever the patch.",
    "refuted",
)
def test_either_of_relp_and_the_gradient_can_be_closer(record_property):
    relp, gradient = errors()
    small, zeros = where((ON, 2), (P, 3)), where((ON, 2), (P, 0))
    assert differ_at(relp, gradient, small)
    assert differ_at(relp, gradient, zeros)
    assert value_at(relp, small) > value_at(gradient, small)
    assert value_at(gradient, zeros) > value_at(relp, zeros) == 0
    record_property(
        "witness",
        "squared ReLU, x = 2: squared errors 9 versus 1 at x' = 3, and 0 versus 16 at x' = 0",
    )


@pytest.mark.theorem(
    73,
    "Patching the n factors of a product by d, n = 2 or 3, has the effect that gradient x change "
    "predicts plus the terms of order 2 and more in d: -d1 d2 of two factors, and -(n - 1) times "
    "the product where zeros replace all factors.",
    "proved",
    scope="n = 2 and 3 factors",
)
def test_gradient_x_change_misses_the_higher_orders_of_a_product():
    for n in (2, 3):
        names = [f"x{k}" for k in range(n)]
        root = Node(kinds.PRODUCT, tuple(map(leaf, names)))
        x, d = ([sp.Symbol(f"{name}{k}", real=True) for k in range(n)] for name in "xd")
        after = [v - c for v, c in zip(x, d, strict=True)]
        clean, patched = (dict(zip(names, values, strict=True)) for values in (x, after))
        found = explain(root, clean, GRADIENT_X_INPUT)
        effect = denoted(root, clean)[0] - denoted(root, patched)[0]
        missed = effect - estimate([found[name] for name in names], x, after)
        higher = {2: -d[0] * d[1]}
        if n == 3:
            pairs = d[0] * d[1] * x[2] + d[0] * d[2] * x[1] + d[1] * d[2] * x[0]
            higher[3] = d[0] * d[1] * d[2] - pairs
        assert identical(missed, higher[n])
        zeros = dict(zip(d, x, strict=True))
        assert identical(missed.subs(zeros), (1 - n) * denoted(root, clean)[0])


OF_GRADIENT = [kind for kind, rule in RULES if rule == kinds.GRADIENT]


@pytest.mark.theorem(
    73,
    "Of the relevance R of one output entry z, gradient x input absorbs exactly R b/z by a bias b, "
    "-(n - 1) R at a product of n factors, R (1 - x y'/y) at an activation, R (1 - u + ubar) at a "
    "softmax, and at a norm of deviation S the part 1 - h/S^2 of what is not bias, h being its "
    "norm-epsilon.",
    "proved",
    scope="sums of 1 and 2 terms, products of 2 and 3 matrices, three activations",
)
@pytest.mark.parametrize("kind", OF_GRADIENT)
def test_what_gradient_x_input_absorbs_of_each_operation(kind):
    rules = Composite("gradient", {kind: kinds.GRADIENT})
    functions = ("reciprocal", "tanh", "silu") if kind == kinds.ACTIVATION else ("",)
    for n in (1, 2):
        for function in functions:
            root, point = one_operation(kind, n)
            if function:
                root = replace(root, attributes={"function": function})
            z = evaluate(root, point)[root]
            for j in range(len(z)):
                r = sp.zeros(*z.shape)
                r[j] = R
                books = ledger(root, point, rules, relevance=r)
                found = sum(books.kept.values()) + sum(books.absorbed.values())
                same = same_value if function else same_logits
                assert same(found, R)

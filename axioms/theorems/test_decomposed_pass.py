"""DePass: carrying components forwards with attention, norms and activations held.

``axioms.theorems.decomposed`` does it; the composite DEPASS of ``axioms.composites`` is what it is
as relevance (Hong et al., 2025, arXiv 2510.18462).
"""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import DEPASS, RELP, Composite
from lrp_axioms.axioms.decide.denotation import denoted, same_value
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import Node, activation, attend, leaf, linear, parameter, relu
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.theorems.decomposed import BIASES, by_softmax, decomposed

A, B = leaf("a"), leaf("b")
ROOT = sp.Symbol("S", positive=True)  # the root mean square of the row


def block():
    """A query over two keys of given weights, a residual stream, and an MLP, with biases."""
    read = Node(kinds.READOUT, (leaf("weights"), linear(B, "v", "bv")))
    stream = A + read
    return stream + mlp(stream)


def mlp(x):
    return linear(activation("reciprocal", linear(x, "up", "bu")), "down", "bd")


def head():
    """A residual stream A and attention to B, with weights from a softmax of scores."""
    scores = Node(kinds.SCORES, (A, B))
    return A + attend(scores, B)


NAMES = ("v", "bv", "o", "bo", "up", "bu", "down", "bd")


def at_block():
    point = {name: sp.Symbol(name, real=True) for name in NAMES}
    return point | {
        "a": generic("a", 1, 1), "b": generic("b", 2, 1), "weights": generic("p", 1, 2)
    }  # fmt: skip


def total(part):
    return sum(sp.flatten(part))


@pytest.mark.theorem(
    73,
    "With attention, activations and norms held and biases as a component of their own, DePass "
    "gives a leaf the relevance of CP-LRP's rules as epsilon -> 0, and the biases what CP-LRP's "
    "absorb.",
    "proved",
    scope="a block and a head of one channel and 2 keys; any graph by induction",
)
def test_a_decomposed_pass_is_the_relevance_of_cp_lrp(record_property):
    at = at_block()
    for root in (block(), head()):
        parts, relevance = decomposed(root, at), explain(root, at, DEPASS)
        for name in "ab":
            assert same_value(total(parts[name]), total(relevance[name]))
        missing = denoted(root, at)[0] - sum(total(relevance[name]) for name in "ab")
        assert same_value(total(parts.get(BIASES, [0])), missing)
    assert DEPASS.rules.items() <= RELP.rules.items()
    record_property(
        "method",
        "induction: each is the linear map that the held pass is, applied forwards or backwards; "
        "one block and one head over generic weights",
    )


@pytest.mark.theorem(
    73,
    "With the bias of every linear layer spread over the components in proportion to what they "
    "add, DePass gives a leaf the relevance of the same rules with biases left out of the "
    "denominators.",
    "proved",
    scope="four layers of one channel",
)
def test_spread_biases_are_biases_outside_of_the_denominator():
    root, at = A + mlp(linear(A, "v", "bv") + linear(B, "o", "bo")), at_block()
    at["b"] = at["b"][:1, :]
    outside = Composite("outside", {**DEPASS.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS})
    parts = decomposed(root, at, spread_biases=True)
    relevance = explain(root, at, outside)
    for name in "ab":
        assert same_value(total(parts[name]), total(relevance[name]))
    assert same_value(sum(total(parts[name]) for name in "ab"), denoted(root, at)[0])


@pytest.mark.theorem(
    73,
    "Before a norm, DePass gives leaf x_i the relevance of the norm with its deviation held, and "
    "the shift of LayerNorm to the biases.",
    "proved",
    scope="2 channels",
)
@pytest.mark.parametrize("op", [kinds.LAYER_NORM, kinds.RMS_NORM])
def test_a_decomposed_norm_is_the_norm_with_its_deviation_held(op):
    shift = ("t",) if op == kinds.LAYER_NORM else ()
    x, g, t, w = generic("a", 1, 2), generic("g", 1, 2), generic("t", 1, 2), generic("w", 2, 1)
    y = generic("b", 1, 2)
    row = x + y
    mean = sum(row) / 2 if shift else 0
    h = ROOT**2 - sum((v - mean) ** 2 for v in row) / 2  # so that the deviation is S
    norm = Node(op, (A + B, *map(parameter, ("g", *shift))), attributes={"norm_eps": h})
    root, at = linear(norm, "w"), {"a": x, "b": y, "g": g, "t": t, "w": w}
    parts, relevance = decomposed(root, at), explain(root, at, DEPASS)
    for name in "ab":
        assert identical(total(parts[name]), total(relevance[name]))
    assert BIASES not in parts or identical(parts[BIASES], t * w)


def neuron(function="relu"):
    """One neuron that reads two leaves."""
    return linear(activation(function, linear(A, "wa") + linear(B, "wb")), "v")


P, Q = sp.symbols("p q", positive=True)  # contributions of the leaves to the neuron


def at_neuron(c=1):
    """Weights in are c, the weight out 1/c, so that a ReLU neuron stays the same function."""
    return {"a": P, "b": Q, "wa": c, "wb": c, "v": sp.Integer(1) / c}


@pytest.mark.theorem(
    73,
    "A leaf that adds nothing to a neuron gets nothing of it, if a neuron is shared by a softmax "
    "of what is added.",
    "refuted",
)
def test_a_softmax_gives_a_part_to_what_adds_nothing(record_property):
    at = {**at_neuron(), "a": P, "wa": 0, "b": sp.log(Q)}
    parts = decomposed(neuron("reciprocal"), at, share=by_softmax)
    assert identical(total(decomposed(neuron("reciprocal"), at)["a"]), 0)
    share = (parts["a"][0] * sp.log(Q)).replace(sp.log(Q) ** -1, 1 / sp.log(Q))
    assert differ_at(sp.cancel(share), 0, {Q: 2})
    record_property("witness", "added 0 and log 2: shares 1/3 and 2/3 of the neuron, not 0 and 1")


@pytest.mark.theorem(
    73,
    "Shares by a softmax stay as they are when the weights into a ReLU neuron are multiplied by c "
    "> 0 and those out of it divided by c, which changes no output.",
    "refuted",
)
def test_shares_by_a_softmax_depend_on_the_scale_of_a_neuron(record_property):
    logs = {"a": sp.log(P), "b": sp.log(Q)}  # so that the exponentials are rational
    shares, plain = [], []
    for c in (1, 2):
        at = at_neuron(c) | logs
        value = denoted(neuron(), at)[0]
        shares.append(decomposed(neuron(), at, share=by_softmax)["a"][0] / value)
        plain.append(decomposed(neuron(), at_neuron(c))["a"][0])
    assert identical(*plain)
    assert differ_at(shares[0], shares[1], {P: 2, Q: 1})
    record_property("witness", "added log 2 and 0, c = 2: shares of the first 2/3 versus 4/5")


@pytest.mark.theorem(
    73,
    "DePass with the gate of a gated unit held gives a leaf what RelP gives it.",
    "refuted",
)
def test_a_held_gate_and_half_a_gate_are_two_explanations(record_property):
    gate = relu(linear(A, "wa"))
    held = Node(kinds.READOUT, (gate, B))
    at = {"a": P, "b": Q, "wa": 1}
    parts, halves = decomposed(held, at), explain(gate * B, at, RELP)
    assert identical(denoted(held, at), denoted(gate * B, at))
    assert identical(parts["b"][0], P * Q)
    assert identical(halves["a"] + halves["b"], P * Q)
    assert differ_at(parts["b"][0], halves["b"], {P: 2, Q: 3})
    record_property("witness", "relu(2) times 3: the signal 6 by DePass, 3 by RelP")

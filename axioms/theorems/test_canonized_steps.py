"""Rewrites that canonization does not undo, and which change no explanation all the same.

They change what lies between two layers, between queries and keys, or in front of a LayerNorm.
Canonized, the two graphs differ by one step of the same rewrite, and the plain rules of AttnLRP
give both one explanation: this is the induction of theorem 64 once more, with "alike" replaced by
"one such step apart, or alike".  It goes through a node above, since what passes do behind the
second layer multiplies its weight from the right and adds to its bias, what they do before the
first multiplies from the left, and the step changes both between.

As epsilon -> 0 a region of sums and layers passes relevance on by the matrix that it makes up, in
however many steps (theorem 61), so that two graphs may also differ inside of such regions.

The graphs are those of theorem 64, with a parameter in the weights of the layers that are changed;
an inserted identity layer has no neurons of its own (theorem 64 has the witness).

Main statements
  65  duplicated and permuted neurons and permuted channels of Q and K leave one explanation of the
      canonized graphs, at every epsilon >= 0
  65  so do distributed layers, rescaled Q and K and a centred input of LayerNorm as epsilon -> 0
"""

import pytest
import sympy as sp

from axioms import kinds
from axioms.graph import Node, leaf, parameter
from axioms.invariance.canonizers import canonize
from axioms.invariance.confluence import BESIDE, IN_THE_LIMIT, alike, regions
from axioms.invariance.overlaps import SYMBOLS, critical_pairs
from axioms.invariance.rewrites import REWRITES
from axioms.invariance.rule_sets import RULE_SETS
from axioms.invariance.scoreboard import lemma
from axioms.invariance.templates import TEMPLATES

EPS = sp.Symbol("epsilon", positive=True)
A, B, W, U, D, E = (leaf("a"), leaf("b"), *map(parameter, "mnde"))


def linear(*operands):
    return Node(kinds.LINEAR, operands)


def _active(x):
    return Node(kinds.ACTIVATION, (x,), attributes={"function": "tanh"})


BIASES = (((), ()), ((D,), (E,)))  # of both layers
HIDDEN = [
    linear(between(linear(A, W, *first)), U, *last)
    for first, last in BIASES
    for between in (_active, lambda x: x)
]
SCORES = [
    Node(kinds.SCORES, (linear(A, W, *first), linear(B, U, *last)), attributes={"scale": 1})
    for first, last in BIASES
]
NORM = Node(kinds.LAYER_NORM, (A, D, E), attributes={"norm_eps": 1})
LEFT = {
    "duplicate neuron": HIDDEN,
    "permute neurons": HIDDEN,
    "permute channels of Q and K": SCORES,
    "distribute linear": [linear(A + B, parameter("w"), *bias) for bias in ((), (D,))],
    "rescale Q and K": SCORES,
    "centre before LayerNorm": [NORM],
}


def one_step_apart(name, one, other):
    """Whether canonized graphs differ by at most one step, or only inside of a region."""
    if name in ("distribute linear", "centre before LayerNorm"):
        return any(alike(x, other, SYMBOLS, by=regions) for x in (one, *REWRITES[name](one)))
    return any(alike(x, other, SYMBOLS) for x in (*REWRITES[name](one), one))


def decided(name, record_property):
    pairs = [
        pair for left in LEFT[name] for right in REWRITES[name](left)
        for pair in critical_pairs(left, right)
    ]  # fmt: skip
    assert pairs
    for left, right in pairs:
        assert one_step_apart(name, canonize(left), canonize(right)), (str(left), str(right))
    plain = next(rule_set for rule_set in RULE_SETS if rule_set.name == "AttnLRP")
    for eps in (0,) if name in IN_THE_LIMIT else (0, EPS):
        assert all(lemma(plain, name, template, eps) for template in TEMPLATES[name])
    record_property("method", f"{len(pairs)} critical pairs over generic weights, and the step")


@pytest.mark.theorem(
    65,
    "Duplicating or permuting neurons of two layers and permuting the channels of Q and K change "
    "no explanation of the canonized graph, at every epsilon >= 0.",
    "proved",
)
@pytest.mark.parametrize("name", BESIDE)
def test_steps_that_canonization_keeps_change_no_explanation(name, record_property):
    decided(name, record_property)


@pytest.mark.theorem(
    65,
    "Distributing a layer over a sum, rescaling Q and K and centring the input of a LayerNorm "
    "change no explanation of the canonized graph as epsilon -> 0.",
    "proved",
)
@pytest.mark.parametrize("name", IN_THE_LIMIT)
def test_steps_that_canonization_keeps_change_no_limit(name, record_property):
    decided(name, record_property)

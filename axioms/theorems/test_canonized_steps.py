"""Rewrites that canonization does not undo, yet that change no explanation.

They change what lies between two layers, between queries and keys, or in front of a LayerNorm.
Canonized, the two graphs differ by one step of the same rewrite, and the plain rules of AttnLRP
give both one explanation: this is the induction of theorem 64 once more, with "alike" replaced by
"one such step apart, or alike".  It goes through a node above, since what passes do behind the
second layer multiplies its weight from the right and adds to its bias, what they do before the
first multiplies from the left, and the step changes both between.

As epsilon -> 0 a region of sums and layers passes relevance on by the matrix that it makes up, in
however many steps (theorem 61), so that two graphs may also differ inside of such regions.

Attention reads values, A (y W + 1 b) = (A y) W + 1 b, and its readout gives half of what arrives to
A and half to the values, whose parts get it by the same matrix A' wherever W is applied; what the
row b sends to A is one number for all keys, of which the softmax passes nothing on.  So a region of
values goes on behind the readout.

The graphs are those of theorem 64, with a parameter in the weights of the layers that are changed;
an inserted identity layer has no neurons of its own (theorem 64 has the witness).
"""

from functools import partial

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import Node, activation, attend, leaf, linear, parameter, scores
from lrp_axioms.axioms.rewrites.canonizers import canonize
from lrp_axioms.axioms.rewrites.rewrites import (
    BESIDE,
    EVERY_REWRITE,
    IN_THE_LIMIT,
    OF_HEADS,
    REWRITES,
)
from lrp_axioms.axioms.scoreboard.rule_sets import RULE_SETS
from lrp_axioms.axioms.scoreboard.scoreboard import lemma
from lrp_axioms.axioms.scoreboard.witness import of_family
from lrp_axioms.axioms.theorems.confluence import Comparison, regions
from lrp_axioms.axioms.theorems.overlaps import AROUND, SYMBOLS, critical_pairs

THEMES = {65: ["Implementation invariance", "Linear layers, sums and activations", "Norms"]}
MEANINGS = {
    65: "Canonized, graphs that differ by the order of neurons or of channels of Q and K, or by "
    "the number of neurons, have one explanation by AttnLRP too. As epsilon -> 0 so do graphs "
    "whose layers are distributed over sums, whose Q and K are rescaled, whose input of LayerNorm "
    "is centred, or whose heads are written in another way that keeps their weights.",
}

EPS = sp.Symbol("epsilon", positive=True)
PLAIN = next(rule_set for rule_set in RULE_SETS if rule_set.name == "AttnLRP")
A, B, C, W, U, D, E = (*map(leaf, "abc"), *map(parameter, "mnde"))


BIASES = (((), ()), ((D,), (E,)))  # of both layers
HIDDEN = [
    linear(between(linear(A, W, *first)), U, *last)
    for first, last in BIASES
    for between in (partial(activation, "tanh"), lambda x: x)
]
SCORES = [scores(linear(A, W, *first), linear(B, U, *last)) for first, last in BIASES]
NORM = Node(kinds.LAYER_NORM, (A, D, E), attributes={"norm_eps": 1})
LEFT = {
    "duplicate neuron": HIDDEN,
    "permute neurons": HIDDEN,
    "permute channels of Q and K": SCORES,
    "distribute linear": [linear(A + B, parameter("w"), *bias) for bias in ((), (D,))],
    "rescale Q and K": SCORES,
    "centre before LayerNorm": [NORM],
}


X = leaf("x")
INSIDE = {
    "change channels of Q and K": [attend(graph, X) for graph in SCORES],
    "drop bias of K": [attend(scores(A, linear(B, W, D)), X)],
    "duplicate keys": [attend(scores(A, B), C)],
}
"""No pass looks at a softmax or a readout, so that nothing has to stand around these."""
HEADS = INSIDE | {
    "change channels of V and O": [
        linear(attend(X, linear(A, W, *first)), U, *last) for first, last in BIASES
    ],
    "move bias of V": [attend(X, linear(A, W, D))],
    "split head": [attend(X, A + B)],
}


def one_step_apart(name):
    """Asks whether canonized graphs differ by at most one step, or only inside of a region."""
    if name in ("distribute linear", "centre before LayerNorm"):
        within = Comparison(SYMBOLS, by=regions)
        return lambda one, other: within.any_alike([one, *REWRITES[name](one)], [other])
    compared = Comparison(SYMBOLS)
    return lambda one, other: compared.any_alike(steps(name, one), [other])


def steps(name, root):
    """A graph, and all that are one step away: of a change of channels by any matrix."""
    return (root, *of_family(EVERY_REWRITE[name], root))


def same_heads(name):
    """Asks whether canonized graphs differ by at most one step each, or only inside of a region."""
    compared = Comparison(SYMBOLS, by=partial(regions, through_heads=True))
    others = partial(steps, name) if name == "drop bias of K" else lambda graph: [graph]
    return lambda one, other: compared.any_alike(steps(name, one), others(other))


def decided(name, record_property):
    pairs = [
        pair for left in LEFT[name] for right in steps(name, left)[1:]
        for pair in critical_pairs(left, right)
    ]  # fmt: skip
    assert pairs
    close = one_step_apart(name)
    for left, right in pairs:
        assert close(canonize(left), canonize(right)), (str(left), str(right))
    for eps in (0,) if name in IN_THE_LIMIT else (0, EPS):
        assert all(lemma(PLAIN, name, template, eps) for template in REWRITES[name].templates)
    record_property("method", f"{len(pairs)} critical pairs over generic weights, and the step")


@pytest.mark.theorem(
    65,
    "Where a parameter reaches the weights of the layers that are changed, duplicating or "
    "permuting neurons of two layers and permuting the channels of Q and K change no explanation "
    "of the canonized graph by AttnLRP, at every epsilon >= 0.",
    "proved",
    scope="all critical pairs, of 2 x 2 entries at most, with a parameter in the weights of the "
    "layers that are changed; any graph by induction",
)
@pytest.mark.parametrize("name", BESIDE)
def test_steps_that_canonization_keeps_change_no_explanation(name, record_property):
    decided(name, record_property)


@pytest.mark.theorem(
    65,
    "Distributing a layer over a sum, rescaling Q and K by c > 0 and centring the input of a "
    "LayerNorm change no explanation of the canonized graph by AttnLRP as epsilon -> 0.",
    "proved",
    given=["c > 0: what Q is multiplied by"],
    scope="all critical pairs, of 2 x 2 entries at most, with a parameter in the weights of the "
    "layers that are changed; any graph by induction",
)
@pytest.mark.parametrize("name", IN_THE_LIMIT)
def test_steps_that_canonization_keeps_change_no_limit(name, record_property):
    decided(name, record_property)


@pytest.mark.theorem(
    65,
    "Changing the channels of Q and K or of V and O, dropping the bias of K, moving the bias of V "
    "behind a head, splitting a head and duplicating keys change no explanation of the canonized "
    "graph by AttnLRP as epsilon -> 0.",
    "proved",
    scope="all critical pairs, of 2 x 2 entries at most, with a parameter in the weights of the "
    "layers that are changed; any graph by induction",
)
@pytest.mark.parametrize("name", OF_HEADS)
def test_steps_of_heads_that_canonization_keeps_change_no_limit(name, record_property):
    around = ["nothing"] if name in INSIDE else [*AROUND]
    pairs = [
        pair for left in HEADS[name] for right in steps(name, left)[1:]
        for pair in critical_pairs(left, right, around=around)
    ]  # fmt: skip
    assert pairs
    same = same_heads(name)
    for left, right in pairs:
        assert same(canonize(left), canonize(right)), (str(left), str(right))
    assert all(lemma(PLAIN, name, template, 0) for template in EVERY_REWRITE[name].templates)
    record_property("method", f"{len(pairs)} critical pairs over generic weights, and the step")

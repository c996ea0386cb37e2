"""Routers of experts, and RMSNorm under the rewrites that language models use.

    y = sum over experts k of p_k E_k(x), with p = softmax(z), its chosen part divided by its sum,
    or sigmoid(z)

The sum is a readout of the experts by their weights (Shazeer et al., 2017, arXiv 1701.06538, Eq. 1;
Mixtral, 2024, arXiv 2401.04088, Sec. 2.1).  AttnLRP gives half to the weights and Eq. 5 behind
them, CP-LRP holds the weights.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, CONSTANT, CP_LRP, RELP, STABILISER, TAYLOR
from lrp_axioms.axioms.decide.denotation import denoted, same_value
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical, where
from lrp_axioms.axioms.graph import Node, activation, attend, leaf, linear, parameter
from lrp_axioms.axioms.rules.attention import softmax, taylor
from lrp_axioms.axioms.rules.ledger import ledger
from lrp_axioms.axioms.rules.products import bilinear_epsilon
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {74: ["Norms"]}
DERIVATIONS = {
    74: ["value only", "softmax", "LayerNorm, deviation held", "RMSNorm, root mean square held"],
}
MEANINGS = {
    74: "As epsilon -> 0, a router of experts that is held passes on all relevance, and is "
    "explained alike however its weights are computed. With halves its softmax absorbs relevance, "
    "experts that were not chosen may receive some, and a router that changes nothing takes half. "
    "RMSNorm with its root held survives rotations and folded weights.",
}

N = 3
EPS, S = sp.symbols("epsilon S", positive=True)  # S: the root mean square of the row
Z, EXPERTS, R = generic("z", 1, N), generic("v", N, 1), sp.Symbol("R", real=True)
E = generic("e", 1, N, positive=True)  # exponentials of the logits


def routed(weights):
    return Node(kinds.READOUT, (weights, leaf("experts")))


BY_SOFTMAX = attend(leaf("z"), leaf("experts"))
BY_SIGMOID = routed(activation("sigmoid", leaf("z")))
AT = {"z": E.applyfunc(sp.log), "experts": EXPERTS}


@pytest.mark.theorem(
    74,
    "With the router held, expert k receives R p_k E_k/(y + epsilon sign y): all of R in total as "
    "epsilon -> 0.",
    "proved",
    scope="3 experts; either sign",
)
def test_a_held_router_conserves():
    p = softmax(Z, exp_z=E)
    y, s = (p * EXPERTS)[0], sp.Symbol("s", real=True)
    signs = {BY_SOFTMAX: sp.Matrix([[s]])}
    books = ledger(BY_SOFTMAX, AT, CP_LRP, relevance=R, eps=EPS, signs=signs)
    found = explain(BY_SOFTMAX, AT, RELP, relevance=R, eps=EPS, signs=signs)
    for k in range(N):
        assert identical(found["experts"][k], R * p[k] * EXPERTS[k] / (y + EPS * s))
    absorbed = {cause: amount for (_, cause), amount in books.absorbed.items()}
    assert identical(absorbed[STABILISER], R * EPS * s / (y + EPS * s))
    assert identical(absorbed[CONSTANT], 0)
    assert identical(sum(explain(BY_SOFTMAX, AT, CP_LRP, relevance=R)["experts"]), R)


@pytest.mark.theorem(
    74,
    "With half to each factor, the experts receive R/2 as epsilon -> 0, and the softmax of the "
    "router absorbs R_k (1 - z_k + zbar) of its half, R_k = R p_k E_k/(2 y): all of it at equal "
    "logits.",
    "proved",
    scope="3 experts",
)
def test_the_softmax_of_a_router_absorbs_of_its_half():
    p = softmax(Z, exp_z=E)
    weights, experts = bilinear_epsilon(p, EXPERTS, sp.Matrix([[R]]), eps=0)
    (logits,) = taylor(Z, weights, exp_z=E)
    zbar = (Z * p.T)[0]
    assert identical(sum(experts), R / 2)
    absorbed = sum(weights[k] * (1 - Z[k] + zbar) for k in range(N))
    assert identical(R / 2 - sum(logits), absorbed)
    (flat,) = taylor(sp.Symbol("c", real=True) * sp.ones(1, N), weights, exp_z=sp.ones(1, N))
    assert identical(sum(flat), 0)  # at equal logits nothing is handed on
    books = ledger(BY_SOFTMAX, AT, ATTNLRP, relevance=R)
    assert {cause for _, cause in books.absorbed} == {STABILISER, TAYLOR}


@pytest.mark.theorem(
    74,
    "With half to each factor, a router by sigmoids receives half of R and absorbs none of it: the "
    "residual is 0 as epsilon -> 0.",
    "proved",
    scope="2 experts",
)
def test_a_sigmoid_router_conserves():
    at = {"z": Z[:, :2], "experts": EXPERTS[:2, :]}
    value = denoted(BY_SIGMOID, at)
    found = explain(BY_SIGMOID, at, ATTNLRP, relevance=R * value)
    assert same_value(sum(found["z"]), R * value[0] / 2)
    assert same_value(sum(found["experts"]), R * value[0] / 2)


CHOSEN = 2  # of three experts, the first two


def chosen_first(relevance):
    """Relevance of the logits where the softmax is over the chosen logits alone."""
    (found,) = taylor(Z[:, :CHOSEN], relevance, exp_z=E[:, :CHOSEN])
    return found.row_join(sp.zeros(1, 1))


def softmax_first(relevance):
    """Relevance of logits if softmax runs over all and its chosen part is divided by a held sum."""
    (found,) = taylor(Z, relevance.row_join(sp.zeros(1, 1)), exp_z=E)
    return found


def halves():
    """Relevance of the chosen weights by Eq. 3."""
    weights = softmax(Z[:, :CHOSEN], exp_z=E[:, :CHOSEN])
    return bilinear_epsilon(weights, EXPERTS[:CHOSEN, :], sp.Matrix([[R]]), eps=0)[0]


@pytest.mark.theorem(
    74,
    "The softmax of the chosen logits, and the chosen part of a softmax of all divided by its sum, "
    "are the same weights; with the router held they give every expert the same relevance.",
    "proved",
    scope="2 chosen ones of 3 experts",
)
def test_a_held_router_survives_the_order_of_choice_and_softmax():
    whole = softmax(Z, exp_z=E)[:, :CHOSEN]
    one, other = softmax(Z[:, :CHOSEN], exp_z=E[:, :CHOSEN]), whole / sum(whole)
    assert identical(one, other)
    root = routed(leaf("weights"))
    found = [
        explain(root, {"weights": w, "experts": EXPERTS[:CHOSEN, :]}, CP_LRP, relevance=R)
        for w in (one, other)
    ]
    assert identical(found[0]["experts"], found[1]["experts"])


@pytest.mark.theorem(
    74,
    "With half to each factor and the divisor held, the softmax of the chosen logits, and the "
    "chosen part of a softmax of all divided by its sum, give every logit of the router the same "
    "relevance.",
    "refuted",
)
def test_experts_that_were_not_chosen_receive_relevance(record_property):
    one, other = (route(halves()) for route in (chosen_first, softmax_first))
    p = softmax(Z, exp_z=E)
    assert identical(other[2], -Z[2] * p[2] * R / 2)  # of the expert that was not chosen
    assert identical(one[2], 0 * one[0])
    point = where((Z, [1, 1, 1]), (E, [1, 1, 1]), (EXPERTS, [1, 1, 1]), (R, 6))
    assert differ_at(one[2], other[2], point)
    record_property("witness", "logits 1, experts 1, R = 6: the third logit 0 versus -1")


@pytest.mark.theorem(
    74,
    "A router that leaves a token one expert, with weight 1 whatever its logit, receives nothing "
    "by halves.",
    "refuted",
)
def test_a_router_of_one_expert_takes_half(record_property):
    z, v = sp.symbols("z v", positive=True)
    one = sp.Matrix([[1]])
    weights, experts = bilinear_epsilon(one, v * one, v * one, eps=0)
    (logit,) = taylor(z * one, weights)
    assert identical(weights[0] + experts[0], v)
    assert identical(logit[0] * (1 + z), 0)  # the softmax of one logit absorbs all of its half
    assert differ_at(weights[0], 0, {v: 6})
    record_property("witness", "one expert of output 6: its router gets 3, not 0, and absorbs it")


# RMSNorm


def rms(x, name="w", *, norm_eps):
    return Node(kinds.RMS_NORM, (x, parameter(name)), attributes={"norm_eps": norm_eps})


ROW = generic("x", 1, 2)
NORM_EPS = S**2 - sum(v**2 for v in ROW) / 2  # so that the root mean square is S
G, OUT = generic("g", 1, 2), generic("o", 2, 2)


@pytest.mark.theorem(
    74,
    "As epsilon -> 0 and with its root held, RMSNorm gives the same relevance if its weight is "
    "folded into the linear layer behind it.",
    "proved",
    scope="2 channels",
)
def test_the_weight_of_rms_norm_can_be_folded():
    at = {"x": ROW, "w": G, "one": sp.ones(1, 2), "out": OUT, "folded": sp.diag(*G) * OUT}
    one = linear(rms(leaf("x"), norm_eps=NORM_EPS), "out")
    other = linear(rms(leaf("x"), "one", norm_eps=NORM_EPS), "folded")
    assert identical(denoted(one, at), denoted(other, at))
    y = denoted(one, at).multiply_elementwise(generic("r", 1, 2))
    assert identical(*(explain(graph, at, ATTNLRP, relevance=y)["x"] for graph in (one, other)))


@pytest.mark.theorem(
    74,
    "As epsilon -> 0 and with its root held, RMSNorm with weights 1 gives the same relevance if "
    "the channels are rotated before it and back behind it, by any angle.",
    "proved",
    scope="2 channels; all angles but half turns",
)
def test_rms_norm_survives_a_rotation_of_the_stream():
    t = sp.Symbol("t", real=True)  # tan of half the angle
    cos, sin = (1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)
    turn = sp.Matrix([[cos, sin], [-sin, cos]])
    at = {"x": ROW, "one": sp.ones(1, 2), "out": OUT, "turn": turn, "back": turn.T * OUT}
    turned = (ROW * turn).applyfunc(sp.cancel)
    assert identical(sum(v**2 for v in turned), sum(v**2 for v in ROW))  # so that S is the same
    plain = linear(rms(leaf("x"), "one", norm_eps=NORM_EPS), "out")
    value = denoted(plain, at)
    g = generic("r", 1, 2)
    found = explain(plain, at, ATTNLRP, relevance=value.multiply_elementwise(g))["x"]
    rows = {"x": turned, "one": at["one"], "back": at["back"]}
    h = S**2 - sum(v**2 for v in turned) / 2
    behind = linear(rms(leaf("x"), "one", norm_eps=h), "back")
    assert identical(denoted(behind, rows), value)
    at_turned = explain(behind, rows, ATTNLRP, relevance=value.multiply_elementwise(g))["x"]
    before = linear(leaf("x"), "turn")
    other = explain(before, {"x": ROW, "turn": turn}, ATTNLRP, relevance=at_turned)["x"]
    assert identical(found, other)

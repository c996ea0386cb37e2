"""MambaLRP: conservation by holding the selection of a state space model, and its blind spot.

    h_t = A_t h_(t-1) + B_t x_t        y_t = C_t h_t        A_t, B_t, C_t chosen by the tokens

MambaLRP (Jafari et al., 2024, arXiv 2406.07592, Sec. 4) defines its rules by what it detaches
before gradient x input: A, B and C of the recurrence, the ratio y/x of SiLU, and half of a gate.
Products by A, B and C are readouts here, so that the value-only rule holds them.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, MAMBA_LRP, STABILISER
from lrp_axioms.axioms.decide.denotation import denoted
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import Node, activation, leaf, linear, readout
from lrp_axioms.axioms.rules.ledger import causes, ledger
from lrp_axioms.axioms.rules.propagate import explain

THEMES = {72: ["Conservation"]}
DERIVATIONS = {72: ["product", "state space step", "activation"]}
MEANINGS = {
    72: "MambaLRP holds the selected coefficients of a state space model, and without biases it "
    "passes on all relevance as epsilon -> 0. It agrees with the matrix of attention that the "
    "recurrence amounts to. Halves at every product would discount tokens by their distance. A "
    "token that only selects gets nothing.",
}

TOKENS, STATES = 3, 2
EPS, G = sp.Symbol("epsilon", positive=True), sp.Symbol("g", real=True)


def states(a, b, x):
    """h_t of every token, from the nodes of A, B and x by token."""
    found = [readout(b[0], x[0])]
    for t in range(1, len(x)):
        found.append(readout(a[t], found[-1]) + readout(b[t], x[t]))
    return found


def recurrence():
    """The last output, with all of A, B, C and x as leaves."""
    a, b, x = ([leaf(f"{name}{t}") for t in range(TOKENS)] for name in "abx")
    return readout(leaf("c"), states(a, b, x)[-1])


def weights(s):
    """The nodes whose product takes x_s to the last output: C A ... A B."""
    return [leaf("c"), *(leaf(f"a{t}") for t in range(TOKENS - 1, s, -1)), leaf(f"b{s}")]


def as_attention():
    """The recurrence as a sum of tokens, each times one number."""
    terms = []
    for s in range(TOKENS):
        product, *rest = weights(s)
        for factor in rest:
            product = readout(product, factor)
        terms.append(readout(product, leaf(f"x{s}")))
    return Node(kinds.ADD, tuple(terms))


def point(states=1):
    shapes = {"a": (states, states), "b": (states, 1), "x": (1, 1)}
    found = {f"{n}{t}": generic(f"{n}{t}_", *shapes[n]) for n in shapes for t in range(TOKENS)}
    return {**found, "c": generic("c", 1, states)}


def of_tokens(found):
    return [found[f"x{s}"][0] for s in range(TOKENS)]


def contributions(at):
    """Contribution of every token to the last output, by SymPy's matrices alone."""
    return [sp.prod((at[w.name] for w in weights(s)[1:]), at["c"])[0] * at[f"x{s}"][0]
            for s in range(TOKENS)]  # fmt: skip


@pytest.mark.theorem(
    72,
    "With A, B and C held, token s receives C_t A_t ... A_(s+1) B_s x_s per unit of y_t as epsilon "
    "-> 0, and A, B and C nothing: the residual of the recurrence is 0.",
    "proved",
    scope="3 tokens of one channel, 2 states",
)
def test_the_held_recurrence_gives_every_token_what_it_adds():
    at, root = point(STATES), recurrence()
    y = denoted(root, at)
    found = explain(root, at, MAMBA_LRP, relevance=G * y)
    for relevance, added in zip(of_tokens(found), contributions(at), strict=True):
        assert identical(relevance, G * added)
    assert identical(sum(of_tokens(found)), G * y[0])
    assert all(found[x].is_zero_matrix for x in found if x[0] in "abc")


@pytest.mark.theorem(
    72,
    "At finite epsilon, what the tokens miss of the recurrence is R p/(z + p) of each of its sums "
    "and products z, R arriving there, p = epsilon sign z, and nothing else.",
    "proved",
    scope="one step of one state; any number by induction",
)
def test_stabilisers_alone_absorb_in_a_recurrence():
    root = recurrence()
    assert {cause for _, cause in causes(root, MAMBA_LRP)} == {STABILISER}
    step = readout(leaf("a"), leaf("h")) + readout(leaf("b"), leaf("x"))
    names = {"a": (1, 1), "h": (1, 1), "b": (1, 1), "x": (1, 1)}
    at = {name: generic(name, *shape) for name, shape in names.items()}
    signs = {node: generic(f"s{k}_", 1, 1) for k, node in enumerate((step, *step.args))}
    books = ledger(step, at, MAMBA_LRP, eps=EPS, signs=signs, relevance=G)
    assert identical(books.gap, 0)
    z, s = denoted(step, at)[0], signs[step][0]
    assert identical(books.absorbed[step, STABILISER], G * EPS * s / (z + EPS * s))
    for product in step.args:
        own, s_own = denoted(product, at)[0], signs[product][0]
        arriving = G * own / (z + EPS * s)
        lost = arriving * EPS * s_own / (own + EPS * s_own)
        assert identical(books.absorbed[product, STABILISER], lost)


@pytest.mark.theorem(
    72,
    "With A, B and C held, the recurrence and the matrix of attention that it amounts to give "
    "every token the same relevance as epsilon -> 0.",
    "proved",
    scope="3 tokens, one state",
)
def test_recurrence_and_attention_agree_where_the_selection_is_held():
    at = point()
    one, other = (recurrence(), as_attention())
    assert identical(denoted(one, at), denoted(other, at))
    y = denoted(one, at)
    for graph in (one, other):
        found = explain(graph, at, MAMBA_LRP, relevance=G * y)
        assert identical(sp.Matrix(of_tokens(found)), G * sp.Matrix(contributions(at)))


@pytest.mark.theorem(
    72,
    "With half to each factor of A h, B x and C h instead, token s receives 2^-(t - s + 2) of what "
    "it receives with them held, as epsilon -> 0.",
    "proved",
    scope="3 tokens, one state",
)
def test_the_half_rule_discounts_tokens_by_their_distance():
    at, root = point(), recurrence()
    found = explain(root, at, ATTNLRP, relevance=G * denoted(root, at))
    last = TOKENS - 1
    for s, (relevance, added) in enumerate(zip(of_tokens(found), contributions(at), strict=True)):
        assert identical(relevance, G * added / 2 ** (last - s + 2))
    assert identical(sum(map(sum, found.values())), G * denoted(root, at)[0])


def ones(**others):
    """One state: all of A, B, C and x are 1, except for ``others``."""
    return {name: sp.Integer(1) for name in point()} | others


@pytest.mark.theorem(
    72,
    "With half to each factor, the recurrence and the matrix of attention give every token the "
    "same relevance as epsilon -> 0.",
    "refuted",
)
def test_under_the_half_rule_the_way_of_writing_shows(record_property):
    x = sp.Symbol("x", positive=True)
    at = ones(x0=x)
    one, other = (explain(g, at, ATTNLRP) for g in (recurrence(), as_attention()))
    assert identical(denoted(recurrence(), at), denoted(as_attention(), at))
    assert differ_at(one["x0"], other["x0"], {x: 1})
    record_property("witness", "A, B, C and 3 tokens all 1: the first token 1/16 versus 1/2")


# A whole block: projections, a convolution, activations, selection, a skip D and a gate


def active(x):
    """The reciprocal stands for SiLU: the identity rule treats all activations alike."""
    return activation("reciprocal", x)


WEIGHTS = ("in", "gate", "now", "before", "A", "B", "C", "D", "out")


def block():
    """The second of two tokens after a Mamba block of one channel and one state."""
    x = [leaf("x0"), leaf("x1")]
    inner = [linear(token, "in") for token in x]
    v0 = active(linear(inner[0], "now"))
    v1 = active(linear(inner[1], "now") + linear(inner[0], "before"))
    v = [v0, v1]
    a, b = [None, active(linear(v1, "A"))], [linear(token, "B") for token in v]
    y = readout(linear(v1, "C"), states(a, b, v)[-1]) + linear(v1, "D")
    return linear(y * active(linear(x[1], "gate")), "out")


def detached(x0, x1, h0, h1, w):
    """The block with everything detached that the paper detaches, by hand; h are held tokens."""
    ratio = lambda held: 1 / held**2  # of the reciprocal and its input
    before = lambda x: x * w["in"] * w["now"]
    after = lambda x, y: y * w["in"] * w["now"] + x * w["in"] * w["before"]
    v0, held_v0 = before(x0) * ratio(before(h0)), 1 / before(h0)
    v1, held_v1 = after(x0, x1) * ratio(after(h0, h1)), 1 / after(h0, h1)
    a = 1 / (held_v1 * w["A"])
    state = a * held_v0 * w["B"] * v0 + held_v1 * w["B"] * v1
    held_state = a * held_v0**2 * w["B"] + held_v1**2 * w["B"]
    y = held_v1 * w["C"] * state + v1 * w["D"]
    held_y = held_v1 * w["C"] * held_state + held_v1 * w["D"]
    gate, held_gate = x1 * w["gate"] * ratio(h1 * w["gate"]), 1 / (h1 * w["gate"])
    return w["out"] * (y * held_gate + held_y * gate) / 2


@pytest.mark.theorem(
    72,
    "As epsilon -> 0, MambaLRP of a block without biases over two tokens is input times the "
    "gradient of the block in which A, B, C, ratios of activations and half of the gate are "
    "detached, and adds up to all of R.",
    "proved",
    scope="2 tokens of one channel",
)
def test_a_mamba_block_conserves_and_is_the_gradient_of_the_detached_block():
    root, w = block(), {name: sp.Symbol(f"w_{name}", real=True) for name in WEIGHTS}
    x, h = sp.symbols("x0 x1", real=True), sp.symbols("h0 h1", real=True)
    at = {"x0": x[0], "x1": x[1], **w}
    value = denoted(root, at)[0]
    found = explain(root, at, MAMBA_LRP, relevance=G * value)
    f = detached(x[0], x[1], h[0], h[1], w)
    for token, name in zip(x, ("x0", "x1"), strict=True):
        slope = sp.diff(f, token).subs(dict(zip(h, x, strict=True)))
        assert identical(found[name], G * token * slope)
    assert identical(found["x0"] + found["x1"], G * value)
    assert {cause for _, cause in causes(root, MAMBA_LRP)} == {STABILISER}
    assert MAMBA_LRP.rules.items() <= CP_LRP.rules.items()


def selective():
    """A held to be a leaf, and B and C linear in their token."""
    x = [leaf(f"x{t}") for t in range(2)]
    a, b = [None, leaf("a")], [linear(token, "B") for token in x]
    return readout(linear(x[1], "C"), states(a, b, x)[-1])


@pytest.mark.theorem(
    72,
    "Where B and C are linear in their token and A is a constant, gradient x input sums to 3 y_t: "
    "its residual is -2 y_t, and that of MambaLRP 0.",
    "proved",
    scope="2 tokens, one state",
)
def test_gradient_x_input_counts_the_selection():
    at = {name: sp.Symbol(name, real=True) for name in ("x0", "x1", "a", "B", "C")}
    root = selective()
    y = denoted(root, at)[0]
    total = lambda rules: sum(explain(root, at, rules)[x] for x in ("x0", "x1"))
    assert identical(total(GRADIENT_X_INPUT), 3 * y)
    assert identical(total(MAMBA_LRP), y)


@pytest.mark.theorem(
    72,
    "A token whose removal changes the output receives relevance from MambaLRP.",
    "refuted",
)
def test_a_token_that_acts_by_selection_alone_receives_nothing(record_property):
    x, u = sp.symbols("x u", positive=True)
    root = readout(linear(leaf("u"), "A"), readout(leaf("b"), leaf("x")))
    at = {"x": x, "u": u, "A": 1, "b": 1}
    found = explain(root, at, MAMBA_LRP)
    loo = denoted(root, at)[0] - denoted(root, {**at, "u": 0})[0]
    assert identical(found["x"], u * x)
    assert differ_at(found["u"], loo, {x: 3, u: 2})
    record_property("witness", "y = u x at u = 2, x = 3, u choosing A alone: u gets 0, and its "
                    "removal takes 6")  # fmt: skip

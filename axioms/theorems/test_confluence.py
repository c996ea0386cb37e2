"""Canonization ends, and gives one graph to every class of rewrites.

``canonize`` is two passes, ``merge`` and ``fold_layers``.  Each is a fold: what it makes of a node
depends on the node's kind and on what it made of the operands.  Graphs are *alike* if they are the
same up to the order of factors and terms and to fixed parts of equal value (``confluence.py``),
and the statements are about graphs in which

  - no input reaches a weight or a bias, and one reaches what each layer is applied to;
  - a parameter reaches the row of every scale and shift;

and in which any other operation may stand, since the passes look at none.  A layer inside of a
weight or a bias is part of a matrix, and its value is all that counts.

Induction.  Call two graphs interchangeable if (1) both are live or both fixed, and they canonize
alike; and (2) merged, they are both products, or both matrix products, of as many interchangeable
operands, scales counting as their product; or both the same constant 1, 0 or I, or a row; or
none of these.  Interchangeable operands make interchangeable nodes:

  - A product, or a matrix product, takes over the operands of an operand of its own kind and keeps
    any other.  So (2) is preserved; and ``fold_layers`` sees of each live factor only what it made
    of it.
  - A sum takes over terms, and ``fold_layers`` collects from each of them a term and a shift.
    Addition makes it the same whether they are collected from a sum at once or one level later.
  - A layer over what ``fold_layers`` made a layer becomes one with it, whose weight and bias are
    the same however many there are, since (A B) C = A (B C).  A layer of weight I drops out of both
    graphs, and leaves what is interchangeable.
  - Every other operation keeps what was made of its operands.

So a step that is taken deep inside of a graph changes nothing at the root if both of its sides are
interchangeable, whatever canonized graphs stand at its variables.  Passes ask of an operand only
which of ``overlaps.OPERANDS`` it is, and treat operands one at a time, so these stand for all.
``AROUND`` has every kind of node that asks, and so decides (2) by what becomes of it.
Shared nodes may be taken for copies: all rules are linear in relevance.
"""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP
from lrp_axioms.axioms.decide.identity import differ_at, generic, identical
from lrp_axioms.axioms.graph import CONSTANT, Node, constant, leaf, linear, parameter
from lrp_axioms.axioms.rewrites.canonizers import (
    LAYERING,
    MERGING,
    NEUTRAL,
    canonize,
    fold_layers,
    merge,
)
from lrp_axioms.axioms.rewrites.channels import batch_norm, repeated_row
from lrp_axioms.axioms.rewrites.rewrite import exchanged
from lrp_axioms.axioms.rewrites.rewrites import ALIKE, REWRITES
from lrp_axioms.axioms.rules.propagate import explain
from lrp_axioms.axioms.theorems.confluence import Comparison
from lrp_axioms.axioms.theorems.overlaps import FIXED, LEFT, LIVE, OPERANDS, SYMBOLS, critical_pairs

THEMES = {64: ["Implementation invariance"]}
MEANINGS = {
    64: "Canonized, all graphs whose layers have fixed weights and that differ only by brackets, "
    "order, folded layers or BatchNorm, or by ones, zeros and identities put in, are one graph, "
    "and so have one explanation.",
}

A, B, W, S, T = leaf("a"), leaf("b"), parameter("w"), parameter("s"), parameter("t")
EPS = sp.Symbol("epsilon", positive=True)


def body(node, *, weights):
    """Every use of a node outside biases; without ``weights``, outside weights and rows too."""
    yield node
    args = node.args
    if node.op == CONSTANT or (not weights and repeated_row(node) is not None):
        args = ()
    elif node.op == kinds.LINEAR:
        args = args[: 2 if weights else 1]
    for arg in args:
        yield from body(arg, weights=weights)


def size(root):
    """Operands of all operations that ``merge`` looks at; a layer counts for one."""
    counted = {kinds.LINEAR: lambda node: 1} | dict.fromkeys(NEUTRAL, lambda node: len(node.args))
    return sum(counted[x.op](x) for x in body(root, weights=True) if x.op in counted)


def unlayered(root):
    """Scales that are factors; operands; and shifts that are terms, or twice if in a layer."""
    nodes = list(body(root, weights=False))
    rows = lambda op: sum(
        repeated_row(x) is not None for node in nodes if node.op == op for x in node.args
    )
    terms = [x for node in nodes if node.op == kinds.ADD for x in node.args]
    biases = sum(x.op == kinds.LINEAR and len(x.args) == 3 for x in terms)
    operands = sum(len(x.args) for x in nodes if x.op != CONSTANT and repeated_row(x) is None)
    return rows(kinds.PRODUCT), operands, 2 * biases + rows(kinds.ADD)


PASSES = {"merge": (merge, MERGING, size), "fold_layers": (fold_layers, LAYERING, unlayered)}


def nodes_of_two(name):
    """Every node whose operands are ``OPERANDS``, as a pass meets it: merged before the second."""
    pairs = [(one(*"a"), two(*"b")) for one in OPERANDS.values() for two in OPERANDS.values()]
    found = [Node(op, pair) for op in NEUTRAL for pair in pairs]
    weights = [(w, *b) for w in (W, FIXED["identity"]("a")) for b in ((), (T,))]
    found += [linear(x("a"), *rest) for x in LIVE.values() for rest in weights]
    return found if name == "merge" else [merge(graph) for graph in found]


@pytest.mark.theorem(
    64,
    "The steps of a pass of canonization, taken in any order, end and end in the graph that the "
    "pass makes: each makes a measure smaller and leaves the result alike.",
    "proved",
    scope="all nodes of two operands, of 2 x 2 entries at most; any graph by induction",
)
@pytest.mark.parametrize("name", PASSES)
def test_the_steps_of_a_pass_end_in_one_graph(name, record_property):
    fold, steps, measure = PASSES[name]
    taken, compared = 0, Comparison(SYMBOLS)
    for graph in nodes_of_two(name):
        done = fold(graph)
        for node in dict.fromkeys(body(graph, weights=name == "merge")):
            for new in (step(node) for step in steps):
                if new is not node:
                    other, taken = exchanged(graph, node, new), taken + 1
                    assert measure(other) < measure(graph)
                    assert compared.alike(fold(other), done)
    assert taken
    record_property(
        "method",
        f"{taken} steps in all nodes of two operands, over generic weights; a graph without steps "
        "is what the fold makes of it, so each way to the end leads there (Newman's lemma)",
    )


@pytest.mark.theorem(
    64,
    "Where no input reaches a weight or a bias, one reaches what each layer is applied to, and a "
    "parameter reaches the row of every scale and shift, commuting, re-associating, folding and "
    "splitting layers, folding BatchNorm, inserting 1, 0 or I, permuting heads and factorizing "
    "attention leave graphs that canonize alike: one explanation at every epsilon >= 0.",
    "proved",
    scope="all critical pairs, of 2 x 2 entries at most; any graph by induction",
)
@pytest.mark.parametrize("name", LEFT)
def test_both_sides_of_a_rewrite_canonize_alike(name, record_property):
    rewrite, left = name.partition(",")[0], LEFT[name]
    pairs = [pair for right in REWRITES[rewrite](left) for pair in critical_pairs(left, right)]
    assert pairs
    compared = Comparison(SYMBOLS)
    for one, other in pairs:
        assert compared.alike(canonize(one), canonize(other)), (str(one), str(other))
    assert {key.partition(",")[0] for key in LEFT} == {*ALIKE} & {*REWRITES}
    record_property("method", f"induction; {len(pairs)} critical pairs over generic weights")


@pytest.mark.theorem(
    64,
    "Graphs that are alike are explained alike, at every epsilon >= 0: the rules of products and "
    "sums ignore the order of operands, and see of fixed terms only their sum and of fixed factors "
    "how many there are.",
    "proved",
    scope="2 channels",
)
def test_alike_graphs_are_explained_alike():
    c, u, v = leaf("c"), parameter("u"), parameter("v")
    at = {name: generic(name, 1, 2) for name in ("a", "b", "c", "u", "v")}
    at |= {"u+v": at["u"] + at["v"], "uv": at["u"].multiply_elementwise(at["v"])}
    sign, r = generic("sign", 1, 2), generic("r", 1, 2)
    one = constant("ones", c)
    total, product = parameter("u+v"), parameter("uv")
    for op, operands, others in (
        (kinds.ADD, (A, u, B, c, v), (total, c, A, B)),
        (kinds.PRODUCT, (A, u, B, c, v), (product, c, one, A, B)),
    ):
        left, right = Node(op, operands), Node(op, others)
        assert Comparison(at).alike(left, right)
        for eps in (0, EPS):
            found, expected = (
                explain(graph, at, ATTNLRP, eps=eps, relevance=r, signs={graph: sign})
                for graph in (left, right)
            )
            assert all(identical(found[name], expected[name]) for name in "abc")
        assert not Comparison(at).alike(left, Node(op, others[1:]))


@pytest.mark.theorem(
    64,
    "Folding BatchNorm leaves graphs that canonize alike also if a scale stays a factor of a "
    "merged product of several.",
    "refuted",
)
def test_a_scale_that_stays_a_factor_takes_a_share(record_property):
    product = linear(A * B, constant("identity", A))
    normed = batch_norm(product, S, T)
    (folded,) = REWRITES["fold batch norm"](normed)
    at = {name: sp.Symbol(name, positive=True) for name in "abst"}
    ones = dict.fromkeys(at.values(), 1)
    as_factor, as_layer = (explain(graph, at, ATTNLRP)["a"] for graph in (merge(normed), folded))
    assert differ_at(as_factor, as_layer, ones)
    record_property(
        "witness",
        f"(a b I) s + t, folded or not, all 1: a gets {as_factor.subs(ones)} where s is a third "
        f"factor, and {as_layer.subs(ones)} in the layer a b (I s) + t",
    )


def stacked_identities():
    inner = linear(A, constant("identity", A))
    return linear(inner, constant("identity", inner))


@pytest.mark.theorem(
    64,
    "Folding layers leaves graphs that canonize alike also if identity matrices stay in the "
    "weights of folded layers.",
    "refuted",
)
def test_a_folded_pair_of_identity_layers_would_stay(record_property):
    graph = stacked_identities()
    (folded,) = REWRITES["fold linear"](graph)
    _witness(record_property, canonize(graph), folded, "folded into one layer I I that stays")


@pytest.mark.theorem(
    64,
    "Permuting neurons leaves graphs that canonize alike also where no parameter reaches the "
    "weights.",
    "refuted",
)
def test_neurons_of_inserted_identities_have_no_canonical_order(record_property):
    graph = stacked_identities()
    (permuted,) = REWRITES["permute neurons"](graph)
    _witness(record_property, canonize(graph), canonize(permuted), "with neurons permuted between")


def _witness(record_property, one, other, words):
    value = sp.Symbol("a", positive=True)
    left, right = (explain(graph, {"a": value}, ATTNLRP, eps=EPS)["a"] for graph in (one, other))
    point = {value: 1, EPS: sp.Rational(1, 4)}
    assert differ_at(left, right, point)
    numbers = [x.subs(point) for x in (left, right)]
    record_property(
        "witness",
        f"two identity layers over a = 1, eps = 1/4: {numbers[0]} canonized, {numbers[1]} {words}",
    )

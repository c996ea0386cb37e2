"""Theorem 64 on every small graph, and canonizers with a mistake in them, which it refutes."""

import itertools
from functools import cache, partial, reduce

import pytest
import sympy as sp

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.graph import (
    INPUT,
    Node,
    activation,
    constant,
    leaf,
    linear,
    parameter,
    rebuild,
    relu,
    topological,
)
from axioms.rewrites import canonizers
from axioms.rewrites.canonizers import LAYERING, MERGING, canonize
from axioms.rewrites.channels import in_rows
from axioms.rewrites.rewrites import ALIKE, EVERY_REWRITE, REWRITES
from axioms.rules.propagate import evaluate, explain
from axioms.theorems.confluence import Comparison, regions, skeleton
from axioms.theorems.overlaps import LEFT, SYMBOLS, critical_pairs

X, W, U, B, S = leaf("x"), *map(parameter, ("w", "u", "v", "s"))
NUMBERS = {
    name: value.xreplace({e: sp.prime(7 * k + n + 5) for n, e in enumerate(value)})
    for k, (name, value) in enumerate(SYMBOLS.items())
}


def seen(graph):
    """The part of a graph that rules depend on, with numbers for its weights."""
    return skeleton(graph, evaluate(graph, NUMBERS))


def fill(name):
    return constant(name, X)


ROW = in_rows(S, X)
LEAVES = (X, ROW, W, *map(fill, ("ones", "zeros", "identity")))
ONE = (
    *(lambda x: linear(x, W), lambda x: linear(x, U, S)),
    *(lambda x: linear(x, fill("identity")), relu),
)
TWO = (kinds.PRODUCT, kinds.ADD, kinds.BILINEAR)


@cache
def graphs(n, leaves):
    """All graphs of n operations on these leaves."""
    if n == 0:
        return leaves
    found = [operation(x) for x in graphs(n - 1, leaves) for operation in ONE]
    for k, op in itertools.product(range(n), TWO):
        pairs = itertools.product(graphs(k, leaves), graphs(n - 1 - k, leaves))
        found += [Node(op, pair) for pair in pairs]
    return tuple(found)


@pytest.mark.parametrize(("n", "leaves"), [(1, LEAVES), (2, (X, ROW))], ids=("one", "two"))
def test_no_step_in_a_small_graph_changes_what_it_canonizes_to(n, leaves):
    steps = 0
    for graph in graphs(n, leaves):
        expected = seen(canonize(graph))
        for name in ALIKE:
            for other in EVERY_REWRITE[name](graph):
                assert seen(canonize(other)) == expected, (name, str(graph), str(other))
                steps += 1
        assert seen(canonize(canonize(graph))) == expected
    assert steps > 3 * len(graphs(n, leaves))


Y = leaf("y")
TANH = activation("tanh", X)
AT = NUMBERS | {"x": sp.Matrix([[2, 3], [5, 7]]), "y": sp.Matrix([[11, 13], [17, 19]])}


def test_graphs_that_look_alike_are_explained_alike():
    leaves, found = (X, Y, ROW, W, fill("ones")), {}
    several = [
        Node(op, args)
        for op in (kinds.PRODUCT, kinds.ADD)
        for args in itertools.product(leaves, leaves, (ROW, Y, fill("ones")))
    ]
    for graph in (*graphs(1, leaves), *several, TANH):
        if any(node.op == INPUT for node in topological(graph)):
            explained = explain(graph, AT, ATTNLRP, eps=sp.Rational(1, 4))
            same = [sorted((x, sp.ImmutableMatrix(r)) for x, r in explained.items())]
            looks = skeleton(graph, evaluate(graph, NUMBERS | {"y": sp.zeros(2, 2)}))
            assert found.setdefault(looks, same) == same, str(graph)
    assert 50 < len(found) < len(several)


Z = Node(kinds.SOFTMAX, (leaf("z"),))
FIRST = in_rows(parameter("first"), X)  # row of U
HEADS = [
    Node(kinds.READOUT, (weights, values))
    for weights in (leaf("a"), Node(kinds.SOFTMAX, (leaf("b"),)), Z)
    for values in (
        *(X, linear(X, W), linear(X, W, S), linear(X, W) + ROW, X + ROW, X + U, X + FIRST, U),
        *(linear(linear(X, W), U), linear(X, W @ U), ROW, linear(X, W) + linear(Y, W)),
    )
]
AROUND = (
    *(lambda g: g, lambda g: linear(g, U), lambda g: linear(g, U, S), lambda g: g + ROW),
    *(lambda g: g + in_rows(S @ U, X), lambda g: g + X, lambda g: g * Y),
)


def test_heads_that_look_alike_in_the_limit_are_explained_alike():
    """The weights of a softmax add up to 1 in a row; other weights do not."""
    logits = {"z": sp.Matrix([[sp.log(2), sp.log(3)], [sp.log(5), sp.log(7)]])}
    blind = NUMBERS | {"y": sp.zeros(2, 2), "first": NUMBERS["v"][:1, :]}
    at = blind | {x: AT["x"] * n for n, x in enumerate("axy", 1)} | logits | {"b": logits["z"].T}
    looks = partial(regions, through_heads=True)
    groups, apart = {}, set()
    for graph in (around(head) for head in HEADS for around in AROUND):
        values = evaluate(graph, blind)
        groups.setdefault(looks(graph, values), []).append(graph)
        apart.add(regions(graph, values))
    together = [graphs for graphs in groups.values() if len(graphs) > 1]
    for graphs in together:
        found = []
        for graph in graphs:
            given = {x: r.applyfunc(sp.expand) for x, r in explain(graph, at, ATTNLRP).items()}
            found.append({x: r for x, r in given.items() if not r.is_zero_matrix})
        assert all(one == found[0] for one in found), [*map(str, graphs)]
    assert len(together) > 20
    assert len(groups) < len(apart)
    one, other = Node(kinds.READOUT, (Z, X + ROW)), Node(kinds.READOUT, (Z, X)) + ROW
    assert Comparison(blind, by=looks).alike(one, other)
    assert not Comparison(blind, by=regions).alike(one, other)


def in_turn(*passes):
    """Passes one after the other, each with steps that it takes at every node."""

    def run(root):
        for steps in passes:
            root = rebuild(root, lambda node, s=steps: reduce(lambda x, step: step(x), s, node))
        return root

    return run


def flatten_only(*ops):
    return lambda node: canonizers._flatten(node, ops)


def scale_of_one_factor(node):
    """A scale stays a factor beside several others."""
    done = canonizers._fold_scale(node)
    several = done.op == kinds.LINEAR and done.args[0].op == kinds.PRODUCT
    return node if several else done


def forget_shifts_of_sums(node):
    return node if node.op == kinds.ADD and len(node.args) > 2 else canonizers._gather_shifts(node)


def drop_first(node):
    """A neutral constant only in the first place."""
    done = canonizers._drop(node)
    return node if node.op in TWO and done.args[:1] == node.args[:1] else done


def drop_no_matrix(node):
    return node if node.op == kinds.BILINEAR else canonizers._drop(node)


flatten, drop = MERGING
fold, scale, gather = LAYERING
WRONG = {
    "layers before chains": (in_turn(LAYERING, MERGING), "insert identity layer"),
    "products are not merged": (in_turn((flatten_only(kinds.ADD, kinds.BILINEAR), drop), LAYERING),
        "re-associate products"),
    "sums are not merged": (in_turn((flatten_only(kinds.PRODUCT, kinds.BILINEAR), drop), LAYERING),
        "re-associate sums"),
    "matrix products are not merged": (in_turn((flatten_only(kinds.PRODUCT, kinds.ADD), drop),
        LAYERING), "factorize attention"),
    "nothing is dropped": (in_turn((flatten,), LAYERING), "add zero"),
    "identities stay in weights": (in_turn((flatten, drop_no_matrix), LAYERING), "fold linear"),
    "one of two is dropped": (in_turn((flatten, drop_first), LAYERING), "multiply by one"),
    "dropped after merging": (in_turn((flatten,), (drop,), LAYERING), "insert identity layer"),
    "layers are not folded": (in_turn(MERGING, (scale, gather)), "split linear"),
    "scales stay factors": (in_turn(MERGING, (fold, gather)), "fold batch norm"),
    "scales stay factors beside several": (in_turn(MERGING, (fold, scale_of_one_factor, gather)),
        "fold batch norm"),
    "shifts stay terms": (in_turn(MERGING, (fold, scale)), "fold batch norm"),
    "shifts of several stay apart": (in_turn(MERGING, (fold, scale, forget_shifts_of_sums)),
        "fold batch norm"),
}  # fmt: skip
"""By mistake: a canonizer, and the rewrite that it does not undo everywhere."""


def differs(canonizer, name):
    """Whether a critical pair of a rewrite is not canonized alike."""
    rewrite, left = name.partition(",")[0], LEFT[name]
    pairs = (pair for right in REWRITES[rewrite](left) for pair in critical_pairs(left, right))
    return any(seen(canonizer(one)) != seen(canonizer(other)) for one, other in pairs)


@pytest.mark.parametrize("name", WRONG)
def test_a_canonizer_with_a_mistake_is_refuted_by_a_critical_pair(name):
    canonizer, rewrite = WRONG[name]
    assert differs(canonizer, rewrite)


def test_the_passes_in_turn_are_the_canonizer():
    for graph in graphs(1, LEAVES):
        assert seen(in_turn(MERGING, LAYERING)(graph)) == seen(canonize(graph))

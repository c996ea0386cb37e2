"""The decisions of an audit about a graph and the amounts that its operations absorb."""

from dataclasses import replace

import pytest
import sympy as sp

from axioms import audit as decisions
from axioms import kinds
from axioms.audit import OPEN, PROVED, REFUTED, depths, structure, verdicts
from axioms.composites import ATTNLRP, Composite
from axioms.graph import MOVE, PARAMETER, TRANSPOSE, Node, Origin, leaf, parameter, rebuild
from axioms.graph import topological as nodes_of
from axioms.rewrites.rewrites import REWRITES
from axioms.rules.propagate import explain
from tests.axioms.test_symbolic_ledger import products_of_two

X, Y, Z = map(leaf, "xyz")
ON_INPUT = {"absorbed": {}, "started": 1.0, "missing": 0.0}
OUTSIDE = {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}


def layer(x, *names, **place):
    return Node(kinds.LINEAR, (x, *map(parameter, names)), **place)


def invariance(root, composite, rewrite, eps=0.0):
    """The verdict on a rewrite, at some operations or at all."""
    found = verdicts(root, composite, eps=eps, **ON_INPUT)
    (one,) = (x for x in found if x.statement.startswith(f"invariant under: {rewrite}"))
    return one


@pytest.mark.parametrize(
    ("lower", "upper", "below"),
    [
        ({"name": "lower"}, {"name": "upper"}, {"modules": {"lower": OUTSIDE}}),
        ({"origin": Origin("lower")}, {"origin": Origin("up")}, {"modules": {"lower": OUTSIDE}}),
        ({"attributes": {"layer": 0}}, {"attributes": {"layer": 1}}, {"layers": {0: OUTSIDE}}),
    ],
)
def test_a_lemma_of_one_table_is_not_claimed_where_two_rules_meet(lower, upper, below):
    """b = W2 (W1 x), as a captured graph has it: by module or layer, the lower one called first."""
    root = layer(layer(leaf("x"), "w", **lower), "w", **upper)
    one, two = (
        invariance(root, Composite("c", ATTNLRP.rules, **more), "fold") for more in ({}, below)
    )
    assert (one.verdict, two.verdict) == (PROVED, OPEN)
    assert "different rules" in two.reason
    mixed = verdicts(layer(root, "w"), Composite("c", ATTNLRP.rules, **below), eps=0.0, **ON_INPUT)
    parts = [x for x in mixed if x.statement == "invariant under: fold linear at these operations"]
    assert [x.verdict for x in parts] == [OPEN, PROVED]


@pytest.mark.parametrize(
    ("rules", "eps", "rewrite", "verdict"),
    [
        (ATTNLRP.rules, 0.0, "re-associate sums", PROVED),
        (ATTNLRP.rules, 0.25, "re-associate sums", REFUTED),
        (ATTNLRP.rules, 0.0, "fold linear", PROVED),
        ({**ATTNLRP.rules, **OUTSIDE}, 0.0, "fold linear", REFUTED),
    ],
)
def test_a_lemma_is_that_of_the_rules_and_of_the_stabiliser(rules, eps, rewrite, verdict):
    """Whatever was asked before, of a composite of the same name."""
    root = layer(layer((X + Y) + Z, "w", "b"), "w", "b")
    found = invariance(root, Composite("mine", rules), rewrite, eps)
    assert (found.verdict, found.nodes[0] is root) == (verdict, rewrite == "fold linear")
    assert found.reason.endswith("applies at 1 operation")


AMOUNTS = {  # absorbed by two layers, started, missing: verdicts, bound, and witness
    "nothing": ((0.0, 0.0), 1.0, 0.0, (OPEN, PROVED), "0 logits", ""),
    "both": ((0.5, 0.25), 1.0, 0.75, (REFUTED, PROVED), "0.75 logits", "linear +0.75"),
    "what cancels": ((0.5, -0.5), 1.0, 0.0, (REFUTED, PROVED), "1 logits", "input: "),
    "too much": ((0.5, 0.0), 1.0, 0.0, (REFUTED, OPEN), "0.5 logits", "linear +0.5"),
    "rounding": ((0.5, 0.0), -1e9, 1.0, (OPEN, PROVED), "0.5 logits", ""),
    "rounding of little": ((5e-10, 0.0), 1e-3, 0.0, (OPEN, PROVED), "5e-10 logits", ""),
}


@pytest.mark.parametrize("eps", [0.0, 0.25])
@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts_are_added_up_by_place_and_sizes_bound_them(name, eps):
    amounts, started, missing, expected, most, words = AMOUNTS[name]
    root = layer(layer(X * Y, "w", "b"), "w", "b")  # a product absorbs nothing
    both = (root.args[0], root)
    given = {"started": started, "missing": missing, "eps": eps}
    absorbed = {(node, "bias"): x for node, x in zip(both, amounts, strict=True)}
    kept, adds_up, bound = verdicts(root, ATTNLRP, absorbed=absorbed, **given)[:3]
    assert (kept.verdict, adds_up.verdict, bound.verdict) == (*expected, "bounded")
    assert kept.nodes == bound.nodes == both
    assert "bias at 2 x linear" in kept.reason
    assert ("stabiliser at 2 x linear" in kept.reason) == (eps > 0)
    assert words in kept.witness
    assert bool(kept.witness) == (kept.verdict == REFUTED)
    assert f"at most {most}," in bound.statement
    assert "2 operations absorb" in bound.reason


def test_a_fixed_term_of_a_sum_absorbs():
    root = Node(kinds.ADD, (leaf("x"), parameter("one")), "sum")
    options = {"eps": 0.0, "started": 3.0, "missing": 1.0}
    hands_on, adds_up, _ = decisions.verdicts(
        root, ATTNLRP, absorbed={(root, "bias"): 1.0}, **options
    )[:3]
    assert hands_on.verdict == decisions.REFUTED
    assert hands_on.nodes == (root,)
    assert "bias at add" in hands_on.witness
    assert adds_up.verdict == decisions.PROVED
    assert verdicts(layer(X, "w"), ATTNLRP, eps=0.0, **ON_INPUT)[0].verdict == PROVED


# Where rewrites apply


def active(x, name):
    return Node(kinds.ACTIVATION, (x,), attributes={"function": name})


NORM = Node(kinds.LAYER_NORM, (X, parameter("g"), parameter("h")))
SCORES, READOUT = (Node(kind, (X, Y)) for kind in (kinds.SCORES, kinds.READOUT))
HIDDEN = [layer(active(layer(X, "v", "b"), f), "w", "c") for f in ("relu", "gelu", "silu")]
SMALL = [
    *(X * Y, X + Y, (X * Y) * Z, X * (Y * Z), (X + Y) + Z, X + (Y + Z), (X + Y) * Z, X * (Y + Z)),
    *((X * Y) + Z, (X @ Y) @ Z, X @ (Y @ Z), X @ Y, X + NORM, *HIDDEN),
    *(layer(x, "w") for x in (X, X + Y, X * Y, NORM, active(X, "gelu"), X @ Y, SCORES)),
    *(layer(layer(X, "v") * Y, "w"), SCORES, READOUT, NORM),
    *(Node(kinds.SOFTMAX, (x,)) for x in (X, SCORES)),
    *(
        Node(kinds.SCORES, (q, k))
        for q in (X, layer(X, "q"))
        for k in (Y, layer(Y, "k"), active(layer(Y, "k"), "relu"))
    ),
]
OF_LAYERS = {"multiply by one", "insert identity layer", "split linear"}  # made elsewhere, too
OTHERWISE = {*OF_LAYERS, "add zero", "factor sums", "fold batch norm", "permute heads"}


def applying(root):
    """By rewrite: the operations of every place of a graph where it is said to apply."""
    found = {
        name: [*filter(None, map(x.applies, nodes_of(root)))]
        for name, x in REWRITES.items()
        if x.applies
    }
    return {name: places for name, places in found.items() if places}


@pytest.mark.parametrize("root", SMALL, ids=str)
def test_a_rewrite_is_said_to_apply_where_it_makes_another_graph_also_through_moves(root):
    found = applying(root)
    made = {name for name, rewrite in REWRITES.items() if rewrite(root)}
    assert {*found} - OTHERWISE == made - OTHERWISE
    assert bool(OF_LAYERS & {*found}) == any(x.op == kinds.LINEAR for x in nodes_of(root))
    twice = lambda x: x if x.op == PARAMETER else Node(MOVE, (Node(TRANSPOSE, (x,)),))
    moved = applying(rebuild(root, lambda x: replace(x, args=tuple(map(twice, x.args)))))
    before, after = ([(x, [y.op for n in f[x] for y in n]) for x in f] for f in (found, moved))
    assert after == before


def test_what_is_fixed_or_of_each_entry_alone_is_no_operand_of_a_rewrite():
    p = parameter("p")
    assert not any(map(applying, (X * p, X + p, Node(kinds.ADD, (p, X, p)))))
    assert "re-associate products" not in applying(Node(MOVE, (X * Y, Z)) * X)
    entrywise = layer(layer(X, "w"), "p", attributes={"entrywise": True})
    assert "fold linear" not in applying(entrywise) | applying(layer(entrywise, "v"))
    assert [x for x in (READOUT, X @ Y, SCORES) if "permute heads" in applying(layer(x, "w"))] == [
        READOUT
    ]


def test_all_operations_that_a_rewrite_changes_are_those_whose_rules_count():
    (upper, *_), scores, chain = HIDDEN, SMALL[-2], Node(kinds.READOUT, (SCORES, Z))
    inner = upper.args[0]
    assert applying(upper)["permute neurons"] == [[upper, inner, inner.args[0]]]
    assert applying(scores)["rescale Q and K"] == [[scores, *scores.args]]
    assert applying(chain)["factorize attention"] == [[chain, SCORES]]


# Structure


@pytest.mark.parametrize("operations", [1, 2, 3])
def test_a_leaf_under_d_products_has_the_dth_half_of_relevance_along_each_path(operations):
    for root in products_of_two(operations):
        found = explain(root, {"x": 1, "y": 1}, ATTNLRP, relevance=1)
        for name, paths in depths(root).items():
            assert sum(n * sp.Rational(1, 2) ** d for d, n in paths.items()) == found[name]


def test_only_products_of_what_carries_relevance_add_depth_and_each_place_counts_once():
    root = (X + X * Y) * parameter("p") + layer(leaf("x"), "w")  # two leaves of one name
    assert depths(root) == {"x": {0: 2, 1: 1}, "y": {1: 1}}
    assert all(depths(root) == {"x": {1: 1}, "y": {1: 1}} for root in (X @ Y, SCORES, READOUT))
    found = structure((X + Y) + (X * Z) * (Y * layer(layer(READOUT, "v"), "w")))
    assert found.pairs == {("readout", "linear"): 1, ("linear", "linear"): 1}
    assert [*found.merges.values()] == [1, 1, 1]

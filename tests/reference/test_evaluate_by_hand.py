"""The oracle over captured graphs where SymPy's sweep has no such operation: loops and numbers."""

from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, Composite
from axioms.graph import INPUT, MOVE, Node, Origin, leaf, parameter, topological
from numeric.auditing.maps import Map
from numeric.reference import evaluate
from tests.reference.test_evaluate import CASES, CLOSE, graph_of, sixteenths, start_of, values_of


def one(kind, leaves, rule, **attributes):
    """The graph of one operation in order, and a composite for it."""
    root = Node(kind, tuple(leaves), attributes=attributes)
    return topological(root), Composite("one", {kind: rule})


def check_scale(eps=0.25):
    """An entrywise scale hands on R z / (z + eps s), entry by entry."""
    x, w = leaf("x"), parameter("w")
    order, composite = one(kinds.LINEAR, [x, w], kinds.EPSILON, entrywise=True)
    leaves = {x: sixteenths((2, 3, 4), seed=1), w: sixteenths((4,), seed=2)}
    r, sent = sixteenths((2, 3, 4), seed=3), {}
    z = evaluate.forward(order, leaves)[order[-1]]
    got = evaluate.propagate(order, leaves, composite, r, eps=eps, sent=sent)
    for i, j, c in np.ndindex(2, 3, 4):
        product = leaves[x][i, j, c] * leaves[w][c]
        assert z[i, j, c] == product
        want = r[i, j, c] * product / (product + eps * (1 if product >= 0 else -1))
        np.testing.assert_allclose(got[x][i, j, c], want, **CLOSE)
    np.testing.assert_allclose(sent[order[-1]], got[x].sum(), **CLOSE)


def check_exact():
    """No stabiliser acts at an operation that is marked as exact."""
    x, w = leaf("x"), parameter("w")
    leaves, r = {x: np.array([1.0, 2.0]), w: np.array([3.0, -1.0])}, np.array([1.0, 4.0])
    order, composite = one(kinds.LINEAR, [x, w], kinds.EPSILON, entrywise=True, exact=True)
    back = evaluate.propagate(order, leaves, composite, r, eps=0.25)
    np.testing.assert_array_equal(back[x], r)


def check_root_mean_square(eps=0.25):
    """RMSNorm without a weight is that with a weight of ones."""
    x, w = leaf("x"), parameter("w")
    leaves = {x: sixteenths((2, 3, 4), seed=1), w: np.ones(4)}
    r, found = sixteenths((2, 3, 4), seed=3), []
    for parts in ([x], [x, w]):
        order, composite = one(kinds.RMS_NORM, parts, kinds.HELD_DEVIATION, norm_eps=0.5)
        value = evaluate.forward(order, leaves)[order[-1]]
        found.append((value, evaluate.propagate(order, leaves, composite, r, eps=eps)[x]))
    np.testing.assert_array_equal(found[0], found[1])


def check_mask():
    """A softmax ignores logits that a mask took out, wherever its axis is."""
    node, x = leaf("z"), sixteenths((2, 3, 5), seed=1)
    x[..., 1], x[..., 3] = np.finfo(np.float64).min, -np.inf
    r = sixteenths(x.shape, seed=2)
    r[..., [1, 3]] = 0.0  # weights of 0 receive nothing
    kept = [0, 2, 4]
    want = np.exp(x[..., kept]) / np.exp(x[..., kept]).sum(axis=-1, keepdims=True)
    part = r[..., kept]
    taylor = x[..., kept] * (part - want * part.sum(axis=-1, keepdims=True))
    order, composite = one(kinds.SOFTMAX, [node], kinds.TAYLOR)
    for axis in range(3):
        order[-1].attributes["axis"] = axis
        values = {node: np.moveaxis(x, -1, axis)}
        weights = evaluate.forward(order, values)[order[-1]]
        start = np.moveaxis(r, -1, axis)
        back = evaluate.propagate(order, values, composite, start, eps=0.0)[node]
        weights, back = np.moveaxis(weights, axis, -1), np.moveaxis(back, axis, -1)
        np.testing.assert_allclose(weights[..., kept], want, **CLOSE)
        np.testing.assert_allclose(back[..., kept], taylor, **CLOSE)
        assert not weights[..., [1, 3]].any()
        assert not back[..., [1, 3]].any()


def check_hidden_logits():
    """A logit that a mask hides counts as 0, and passes its relevance on to the other operand."""
    logits, mask = leaf("z"), leaf("mask")
    order, composite = one(kinds.ADD, [logits, mask], kinds.EPSILON)
    values = {logits: np.array([2.0, 3.0]), mask: np.array([0.0, -np.inf])}
    back = evaluate.propagate(order, values, composite, np.array([1.0, 4.0]), eps=0.0)
    np.testing.assert_array_equal([back[logits], back[mask]], [[1, 4], [0, 0]])


def check_broadcast(eps=0.25):
    """In x + x + b, x receives two shares, and b, which was broadcast, the sum over its copies."""
    x, r = sixteenths((2, 3, 4), seed=1), sixteenths((2, 3, 4), seed=3)
    for shape in ((4,), (1, 4), (3, 1), (1, 3, 1), (1, 1, 1), (2, 1, 4), (3, 4)):
        b = sixteenths(shape, seed=2)
        node, other = leaf("x"), leaf("b")
        order, composite = one(kinds.ADD, [node, node, other], kinds.EPSILON)
        leaves, sent = {node: x, other: b}, {}
        got = evaluate.propagate(order, leaves, composite, r, eps=eps, sent=sent)
        of_x, of_b = np.zeros(x.shape), np.zeros((1,) * (3 - b.ndim) + shape)
        aligned = b.reshape(of_b.shape)
        for place in np.ndindex(2, 3, 4):
            source = tuple(n if size > 1 else 0 for n, size in zip(place, of_b.shape, strict=True))
            z = 2 * x[place] + aligned[source]
            share = r[place] / (z + eps * (1 if z >= 0 else -1))
            of_x[place] = 2 * x[place] * share
            of_b[source] += aligned[source] * share
        np.testing.assert_allclose(got[node], of_x, **CLOSE)
        np.testing.assert_allclose(got[other], of_b.reshape(shape), **CLOSE)
        np.testing.assert_allclose(sent[order[-1]], of_x.sum() + of_b.sum(), **CLOSE)


# moves: (function, shapes of operands) -> the values, and the messages of relevance 0, 1, ...

MOVES = {
    "reshape": (
        lambda x: x.reshape(3, 2), [(2, 3)], [[0, 1], [2, 3], [4, 5]], [[[0, 1, 2], [3, 4, 5]]],
    ),
    "broadcast": (
        lambda x: x.expand(2, 3), [(2, 1)],
        [[0, 0, 0], [1, 1, 1]], [[[0 + 1 + 2], [3 + 4 + 5]]],
    ),
    "permute": (
        lambda x: x.permute(2, 0, 1), [(2, 1, 3)],
        [[[0], [3]], [[1], [4]], [[2], [5]]], [[[[0, 2, 4]], [[1, 3, 5]]]],
    ),
    "index": (  # a column twice, and the last one never
        lambda x: x[:, torch.tensor([1, 0, 1])], [(2, 4)],
        [[1, 0, 1], [5, 4, 5]], [[[1, 0 + 2, 0, 0], [4, 3 + 5, 0, 0]]],
    ),
    "concatenate": (
        lambda *xs: torch.cat(xs, dim=1), [(2, 1), (2, 2), (2, 1)],
        [[0, 2, 3, 6], [1, 4, 5, 7]], [[[0], [4]], [[1, 2], [5, 6]], [[3], [7]]],
    ),
}  # fmt: skip


def check_move(name):
    """Entries are numbered from 0, over all operands, and so is the relevance of the result."""
    function, shapes, seen, messages = MOVES[name]
    nodes = [leaf(f"x{n}") for n in range(len(shapes))]
    values, first = {}, 0
    for node, shape in zip(nodes, shapes, strict=True):
        size = int(np.prod(shape))
        values[node] = np.arange(first, first + size).reshape(shape)
        first += size
    root = Node(MOVE, tuple(nodes), attributes={"map": Map(function)})
    order, sent = topological(root), {}
    got = evaluate.forward(order, values)
    assert all(x.dtype == np.float64 for x in got.values())
    np.testing.assert_array_equal(got[root], seen)
    r = np.arange(np.size(seen), dtype=float).reshape(np.shape(seen))
    back = evaluate.propagate(order, values, Composite("moves", {}), r, eps=0.0, sent=sent)
    for node, message in zip(nodes, messages, strict=True):
        np.testing.assert_array_equal(back[node], message)
    assert sent == {root: r.sum()}


def check_moved_parameter():
    """A learned token beside the others keeps no relevance, and none is counted as sent."""
    x, token = leaf("x"), parameter("token")
    root = Node(MOVE, (token, x), attributes={"map": Map(lambda *xs: torch.cat(xs))})
    values, sent = {x: np.ones((2, 2)), token: np.ones((1, 2))}, {}
    r = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    back = evaluate.propagate([token, x, root], values, Composite("", {}), r, eps=0.0, sent=sent)
    assert back.keys() == {x, root}
    np.testing.assert_array_equal(back[x], [[3, 4], [5, 6]])
    assert sent == {root: 18}


# maps that torch computes, by the same rules as plain products

WEIGHT, BIAS = sixteenths((3, 5), seed=5), sixteenths((5,), seed=6)
SAME = {
    "linear": (kinds.LINEAR, lambda x: x @ torch.tensor(WEIGHT) + torch.tensor(BIAS),
        lambda: [parameter("w"), parameter("b")], {}),
    "scores": (kinds.SCORES, lambda q, k: 0.5 * q @ k.mT, lambda: [leaf("k")], {"scale": 0.5}),
    "readout": (kinds.READOUT, lambda a, v: a @ v.mT.mT, lambda: [leaf("v")], {}),
    "matrix product": (kinds.BILINEAR, torch.matmul, lambda: [leaf("v")], {}),
}  # fmt: skip
VALUES = {"w": WEIGHT, "b": BIAS}
VALUES |= {"k": sixteenths((2, 4, 3), seed=7), "v": sixteenths((2, 3, 4), seed=8)}


def check_map(name, eps):
    """A map equals the plain product, under every rule of its kind."""
    kind, function, others, attributes = SAME[name]
    x = leaf("x")
    values = {x: sixteenths((2, 4, 3), seed=1)}
    plain = Node(kind, (x, *others()), attributes=attributes)
    values |= {node: VALUES[node.name] for node in plain.args[1:]}
    operands = tuple(node for node in plain.args if node.op == INPUT)
    mapped = Node(kind, operands, attributes={"map": Map(function)})
    r = sixteenths(np.shape(evaluate.forward(topological(plain), values)[plain]), seed=3)
    for rule in kinds.RULES[kind]:
        if rule == kinds.GRADIENT:
            continue
        composite = Composite("one", {kind: rule})
        run = lambda root, composite=composite: evaluate.propagate(
            topological(root), values, composite, r, eps=eps
        )
        want, got = run(plain), run(mapped)
        for node in operands:
            np.testing.assert_allclose(got[node], want[node], **CLOSE)


def check_held():
    """Where each entry is scaled by a number that is held, relevance stays, whatever eps is."""
    for kind, rule in ((kinds.RMS_NORM, kinds.HELD_DEVIATION), (kinds.ACTIVATION, kinds.IDENTITY)):
        x, r = leaf("x"), sixteenths((2, 3), seed=2)
        order, composite = one(kind, [x], rule, map=Map(lambda x: x / 2))
        back = evaluate.propagate(order, {x: 2 * r}, composite, r, eps=0.25)
        np.testing.assert_array_equal(back[x], r)


@np.errstate(over="raise")
def check_overflow():
    """A logit that a mask made the lowest number, twice which overflows, receives nothing."""
    q, k = leaf("q"), leaf("k")
    order, composite = one(kinds.SCORES, [q, k], kinds.BILINEAR_EPSILON, map=Map(torch.mul))
    values = {q: np.array([1.0, 1e200]), k: np.array([2.0, -1e108])}
    back = evaluate.propagate(order, values, composite, np.array([3.0, 0.0]), eps=0.0)
    np.testing.assert_array_equal([back[q], back[k]], [[1.5, 0.0], [1.5, 0.0]])


def check_eps():
    """Every rule is given the stabiliser, also rules that use none."""
    for name, (kind, rule, *_) in CASES.items():
        graph, told, given = graph_of(name, float), [], values_of(name)
        leaves = {x: given[x.name] for x in graph.args}
        values = evaluate.forward(topological(graph), leaves)
        graph.attributes.pop("map", None)  # it would bring a rule of its own

        def spy(*arguments, eps, right=evaluate.RULES[kind, rule], told=told):
            told.append(eps)
            return right.messages(*arguments, eps=eps)

        spied = replace(evaluate.RULES[kind, rule], messages=spy)
        with mock.patch.dict(evaluate.RULES, {(kind, rule): spied}):
            composite = Composite("spied", {kind: rule})
            evaluate.propagate(
                topological(graph), leaves, composite, start_of(name), eps=0.25, values=values
            )
        assert told == [0.25]


CHECKS = {
    "eps": check_eps,
    "entrywise scale": check_scale,
    "exact scale": check_exact,
    "RMSNorm without weight": check_root_mean_square,
    "masked softmax": check_mask,
    "hidden logits": check_hidden_logits,
    "broadcast operands": check_broadcast,
    "learned token": check_moved_parameter,
    "held numbers": check_held,
    "overflow": check_overflow,
}
CHECKS |= {name: partial(check_move, name) for name in MOVES}
CHECKS |= {f"map of {name}, {e}": partial(check_map, name, e) for name in SAME for e in (0.0, 0.25)}


def check_all():
    for check in CHECKS.values():
        check()


@pytest.mark.parametrize("name", CHECKS)
def test_what_an_operation_computes_and_hands_on_is_what_a_loop_says(name):
    CHECKS[name]()


@pytest.mark.parametrize(
    ("origin", "place"),
    [(None, "add at s:"), (Origin(module="a.b"), "add at a.b:"), (Origin(), r"add at \(root\):")],
)
def test_a_limit_that_does_not_exist_is_named_with_its_place(origin, place):
    x, y = leaf("x"), leaf("y")
    total = Node(kinds.ADD, (x, y), "s", origin, {"layer": None, "shape": (1,)})
    values = {x: np.array([2.0]), y: np.array([-2.0])}
    with pytest.raises(ZeroDivisionError, match=f"^{place} eps=0"):
        evaluate.propagate([x, y, total], values, ATTNLRP, np.array([1.0]), eps=0)

"""The oracle over captured graphs where SymPy's sweep has no such operation: loops and numbers."""

from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from torch.nn import functional

from axioms import kinds
from axioms.composites import ATTNLRP, Composite
from axioms.graph import MOVE, Node, Origin, leaf, parameter, topological
from numeric.reference import evaluate
from tests.test_evaluate import CASES, CLOSE, graph_of, sixteenths, start_of, values_of


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


LOWEST = np.finfo(np.float32).min


def check_mask():
    """A softmax with a mask is that of the other keys, which alone receive relevance."""
    z, mask = leaf("z"), parameter("mask")
    hidden = np.array([0.0, LOWEST, 0.0, 0.0])
    hidden[3] = -1e30  # a large number, but no mask
    leaves = {z: sixteenths((2, 3, 4), seed=1), mask: hidden}
    r = sixteenths((2, 3, 4), seed=2) * (hidden > LOWEST)  # a weight of 0 receives nothing
    kept = [0, 2, 3]
    masked, composite = one(kinds.SOFTMAX, [z, mask], kinds.TAYLOR)
    plain, _ = one(kinds.SOFTMAX, [z], kinds.TAYLOR)
    fewer, part = {z: leaves[z][..., kept]}, r[..., kept]
    for check, want in (
        (evaluate.forward(masked, leaves)[masked[-1]], evaluate.forward(plain, fewer)[plain[-1]]),
        (
            evaluate.propagate(masked, leaves, composite, r, eps=0.0)[z],
            evaluate.propagate(plain, fewer, composite, part, eps=0.0)[z],
        ),
    ):
        np.testing.assert_allclose(check[..., kept], want, **CLOSE)
        assert not check[..., 1].any()


IN_TORCH = {
    "gelu": functional.gelu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "relu": torch.relu,
    "silu": functional.silu,
}


def check_activations():
    """Values are those of torch, and relevance passes unchanged."""
    assert evaluate.ACTIVATIONS.keys() == IN_TORCH.keys()
    x, r = sixteenths((2, 3, 4), seed=1), sixteenths((2, 3, 4), seed=2)
    for name, function in IN_TORCH.items():
        node = leaf("x")
        order, composite = one(kinds.ACTIVATION, [node], kinds.IDENTITY, function=name)
        got = evaluate.forward(order, {node: x})[order[-1]]
        np.testing.assert_allclose(got, function(torch.tensor(x)), **CLOSE)
        back = evaluate.propagate(order, {node: x}, composite, r, eps=0.25)
        np.testing.assert_array_equal(back[node], r)


def shared_and_broadcast():
    """x + x + b over tokens: b has one entry per channel, and no axis of examples."""
    x, b = leaf("x"), leaf("b")
    return x, b, one(kinds.ADD, [x, x, b], kinds.EPSILON)


def check_broadcast(eps=0.25):
    """What is used twice receives two shares; what was broadcast, the sum over its copies."""
    x, r = sixteenths((2, 3, 4), seed=1), sixteenths((2, 3, 4), seed=3)
    for shape in ((4,), (1, 4), (3, 1), (1, 3, 1), (1, 1, 1), (2, 1, 4), (3, 4)):
        b = sixteenths(shape, seed=2)
        node, other, (order, composite) = shared_and_broadcast()
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


# moves: (move, arguments, shapes of operands) -> what is seen, and what relevance 0, 1, ... becomes

MOVES = {
    "reshape": ([(2, 3)], ((3, 2),), [[0, 1], [2, 3], [4, 5]], [[[0, 1, 2], [3, 4, 5]]]),
    "broadcast": ([(2, 1)], ((2, 3),), [[0, 0, 0], [1, 1, 1]], [[[0 + 1 + 2], [3 + 4 + 5]]]),
    "permute": (
        [(2, 1, 3)],
        ((2, 0, 1),),
        [[[0], [3]], [[1], [4]], [[2], [5]]],
        [[[[0, 2, 4]], [[1, 3, 5]]]],
    ),
    "index": (  # a column twice, and the last one never
        [(2, 4)],
        ((slice(None), np.array([1, 0, 1])),),
        [[1, 0, 1], [5, 4, 5]],
        [[[1, 0 + 2, 0, 0], [4, 3 + 5, 0, 0]]],
    ),
    "concatenate": (
        [(2, 1), (2, 2), (2, 1)],
        (1,),
        [[0, 2, 3, 6], [1, 4, 5, 7]],
        [[[0], [4]], [[1, 2], [5, 6]], [[3], [7]]],
    ),
}


def check_move(name):
    """Entries are numbered from 0, over all operands, and so is the relevance of the result."""
    shapes, arguments, seen, messages = MOVES[name]
    nodes = [leaf(f"x{n}") for n in range(len(shapes))]
    values, first = {}, 0
    for node, shape in zip(nodes, shapes, strict=True):
        size = int(np.prod(shape))
        values[node] = np.arange(first, first + size).reshape(shape)
        first += size
    root = Node(MOVE, tuple(nodes), attributes={"move": name, "arguments": arguments})
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
    root = Node(MOVE, (token, x), attributes={"move": "concatenate", "arguments": (0,)})
    values, sent = {x: np.ones((2, 2)), token: np.ones((1, 2))}, {}
    r = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    back = evaluate.propagate([token, x, root], values, Composite("", {}), r, eps=0.0, sent=sent)
    assert back.keys() == {x, root}
    np.testing.assert_array_equal(back[x], [[3, 4], [5, 6]])
    assert sent == {root: 18}


def check_eps():
    """Every rule is told the eps that was asked for, also those without a stabiliser."""
    for name, (kind, rule, *_) in CASES.items():
        graph, told, values = graph_of(name, float), [], values_of(name)

        def spy(*arguments, eps, right=evaluate.RULES[kind, rule], told=told):
            told.append(eps)
            return right(*arguments, eps=eps)

        leaves = {x: values[x.name] for x in graph.args}
        with mock.patch.dict(evaluate.RULES, {(kind, rule): spy}):
            composite = Composite("spied", {kind: rule})
            evaluate.propagate(topological(graph), leaves, composite, start_of(name), eps=0.25)
        assert told == [0.25]


CHECKS = {
    "eps": check_eps,
    "entrywise scale": check_scale,
    "RMSNorm without weight": check_root_mean_square,
    "masked softmax": check_mask,
    "activations": check_activations,
    "broadcast operands": check_broadcast,
    "learned token": check_moved_parameter,
} | {name: partial(check_move, name) for name in MOVES}


def check_all():
    for check in CHECKS.values():
        check()


@pytest.mark.parametrize("name", CHECKS)
def test_what_an_operation_computes_and_hands_on_is_what_a_loop_says(name):
    CHECKS[name]()


def first_copy_only(node, xs, r):
    """The first entry that shows an operand's receives its relevance, later ones nothing."""
    ends = np.cumsum([0, *(x.size for x in xs)])
    numbers = [np.arange(ends[n], ends[n + 1]).reshape(x.shape) for n, x in enumerate(xs)]
    places, first = np.unique(evaluate.move(node, *numbers), return_index=True)
    flat = np.zeros(ends[-1])
    flat[places] = r.ravel()[first]
    return [flat[ends[n] : ends[n + 1]].reshape(x.shape) for n, x in enumerate(xs)]


WRONG = {
    "mask forgotten": ("masked softmax", "masked", lambda z, *mask: z),
    "first copy only, broadcast": ("broadcast", "_moved_back", first_copy_only),
    "first copy only, index": ("index", "_moved_back", first_copy_only),
    "one share of all copies": (
        "broadcast operands",
        "_fit",
        lambda message, shape: np.broadcast_to(message.mean(), shape),
    ),
    "scale without its stabiliser": (
        "entrywise scale",
        "_of_linear",
        lambda node, rule, xs, r, eps: [r],
    ),
    "root mean square of a weight of two": (
        "RMSNorm without weight",
        "_of_rms_norm",
        lambda node, rule, xs, r, eps: [r * len(xs)],
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_text_is_rejected(wrong, monkeypatch):
    name, place, text = WRONG[wrong]
    in_messages = [k for k, f in evaluate.MESSAGES.items() if f is getattr(evaluate, place)]
    for kind in in_messages:
        monkeypatch.setitem(evaluate.MESSAGES, kind, text)
    monkeypatch.setattr(evaluate, place, text)
    with pytest.raises(AssertionError):
        CHECKS[name]()


def test_a_wrong_activation_is_rejected(monkeypatch):
    monkeypatch.setitem(evaluate.ACTIVATIONS, "gelu", evaluate.ACTIVATIONS["gelu tanh"])
    with pytest.raises(AssertionError):
        check_activations()


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

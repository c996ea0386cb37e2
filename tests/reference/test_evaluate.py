"""The oracle over captured graphs is SymPy's sweep, slice by slice.

All values are multiples of 1/16, so that both implementations start from the same numbers.
"""

from functools import cache
from unittest import mock

import numpy as np
import pytest
import sympy as sp
import torch

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation
from axioms.graph import INPUT, MOVE, TRANSPOSE, Node, leaf, linear, parameter, topological
from axioms.rules import propagate
from axioms.rules.ledger import ledger
from numeric.auditing.maps import Map
from numeric.reference import evaluate

EPS = (0, sp.Rational(1, 4))
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
SLICES = 2

# kind -> shapes of the activations, shapes of the parameters
X, Y, BIAS = (3, 4), (4, 2), (1, 4)
SHAPES = {
    kinds.LINEAR: ([X], [Y, (1, 2)]),
    kinds.ADD: ([X, X, X], []),
    kinds.SCORES: ([X, (2, 4)], []),
    kinds.SOFTMAX: ([X], []),
    kinds.READOUT: ([X, Y], []),
    kinds.BILINEAR: ([X, Y], []),
    kinds.PRODUCT: ([X, X, X], []),
    kinds.LAYER_NORM: ([X], [BIAS, BIAS]),
    kinds.RMS_NORM: ([X], [BIAS]),
    kinds.ACTIVATION: ([X], []),
}
CASES = {f"{kind} by {rule}": (kind, rule, *SHAPES[kind]) for kind, rule in evaluate.RULES}
CASES["linear, no bias"] = (kinds.LINEAR, kinds.EPSILON, [X], [Y])
ATTRIBUTES = {
    kinds.SCORES: {"scale": sp.Rational(1, 2)},
    kinds.LAYER_NORM: {"norm_eps": sp.Rational(1, 2)},
    kinds.RMS_NORM: {"norm_eps": sp.Rational(1, 2)},
    kinds.ACTIVATION: {"function": "relu", "map": Map(torch.relu)},
}


def sixteenths(shape, *, seed):
    """Numbers of both signs, none of them 0."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1, 1], shape) * rng.integers(1, 40, shape) / 16


def exact(array):
    return sp.Matrix(np.atleast_2d(array).tolist()).applyfunc(sp.Rational)


def dense(matrix):
    return np.array([float(v) for v in matrix]).reshape(matrix.shape)


def graph_of(name, number):
    """One operation, its numbers made by ``number``."""
    kind, _, activations, parameters = CASES[name]
    leaves = [leaf(f"x{n}") for n in range(len(activations))]
    leaves += [parameter(f"w{n}") for n in range(len(parameters))]
    attributes = ATTRIBUTES.get(kind, {}).items()
    about = {k: number(v) if isinstance(v, sp.Rational) else v for k, v in attributes}
    return Node(kind, tuple(leaves), attributes=about)


def values_of(name):
    """Leaves by name: activations with a leading axis, vectors as such."""
    _, _, activations, parameters = CASES[name]
    seed = 100 * list(CASES).index(name)
    values = {
        f"x{n}": sixteenths((SLICES, *shape), seed=seed + n) for n, shape in enumerate(activations)
    }
    for n, shape in enumerate(parameters):
        values[f"w{n}"] = sixteenths(shape if shape[0] > 1 else shape[1:], seed=seed + 10 + n)
    return values


def start_of(name):
    return sixteenths((SLICES, *values_by_sympy(name)[0].shape), seed=7)


def composite_of(name):
    return Composite(name, {CASES[name][0]: CASES[name][1]})


def points(name):
    for n in range(SLICES):
        yield {k: exact(v[n] if k[0] == "x" else v) for k, v in values_of(name).items()}


@cache
def values_by_sympy(name):
    graph = graph_of(name, sp.Rational)
    return [dense(propagate.evaluate(graph, point)[graph]) for point in points(name)]


@cache
def relevance_by_sympy(name, eps):
    """Relevance of every input, (slice, ...)."""
    graph, found = graph_of(name, sp.Rational), []
    for point, start in zip(points(name), start_of(name), strict=True):
        options = {"eps": eps, "relevance": exact(start)}
        got = propagate.propagate(graph, point, composite_of(name), **options)
        found.append([dense(got[x]) for x in graph.args if x.op == INPUT])
    return [np.stack(parts) for parts in zip(*found, strict=True)]


@cache
def absorbed_by_sympy(name, eps):
    """By cause, of all slices together."""
    graph, found = graph_of(name, sp.Rational), {}
    for point, start in zip(points(name), start_of(name), strict=True):
        books = ledger(graph, point, composite_of(name), eps=eps, relevance=exact(start))
        for (_, cause), amount in books.absorbed.items():
            found[cause] = found.get(cause, 0) + float(amount)
    return found


def check(name, eps):
    """Raises AssertionError unless values, messages, relevance and absorbed amounts are SymPy's."""
    graph = graph_of(name, float)
    order, values = topological(graph), values_of(name)
    leaves = {x: values[x.name] for x in graph.args}
    np.testing.assert_allclose(
        evaluate.forward(order, leaves)[graph], values_by_sympy(name), **CLOSE
    )
    start, sent = start_of(name), {}
    got = evaluate.propagate(order, leaves, composite_of(name), start, eps=float(eps), sent=sent)
    want = relevance_by_sympy(name, eps)
    inputs = [x for x in graph.args if x.op == INPUT]
    for x, message in zip(inputs, want, strict=True):
        np.testing.assert_allclose(got[x], message, **CLOSE)
    np.testing.assert_allclose(sent[graph], sum(message.sum() for message in want), **CLOSE)
    assert got.keys() == {graph, *inputs}
    want = absorbed_by_sympy(name, eps)
    given = [leaves[x] for x in graph.args], np.array(values_by_sympy(name)), start, float(eps)
    lemma = evaluate.RULES[CASES[name][:2]].absorbs
    found = {cause: amount(graph, *given).sum() for cause, amount in lemma.items()}
    assert want.keys() <= found.keys()
    for cause, amount in found.items():
        np.testing.assert_allclose(amount, want.get(cause, 0), **CLOSE)


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("name", CASES)
def test_an_operation_hands_on_what_its_messages_say(name, eps):
    check(name, eps)


# a network of shared nodes


def network(transpose, number):
    """Linear layers, scores, a square, a readout of transposed values, a residual and a bias."""
    x, bias = leaf("x"), parameter("bias")
    h = linear(x, "w", "c")
    z = Node(kinds.SCORES, (h, x), attributes={"scale": number(sp.Rational(1, 2))})
    return Node(kinds.ADD, ((z * z) @ transpose(transpose(h)), x, bias))


def permuted(x):
    return Node(MOVE, (x,), attributes={"map": Map(lambda x: x.mT)})


POINT = {
    "x": sixteenths((2, 2), seed=1),
    "w": sixteenths((2, 2), seed=2),
    "c": sixteenths((2,), seed=3),
    "bias": sixteenths((2, 2), seed=4),
}


@cache
def network_by_sympy(eps):
    graph = network(lambda x: Node(TRANSPOSE, (x,)), sp.Rational)
    point = {name: exact(value) for name, value in POINT.items()}
    start = exact(sixteenths((2, 2), seed=5))
    values = propagate.evaluate(graph, point)
    got = propagate.propagate(graph, point, ATTNLRP, eps=eps, relevance=start)
    return [(dense(values[node]), dense(got[node])) for node in topological(graph)]


def of_network():
    """Nodes in order, and the values of the leaves."""
    order = topological(network(permuted, float))
    return order, {node: POINT[node.name] for node in order if node.name}


def check_network(eps):
    """Raises AssertionError unless SymPy has the same values and relevance of every node."""
    order, leaves = of_network()
    values = evaluate.forward(order, leaves)
    start = sixteenths((2, 2), seed=5)
    got = evaluate.propagate(order, leaves, ATTNLRP, start, eps=float(eps))
    for node, (value, relevance) in zip(order, network_by_sympy(eps), strict=True):
        if node in values:
            np.testing.assert_allclose(values[node], value, **CLOSE)
            np.testing.assert_allclose(got[node], relevance, **CLOSE)


def check_all():
    """SymPy's part is done once, so that this is quick from the second time on."""
    for eps in EPS:
        for name in CASES:
            check(name, eps)
        check_network(eps)


@pytest.mark.parametrize("eps", EPS)
def test_shares_of_a_node_that_is_used_twice_add_up(eps):
    check_network(eps)


def test_values_that_are_known_are_not_computed_again():
    order, leaves = of_network()
    values = evaluate.forward(order, leaves)
    with mock.patch.object(evaluate, "forward", side_effect=AssertionError):
        evaluate.propagate(order, leaves, ATTNLRP, np.ones((2, 2)), eps=0.0, values=values)


def test_operations_without_a_rule_are_listed():
    order, leaves = of_network()
    few = Composite("few", {kinds.LINEAR: kinds.EPSILON})
    with pytest.raises(UnassignedOperation, match="no rule for 4 of 5"):
        evaluate.propagate(order, leaves, few, np.ones((2, 2)), eps=0.0)

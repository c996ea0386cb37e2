"""Rewrites preserve the function, exactly, on random graphs; wrong ones are found out."""

from collections import Counter
from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.algebra.denotation import denoted, same_function
from axioms.graph import INPUT, Node, constant, leaf, parameter, topological
from axioms.invariance.canonizers import canonize
from axioms.invariance.channels import batch_norm
from axioms.invariance.rewrites import REWRITES, everywhere, rescale_scores
from axioms.invariance.templates import TEMPLATES

# Every leaf of a random graph is 2 x 2, except for rows: biases, scales and shifts.
INPUTS, WEIGHTS, ROWS = ("x", "y"), ("w", "u"), ("b", "s", "t")
SHAPES = dict.fromkeys((*INPUTS, *WEIGHTS), (2, 2)) | dict.fromkeys(ROWS, (1, 2))
weights = st.sampled_from([parameter(name) for name in WEIGHTS])
rows = st.sampled_from([parameter(name) for name in ROWS])


def linear(*operands):
    return Node(kinds.LINEAR, operands)


def activation(function, x):
    return Node(kinds.ACTIVATION, (x,), attributes={"function": function})


def grown(graphs):
    """One more operation over smaller graphs."""
    pairs = st.tuples(graphs, graphs)
    return st.one_of(
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] @ p[1]),
        st.builds(lambda x, y, z: (x * y) * z, graphs, graphs, graphs),
        st.builds(lambda x, y, z: (x + y) + z, graphs, graphs, graphs),
        st.builds(lambda x, y, z: (x @ y) @ z, graphs, graphs, graphs),
        st.builds(lambda x, y, z: x * (y + z), graphs, graphs, graphs),
        st.builds(lambda x, y, z: x * y + x * z, graphs, graphs, graphs),
        pairs.map(lambda p: Node(kinds.SCORES, p)),
        st.builds(linear, graphs, weights),
        st.builds(linear, graphs, weights, rows),
        st.builds(lambda x, w, v: linear(x, w @ v), graphs, weights, weights),
        st.builds(
            lambda x, w, b, s, t: batch_norm(linear(x, w, b), s, t),
            graphs,
            weights,
            rows,
            rows,
            rows,
        ),
        st.builds(
            lambda x, w, b, v: linear(activation("relu", linear(x, w, b)), v),
            graphs,
            weights,
            rows,
            weights,
        ),
        st.builds(
            lambda x, y, w, v, b: Node(kinds.SCORES, (linear(x, w, b), linear(y, v))),
            graphs,
            graphs,
            weights,
            weights,
            rows,
        ),
        st.builds(
            lambda x, y, z, w, v: (
                linear(Node(kinds.READOUT, (x, y)), w) + linear(Node(kinds.READOUT, (y, z)), v)
            ),
            graphs,
            graphs,
            graphs,
            weights,
            weights,
        ),
    )


def topped(graphs):
    """At most one operation that is not rational, so that equality stays decidable."""
    return st.one_of(
        graphs,
        graphs.map(lambda x: Node(kinds.SOFTMAX, (x,))),
        graphs.map(lambda x: activation("gelu", x)),
        st.builds(
            lambda x, w, b: Node(kinds.LAYER_NORM, (x, w, b), attributes={"norm_eps": 1}),
            graphs,
            rows,
            rows,
        ),
    )


leaves = st.sampled_from([leaf(name) for name in INPUTS])
polynomial = grown(leaves) | grown(grown(leaves))
random_graphs = topped(polynomial)
entries = st.integers(-2, 3)
random_points = st.fixed_dictionaries(
    {
        name: st.lists(entries, min_size=r * c, max_size=r * c).map(
            lambda e, r=r, c=c: sp.Matrix(r, c, e)
        )
        for name, (r, c) in SHAPES.items()
    }
)


def picture(root):
    """Everything that a graph consists of, to see that it was not changed."""
    return [(id(n), n.op, n.args, n.name, dict(n.attributes)) for n in topological(root)]


APPLIED = Counter()


@settings(max_examples=80)
@given(graph=random_graphs, point=random_points, choice=st.randoms(use_true_random=False))
def check_random_graph(graph, point, choice):
    before = picture(graph)
    value = denoted(graph, point)
    for name, rewrite in REWRITES.items():
        found = rewrite(graph)
        APPLIED[name] += len(found)
        for other in choice.sample(found, min(len(found), 2)):
            assert other is not graph
            assert same_function(graph, other, point), f"{name}: {graph} is not {other}"
    assert denoted(graph, point) == value
    assert picture(graph) == before


def test_every_rewrite_preserves_the_value_of_random_graphs_and_applies_to_some():
    APPLIED.clear()
    check_random_graph()
    assert set(APPLIED) == set(REWRITES)
    assert min(APPLIED.values()) > 0, APPLIED


@settings(max_examples=60)
@given(graph=random_graphs, point=random_points)
def test_canonizers_preserve_the_value_of_random_graphs(graph, point):
    before = picture(graph)
    assert same_function(graph, canonize(graph), point)
    assert picture(graph) == before


@pytest.mark.parametrize("name", REWRITES)
def test_every_rewrite_preserves_the_function_of_its_templates_for_all_inputs(name):
    for template in TEMPLATES[name]:
        found = REWRITES[name](template.root)
        assert found
        assert all(same_function(template.root, other, template.symbols()) for other in found)


def test_queries_and_keys_can_be_rescaled_by_any_factor():
    for template in TEMPLATES["rescale Q and K"]:
        (other,) = rescale_scores(template.root, factor=sp.Symbol("c", positive=True))
        assert same_function(template.root, other, template.symbols())


def test_one_graph_comes_back_per_place():
    a, b, c, d = map(leaf, "abcd")
    graph = ((a * b) * c) * d
    assert [str(other) for other in REWRITES["re-associate products"](graph)] == [
        "(a·(b·c))·d",
        "(a·b)·(c·d)",
    ]
    assert len(REWRITES["commute products"](graph)) == 3
    assert len(REWRITES["multiply by one"](graph)) == 7


def _only(op, change):
    return lambda node: [change(node)] if node.op == op else []


def _weights_swapped(node):
    inner = node.args[0]
    return linear(inner.args[0], node.args[1] @ inner.args[1], *node.args[2:])


def _of_linear(change):
    def changed(node):
        folds = node.op == kinds.LINEAR and node.args[0].op == kinds.LINEAR
        return [change(node)] if folds else []

    return changed


def _scale_one_side(node):
    q, k = node.args
    w = q.args[1] * constant("ones", q.args[1], factor=2)
    return replace(node, args=(replace(q, args=(q.args[0], w, *q.args[2:])), k))


def _shift_scaled(node):
    product, shift = node.args
    layer, scale = product.args
    x, w, b = layer.args
    row = scale.args[1]
    return linear(x, w * (constant("column", w) @ row), (b + shift.args[1]) * row)


def _widened(node):
    inner = node.args[0]
    x, w, b = inner.args
    forth = constant("repetition", w)
    back = Node("transpose", (constant("repetition", w),))  # the copies add up to twice the neuron
    return linear(linear(x, w @ forth, b @ forth), back @ node.args[1], *node.args[2:])


def _divided_by_the_mean(node):
    e = activation("exp", node.args[0])
    return e * activation("reciprocal", linear(e, constant("mean", e)))


def _uncentred_norm(node):
    x, w, b = node.args
    return replace(node, args=(linear(x, constant("mean", x)), w, b))


# rewrite -> a wrong version of it, as alternatives of a node
WRONG = {
    "commute products": _only(kinds.PRODUCT, lambda n: replace(n, args=(n.args[0],) * 2)),
    "commute sums": _only(kinds.ADD, lambda n: n.args[0] + n.args[0]),
    "re-associate products": _only(
        kinds.PRODUCT, lambda n: n.args[0] if n.args[0].op == kinds.PRODUCT else n
    ),
    "re-associate sums": _only(
        kinds.ADD, lambda n: n.args[0].args[0] + n.args[1] if n.args[0].op == kinds.ADD else n
    ),
    "distribute products": _only(
        kinds.PRODUCT, lambda n: n.args[0] * n.args[1].args[0] + n.args[1].args[1]
    ),
    "factor sums": _only(kinds.ADD, lambda n: n.args[0] * n.args[1]),
    "distribute linear": lambda n: (
        [linear(n.args[0].args[0], *n.args[1:]) + linear(n.args[0].args[1], *n.args[1:])]
        if len(n.args) == 3
        else []
    ),  # the bias twice
    "fold linear": _of_linear(lambda n: linear(n.args[0].args[0], n.args[0].args[1] @ n.args[1])),
    "split linear": _only(
        kinds.LINEAR, lambda n: linear(linear(n.args[0], n.args[1].args[0]), n.args[1].args[1])
    ),
    "fold batch norm": _only(kinds.ADD, _shift_scaled),
    "multiply by one": _only(INPUT, lambda n: n * constant("ones", n, factor=2)),
    "add zero": _only(INPUT, lambda n: n + constant("ones", n)),
    "insert identity layer": _only(INPUT, lambda n: linear(n, constant("reversal", n))),
    "duplicate neuron": _of_linear(_widened),
    "permute neurons": _of_linear(
        lambda n: linear(n.args[0], constant("reversal", n.args[0].args[1]) @ n.args[1], n.args[2])
    ),
    "rescale Q and K": _only(kinds.SCORES, _scale_one_side),
    "permute channels of Q and K": _only(
        kinds.SCORES,
        lambda n: replace(n, args=(n.args[0], linear(n.args[1], constant("reversal", n.args[1])))),
    ),
    "permute heads": _only(
        kinds.ADD,
        lambda n: (
            linear(n.args[0].args[0], n.args[1].args[1])
            + linear(n.args[1].args[0], n.args[0].args[1])
        ),
    ),
    "factorize attention": _only(kinds.BILINEAR, lambda n: replace(n, args=n.args[::-1])),
    "centre before LayerNorm": _only(kinds.LAYER_NORM, _uncentred_norm),
    "decompose LayerNorm": _only(
        kinds.LAYER_NORM, lambda n: linear(n.args[0], constant("centring", n.args[0]))
    ),
    "decompose GELU": _only(kinds.ACTIVATION, lambda n: n.args[0] * activation("silu", n.args[0])),
    "decompose softmax": _only(kinds.SOFTMAX, _divided_by_the_mean),
}


@pytest.mark.parametrize("name", REWRITES)
def test_a_wrong_rewrite_is_found_out(name):
    rejected = []
    for template in TEMPLATES[name]:
        point = template.symbols() if name != "factorize attention" else SQUARE_CHAIN
        for other in everywhere(WRONG[name], template.root):
            rejected.append(not same_function(template.root, other, point))
    assert any(rejected)


SQUARE_CHAIN = {
    name: sp.Matrix(2, 2, lambda i, j, name=name: sp.Symbol(f"{name}{i}{j}")) for name in "qkv"
}

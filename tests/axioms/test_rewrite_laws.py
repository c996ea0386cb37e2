"""A rewrite applies its law, an equation, wherever it matches, and does nothing else."""

import itertools
import re
from dataclasses import replace

import pytest
import sympy as sp

from axioms import kinds
from axioms.graph import (
    CONSTANT,
    INPUT,
    TRANSPOSE,
    Node,
    constant,
    leaf,
    parameter,
    rebuild,
    topological,
)
from axioms.rewrites.rewrite import exchanged
from axioms.rewrites.rewrites import EVERY_REWRITE, REWRITES
from axioms.rules.activations import ACTIVATIONS
from axioms.rules.propagate import FILLS
from axioms.scoreboard.witness import rewritten
from tests.support.trees import parsed, steps, tree, unshared

LAWS = """
commute products: a * b -> b * a
commute sums: a + b -> b + a
re-associate products, re-bracket a SwiGLU: (a * b) * c <-> a * (b * c)
re-associate sums: (a + b) + c <-> a + (b + c)
distribute products: a * (b + c) -> a * b + a * c
distribute products: (a + b) * c -> a * c + b * c
factor sums: a * b + a * c -> a * (b + c)
factor sums: a * c + b * c -> (a + b) * c
distribute linear: linear(x + y, w[, b]) -> linear(x, w[, b]) + linear(y, w)
fold linear: linear(linear(x, v), w[, b]) -> linear(x, v @ w[, b])
fold linear: linear(linear(x, v, a), w[, b]) -> linear(x, v @ w, linear(a, w[, b]))
split linear: linear(x, v @ w[, b]) -> linear(linear(x, v), w[, b])
fold batch norm: linear(x, w) * (column @ s) + (column @ t) -> linear(x, w * (column @ s), t)
fold batch norm: linear(x, w, b) * (column @ s) + (column @ t) -> \
    linear(x, w * (column @ s), b * s + t)
multiply by one: x -> x * ones
add zero: x -> x + zeros
insert identity layer: x -> linear(x, identity)
duplicate neuron: linear(F(linear(x, v[, a])), w[, b]) -> \
    linear(F(linear(x, v @ repetition[, a @ repetition])), halving @ w[, b])
duplicate neuron: linear(F(linear(x, v[, a])), w[, b]) -> \
    linear(F(linear(x, v @ repetition_of_the_first[, a @ repetition_of_the_first])), \
           halving_of_the_first @ w[, b])
permute neurons: linear(F(linear(x, v[, a])), w[, b]) -> \
    linear(F(linear(x, v @ reversal[, a @ reversal])), reversal @ w[, b])
rescale Q and K: scores(linear(x, v[, a]), linear(y, w[, b])) -> \
    scores(linear(x, v * (2 * ones)[, a * (2 * ones)]), \
           linear(y, w * ((1 / 2) * ones)[, b * ((1 / 2) * ones)]))
permute channels of Q and K: scores(linear(x, v[, a]), linear(y, w[, b])) -> \
    scores(linear(x, v @ reversal[, a @ reversal]), linear(y, w @ reversal[, b @ reversal]))
permute heads, permute attention heads: linear(readout(a, v), w) + linear(readout(b, u), c) -> \
    linear(readout(b, u), c) + linear(readout(a, v), w)
factorize attention: (a @ b) @ c <-> a @ (b @ c)
centre before LayerNorm: layer_norm(x, w, b, h) -> layer_norm(linear(x, centring), w, b, h)
decompose LayerNorm: layer_norm(x, w, b, h) -> linear(linear(x, centring) * reciprocal_root( \
    linear(linear(x, centring) * linear(x, centring), mean) + h * ones), \
    identity * (column @ w), b)
decompose GELU: gelu(x) -> x * phi(x)
decompose softmax, decompose softmax of attention: softmax(x) -> \
    exp(x) * reciprocal(linear(exp(x), square_of_ones))
decompose SiLU: silu(x) -> x * sigmoid(x)
rescale a ReGLU: relu(linear(x, v[, a])) * linear(y, w[, b]) -> \
    relu(linear(x, v * (2 * ones)[, a * (2 * ones)])) * \
    linear(y, w * ((1 / 2) * ones)[, b * ((1 / 2) * ones)])
decompose soft cap: soft_cap(x) -> linear(tanh(linear(x, (1 / 2) * identity)), 2 * identity)
fold weight of RMSNorm: linear(rms_norm(x, v, h), w[, b]) -> \
    linear(rms_norm(x, ones, h), (identity * (column @ v)) @ w[, b])
decompose RMSNorm: rms_norm(x, w, h) -> \
    linear(x * reciprocal_root(linear(x * x, mean) + h * ones), identity * (column @ w))
LayerNorm by RMSNorm: layer_norm(x, w, b, h) -> \
    linear(rms_norm(linear(x, centring), w, h), identity, b)
recurrence as attention: readout(a, readout(b, c)) -> readout(readout(a, b), c)
distribute a readout: readout(a, b + c) -> readout(a, b) + readout(a, c)
change channels of Q and K: scores(linear(x, v[, a]), linear(y, w[, b])) -> \
    scores(linear(x, v @ running_sums[, a @ running_sums]), \
           linear(y, w @ transpose(differences)[, b @ transpose(differences)]))
change channels of V and O: linear(readout(softmax(z), linear(y, w[, a])), v[, b]) -> \
    linear(readout(softmax(z), linear(y, w @ running_sums[, a @ running_sums])), \
           differences @ v[, b])
drop bias of K: softmax(scores(x, linear(y, w, b))) -> softmax(scores(x, linear(y, w)))
move bias of V: readout(softmax(z), linear(y, w, b)) -> \
    readout(softmax(z), linear(y, w)) + column @ b
split head: readout(softmax(z), v + u) -> readout(softmax(z), v) + readout(softmax(z), u)
duplicate keys: readout(softmax(scores(x, y)), v) -> \
    readout(softmax(scores(x, transpose(linear(transpose(y), twice)))), \
            transpose(linear(transpose(v), twice)))
"""
"""Rewrite: left side -> right side.

A letter stands for any graph; a repeated letter stands for one leaf, and a letter alone for a
computed graph.  h is the norm-epsilon, F(...) no function or any activation, and a bias in
brackets may be there or not.
"""


def laws():
    """The laws by rewrite, for every activation and with and without every bias."""
    found = {}
    for row in LAWS.strip().splitlines():
        names, _, law = row.partition(": ")
        between = ("", *(name.replace(" ", "_") for name in ACTIVATIONS)) if "F(" in law else ("",)
        for f, on in itertools.product(between, ("", "a", "b", "ab")):
            if not set(on) <= set(re.findall(r"\[, (\w)", law)):
                continue
            one = re.sub(r"\[(, (\w).*?)\]", lambda x, on=on: x[1] if x[2] in on else "", law)
            left, arrow, right = re.split(" (<?->) ", one.replace("F(", f"{f}("))
            sides = parsed(left), parsed(right.strip())
            for name in names.split(", "):
                found.setdefault(name, []).append(sides)
                found[name] += [sides[::-1]] * (arrow == "<->")
    return found


BY_NAME = laws()


def check(name, graph):
    graph = unshared(graph)
    found = sorted(map(repr, map(tree, EVERY_REWRITE[name](graph))))
    assert found == sorted(map(repr, steps(BY_NAME[name], tree(graph)))), f"{name} of {graph}"
    return len(found)


def trees(names):
    """Every tree of products and sums over these leaves in order, each leaf a node of its own."""
    if len(names) == 1:
        return [leaf(names)]
    return [
        Node(op, (left, right))
        for cut in range(1, len(names))
        for left, right in itertools.product(trees(names[:cut]), trees(names[cut:]))
        for op in (kinds.PRODUCT, kinds.ADD)
    ]


@pytest.mark.parametrize("name", BY_NAME)
def test_the_steps_of_every_tree_of_up_to_four_leaves_are_all_there_and_no_others(name):
    found = [check(name, t) for n in range(1, 5) for t in trees("abcd"[:n])]
    assert len(found) == 1 + 2 + 2 * 2**2 + 5 * 2**3
    repeated = map("".join, itertools.product("ab", repeat=4 if name == "factor sums" else 0))
    found += [check(name, t) for names in repeated if names for t in trees(names)]
    words = {word for left, _ in BY_NAME[name] for word in re.findall(r"\w{2,}", str(left))}
    assert any(found) == (words <= {kinds.PRODUCT, kinds.ADD})


def padded(root):
    """The graph with another norm-epsilon."""
    more = {"norm_eps": 3}
    return rebuild(root, lambda x: replace(x, attributes=more) if "norm_eps" in x.attributes else x)


GRAPHS = [template.root for rewrite in EVERY_REWRITE.values() for template in rewrite.templates]


def put_into(outer, inner):
    """``outer`` with ``inner`` in the place of its first input."""
    first = min(node.name for node in topological(outer) if node.op == INPUT)
    return rebuild(outer, lambda node: inner if (node.op, node.name) == (INPUT, first) else node)


def graph(pattern, *, fixed=False):
    """The left side of a law with leaves for its letters; weights and rows are fixed."""
    if isinstance(pattern, str):
        name = pattern.replace("_", " ")
        return constant(name, leaf("x")) if name in FILLS else (leaf, parameter)[fixed](name)
    name, *parts = pattern
    more = {"norm_eps": 3} if parts[-1] == "h" else {}
    parts = parts[:-1] if more else parts
    whole = name in (kinds.LINEAR, kinds.LAYER_NORM, kinds.RMS_NORM)
    args = [
        graph(part, fixed=fixed or bool(k and whole) or parts[0] == "column")
        for k, part in enumerate(parts)
    ]
    if name.replace("_", " ") in ACTIVATIONS:
        return Node(kinds.ACTIVATION, tuple(args), attributes={"function": name.replace("_", " ")})
    return Node(name, tuple(args), attributes=more)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_of_a_law_is_rewritten_and_nothing_that_is_only_like_it(name):
    for left, _ in BY_NAME[name]:
        case = graph(left)
        assert check(name, case)
        for node in topological(case)[:-1]:
            if node.op != CONSTANT:
                check(name, exchanged(case, node, Node(TRANSPOSE, (node,))))
        for node in topological(case):
            for other in ACTIVATIONS if node.op == kinds.ACTIVATION else ():
                near = replace(node, attributes={"function": other})
                check(name, exchanged(case, node, near))


@pytest.mark.parametrize("name", EVERY_REWRITE)
def test_a_rewrite_is_its_law_in_a_template_around_others_and_inside_them(name):
    for template in EVERY_REWRITE[name].templates:
        assert check(name, template.root)
        assert check(name, padded(template.root))
        for other in GRAPHS:
            assert check(name, put_into(other, template.root))
            check(name, put_into(template.root, other))
    if not name.startswith("commute"):  # which is of neighbours, however many there are
        for op in (kinds.PRODUCT, kinds.ADD):
            check(name, Node(op, (leaf("a") * leaf("b"), leaf("a") + leaf("b"), leaf("c"))))


@pytest.mark.parametrize("op", ["products", "sums"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_neighbours_commute_in_one_operation_of_n(op, n):
    """To every order with one pair turned round, however many operands there are."""
    kind = {"products": kinds.PRODUCT, "sums": kinds.ADD}[op]
    graph = Node(kind, tuple(map(leaf, "abcd"[:n])))
    found = ["".join(x.name for x in g.args) for g in REWRITES[f"commute {op}"](graph)]
    orders = map("".join, itertools.permutations("abcd"[:n]))
    turned = [o for o in orders if sum(x > y for x, y in itertools.combinations(o, 2)) == 1]
    assert sorted(found) == sorted(turned)
    assert len(turned) == n - 1


def test_a_factor_of_queries_is_divided_out_of_keys():
    for template in REWRITES["rescale Q and K"].templates:
        (other,) = rewritten("rescale Q and K", template.root, symbolic=True)
        factors = [n.attributes["factor"] for n in topological(other) if n.op == CONSTANT]
        assert set(factors) == {sp.Symbol("c", positive=True), 1 / sp.Symbol("c", positive=True)}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_fill_is_the_matrix_that_its_name_says(n):
    """Compares each fill of m rows and n columns with its definition."""
    m, at = n + 1, lambda name: FILLS[name](n + 1, n)
    eye, turned = sp.eye(n), sp.Matrix(n, n, lambda i, j: int(i + j == n - 1))
    assert (at("zeros"), at("ones")) == (sp.zeros(m, n), sp.ones(m, n))
    assert (at("column"), at("square of ones")) == (sp.ones(m, 1), sp.ones(n, n))
    assert (at("identity"), at("reversal")) == (eye, turned)
    assert at("mean") * n == sp.ones(n, n)
    assert at("centring") == eye - at("mean")
    assert at("repetition") == eye.row_join(eye.col(-1))  # and each of both hands on one half
    halves = sp.diag(*[1] * (n - 1), sp.Rational(1, 2))
    assert at("halving") == halves.col_join(halves.row(-1))
    assert at("repetition of the first") == eye.row_join(eye.col(0))
    assert at("halving of the first") == halves[::-1, ::-1].col_join(halves.row(-1)[::-1, ::-1])
    assert at("twice") == eye.row_join(eye)
    assert at("running sums") == sp.Matrix(n, n, lambda i, j: sp.Integer(bool(i <= j)))
    assert at("differences") * at("running sums") == eye

"""A rewrite is its law, an equation applied wherever it matches, and does nothing else."""

import ast
import itertools
import re
from dataclasses import replace
from functools import cache

import pytest
import sympy as sp

from axioms import kinds
from axioms.decide.denotation import same_function
from axioms.graph import (
    CONSTANT,
    INPUT,
    LEAVES,
    TRANSPOSE,
    Node,
    constant,
    leaf,
    parameter,
    rebuild,
    topological,
)
from axioms.rewrites.points import symbols
from axioms.rewrites.rewrite import exchanged
from axioms.rewrites.rewrites import EVERY_REWRITE, REWRITES
from axioms.rules.activations import ACTIVATIONS
from axioms.rules.propagate import FILLS
from axioms.scoreboard.witness import rewritten

BIASES = ("", ", b")
TWO_LAYERS = [(a, b) for a in ("", ", a") for b in BIASES]
BETWEEN = ("{}", *(f"{name.replace(' ', '_')}({{}})" for name in ACTIVATIONS))  # of neurons
HIDDEN = [(f, a, b) for f in BETWEEN for a, b in TWO_LAYERS]
ATTENTION = "linear(readout({}), {})"
CENTRED, TWICE = "linear(x, centring)", "transpose(linear(transpose({}), twice))"


def hidden(out, back):
    """The law of a change of the neurons between two layers, with and without biases."""
    return [
        (
            f"linear({f}, w{b})".format(f"linear(x, v{a})"),
            f"linear({f}, {back} @ w{b})".format(f"linear(x, v @ {out}{a and f', a @ {out}'})"),
        )
        for f, a, b in HIDDEN
    ]


def projections(query, key):
    """The law of a change of both projections, ``{}`` being a weight or a bias of one."""
    return [
        (
            f"scores(linear(x, v{a}), linear(y, w{b}))",
            f"scores(linear(x, {query.format('v')}{a and ', ' + query.format('a')}), "
            f"linear(y, {key.format('w')}{b and ', ' + key.format('b')}))",
        )
        for a, b in TWO_LAYERS
    ]


def both_ways(left, right):
    return [(left, right), (right, left)]


LAWS = {
    "commute products": [("a * b", "b * a")],
    "commute sums": [("a + b", "b + a")],
    "re-associate products": both_ways("(a * b) * c", "a * (b * c)"),
    "re-associate sums": both_ways("(a + b) + c", "a + (b + c)"),
    "distribute products": [("a * (b + c)", "a * b + a * c"), ("(a + b) * c", "a * c + b * c")],
    "factor sums": [("a * b + a * c", "a * (b + c)"), ("a * c + b * c", "(a + b) * c")],
    "distribute linear": [(f"linear(x + y, w{b})",
        f"linear(x, w{b}) + linear(y, w)") for b in BIASES],
    "fold linear": [(f"linear(linear(x, v{a}), w{b})",
        f"linear(x, v @ w{f', linear(a, w{b})' if a else b})") for a, b in TWO_LAYERS],
    "split linear": [(f"linear(x, v @ w{b})", f"linear(linear(x, v), w{b})") for b in BIASES],
    "fold batch norm": [(f"linear(x, w{b}) * (column @ s) + (column @ t)",
        f"linear(x, w * (column @ s), {'b * s + t' if b else 't'})") for b in BIASES],
    "multiply by one": [("x", "x * ones")],
    "add zero": [("x", "x + zeros")],
    "insert identity layer": [("x", "linear(x, identity)")],
    "duplicate neuron": hidden("repetition", "halving"),
    "permute neurons": hidden("reversal", "reversal"),
    "rescale Q and K": projections("{} * (2 * ones)", "{} * ((1 / 2) * ones)"),
    "permute channels of Q and K": projections("{} @ reversal", "{} @ reversal"),
    "permute heads": [(f"{ATTENTION} + {ATTENTION}".format(*heads),
        f"{ATTENTION} + {ATTENTION}".format(*heads[2:], *heads[:2])) for heads in [("a, v", "w",
        "b, u", "c")]],
    "factorize attention": both_ways("(a @ b) @ c", "a @ (b @ c)"),
    "centre before LayerNorm": [("layer_norm(x, w, b, h)", f"layer_norm({CENTRED}, w, b, h)")],
    "decompose LayerNorm": [
        (
            "layer_norm(x, w, b, h)",
            f"linear({CENTRED} * reciprocal_root(linear({CENTRED} * {CENTRED}, mean) + h * ones), "
            "identity * (column @ w), b)",
        )
    ],
    "decompose GELU": [("gelu(x)", "x * phi(x)")],
    "decompose softmax": [("softmax(x)", "exp(x) * reciprocal(linear(exp(x), square_of_ones))")],
    # of axioms.rewrites.units
    "decompose SiLU": [("silu(x)", "x * sigmoid(x)")],
    "rescale a ReGLU": [
        (
            f"relu(linear(x, v{a})) * linear(y, w{b})",
            f"relu(linear(x, v * (2 * ones){a and f'{a} * (2 * ones)'})) * "
            f"linear(y, w * ((1 / 2) * ones){b and f'{b} * ((1 / 2) * ones)'})",
        )
        for a, b in TWO_LAYERS
    ],
    "decompose soft cap": [("soft_cap(x)",
        "linear(tanh(linear(x, (1 / 2) * identity)), 2 * identity)")],
    "fold weight of RMSNorm": [(f"linear(rms_norm(x, v, h), w{b})",
        f"linear(rms_norm(x, ones, h), (identity * (column @ v)) @ w{b})") for b in BIASES],
    "decompose RMSNorm": [("rms_norm(x, w, h)",
        "linear(x * reciprocal_root(linear(x * x, mean) + h * ones), identity * (column @ w))")],
    "LayerNorm by RMSNorm": [("layer_norm(x, w, b, h)",
        f"linear(rms_norm({CENTRED}, w, h), identity, b)")],
    "recurrence as attention": [("readout(a, readout(b, c))", "readout(readout(a, b), c)")],
    "distribute a readout": [("readout(a, b + c)", "readout(a, b) + readout(a, c)")],
    # of axioms.rewrites.attention
    "change channels of Q and K": projections("{} @ running_sums", "{} @ transpose(differences)"),
    "change channels of V and O": [
        (
            f"linear(readout(softmax(z), linear(y, w{a})), v{b})",
            "linear(readout(softmax(z), linear(y, w @ running_sums"
            f"{a and ', a @ running_sums'})), differences @ v{b})",
        )
        for a, b in TWO_LAYERS
    ],
    "drop bias of K": [("softmax(scores(x, linear(y, w, b)))", "softmax(scores(x, linear(y, w)))")],
    "move bias of V": [("readout(softmax(z), linear(y, w, b))",
        "readout(softmax(z), linear(y, w)) + column @ b")],
    "split head": [("readout(softmax(z), v + u)",
        "readout(softmax(z), v) + readout(softmax(z), u)")],
    "duplicate keys": [("readout(softmax(scores(x, y)), v)",
        f"readout(softmax(scores(x, {TWICE.format('y')})), {TWICE.format('v')})")],
}  # fmt: skip
LAWS["re-bracket a SwiGLU"] = LAWS["re-associate products"]
LAWS["permute attention heads"] = LAWS["permute heads"]
LAWS["decompose softmax of attention"] = LAWS["decompose softmax"]
"""By rewrite: what becomes what; a single letter stands for any graph, one that is repeated for
one leaf, and alone for what is computed.  h is the norm-epsilon of a norm."""

INFIX = {"Mult": kinds.PRODUCT, "Add": kinds.ADD, "MatMult": kinds.BILINEAR, "Div": "over"}


@cache
def parsed(text):
    """A side of a law as nested tuples."""

    def tree(part):
        if isinstance(part, ast.BinOp):
            return INFIX[type(part.op).__name__], tree(part.left), tree(part.right)
        if isinstance(part, ast.Call):
            return part.func.id, *map(tree, part.args)
        return part.id if isinstance(part, ast.Name) else str(part.value)

    return tree(ast.parse(text, mode="eval").body)


def tree(node):
    """A graph as such tuples, a constant by what fills it and a function by its name."""
    if node.op in LEAVES:
        return f"{node.op} {node.name}"
    if node.op == CONSTANT:
        fill, factor = node.attributes["fill"].replace(" ", "_"), node.attributes["factor"]
        return fill if factor == 1 else parsed(f"({factor}) * {fill}")
    name = node.attributes["function"] if node.op == kinds.ACTIVATION else node.op
    padding = [str(node.attributes["norm_eps"])] if "norm_eps" in node.attributes else []
    return name.replace(" ", "_"), *map(tree, node.args), *padding


def matched(pattern, found, bound):
    """What the letters of a pattern stand for in a tree, or None."""
    if re.fullmatch("[a-z]", pattern if isinstance(pattern, str) else ""):
        if pattern in bound and (bound[pattern] != found or isinstance(found, tuple)):
            return None
        return {**bound, pattern: found}
    if isinstance(pattern, str) or isinstance(found, str) or len(pattern) != len(found):
        return bound if pattern == found else None
    for part, other in zip(pattern, found, strict=True):
        bound = matched(part, other, bound) if bound is not None else None
    return bound


def filled(pattern, bound):
    if isinstance(pattern, str):
        return bound.get(pattern, pattern)
    found = tuple(filled(part, bound) for part in pattern)
    return found[2] if found[:2] == (kinds.PRODUCT, "1") else found


def steps(laws, found):
    """Every tree that one use of one law makes of a tree, at its root or below."""
    for left, right in laws:
        inserts = isinstance(left, str)
        if inserts and isinstance(found, str) and not found.startswith(INPUT):
            continue  # weights and constants are not computed
        if (bound := matched(left, found, {})) is not None:
            yield filled(right, bound)
    for k, part in enumerate(found if isinstance(found, tuple) else ()):
        if k == 0 or part in FILLS or (isinstance(part, tuple) and part[0] == "times"):
            continue
        for other in steps(laws, part):
            yield (*found[:k], other, *found[k + 1 :])


def unshared(node):
    """The graph as a tree: an operand per use, and none of a constant, which only has its shape."""
    args = () if node.op == CONSTANT else map(unshared, node.args)
    return replace(node, args=tuple(args))


def check(name, graph):
    laws = [tuple(map(parsed, law)) for law in LAWS[name]]
    graph = unshared(graph)
    found = sorted(map(repr, map(tree, EVERY_REWRITE[name](graph))))
    assert found == sorted(map(repr, steps(laws, tree(graph)))), f"{name} of {graph}"
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


@pytest.mark.parametrize("name", LAWS)
def test_the_steps_of_every_tree_of_up_to_four_leaves_are_all_there_and_no_others(name):
    found = [check(name, t) for n in range(1, 5) for t in trees("abcd"[:n])]
    assert len(found) == 1 + 2 + 2 * 2**2 + 5 * 2**3
    repeated = map("".join, itertools.product("ab", repeat=4 if name == "factor sums" else 0))
    found += [check(name, t) for names in repeated if names for t in trees(names)]
    of_trees = all(re.fullmatch("[a-c()*+ ]+|x", left) for left, _ in LAWS[name])
    assert any(found) == of_trees


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
    """The left side of a law, whose letters are leaves; those of weights and rows are fixed."""
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


@pytest.mark.parametrize("name", LAWS)
def test_every_case_of_a_law_is_rewritten_and_nothing_that_is_only_like_it(name):
    for left, _ in LAWS[name]:
        case = graph(parsed(left))
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
        assert same_function(template.root, other, symbols(template))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_fill_is_the_matrix_that_its_name_says(n):
    """Each by what determines it, in the shape of m rows and n columns."""
    m, at = n + 1, lambda name: FILLS[name](n + 1, n)
    eye, turned = sp.eye(n), sp.Matrix(n, n, lambda i, j: int(i + j == n - 1))
    assert (at("zeros"), at("ones")) == (sp.zeros(m, n), sp.ones(m, n))
    assert (at("column"), at("square of ones")) == (sp.ones(m, 1), sp.ones(n, n))
    assert (at("identity"), at("reversal")) == (eye, turned)
    assert at("mean") * n == sp.ones(n, n)
    assert at("centring") == eye - at("mean")
    copies = at("repetition")  # of the last neuron; and each of both hands on one half
    assert copies == eye.row_join(eye.col(-1))
    assert at("halving") == copies.pinv()
    assert at("twice") == eye.row_join(eye)
    assert at("running sums") == sp.Matrix(n, n, lambda i, j: sp.Integer(bool(i <= j)))
    assert at("differences") * at("running sums") == eye

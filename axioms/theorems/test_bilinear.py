"""Products of two activations: Eqs. 3 and 4, and the depth law of linear attention."""

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, GRADIENT_X_INPUT
from lrp_axioms.axioms.decide.identity import (
    differ_at,
    generic,
    identical,
    limit,
    sign_cases,
    value_at,
    where,
)
from lrp_axioms.axioms.graph import LEAVES, Node, activation, leaf, linear, parameter, relu
from lrp_axioms.axioms.rules.attention import value_only
from lrp_axioms.axioms.rules.products import bilinear_epsilon
from lrp_axioms.axioms.rules.propagate import evaluate, explain
from lrp_axioms.axioms.theorems.test_trilinear import (
    SIZES,
    WEIGHTS,
    generic_point,
    linear_attention,
)

THEMES = {
    7: ["Products", "Softmax and attention"],
    8: ["Products", "Linear layers, sums and activations"],
}
DERIVATIONS = {7: ["readout", "scores", "value only"]}
MEANINGS = {
    7: "As epsilon -> 0, AttnLRP gives each factor of a matrix product half of its relevance. "
    "CP-LRP holds the attention weights constant and gives all of it to the values.",
    8: "Through sums, linear maps without bias, ReLUs and products, relevance is as epsilon -> 0 "
    "gradient x input, halved once for every product on the way. So the two factorizations of "
    "linear attention have different explanations.",
}

EPS = sp.Symbol("epsilon", positive=True)
D = sp.Symbol("sqrt_d", positive=True)  # the square root of the head size


def gradient_x_input(f, x, back=None):
    """x df/dx entry by entry, where ``back`` is substituted after the derivative is taken."""
    return x.applyfunc(lambda e: (e * sp.diff(f, e)).subs(back or {}))


@pytest.mark.theorem(
    7,
    "By Eq. 3, A and V each receive exactly the sum of R O/(2 O + epsilon sign O): half of the "
    "relevance of O = AV as epsilon -> 0.",
    "proved",
    scope="a row of 2 keys and 2 channels; every sign case",
)
def test_the_readout_gives_each_factor_a_known_share():
    a, v, r = generic("a", 1, 2), generic("v", 2, 2), generic("r", 1, 2)
    o = a * v
    for s in sign_cases(1, 2):
        r_a, r_v = bilinear_epsilon(a, v, r, eps=EPS, sign=s)
        expected = sum(r[p] * o[p] / (2 * o[p] + EPS * s[p]) for p in range(2))
        assert identical(sum(r_a), expected)
        assert identical(sum(r_v), expected)
        assert identical(limit(expected, EPS), sum(r) / 2)


@pytest.mark.theorem(
    7,
    "By Eq. 4, Q and K each receive exactly the sum of R Z/(2 Z + epsilon sign Z), where Z is "
    "QK'/sqrt(d): half of the relevance of Z as epsilon -> 0.",
    "proved",
    scope="a query of 2 channels and 2 keys; every sign case",
)
def test_the_scores_give_each_factor_a_known_share():
    q, k, r = generic("q", 1, 2), generic("k", 2, 2), generic("r", 1, 2)
    z = q * k.T / D
    for s in sign_cases(1, 2):
        r_q, r_k = bilinear_epsilon(q, k.T, r, eps=EPS, scale=1 / D, sign=s)
        expected = sum(r[i] * z[i] / (2 * z[i] + EPS * s[i]) for i in range(2))
        assert identical(sum(r_q), expected)
        assert identical(sum(r_k), expected)
        assert identical(limit(expected, EPS), sum(r) / 2)
        for c in range(2):  # entry by entry, so that no factor can be traded within a sum
            messages = [q[c] * k[i, c] / D * r[i] / (2 * z[i] + EPS * s[i]) for i in range(2)]
            assert identical(r_q[c], sum(messages))
            assert all(identical(r_k[c, i], messages[i]) for i in range(2))


@pytest.mark.theorem(
    7,
    "Stabilising the scores before or after their division by sqrt(d) gives the same relevance.",
    "refuted",
)
def test_the_order_of_scaling_and_stabilising_matters_at_finite_epsilon(record_property):
    q, k, r = (generic(name, 1, 1, positive=True) for name in "qkr")
    after, _ = bilinear_epsilon(q, k, r, eps=EPS, scale=1 / D)
    before, _ = bilinear_epsilon(q, k, r, eps=EPS)
    point = where((q, [2]), (k, [3]), (r, [5]), (D, 2), (EPS, sp.Rational(1, 4)))
    assert differ_at(before[0], after[0], point)
    record_property("witness", "q k = 6, d = 4, R = 5, eps = 1/4: 120/49 versus 12/5")


@pytest.mark.theorem(
    7,
    "Held constant, A receives nothing and V receives exactly the sum of R O/(O + epsilon sign O): "
    "all of the relevance of O = AV as epsilon -> 0 (CP-LRP).",
    "proved",
    scope="a row of 2 keys and 2 channels; every sign case",
)
def test_the_value_only_readout_gives_everything_to_the_values():
    a, v, r = generic("a", 1, 2), generic("v", 2, 2), generic("r", 1, 2)
    o = a * v
    for s in sign_cases(1, 2):
        r_a, r_v = value_only(a, v, r, eps=EPS, sign=s)
        expected = sum(r[p] * o[p] / (o[p] + EPS * s[p]) for p in range(2))
        assert identical(r_a, sp.zeros(1, 2))
        assert identical(sum(r_v), expected)
        assert identical(limit(expected, EPS), sum(r))
        assert identical(r_v[0, 0], a[0] * v[0, 0] * r[0] / (o[0] + EPS * s[0]))


A, B = leaf("a"), leaf("b")
OPERATIONS = {
    "sum": (A + B, 1),
    "linear": (linear(A, "w"), 1),
    "relu": (relu(A), 1),
    "matrix product": (A @ B, sp.Rational(1, 2)),
    "readout": (Node(kinds.READOUT, (A, B)), sp.Rational(1, 2)),
    "scores": (Node(kinds.SCORES, (A, B), attributes={"scale": 1 / D}), sp.Rational(1, 2)),
    "product": (A * B, sp.Rational(1, 2)),
}
"""Each operation of the law as a graph, and the part of gradient times input that it passes on."""


@pytest.mark.theorem(
    8,
    "As epsilon -> 0, one operation passes relevance on as gradient times input: whole through a "
    "sum, a linear map without bias or a ReLU off 0, halved through a product of two.",
    "proved",
    given=["a > 0: sizes of the input of a ReLU, in both signs"],
    scope="2 x 2 operands",
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_operation_is_gradient_times_input_halved_by_products(name, record_property):
    graph, part = OPERATIONS[name]
    g = generic("g", 2, 2)  # relevance per unit of output: the modified gradient that arrives
    signs = ({"positive": True}, {"negative": True}) if name == "relu" else ({},)
    for a in (generic("a", 2, 2, **sign) for sign in signs):
        values = {"a": a, "b": generic("b", 2, 2), "w": generic("w", 2, 2)}
        r = evaluate(graph, values)[graph].multiply_elementwise(g)
        f = sum(r)  # g is held constant
        for x, found in explain(graph, values, ATTNLRP, relevance=r).items():
            assert identical(found, part * gradient_x_input(f, values[x]))
    record_property("method", "the induction step of the law")


def over_paths(node, name, values):
    """The sum over paths from leaf ``name`` of slopes, each product of two halving its path."""
    if node.op in LEAVES:
        return int(node.name == name)
    xs = [values[arg][0] for arg in node.args]
    slopes = {
        kinds.ADD: [1] * len(xs),
        kinds.LINEAR: [xs[-1], 0],  # none through the weight
        kinds.ACTIVATION: [sp.Integer(values[node][0] != 0)],
        kinds.BILINEAR: [x / 2 for x in xs[::-1]],
        kinds.PRODUCT: [x / 2 for x in xs[::-1]],
    }[node.op]
    paths = (over_paths(arg, name, values) for arg in node.args)
    return sum(s * path for s, path in zip(slopes, paths, strict=True))


def graphs():
    """Paths of different numbers of products, shared operands, and a ReLU on one of two paths."""
    x, w, y = leaf("x"), parameter("w"), leaf("y")
    scaled = linear(x, w)
    active = relu(scaled)
    shared = x * y + scaled
    return {
        "paths of 0, 1 and 2 products": (scaled + scaled @ y) + (x @ scaled) @ y,
        "a gated sum": (active * (x + y)) * y + scaled,
        "a diamond": (shared @ y + shared) @ (shared * shared) + x,
    }


@pytest.mark.theorem(
    8,
    "On graphs of sums, linear maps without bias, ReLUs and products of two, where no denominator "
    "is 0, relevance is as epsilon -> 0 the sum over paths of gradient times input divided by 2^d, "
    "where d counts the products of two on the path.",
    "proved",
    given=["w, x, y > 0: the inputs, and the size of a weight that opens or shuts the ReLU"],
    scope="three graphs of two inputs and a weight; any graph by induction",
)
@pytest.mark.parametrize("name", graphs())
def test_relevance_is_a_sum_over_paths_halved_once_per_product(name, record_property):
    graph = graphs()[name]
    x, y, w = sp.symbols("x y w", positive=True)
    for weight in (w, -w):  # the ReLU on and off
        point = {"x": x, "y": y, "w": weight}
        values, found = evaluate(graph, point), explain(graph, point, ATTNLRP)
        for leaf_name in "xy":
            law = point[leaf_name] * over_paths(graph, leaf_name, values)
            assert identical(found[leaf_name], law)
    record_property(
        "method",
        "induction: by the statement before, relevance over value obeys the chain rule of the "
        "gradient with each product halved; three graphs by the sweep over generic values",
    )


def smooth():
    """tanh, and the second channel of LayerNorm: output, point, relevance, inputs, witness."""
    x = leaf("x")
    one, two = sp.Symbol("x", real=True), generic("x", 1, 2)
    norm = Node(kinds.LAYER_NORM, (x, parameter("w"), parameter("b")), attributes={"norm_eps": 1})
    values = {"x": two, "w": sp.ones(1, 2), "b": sp.zeros(1, 2)}
    second = evaluate(norm, values)[norm].multiply_elementwise(sp.Matrix([[0, 1]]))
    tanh = activation("tanh", x)
    return {
        "tanh": (tanh, {"x": one}, sp.tanh(one), {one: 1}),
        "LayerNorm": (norm, values, second, where((two, [1, 3]))),
    }


@pytest.mark.theorem(
    8,
    "As epsilon -> 0, tanh by the identity rule and LayerNorm with its deviation held pass "
    "relevance on as gradient times input.",
    "refuted",
)
@pytest.mark.parametrize("name", smooth())
def test_neither_tanh_nor_layer_norm_passes_on_gradient_times_input(name, record_property):
    graph, values, y, point = smooth()[name]
    both = ATTNLRP, GRADIENT_X_INPUT
    found = [sp.Matrix([explain(graph, values, rules, relevance=y)["x"]])[0] for rules in both]
    assert differ_at(found[0], found[1], point)
    numbers = [value_at(r, point) for r in found]
    place = {"tanh": "tanh at x = 1"}.get(name, "x1 of LayerNorm, output 2, at x = (1, 3), h = 1")
    record_property("witness", f"{place}: {numbers[0]} versus {numbers[1]}")


def through_each_projection(at):
    """Gradient x input of sum(O) at x with only q, only k, or only v depending on x."""
    copies = [generic(name, *at["x"].shape) for name in ("xq", "xk", "xv")]
    q, k, v = (x * at[w] for x, w in zip(copies, WEIGHTS, strict=True))
    back = {c: e for copy in copies for c, e in zip(copy, at["x"], strict=True)}
    return [gradient_x_input(sum(q * k.T * v), copy, back) for copy in copies]


@pytest.mark.theorem(
    8,
    "As epsilon -> 0, in linear attention (QK')V gives q/4 + k/4 + v/2 and Q(K'V) gives q/2 + k/4 "
    "+ v/4, where q, k and v are gradient times input through each projection.",
    "proved",
    scope="2 tokens of 1 channel, and 1 token of 2 channels",
)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("factorization", "divisors"), [(0, (4, 4, 2)), (1, (2, 4, 4))], ids=["qk_first", "kv_first"]
)
def test_each_factorization_of_linear_attention_halves_by_its_own_depths(
    factorization, divisors, size, record_property
):
    at = generic_point(*size)
    parts = through_each_projection(at)
    found = explain(linear_attention()[factorization], at, ATTNLRP)["x"]
    expected = [part / divisor for part, divisor in zip(parts, divisors, strict=True)]
    assert identical(found, sum(expected, sp.zeros(*found.shape)))
    record_property("method", f"the sweep over generic inputs and weights at {len(SIZES)} sizes")


@pytest.mark.theorem(
    8,
    "(QK')V and Q(K'V), two implementations of linear attention, get the same relevance.",
    "refuted",
)
def test_the_factorizations_of_linear_attention_disagree(record_property):
    values = generic_point(*SIZES[0])
    qk_first, kv_first = linear_attention()
    one, two = (explain(graph, values, ATTNLRP)["x"] for graph in (qk_first, kv_first))
    assert identical(evaluate(qk_first, values)[qk_first], evaluate(kv_first, values)[kv_first])
    point = where((values["x"], [1, 2]), *((values[w], [1]) for w in WEIGHTS))
    assert all(differ_at(a, b, point) for a, b in zip(one, two, strict=True))
    numbers = (list(found.subs(point)) for found in (one, two))
    record_property("witness", "x = [1, 2], weights 1: {} versus {}".format(*numbers))

"""Products of inputs: relevance depends on the brackets, leave-one-out does not (Fig. 1)."""

import itertools
from math import comb

import pytest
import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.axioms.decide.identity import differ_at, identical, limit, sign_cases
from lrp_axioms.axioms.graph import leaf, topological
from lrp_axioms.axioms.rewrites.canonizers import merge_products
from lrp_axioms.axioms.rewrites.products import bracketings
from lrp_axioms.axioms.rules.effects import integrated_gradients, leave_one_out, shapley
from lrp_axioms.axioms.rules.propagate import evaluate, explain

THEMES = {
    1: ["Products", "Leave-One-Out and patching"],
    2: ["Products"],
    3: ["Products"],
    4: ["Products", "Leave-One-Out and patching"],
}
DERIVATIONS = {1: ["product"], 2: ["product"], 3: ["product"]}
MEANINGS = {
    1: "A product has one explanation for every way to set its brackets. The function is the "
    "same, and so is Leave-One-Out.",
    2: "Every product of two halves relevance as epsilon -> 0: a factor below d products receives "
    "R/2^d. Therefore each bracketing of up to 7 factors has an explanation of its own.",
    3: "Nested products that are merged into one operation have one explanation: R/n for each of "
    "n factors.",
    4: "The equal split of a merged product is its Shapley value and its Integrated Gradients, "
    "but not its Leave-One-Out.",
}

EPS = sp.Symbol("epsilon", positive=True)
R = sp.Symbol("R", real=True)
EQUAL_SPLIT = Composite("equal split", {kinds.PRODUCT: kinds.EQUAL_SPLIT})
EPSILON_RULE = Composite("epsilon rule", {kinds.BILINEAR: kinds.BILINEAR_EPSILON})


def factors(n):
    return [leaf(f"x{i + 1}") for i in range(n)]


def point(n):
    return {x.name: sp.Symbol(x.name, real=True) for x in factors(n)}


def paths(node, above=()):
    """The products above every leaf, leaves from left to right."""
    if not node.args:
        return [above]
    return [path for arg in node.args for path in paths(arg, (*above, node))]


def slashed(relevances):
    return "/".join(str(r) for r in relevances)


@pytest.mark.theorem(
    1,
    "Two implementations of y = x1 x2 x3, (x1 x2) x3 and x1 (x2 x3), get the same relevance.",
    "refuted",
)
def test_equal_split_gives_6_6_12_and_12_6_6_where_leave_one_out_gives_24_24_24(record_property):
    x1, x2, x3 = factors(3)
    symbols = point(3)
    numbers = {x: k + 2 for k, x in enumerate(symbols.values())}
    shares = []
    for model in ((x1 * x2) * x3, x1 * (x2 * x3)):
        y = evaluate(model, symbols)[model][0]
        loo = leave_one_out(y, {x: x for x in symbols.values()}).values()
        assert all(identical(effect, y) for effect in loo)  # for both, whatever x is
        shares.append(list(explain(model, symbols, EQUAL_SPLIT).values()))
    assert identical(shares[0][1], shares[1][1])
    for k in (0, 2):
        assert differ_at(shares[0][k], shares[1][k], numbers)
    relevance_a, relevance_b = ([r.subs(numbers) for r in found] for found in shares)
    assert relevance_a == [6, 6, 12]
    assert relevance_b == [12, 6, 6]
    record_property(
        "witness",
        f"x = {tuple(numbers.values())}: {slashed(relevance_a)} versus {slashed(relevance_b)}; "
        f"leave-one-out {slashed([y.subs(numbers)] * 3)} for both",
    )


@pytest.mark.theorem(
    1,
    "At every epsilon >= 0 and all nonzero inputs, x3 gets 2 + epsilon/|x2 x3| times as much "
    "relevance from (x1 x2) x3 as from x1 (x2 x3).",
    "proved",
    scope="3 factors; every sign case",
)
def test_no_epsilon_and_no_input_makes_the_two_models_agree():
    x1, x2, x3 = factors(3)
    at = {name: sp.Symbol(name, real=True) for name in ("x1", "x2", "x3")}
    inner_a, inner_b = x1 @ x2, x2 @ x3
    model_a, model_b = inner_a @ x3, x1 @ inner_b
    product = at["x2"] * at["x3"]

    for case in sign_cases(1, 3):
        s_y, s_a, s_b = (sp.Matrix([[s]]) for s in case)
        signs = {model_a: s_y, model_b: s_y, inner_a: s_a, inner_b: s_b}
        in_a = explain(model_a, at, EPSILON_RULE, eps=EPS, signs=signs)["x3"]
        in_b = explain(model_b, at, EPSILON_RULE, eps=EPS, signs=signs)["x3"]
        size = product * s_b[0]  # |x2 x3|
        assert identical(in_a, in_b * (2 + EPS / size))


@pytest.mark.theorem(
    2,
    "On any tree of products of two, a leaf under products y_1, ..., y_d receives R times the "
    "product of y_k / (2 y_k + epsilon sign y_k), that is R / 2^d as epsilon -> 0.",
    "proved",
    scope="n = 2, 3 and 4 factors; any tree by induction",
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_relevance_is_a_product_over_the_path_to_the_root(n, record_property):
    for tree in bracketings(factors(n), lambda a, b: a @ b):
        at = point(n)
        y = {node: value[0] for node, value in evaluate(tree, at).items()}
        products = [node for node in topological(tree) if node.args]
        # one symbol per sign: the identity holds whatever the signs are, so in every case
        signs = {
            node: sp.Matrix([[sp.Symbol(f"s{k}", real=True)]]) for k, node in enumerate(products)
        }
        found = explain(tree, at, EPSILON_RULE, eps=EPS, relevance=R, signs=signs)
        for x, path in zip(factors(n), paths(tree), strict=True):
            law = sp.prod(y[p] / (2 * y[p] + EPS * signs[p][0]) for p in path)
            assert identical(found[x.name], R * law)
            assert identical(limit(found[x.name], EPS), R / 2 ** len(path))
    record_property("method", "induction on the tree; every bracketing of up to 4 factors checked")


@pytest.mark.theorem(
    2,
    "For n <= 7, the C(n-1) bracketings of one ordered product of n factors (C: Catalan numbers) "
    "give C(n-1) different explanations of one function.",
    "proved",
    scope="n = 2, ..., 7 factors",
)
def test_every_bracketing_gives_an_explanation_of_its_own(record_property):
    counts = []
    for n in range(2, 8):
        trees = bracketings(factors(n))
        found = [list(explain(t, point(n), EQUAL_SPLIT, relevance=R).values()) for t in trees]
        for shares, tree in zip(found, trees, strict=True):
            depths = map(len, paths(tree))
            assert all(identical(r, R / 2**d) for r, d in zip(shares, depths, strict=True))
        # in order of the shares: where neighbours differ, all do
        ordered = sorted(found, key=lambda shares: [r.subs(R, 1) for r in shares])
        for one, other in itertools.pairwise(ordered):
            assert any(not identical(a, b) for a, b in zip(one, other, strict=True))
        assert len(trees) == comb(2 * n - 2, n - 1) // n
        counts.append(len(trees))
    record_property("method", f"{slashed(counts)} distinct explanations for n = 2, ..., 7")


@pytest.mark.theorem(
    2,
    "A bracketing of n <= 8 factors gives each of them R/n, as the merged product does, if and "
    "only if n is a power of two and the tree is perfectly balanced.",
    "proved",
    scope="n = 2, ..., 8 factors",
)
def test_only_perfectly_balanced_bracketings_agree_with_the_merged_product(record_property):
    agreeing = {}
    for n in range(2, 9):
        trees, ones = bracketings(factors(n)), dict.fromkeys(point(n), 1)  # R = 1: R only scales
        balanced = [t for t in trees if {2 ** len(path) for path in paths(t)} == {n}]
        for tree in balanced:
            found = explain(tree, ones, EQUAL_SPLIT, relevance=R)
            assert all(identical(r, R / n) for r in found.values())
        shares = [set(explain(tree, ones, EQUAL_SPLIT).values()) for tree in trees]
        merged = [
            tree for tree, share in zip(trees, shares, strict=True) if share == {sp.Rational(1, n)}
        ]
        assert merged == balanced
        agreeing[n] = len(merged)
    assert agreeing == {n: int(n & (n - 1) == 0) for n in agreeing}
    of_all = ", ".join(f"n = {n}: {k}" for n, k in agreeing.items())
    record_property("method", f"R/2^d = R/n forces every depth to log2 n; agreeing trees {of_all}")


@pytest.mark.theorem(
    3,
    "Once nested products are merged, every bracketing of every ordering of n <= 5 factors gives "
    "each factor R/n.",
    "proved",
    scope="n = 2, 3, 4 and 5 factors",
)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_merged_products_are_implementation_invariant(n, record_property):
    at = point(n)
    for ordering in itertools.permutations(factors(n)):
        trees = bracketings(ordering)
        for tree in trees:
            merged = merge_products(tree)
            assert merged.args == ordering  # one product, whatever the brackets
        assert len(trees) == comb(2 * n - 2, n - 1) // n
        assert identical(evaluate(merged, at)[merged], evaluate(tree, at)[tree])
        found = explain(merged, at, EQUAL_SPLIT, relevance=R)
        assert all(identical(r, R / n) for r in found.values())
    record_property(
        "method", "every bracketing of every ordering merges into one product, which is swept"
    )


@pytest.mark.theorem(
    4,
    "The merged split of a product of n <= 4 factors is its Shapley value and its Integrated "
    "Gradients, both from the zero baseline.",
    "proved",
    scope="n = 2, 3 and 4 factors",
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_merged_split_is_the_shapley_value_and_the_integrated_gradients(n, record_property):
    at = point(n)
    merged = merge_products(bracketings(factors(n))[0])
    y = evaluate(merged, at)[merged][0]
    generic = {x: x for x in at.values()}
    split, by_shapley, by_path = (
        list(attribution.values())
        for attribution in (
            explain(merged, at, EQUAL_SPLIT),
            shapley(y, generic),
            integrated_gradients(y, generic),
        )
    )
    for k in range(n):
        assert identical(split[k], y / n)
        assert identical(split[k], by_shapley[k])
        assert identical(split[k], by_path[k])
    numbers = {x: k + 2 for k, x in enumerate(at.values())}
    shares = [share.subs(numbers) for share in split]
    record_property("method", f"{slashed(shares)} at {tuple(numbers.values())}")


@pytest.mark.theorem(
    4,
    "The merged split of a product is its leave-one-out.",
    "refuted",
)
def test_the_merged_split_is_leave_one_out_only_up_to_a_factor_n(record_property):
    n, at = 3, point(3)
    merged = merge_products(bracketings(factors(n))[0])
    y = evaluate(merged, at)[merged][0]
    split = explain(merged, at, EQUAL_SPLIT)
    loo = leave_one_out(y, {x: x for x in at.values()})
    witness = {x: k + 2 for k, x in enumerate(at.values())}
    for name, x in at.items():
        assert identical(n * split[name], loo[x])
        assert differ_at(split[name], loo[x], witness)
    numbers = [[r.subs(witness) for r in found.values()] for found in (split, loo)]
    record_property("witness", " versus ".join(map(slashed, numbers)))

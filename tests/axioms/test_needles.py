"""One wrong case among many is found: a decision looks at every case, entry, input and point."""

import itertools
from dataclasses import replace
from math import prod
from unittest import mock

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from axioms import kinds
from axioms.composites import ATTNLRP
from axioms.decide.denotation import same_value
from axioms.decide.identity import identical
from axioms.rewrites.points import points
from axioms.rewrites.rewrites import EVERY_REWRITE, REWRITES
from axioms.rules.effects import (
    difference,
    integrated_gradients,
    leave_key_out,
    leave_one_out,
    mask_relevance,
    shapley,
)
from axioms.rules.propagate import RULES
from axioms.scoreboard.rule_sets import RULE_SETS, RuleSet
from axioms.scoreboard.scoreboard import FINITE, FIRST, LIMIT, OPEN, PROVED, REFUTED, decide, lemma
from axioms.scoreboard.witness import search

X, Y, Z = sp.symbols("x y z", real=True)
PRODUCTS = "commute products"
(TEMPLATE,) = REWRITES[PRODUCTS].templates


def test_what_is_0_at_every_small_number_is_not_0():
    """No point decides: this is 0 at every integer from -5 to 30, and at their halves."""
    zero = prod((X - k) * (2 * X - k) for k in range(-5, 31))
    assert not identical(X + zero, X)
    assert not same_value(X + zero, X)
    nothing, small = (Y + 1) ** 2 - Y**2 - 2 * Y - 1, prod(X - k for k in range(20))
    assert not identical(nothing / Z + small / (Z + 1), 0)  # over one denominator of two
    assert not identical(small * X / (X + Z), small * Z / (X + Z))
    for one, other in itertools.permutations((X, Y, Z), 2):  # at all points with two alike
        assert not identical(one, other)
        assert not identical(Z * one / (one - other) ** 2, Z * other / (one - other) ** 2)
    assert identical((X + Y) ** 5 / (X**2 - Y**2), (X + Y) ** 4 / (X - Y))


def test_numbers_that_are_not_rational_have_names_of_their_own():
    assert same_value(sp.pi * X + sp.E, sp.E + X * sp.pi)
    assert same_value(sp.exp(2 * X + 1) / sp.exp(X), sp.E * sp.exp(X))
    assert not same_value(sp.pi * X, sp.Rational(22, 7) * X)
    assert not same_value(sp.sqrt(2) * X, sp.Rational(99, 70) * X)
    for function in (sp.exp, sp.tanh, sp.sqrt):
        assert same_value(function(X * (Y + 1)), function(X + X * Y))
        assert not same_value(function(X), function(Y))


NAMED = (
    *(X, sp.sqrt(X), sp.sqrt(X) ** 3, sp.root(X, 3), sp.exp(X), sp.exp(2 * X), sp.exp(X / 2)),
    *(sp.Max(X, 0), sp.Max(2 * X, 0), sp.Max(Y, 0), sp.Max(X, Y), sp.Max(X, Z), sp.Max(X, Y, 0)),
)


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(NAMED, 2)], ids=str)
def test_functions_that_differ_have_names_that_differ(one, other):
    assert not same_value(one, other)
    assert same_value(one * (Y + 1) + other, other + one + one * Y)


@settings(max_examples=50)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 5)), st.tuples(st.integers(2, 4), st.integers(1, 5))
)
def test_roots_are_alike_if_degree_and_power_are(one, other):
    (m, p), (n, q) = one[::-1], other[::-1]
    root, another = sp.root(X, n) ** q, sp.root(X, m) ** p
    assert same_value(root, another) == (root == another)
    if root.is_Pow and not root.exp.is_Integer:  # one name, to any power
        assert same_value(1 / (1 + root), root**-1 / (root**-1 + 1))
        assert not same_value(1 / (1 + root), 1 / (1 + root * Y))


@settings(max_examples=30)
@given(*[st.tuples(st.integers(1, 3), st.integers(1, 3))] * 2)
def test_matrices_of_different_shapes_are_not_compared(one, other):
    sides = sp.ones(*one) * X, sp.ones(*other) * X
    for pair in (sides, (sides[0], X), (X, sides[1])):
        if getattr(pair[0], "shape", ()) == getattr(pair[1], "shape", ()):
            assert identical(*pair)
        else:
            with pytest.raises(ValueError, match="shapes differ"):
                identical(*pair)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (2, 2)])
def test_one_entry_of_a_matrix_that_differs_is_found(shape):
    same = sp.Matrix(*shape, lambda i, j: X ** (i + 1) * (Y + j))
    assert identical(same, same.applyfunc(sp.expand))
    for k in range(len(same)):
        other = same.copy()
        other[k] += Z
        assert not identical(same, other)
        assert not same_value(other, same)


def sharing(share):
    """A rule set whose products give their first operand ``share`` of R, and the rest the other."""

    def message(node, xs, r, options):
        first = sp.Matrix(*r.shape, share(*xs, r))
        return [first, r - first]

    return RuleSet(name="one-sided", composite=ATTNLRP, instead={kinds.PRODUCT: message})


HALF = sharing(lambda a, b, r: r / 2)
BLIND = {  # equal shares for some relevances, and for others not
    "R = 1": sharing(lambda a, b, r: r.applyfunc(lambda v: v**2 / 2)),
    "R alike in every channel": sharing(lambda a, b, r: list(r[:, ::-1] / 2)),
    "R of one sum": sharing(lambda a, b, r: [v / 2 + v - sum(r) / len(r) for v in r]),
    "R = a b": sharing(
        lambda a, b, r: [v / 2 + (v - x * y) / 4 for x, y, v in zip(a, b, r, strict=True)]
    ),
}


@pytest.mark.parametrize("name", BLIND)
def test_a_lemma_is_over_every_relevance(name):
    assert lemma(HALF, PRODUCTS, TEMPLATE, 0)
    assert not lemma(BLIND[name], PRODUCTS, TEMPLATE, 0)
    assert decide(BLIND[name], PRODUCTS, LIMIT, points_tried=FIRST).verdict == REFUTED


def rewriting(name, step):
    """The rewrite of this name with another step."""
    return mock.patch.dict(EVERY_REWRITE, {name: replace(EVERY_REWRITE[name], step=step)})


@pytest.mark.parametrize(("rewrite", "inputs"), [(PRODUCTS, 2), ("re-associate sums", 3)])
def test_a_lemma_is_over_every_input_and_every_rewritten_graph(rewrite, inputs):
    (template,) = REWRITES[rewrite].templates
    graphs, asked = EVERY_REWRITE[rewrite](template.root) * 3, []

    def all_but(wrong):
        asked.clear()
        return lambda one, other: asked.append((one, other)) or len(asked) != wrong

    with rewriting(rewrite, lambda node: graphs if node is template.root else []):
        assert lemma(RULE_SETS[0], rewrite, template, 0, same=all_but(0))
        assert len(asked) == inputs * len(graphs)
        for wrong in range(1, inputs * len(graphs) + 1):
            assert not lemma(RULE_SETS[0], rewrite, template, 0, same=all_but(wrong))


def test_nothing_is_proved_of_no_graph_and_of_no_entry():
    with (
        rewriting(PRODUCTS, lambda node: []),
        pytest.raises(ValueError, match="'commute products' rewrites nothing in a·b"),
    ):
        decide(RULE_SETS[0], PRODUCTS, LIMIT)


@pytest.mark.parametrize("where", [0, 1])
def test_one_rewritten_graph_that_is_another_function_is_no_proof(where):
    """For a functional of the function, which is as good as the rewrite."""
    functional = RULE_SETS[-1]
    assert decide(functional, PRODUCTS, LIMIT).verdict == PROVED

    def wrong(node):
        a, b = node.args or (None, None)
        return [b * a, a * a][:: 1 - 2 * where] if a else []

    with rewriting(PRODUCTS, wrong):
        assert decide(functional, PRODUCTS, LIMIT).verdict == OPEN


@pytest.mark.parametrize("biased", [False, True])
def test_a_lemma_of_every_template_is_needed(biased):
    """A rule that is wrong only with a bias, or only without, and only for symbols."""
    right = RULES[kinds.LINEAR, kinds.EPSILON].messages

    def message(node, xs, r, options):
        wrong = (len(xs) == 3) == biased and xs[0].free_symbols
        return [right(node, xs, r, options)[0] * (2 if wrong else 1)]

    wrong = RuleSet(name="of some", composite=ATTNLRP, instead={kinds.LINEAR: message})
    assert decide(wrong, "fold linear", LIMIT, points_tried=FIRST).verdict == OPEN


SMALL = list(itertools.islice(points({"a": (1, 1), "b": (1, 1)}), 12))


def test_a_rule_that_fails_at_one_point_alone_is_refuted_there():
    """Halves, but for a first operand that takes all at this one point."""
    for at in SMALL:
        pair = [[at["a"], at["b"]], [at["b"], at["a"]]]
        needle = sharing(lambda a, b, r, pair=pair: r if [a, b] in pair else r / 2)
        assert decide(needle, PRODUCTS, FINITE).verdict == REFUTED
        for k, point in enumerate(SMALL):
            found = search(needle, PRODUCTS, TEMPLATE, 1, tried=k + 1, skipped=k)
            assert bool(found) == ([point["a"], point["b"]] in pair)


def test_what_is_proved_of_the_shapes_of_a_template_is_tried_in_wider_ones():
    entries = prod(TEMPLATE.generic["a"])
    narrow = sharing(lambda a, b, r: r / (2 if len(r) <= entries else 1))
    assert decide(narrow, PRODUCTS, FINITE, attacks=0).verdict == PROVED
    assert decide(narrow, PRODUCTS, FINITE).verdict == REFUTED


def test_what_is_defined_for_symbols_alone_is_not_proved():
    def message(a, b, r):
        if not a.free_symbols:
            raise ZeroDivisionError
        return r / 2

    assert decide(sharing(message), PRODUCTS, FINITE).verdict == OPEN


# Attributions of the function, each against its other definition.


def test_shapley_values_are_averages_over_orders_and_leave_one_out_the_last_step_of_one():
    f = 2 * X * Y * Z + X**2 * Y - 3 * Z + Y
    at = {X: 2, Y: -3, Z: 5}

    def worth(present):
        return f.subs({x: value if x in present else 0 for x, value in at.items()})

    orders = list(itertools.permutations(at))
    for x in at:
        steps = [worth(o[: o.index(x) + 1]) - worth(o[: o.index(x)]) for o in orders]
        assert shapley(f, at)[x] == sp.Rational(sum(steps), len(orders))
        assert leave_one_out(f, at)[x] == worth(at) - worth([y for y in at if y != x])


def test_integrated_gradients_of_monomials_are_shares_of_their_degrees():
    for i, j, k in itertools.product(range(3), repeat=3):
        f, at = X**i * Y**j * Z**k, {X: 2, Y: -3, Z: 5}
        value = f.subs(at)
        shares = [value * sp.Rational(d, i + j + k or 1) for d in (i, j, k)]
        assert list(integrated_gradients(f, at).values()) == shares
        shares[0] += 2  # of a sum
        assert list(integrated_gradients(f + X, at).values()) == shares


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_symbols_of_a_point_are_put_in_at_once(order):
    """As symbols that the function has not, which are exchanged for their values afterwards."""
    f, others = X * Y**2 + X * Z + Z, sp.symbols("a:3", real=True)
    point = {x: n * (X, Y, Z)[k] for n, (x, k) in enumerate(zip((X, Y, Z), order, strict=True), 1)}
    values = dict(zip(others, point.values(), strict=True))
    for method in (leave_one_out, shapley, integrated_gradients):
        found, apart = method(f, point), method(f, dict(zip(point, others, strict=True)))
        assert all(identical(found[x], apart[x].subs(values, simultaneous=True)) for x in point)


@pytest.mark.parametrize("n", [2, 3])
def test_a_key_is_left_out_by_a_mask_of_0_and_its_relevance_is_the_slope_there(n):
    """Both are the change from m = 1 to m = 0, where m is a factor of the key's exponential."""
    e = sp.Matrix([sp.symbols(f"e:{n}", positive=True)])
    v = sp.Matrix(n, 2, sp.symbols(f"v:{2 * n}", real=True))
    c, m = sp.Matrix([X, Y]), sp.Symbol("m", real=True)
    left_out, relevance = leave_key_out(e, v), mask_relevance(e, v, c)
    for i in range(n):
        masked = e.copy()
        masked[i] *= m
        read = masked * v / sum(masked)
        change = (read.subs(m, 1) - read.subs(m, 0)).applyfunc(sp.cancel)
        assert identical(left_out[i, :], change)
        assert identical(relevance[i], (change * c)[0])


def test_a_difference_is_the_derivative_by_its_words_times_them():
    """Where f is linear in every word, and words that are missing are 0."""
    words = (X, Y, Z)
    some = [c for n in range(4) for c in itertools.combinations(words, n)]
    f = sum(sp.Symbol(f"w{n}", real=True) * prod(c) for n, c in enumerate(some))
    texts = {frozenset(c): f.subs(dict.fromkeys({*words} - {*c}, 0)) for c in some}
    for text, chosen in itertools.product(some, some[1:]):
        if {*chosen} <= {*text}:
            derivative = sp.diff(texts[frozenset(text)], *chosen) * prod(chosen)
            assert identical(difference(texts, chosen, text), derivative)
    with pytest.raises(ValueError, match=r"the text has no z; choose from \['x', 'y'\]"):
        difference(texts, {X, Z}, {X, Y})

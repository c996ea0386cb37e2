"""Proofs and searches run over complete lists: each is counted by another definition."""

import itertools
import random
from math import comb

import pytest
import sympy as sp

from axioms.decide.denotation import denoted, same_value
from axioms.decide.identity import generic, sign_cases
from axioms.graph import INPUT, LEAVES, leaf, topological
from axioms.kinds import RULES
from axioms.own_rules.messages import MESSAGES
from axioms.own_rules.verdicts import rewrites_of
from axioms.rewrites.points import moved, points, random_point, symbols
from axioms.rewrites.products import bracketings
from axioms.rewrites.rewrites import REWRITES
from axioms.rules.propagate import evaluate
from axioms.scoreboard.scoreboard import in_contexts
from axioms.scoreboard.witness import searched_points

ALL = [(name, template) for name, rewrite in REWRITES.items() for template in rewrite.templates]
of_all = pytest.mark.parametrize(("name", "template"), ALL, ids=lambda x: str(x)[:20])


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_sign_cases_are_all_matrices_of_signs_each_once(rows, cols):
    found = [tuple(case) for case in sign_cases(rows, cols)]
    assert len(found) == len(set(found)) == 2 ** (rows * cols)
    assert {entry for case in found for entry in case} == {1, -1}
    assert all(case.shape == (rows, cols) for case in sign_cases(rows, cols))


@pytest.mark.parametrize("n", range(1, 7))
def test_bracketings_are_all_that_joining_neighbours_makes(n):
    found = list(map(str, bracketings(list(map(leaf, "abcdef"[:n])))))
    rows = {tuple("abcdef"[:n])}
    for _ in range(n - 1):  # in every row, any two neighbours become one
        rows = {
            (*row[:k], f"({row[k]}·{row[k + 1]})", *row[k + 2 :])
            for row in rows
            for k in range(len(row) - 1)
        }
    assert len(found) == comb(2 * n - 2, n - 1) // n
    assert {f"({tree})" if n > 1 else tree for tree in found} == {tree for (tree,) in rows}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_first_points_are_all_small_ones_in_order(n):
    def cost(entries):
        return sum(map(abs, entries)) + sum(int(v < 0) for v in entries)

    most = n + 3  # which an entry reaches alone at 4 or -3
    entries = [v for v in range(-most, most + 1) if v]
    small = {p for p in itertools.product(entries, repeat=n) if cost(p) <= most}
    split = {"x": (1, 1), "y": (1, n - 1)} if n > 1 else {"x": (1, 1)}
    first = itertools.islice(points(split), len(small))
    found = [tuple(int(v) for matrix in point.values() for v in matrix) for point in first]
    assert set(found) == small
    assert sorted(map(cost, found)) == list(map(cost, found))


def test_random_points_have_fractions_of_both_signs_and_moved_ones_differ_everywhere():
    shapes = {"x": (10, 10), "y": (1, 3)}
    point = random_point(random.Random(0), shapes)
    assert {name: m.shape for name, m in point.items()} == shapes
    assert {int(sp.sign(v)) for v in point["x"]} == {1, -1}
    assert {v.q for v in point["x"]} == {1, 2, 3, 7}
    assert len(set(point["x"])) > 40
    near = moved(point)
    steps = [b / a - 1 for name in shapes for a, b in zip(point[name], near[name], strict=True)]
    assert len(set(steps)) == 103
    assert all(0 < step < sp.Rational(1, 10) for step in steps)


@of_all
def test_a_template_is_searched_in_its_least_shapes_and_in_the_generic_ones(name, template):
    leaves = {node.name for node in topological(template.root) if node.op in LEAVES}
    generic = {x: shape for x, shape in template.generic.items() if x in leaves}
    assert len(generic) == len(leaves)
    searched = [next(found) for found in searched_points(template)]
    shapes = [{x: m.shape for x, m in point.items()} for point in searched]
    assert shapes[-1] == generic
    assert shapes[0] == {x: template.least.get(x, shape) for x, shape in generic.items()}
    assert len(shapes) == 1 or shapes[0] != shapes[1]
    wider = template.wider_shapes()
    assert all(
        rows <= wider[x][0] and columns <= wider[x][1] and (rows, columns) != wider[x]
        for x, (rows, columns) in template.generic.items()
        if max(rows, columns) > 1 or max(map(max, template.generic.values())) == 1
    )


@of_all
def test_the_contexts_of_a_search_are_a_product_a_sum_fed_products_and_a_scale(name, template):
    """By their values: V, V z and V + z, V at x u for every input x, and V f by channel."""
    at = symbols(template)
    value = denoted(template.root, at)
    inputs = [node.name for node in topological(template.root) if node.op == INPUT]
    z, f = generic("z", *value.shape), generic("f", 1, value.cols)
    expected = [value, value.multiply_elementwise(z), value + z]
    for x in inputs:
        u = generic("u", *at[x].shape)
        fed = {entry: entry * u[k] for k, entry in enumerate(at[x])}
        expected.append(value.subs(fed, simultaneous=True))
    expected.append(value * sp.diag(*f))
    contexts = list(in_contexts(template))
    for context, wanted in zip(contexts, expected, strict=True):
        assert same_value(denoted(context.root, symbols(context)), wanted)
        used = {node.name for node in topological(context.root) if node.op in LEAVES}
        assert all(used == set(next(found)) for found in searched_points(context))


def test_a_rule_is_judged_by_every_rewrite_in_which_its_operation_depends_on_an_input():
    expected = {kind: set() for kind in RULES}
    for name, template in ALL:
        point = symbols(template)
        inputs = {
            s
            for node in topological(template.root)
            if node.op == INPUT
            for s in point[node.name].free_symbols
        }
        for graph in (template.root, *REWRITES[name](template.root)):
            for node, value in evaluate(graph, point).items():
                if node.op in RULES and value.free_symbols & inputs:
                    expected[node.op].add(name)
    for kind in MESSAGES:
        assert set(rewrites_of((kind,))) == expected[kind] != set()
    assert set(rewrites_of(tuple(RULES))) == set(REWRITES)

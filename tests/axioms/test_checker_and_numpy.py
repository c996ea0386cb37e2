"""The checker's rules agree with the NumPy reference, which shares no code with them.

The checker computes with fractions or symbols, the reference in float64: nothing but its rounding
may lie between them.
"""

import random

import numpy as np
import pytest

from axioms import check
from tests.support import by_numpy

PAIRS = [(op, rule) for op, rules in check.RULES.items() for rule in rules.split()]
SHAPES = {  # of the operands of an operation with n tokens or factors
    "linear": lambda n: [[(2, 3), (3, 2), (1, 2)], [(1, n), (n, 2)]][n % 2],
    "add": lambda n: [(2, 2)] * (n + 1),
    "product": lambda n: [(1, 3)] * (n + 1),
    "bilinear": lambda n: [(2, 2), *[(2, 2)] * (n - 1), (2, 1)],
}
ROUNDING = dict(rtol=1e-11, atol=1e-11)  # of a hundred operations on numbers below 1000


def node(op, rule, n, chance, entry):
    """A graph of one operation, whose operands are filled by ``entry``."""
    shapes = [(2, 3), (3, 2)] if rule == "value-only" else SHAPES.get(op, lambda n: [(2, n + 1)])(n)
    matrix = lambda rows, columns: [[entry() for _ in range(columns)] for _ in range(rows)]
    if rule == "none":
        return [[op, rule, [], {"value": matrix(2, n)}]]
    leaves = [["input", "none", [], {"value": matrix(*shape)}] for shape in shapes]
    more = {"eps": chance.choice(["0", "1/4", "3"])} if rule != "gradient" else {}
    more |= {"scale": chance.choice(["1", "-2/3"])} if op == "bilinear" else {}
    more |= {"value": matrix(*shapes[0])} if op == "function" else {}
    rows, columns = shapes[0][0], shapes[-1][1] if op in ("linear", "bilinear") else shapes[0][1]
    shape = (columns, rows) if op == "transpose" else (rows, columns)
    more |= {"relevance": matrix(*shape)}
    return [*leaves, [op, rule, [*range(len(shapes))], more]]


def compared(graph, point):
    """Compares the values and relevance that both find at every node."""
    run = {"graphs": [graph], "shared": []}
    check.Value.facts, check.Value.steps = dict.fromkeys(point, ""), 0
    free = check.Run(run, {s: check.symbol(s) for s in point})
    numbers = by_numpy.Numbers(run, point)
    for own, other in zip(free.swept(0), numbers.sweep(0), strict=True):
        for mine, its in zip(own, other, strict=True):
            found = [[by_numpy.of_value(x, point) for x in row] for row in mine]
            np.testing.assert_allclose(np.array(found), its, **ROUNDING)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("op", "rule"), PAIRS)
def test_values_and_messages_at_fractions_are_those_of_numpy(op, rule, n):
    chance = random.Random(f"{op} {rule} {n}")
    entry = lambda: f"{chance.choice((-1, 1)) * chance.randint(1, 499)}/{chance.choice((7, 8, 9))}"
    whole = lambda: str(chance.randint(-3, 3))  # the checker has exponentials of no fraction
    for _ in range(4):
        compared(node(op, rule, n, chance, whole if op == "softmax" else entry), {})


SMOOTH = [(op, rule) for op, rule in PAIRS if op != "relu"]  # whose value no sign decides


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("op", "rule"), SMOOTH)
def test_values_and_messages_in_symbols_are_those_of_numpy_at_a_point(op, rule, n):
    """The signs and exponentials are known at a point alone."""
    chance = random.Random(f"{op} {rule} {n}")
    names = (f"x{k}" for k in range(100))
    graph = node(op, rule, n, chance, lambda: next(names))
    matrices = (m for _, _, _, more in graph for m in more.values() if isinstance(m, list))
    used = [x for m in matrices for row in m for x in row]
    for _ in range(3):
        compared(graph, {s: chance.choice((-1, 1)) * chance.randint(1, 199) / 64 for s in used})


def test_a_wrong_rule_of_the_checker_is_noticed(monkeypatch):
    """Each rule of the table with one share too many, or relevance where none arrives."""
    right, noticed = check.messages, []
    for op, rule in PAIRS:
        wrong = lambda *given, op=op, rule=rule: [
            check.scaled(check.Value(2), part) if given[:2] == (op, rule) else part
            for part in right(*given)
        ]
        monkeypatch.setattr(check, "messages", wrong)
        numbers = iter(range(1, 100))
        graph = node(op, rule, 2, random.Random(1), lambda numbers=numbers: str(next(numbers)))
        try:
            compared(graph, {})
        except AssertionError:
            noticed.append((op, rule))
    assert noticed == [(op, rule) for op, rule in PAIRS if rule not in ("none", "constant")]

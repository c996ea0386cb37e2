"""Forges certificates: changes the claims of a valid one, and keeps its form."""

import copy

from hypothesis import strategies as st

from axioms import check

OPERATIONS = ("+", "*", "^", "abs", "exp", "value", "relevance")
NUMBERS = ("0", "1", "-1", "2", "1/2")


def _operand(draw, run, below):
    """A symbol, a number, or the place of a formula before ``below``."""
    places = list(range(below))
    return draw(st.sampled_from([*run["symbols"], *NUMBERS, *places]))


def _formula(draw, run):
    n = draw(st.integers(0, len(run["shared"]) - 1))
    formula = run["shared"][n]
    k = draw(st.integers(0, len(formula) - 1))
    if k == 0:
        formula[0] = draw(st.sampled_from(OPERATIONS))
    elif formula[0] in OPERATIONS[2:]:
        formula[k] = (
            draw(st.integers(-2, 3)) if k > 1 or formula[0] != "^" else _operand(draw, run, n)
        )
    else:
        change = draw(st.sampled_from(("put", "drop", "add")))
        if change == "put":
            formula[k] = _operand(draw, run, n)
        elif change == "drop" and len(formula) > 2:
            formula.pop(k)
        else:
            formula.append(_operand(draw, run, n))


def _node(draw, run):
    node = draw(st.sampled_from(draw(st.sampled_from(run["graphs"]))))
    what = draw(st.sampled_from(("rule", "operation", "operands", "more")))
    if what == "rule":
        node[1] = draw(st.sampled_from(" ".join(check.RULES.values()).split()))
    elif what == "operation":
        node[0] = draw(st.sampled_from([*check.RULES]))
    elif what == "operands" and node[2]:
        node[2] = draw(st.permutations(node[2]))[: draw(st.integers(1, 3))]
    elif node[3]:
        name = draw(st.sampled_from([*node[3]]))
        if isinstance(node[3][name], str):
            node[3][name] = _operand(draw, run, 0)
        else:
            row = draw(st.sampled_from(node[3][name]))
            row[draw(st.integers(0, len(row) - 1))] = _operand(draw, run, 0)


def _decision(draw, run):
    decision = draw(st.sampled_from(run["decisions"]))
    what = draw(st.sampled_from(("kind", "side", "point")))
    if what == "kind":
        decision[0] = draw(st.sampled_from(("equal", "apart")))
    elif what == "side":
        decision[1][draw(st.integers(0, 1))] = _operand(draw, run, len(run["shared"]))
    else:
        symbol = draw(st.sampled_from([*run["symbols"]]))
        decision[2] |= {symbol: draw(st.sampled_from(NUMBERS))}


@st.composite
def runs(draw, valid):
    """One of the valid runs after one to three changes."""
    run = copy.deepcopy(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 3))):
        draw(st.sampled_from((_formula, _node, _decision)))(draw, run)
    return run

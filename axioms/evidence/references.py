"""Replaces results of rules inside a decision by references to the graphs that they ran on.

A theorem's test runs once more, and here every rule returns functions of the symbols that it was
given: ``limit`` and points go into their arguments, and each stands for one entry of the values or
of the relevance of a graph.  A certificate gives the graph in place of SymPy's result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias
from unittest import mock

import pytest
import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import check, kinds
from lrp_axioms.axioms.composites import assigned
from lrp_axioms.axioms.decide import identity as decide
from lrp_axioms.axioms.decide.decisions import Decision
from lrp_axioms.axioms.decide.records import Instead, recording, replacing
from lrp_axioms.axioms.graph import INPUT, PARAMETER, TRANSPOSE, Node, topological
from lrp_axioms.axioms.rules import propagate

More: TypeAlias = dict[str, Any]  # matrices by name, and "eps" and "scale"
Step: TypeAlias = tuple[str, str, list[int], More]  # operation, rule, operands, more
Place: TypeAlias = tuple[str, int, int, int]  # value or relevance, step, row, column

PRODUCTS = (kinds.BILINEAR, kinds.SCORES, kinds.READOUT)  # of matrices
LINEAR = (kinds.LINEAR, kinds.ADD, *PRODUCTS)
RELU = "relu"  # of other functions the checker is told the value
NONE = "none"  # the rule of a leaf


class NoGraph(ValueError):
    """Something that the checker of certificates has no rule for."""


@dataclass(frozen=True)
class Graph:
    """Operations in order, the last one being the root, and the symbols that they depend on."""

    steps: list[Step]
    symbols: tuple[sp.Symbol, ...]


@dataclass(frozen=True)
class References:
    """The graphs that a test ran on, and the place that each function stands for."""

    graphs: list[Graph] = field(default_factory=list)
    places: dict[str, tuple[int, Place]] = field(default_factory=dict)  # by name of the function

    def add(self, steps: list[Step]) -> Callable[[str, int, Matrix], Matrix]:
        """Adds a graph; returns the maker of functions for the values or relevance of a step."""
        steps = [
            (op, rule, args, {name: sp.sympify(x) for name, x in more.items()})
            for op, rule, args, more in steps
        ]
        free = set().union(*(x.free_symbols for *_, more in steps for x in more.values()))
        graph, k = Graph(steps, tuple(sorted(free, key=str))), len(self.graphs)
        self.graphs.append(graph)

        def entry(what: str, step: int, found: Matrix, i: int, j: int) -> sp.Expr:
            if not found[i, j].free_symbols:
                return found[i, j]
            name = f"{what}[{k},{step},{i},{j}]"
            self.places[name] = (k, (what, step, int(i), int(j)))
            return sp.Function(name, real=True)(*graph.symbols)

        def functions(what: str, step: int, found: Matrix) -> Matrix:
            return Matrix(*found.shape, lambda i, j: entry(what, step, found, i, j))

        return functions


def traced(item: pytest.Item, decisions: Sequence[Decision]) -> tuple[list[Decision], References]:
    """The first decisions of a test, as many as it makes while rules return functions.

    All cases of signs become one, in symbols; ``decisions`` belong to one case.
    """
    references = References()
    again = repeated(item, decisions, partial(_instead, references), free_signs=True)
    return again, references


def repeated(
    item: pytest.Item, decisions: Sequence[Decision], instead: Instead, *, free_signs: bool = False
) -> list[Decision]:
    """The first decisions of a test whose noted functions return ``instead(...)``."""
    noted = list(item.user_properties)
    undecided = mock.patch.multiple(
        decide, _same=lambda *_: False, apart=lambda *_: False, value_at=lambda *_: sp.Integer(0)
    )
    verdicts = [d.verdict for d in decisions]
    with replacing(instead, verdicts, free_signs=free_signs) as record:
        try:
            with undecided:
                item.runtest()
        except (Exception, pytest.fail.Exception, pytest.skip.Exception):
            pass  # the test needs the values that rules return; its decisions so far are kept
        finally:
            item.user_properties[:] = noted
    return record.decisions


def _instead(references: References, name: str, given: Mapping[str, Any], found: Any) -> Any:
    function = name.rpartition(".")[2]
    try:
        if name == "propagate.propagate":
            steps, at = sweep(**given)
            functions = references.add(steps)
            return found | {n: functions("relevance", k, found[n]) for n, k in at.items()}
        if function in RULES:
            steps = _of_rule(function, given)
            functions = references.add(steps)
            if isinstance(found, sp.MatrixBase):
                return functions("value", len(steps) - 1, found)
            return tuple(functions("relevance", k, matrix) for k, matrix in enumerate(found))
    except NoGraph:
        pass
    return found


def sweep(
    root: Node, point: Mapping[str, Any], composite: Any, **options: Any
) -> tuple[list[Step], dict[Node, int]]:
    """The graph of a call of ``propagate``, and where each of its nodes is."""
    if options.get("instead"):
        raise NoGraph("a rule that is given as a function")
    order = topological(root)
    rules = assigned(order, composite, propagate.RULES)
    with recording():
        values = propagate.evaluate(root, point)
    eps, signs = options.get("eps", 0), options.get("signs") or {}
    steps: list[Step] = []
    at: dict[Node, int] = {}
    for node in order:
        live = node.op == INPUT or node in rules or (node.op == TRANSPOSE and node.args[0] in at)
        if not live and node is not root:
            continue  # its users read it as a matrix
        operands = [_operand(arg, values, at, steps) for arg in node.args if live]
        if node.op == kinds.SCORES:  # a product with its second operand transposed
            steps.append((TRANSPOSE, TRANSPOSE, operands[1:], {}))
            operands[1] = len(steps) - 1
        given = _options(eps, signs.get(node))
        step = _operation(node, rules.get(node, ""), values, given) if live else _leaf(values[node])
        at[node] = len(steps)
        op, rule, more = step
        if rule not in check.RULES[op].split():
            raise NoGraph(f"{op} by {rule}")
        if rule == kinds.IDENTITY:  # which passes a norm's parameters by
            operands = operands[:1]
        steps.append((op, rule, operands, more))
    if (relevance := options.get("relevance")) is not None:
        steps[-1][-1]["relevance"] = Matrix([relevance])
    return steps, at


def _leaf(value: Matrix) -> tuple[str, str, More]:
    return PARAMETER, NONE, {"value": value}


def _operand(
    node: Node, values: Mapping[Node, Matrix], at: Mapping[Node, int], steps: list[Step]
) -> int:
    """The step of an operand; adds a leaf with its value if no input reaches the operand."""
    if node in at:
        return at[node]
    op, rule, more = _leaf(values[node])
    steps.append((op, rule, [], more))
    return len(steps) - 1


def _operation(
    node: Node, rule: str, values: Mapping[Node, Matrix], given: More
) -> tuple[str, str, More]:
    """Name, rule and matrices of an operation, as the checker has them."""
    if node.op == INPUT:
        return INPUT, NONE, {"value": values[node]}
    if node.op == TRANSPOSE:
        return TRANSPOSE, TRANSPOSE, {}
    if node.op == kinds.SOFTMAX:
        known = kinds.TAYLOR if rule == kinds.GRADIENT else rule
        return node.op, known, _exponentials(values[node.args[0]])
    if rule == kinds.GRADIENT and node.op in LINEAR:
        given = {}
    elif rule in (kinds.GRADIENT, kinds.HELD_DEVIATION):
        raise NoGraph(f"{node.op} by {rule}")
    if node.op in (kinds.ACTIVATION, kinds.LAYER_NORM, kinds.RMS_NORM):
        name = node.attributes.get("function", node.op)
        if name == RELU:
            return name, rule, {}
        return "function", rule, {"value": values[node]}
    if node.op in PRODUCTS:
        return kinds.BILINEAR, rule, given | {"scale": node.attributes.get("scale", 1)}
    return node.op, rule, given if node.op in LINEAR else {}


def _options(eps: Any, sign: Matrix | None) -> More:
    return {"eps": eps} | ({} if sign is None else {"sign": sign})


def _exponentials(z: Matrix) -> More:
    return {"exp": z.applyfunc(sp.exp)}


RULES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "epsilon": (kinds.LINEAR, kinds.EPSILON, ("x", "w", "bias")),
    "epsilon_without_bias": (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS, ("x", "w", "bias")),
    "add": (kinds.ADD, kinds.EPSILON, ("operands",)),
    "bilinear_epsilon": (kinds.BILINEAR, kinds.BILINEAR_EPSILON, ("a", "b")),
    "chain_epsilon": (kinds.BILINEAR, kinds.BILINEAR_EPSILON, ("factors",)),
    "value_only": (kinds.BILINEAR, kinds.VALUE_ONLY, ("a", "v")),
    "equal_split": (kinds.PRODUCT, kinds.EQUAL_SPLIT, ("n",)),
    "taylor": (kinds.SOFTMAX, kinds.TAYLOR, ("z",)),
    "softmax": (kinds.SOFTMAX, kinds.TAYLOR, ("z",)),
}
"""By name of a rule's function: operation, rule, and the parameters that are its operands."""


def _of_rule(name: str, given: Mapping[str, Any]) -> list[Step]:
    """The graph of one operation, for a run of a rule."""
    op, rule, parameters = RULES[name]
    own = [given[x] for x in parameters if given.get(x) is not None]  # there may be no bias
    operands = own[0] if isinstance(own[0], list | tuple) else own
    more: More = {"relevance": given["relevance"]} if "relevance" in given else {}
    if op == kinds.PRODUCT:
        operands = [sp.ones(*given["relevance"].shape)] * given["n"]
    elif op == kinds.SOFTMAX:
        more |= _exponentials(given["z"]) if given.get("exp_z") is None else {"exp": given["exp_z"]}
    else:
        more |= _options(given.get("eps", 0), given.get("sign"))
    if op == kinds.BILINEAR:
        more["scale"] = given.get("scale", 1)
    inputs: list[Step] = [(INPUT, NONE, [], {"value": x}) for x in operands]
    return [*inputs, (op, rule, [*range(len(operands))], more)]

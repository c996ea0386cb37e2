"""The symbolic sweep: values from the leaves to the root, relevance from the root to the leaves.

Every value is a matrix; a number or a symbol stands for a 1 x 1 matrix.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, reduce
from operator import matmul
from types import MappingProxyType
from typing import TypeAlias, TypedDict, Unpack

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, assigned
from lrp_axioms.axioms.decide.identity import Number, lowest_terms
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import CONSTANT, INPUT, LEAVES, TRANSPOSE, Node, topological
from lrp_axioms.axioms.rules import activations, attention, linear, norms, products
from lrp_axioms.axioms.rules.rule import MessageFunction, Options, Rule

LeafValues: TypeAlias = Mapping[str, Matrix | Number]  # by the name of the leaf
Explanation: TypeAlias = dict[str, Matrix | sp.Expr]  # relevance by the name of the input


class Sweep(TypedDict, total=False):
    """The options of ``propagate``, for functions that pass them on."""

    eps: Number
    relevance: Matrix | Number | None
    signs: Mapping[Node, Matrix] | None
    instead: Mapping[str, MessageFunction] | None


_RECORDS = {
    (rule.kind, rule.name): rule
    for file in (linear, products, attention, norms, activations)
    for rule in file.RULES
}
RULES: dict[tuple[str, str], Rule] = {
    (kind, name): _RECORDS[kind, name] for kind, names in kinds.RULES.items() for name in names
}
"""By kind and rule, in the order of ``axioms.kinds``."""


def _repetition(n: int, channel: int) -> Matrix:
    return Matrix.hstack(sp.eye(n), sp.eye(n)[:, channel])


# filling of a constant -> its value from the shape (rows, columns) of its operand
FILLS: dict[str, Callable[[int, int], Matrix]] = {
    "zeros": sp.zeros,
    "ones": sp.ones,
    "column": lambda rows, columns: sp.ones(rows, 1),
    "square of ones": lambda rows, columns: sp.ones(columns, columns),
    "mean": lambda rows, columns: sp.ones(columns, columns) / columns,
    "identity": lambda rows, columns: sp.eye(columns),
    "centring": lambda rows, columns: sp.eye(columns) - sp.ones(columns, columns) / columns,
    "reversal": lambda rows, columns: sp.eye(columns)[:, ::-1],
    "repetition": lambda rows, columns: _repetition(columns, -1),  # of the last channel
    "repetition of the first": lambda rows, columns: _repetition(columns, 0),
    "twice": lambda rows, columns: Matrix.hstack(sp.eye(columns), sp.eye(columns)),
    "running sums": lambda rows, columns: sp.ones(columns).upper_triangular(),
    "differences": lambda rows, columns: sp.ones(columns).upper_triangular().inv(),
    "halving": lambda rows, columns: _repetition(columns, -1).pinv(),  # a channel over its copies
    "halving of the first": lambda rows, columns: _repetition(columns, 0).pinv(),
}


@cache
def _filled(fill: str, rows: int, columns: int) -> Matrix:
    return FILLS[fill](rows, columns)


def _constant(x: Matrix, fill: str, factor: Number = 1) -> Matrix:
    return sp.sympify(factor) * _filled(fill, *x.shape)


# kind -> value of a node, from the node and the values of its operands
FORWARD: dict[str, Callable[..., Matrix]] = {
    TRANSPOSE: lambda node, x: x.T,
    CONSTANT: lambda node, x: _constant(x, **node.attributes),
    kinds.LINEAR: lambda node, x, w, b=None: linear.linear_map(x, w, b),
    kinds.ADD: lambda node, *xs: sum(xs[1:], xs[0]),
    kinds.SCORES: lambda node, q, k: products.scale(node) * q * k.T,
    kinds.SOFTMAX: lambda node, z: attention.softmax(z),
    kinds.READOUT: lambda node, a, v: a * v,
    kinds.BILINEAR: lambda node, *xs: reduce(matmul, xs),
    kinds.PRODUCT: lambda node, *xs: reduce(Matrix.multiply_elementwise, xs),
    kinds.LAYER_NORM: lambda node, x, w, b: norms.layer_norm(x, w, b, norm_eps=norms.eps_of(node)),
    kinds.RMS_NORM: lambda node, x, w: norms.rms_norm(x, w, norm_eps=norms.eps_of(node)),
    kinds.ACTIVATION: lambda node, x: x.applyfunc(activations.function_of(node)),
}


def _as_matrix(value: Matrix | Number) -> Matrix:
    return Matrix(value) if isinstance(value, sp.MatrixBase) else Matrix([[value]])


@noted
def evaluate(
    root: Node,
    point: LeafValues,
    *,
    blank: Collection[Node] = (),
    known: Mapping[Node, Matrix] = MappingProxyType({}),
) -> dict[Node, Matrix]:
    """Value of every node under ``root``, where ``point`` gives the value of each leaf by name.

    A ``blank`` node has its value at operands of zeros: only its shape counts.  Nodes whose value
    at this point is ``known`` are left out.
    Raises LookupError that lists every leaf without a value and every unknown operation.
    """
    order = [node for node in topological(root) if node not in known]
    unknown = [
        f"  {node.op:<12} {node.name or node}"
        for node in order
        if (node.name not in point if node.op in LEAVES else node.op not in FORWARD)
    ]
    if unknown:
        raise LookupError(
            f"{len(unknown)} of {len(order)} nodes cannot be evaluated:\n"
            + "\n".join(unknown)
            + f"\nGive leaves a value in `point`; the operations are {', '.join(FORWARD)}."
        )
    values: dict[Node, Matrix] = {}
    for node in order:
        if node.op in LEAVES:
            values[node] = _as_matrix(point[node.name])
        else:
            operands = (known[arg] if arg in known else values[arg] for arg in node.args)
            if node in blank:
                operands = (sp.zeros(*x.shape) for x in operands)
            values[node] = FORWARD[node.op](node, *operands)
    return values


@noted
def propagate(
    root: Node,
    point: LeafValues,
    composite: Composite,
    *,
    eps: Number = 0,
    relevance: Matrix | Number | None = None,
    signs: Mapping[Node, Matrix] | None = None,
    instead: Mapping[str, MessageFunction] | None = None,
) -> dict[Node, Matrix]:
    """Relevance of every node under ``root``, summed over the uses of a shared node.

    ``relevance`` starts at the root and is its value unless given; ``signs`` gives the sign of a
    node's value where ``eps > 0`` and the value is symbolic.  Rational relevance is in lowest
    terms.  ``instead`` maps a kind of operation to a message function that replaces the
    composite's rule.  Raises UnassignedOperation that lists every operation without a rule.
    """
    order = topological(root)
    rules = assigned(order, composite, RULES)
    values = evaluate(root, point)
    received = {node: sp.zeros(*values[node].shape) for node in order}
    received[root] = values[root] if relevance is None else _as_matrix(relevance)
    for node in reversed(order):
        if node.op in LEAVES:  # nothing divides the relevance of a leaf
            continue
        received[node] = received[node].applyfunc(lowest_terms)
        if node.op == TRANSPOSE:
            messages: Sequence[Matrix] = [received[node].T]
        elif node in rules:
            options: Options = {"eps": eps, "sign": (signs or {}).get(node)}
            rule = (instead or {}).get(node.op) or RULES[node.op, rules[node]].messages
            messages = rule(node, [values[arg] for arg in node.args], received[node], options)
        else:
            continue
        # zip stops before weights and biases: linear rules return no relevance for them
        for arg, message in zip(node.args, messages, strict=False):
            received[arg] += message
    return received


def explain(
    root: Node, point: LeafValues, composite: Composite, **options: Unpack[Sweep]
) -> Explanation:
    """Relevance of every input by name, summed over its leaves; options as in ``propagate``.

    A number or symbol comes back for a number or symbol, a matrix for a matrix.
    """
    received = propagate(root, point, composite, **options)
    total: Explanation = {}
    for node, r in received.items():
        if node.op == INPUT:
            value = r if isinstance(point[node.name], sp.MatrixBase) else r[0]
            total[node.name] = total[node.name] + value if node.name in total else value
    return total

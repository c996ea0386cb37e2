"""The symbolic sweep: values from the leaves to the root, relevance from the root to the leaves.

Every value is a matrix; a number or a symbol stands for a 1 x 1 matrix.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import matmul
from typing import NotRequired, TypeAlias, TypedDict, Unpack

import sympy as sp
from sympy import Matrix

from axioms import kinds
from axioms.composites import Composite, assigned
from axioms.decide.identity import Number, lowest_terms
from axioms.decide.records import noted
from axioms.graph import CONSTANT, INPUT, LEAVES, TRANSPOSE, Node, topological
from axioms.rules import messages as rules
from axioms.rules import norms

LeafValues: TypeAlias = Mapping[str, Matrix | Number]  # by the name of the leaf
Explanation: TypeAlias = dict[str, Matrix | sp.Expr]  # relevance by the name of the input


class Options(TypedDict):
    """The stabiliser, and the sign of every output where the value does not tell it."""

    eps: Number
    sign: NotRequired[Matrix | None]


MessageFunction: TypeAlias = Callable[[Node, Sequence[Matrix], Matrix, Options], Sequence[Matrix]]
"""Relevance of the operands, from a node, their values, its relevance, and the options.

Rules without a stabiliser ignore the options."""


class Sweep(TypedDict, total=False):
    """The options of ``propagate``, for what passes them on."""

    eps: Number
    relevance: Matrix | Number | None
    signs: Mapping[Node, Matrix] | None
    instead: Mapping[str, MessageFunction] | None


ACTIVATIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "relu": lambda x: sp.Max(x, 0),
    "tanh": sp.tanh,
    "silu": lambda x: x / (1 + sp.exp(-x)),
    "gelu": lambda x: x * (1 + sp.erf(x / sp.sqrt(2))) / 2,
    "soft cap": lambda x: 2 * sp.tanh(x / 2),  # of Gemma 2, at the smallest whole cap but 1
    # the parts that SiLU, GELU, softmax and LayerNorm are made of
    "sigmoid": lambda x: 1 / (1 + sp.exp(-x)),
    "phi": lambda x: (1 + sp.erf(x / sp.sqrt(2))) / 2,
    "exp": sp.exp,
    "reciprocal": lambda x: 1 / x,
    "reciprocal root": lambda x: 1 / sp.sqrt(x),
}


def _repeated(n: int) -> Matrix:
    return Matrix.hstack(sp.eye(n), sp.eye(n)[:, -1])


def _halved(n: int) -> Matrix:
    half = sp.Rational(1, 2)
    return Matrix.vstack(sp.diag(*[1] * (n - 1), half), sp.eye(n)[-1, :] * half)


def _running_sums(n: int) -> Matrix:
    return Matrix([[int(i <= j) for j in range(n)] for i in range(n)])


# what a constant is filled with -> its value from the shape (rows, columns) of its operand
FILLS: dict[str, Callable[[int, int], Matrix]] = {
    "zeros": sp.zeros,
    "ones": sp.ones,
    "column": lambda rows, columns: sp.ones(rows, 1),
    "square of ones": lambda rows, columns: sp.ones(columns, columns),
    "mean": lambda rows, columns: sp.ones(columns, columns) / columns,
    "identity": lambda rows, columns: sp.eye(columns),
    "centring": lambda rows, columns: sp.eye(columns) - sp.ones(columns, columns) / columns,
    "reversal": lambda rows, columns: sp.eye(columns)[:, ::-1],
    "repetition": lambda rows, columns: _repeated(columns),  # of the last channel
    "twice": lambda rows, columns: Matrix.hstack(sp.eye(columns), sp.eye(columns)),
    "running sums": lambda rows, columns: _running_sums(columns),
    "differences": lambda rows, columns: _running_sums(columns).inv(),
    "halving": lambda rows, columns: _halved(columns),  # of the last channel, over its copies
}


def _product(operands: Sequence[Matrix]) -> Matrix:
    value = operands[0]
    for operand in operands[1:]:
        value = value.multiply_elementwise(operand)
    return value


def _scale(node: Node) -> Number:
    return node.attributes.get("scale", 1)


def _norm_eps(node: Node) -> Number:
    return node.attributes.get("norm_eps", 0)


def _factor(node: Node) -> Number:
    return node.attributes.get("factor", 1)


def _function(node: Node) -> Callable[[sp.Expr], sp.Expr]:
    return ACTIVATIONS[node.attributes["function"]]


# kind -> value of a node, from the node and the values of its operands
FORWARD: dict[str, Callable[..., Matrix]] = {
    TRANSPOSE: lambda node, x: x.T,
    CONSTANT: lambda node, x: sp.sympify(_factor(node)) * FILLS[node.attributes["fill"]](*x.shape),
    kinds.LINEAR: lambda node, x, w, b=None: rules.linear_map(x, w, b),
    kinds.ADD: lambda node, *xs: sum(xs[1:], xs[0]),
    kinds.SCORES: lambda node, q, k: _scale(node) * q * k.T,
    kinds.SOFTMAX: lambda node, z: rules.softmax(z),
    kinds.READOUT: lambda node, a, v: a * v,
    kinds.BILINEAR: lambda node, *xs: reduce(matmul, xs),
    kinds.PRODUCT: lambda node, *xs: _product(xs),
    kinds.LAYER_NORM: lambda node, x, w, b: norms.layer_norm(x, w, b, norm_eps=_norm_eps(node)),
    kinds.RMS_NORM: lambda node, x, w: norms.rms_norm(x, w, norm_eps=_norm_eps(node)),
    kinds.ACTIVATION: lambda node, x: x.applyfunc(_function(node)),
}


def _bias(operands: Sequence[Matrix]) -> Matrix | None:
    return operands[2] if len(operands) == 3 else None


def _halves(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
    """Eqs. 3 and 4; the scores transpose their second factor and scale.

    A merged product of n matrices stabilises n o and gives one n-th to each of them.
    """
    if len(xs) > 2:
        return rules.chain_epsilon(xs, r, **options)
    if node.op != kinds.SCORES:
        return rules.bilinear_epsilon(xs[0], xs[1], r, **options)
    r_q, r_k = rules.bilinear_epsilon(xs[0], xs[1].T, r, scale=_scale(node), **options)
    return r_q, r_k.T


def _whole(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
    """Gradient x input through a product of n: what Eqs. 3 and 4 divide by n as eps -> 0."""
    return [len(xs) * part for part in _halves(node, xs, r, {"eps": 0})]


def _nothing(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
    return [sp.zeros(*x.shape) for x in xs]


# (kind, rule) -> message function
MESSAGES: dict[tuple[str, str], MessageFunction] = {
    (kinds.LINEAR, kinds.EPSILON): lambda n, xs, r, opt: rules.epsilon(
        xs[0], xs[1], r, bias=_bias(xs), **opt
    ),
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): lambda n, xs, r, opt: rules.epsilon_without_bias(
        xs[0], xs[1], r, **opt
    ),
    (kinds.LINEAR, kinds.GRADIENT): lambda n, xs, r, opt: rules.epsilon(
        xs[0], xs[1], r, bias=_bias(xs), eps=0
    ),
    (kinds.ADD, kinds.EPSILON): lambda n, xs, r, opt: rules.add(xs, r, **opt),
    (kinds.ADD, kinds.GRADIENT): lambda n, xs, r, opt: rules.add(xs, r, eps=0),
    (kinds.SCORES, kinds.BILINEAR_EPSILON): _halves,
    (kinds.SCORES, kinds.GRADIENT): _whole,
    (kinds.SCORES, kinds.CONSTANT): _nothing,
    (kinds.SOFTMAX, kinds.TAYLOR): lambda n, xs, r, opt: rules.taylor(xs[0], r),
    (kinds.SOFTMAX, kinds.GRADIENT): lambda n, xs, r, opt: rules.taylor(xs[0], r),
    (kinds.SOFTMAX, kinds.CONSTANT): _nothing,
    (kinds.READOUT, kinds.BILINEAR_EPSILON): _halves,
    (kinds.READOUT, kinds.VALUE_ONLY): lambda n, xs, r, opt: rules.value_only(
        xs[0], xs[1], r, **opt
    ),
    (kinds.READOUT, kinds.GRADIENT): _whole,
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): _halves,
    (kinds.BILINEAR, kinds.GRADIENT): _whole,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): lambda n, xs, r, opt: rules.equal_split(len(xs), r),
    (kinds.PRODUCT, kinds.GRADIENT): lambda n, xs, r, opt: [r] * len(xs),
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): lambda n, xs, r, opt: norms.held_deviation(
        xs[0], xs[1], xs[2], r, norm_eps=_norm_eps(n), **opt
    ),
    (kinds.LAYER_NORM, kinds.IDENTITY): lambda n, xs, r, opt: rules.identity(r),
    (kinds.LAYER_NORM, kinds.GRADIENT): lambda n, xs, r, opt: norms.layer_norm_gradient(
        xs[0], xs[1], xs[2], r, norm_eps=_norm_eps(n)
    ),
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): lambda n, xs, r, opt: norms.held_root_mean_square(
        xs[0], xs[1], r, norm_eps=_norm_eps(n), **opt
    ),
    (kinds.RMS_NORM, kinds.GRADIENT): lambda n, xs, r, opt: norms.rms_norm_gradient(
        xs[0], xs[1], r, norm_eps=_norm_eps(n)
    ),
    (kinds.ACTIVATION, kinds.IDENTITY): lambda n, xs, r, opt: rules.identity(r),
    (kinds.ACTIVATION, kinds.GRADIENT): lambda n, xs, r, opt: rules.activation_gradient(
        xs[0], _function(n), r
    ),
}


def _as_matrix(value: Matrix | Number) -> Matrix:
    return Matrix(value) if isinstance(value, sp.MatrixBase) else Matrix([[value]])


@noted
def evaluate(root: Node, point: LeafValues) -> dict[Node, Matrix]:
    """Value of every node under ``root``, where ``point`` gives the value of each leaf by name.

    Raises LookupError that lists every leaf without a value and every unknown operation.
    """
    order = topological(root)
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
            values[node] = FORWARD[node.op](node, *(values[arg] for arg in node.args))
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

    ``relevance`` starts at the root and is its value unless given; ``signs`` gives the sign of
    a node's value where ``eps > 0`` and the value is symbolic.  Rational
    relevance is in lowest terms.  ``instead`` gives a message function, as those of ``MESSAGES``,
    to be used for a kind of operation in place of the composite's rule.
    Raises UnassignedOperation that lists every operation for which
    ``composite`` has no rule.
    """
    order = topological(root)
    rules = assigned(order, composite, MESSAGES)
    values = evaluate(root, point)
    received = {node: sp.zeros(*values[node].shape) for node in order}
    received[root] = values[root] if relevance is None else _as_matrix(relevance)
    for node in reversed(order):
        if node.op in LEAVES:  # nothing divides what arrives here
            continue
        received[node] = received[node].applyfunc(lowest_terms)
        if node.op == TRANSPOSE:
            messages: Sequence[Matrix] = [received[node].T]
        elif node in rules:
            options: Options = {"eps": eps, "sign": (signs or {}).get(node)}
            rule = (instead or {}).get(node.op) or MESSAGES[node.op, rules[node]]
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

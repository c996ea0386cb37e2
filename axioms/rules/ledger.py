"""Where relevance is absorbed: one lemma per operation, and the ledger they add up to on a graph.

A lemma says, per output entry, exactly how much of its relevance R an operation does not hand on,
and what absorbs it.  With p = epsilon sign(z), and z the output, bias b included:

  bias          R b / (z + p)       linear layers, and LayerNorm at its observed deviation
  stabiliser    R p / (n z + p)     n = 1 in Eq. 1, the number of factors in Eqs. 3 and 4
  Taylor term   R (1 - z + zbar)    Eq. 5, z the logit and zbar the mean of its row under A
  constant      R                   rules that hold the operands constant
  degree        R (1 - sum of x dz/dx / z)   the plain gradient, off what is linear: -(n - 1) R of n
                                    factors, R (1 - h/S^2) N/z of a norm of rows N and deviation S

Theorems 25 and, of the gradient, 73 prove every lemma; along any graph they add up to what the
leaves miss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Unpack

import sympy as sp
from sympy import Matrix

from axioms import kinds
from axioms.composites import (
    BIAS,
    CONSTANT,
    DEGREE,
    STABILISER,
    TAYLOR,
    Composite,
    assigned,
)
from axioms.decide.identity import Number
from axioms.decide.records import noted
from axioms.graph import MOVES, Node, topological
from axioms.rules.messages import stabilize
from axioms.rules.norms import deviations, root_mean_squares
from axioms.rules.propagate import (
    ACTIVATIONS,
    LeafValues,
    Options,
    Sweep,
    evaluate,
    propagate,
)

Amount: TypeAlias = Callable[[Node, Sequence[Matrix], Matrix, Matrix, Options], Matrix]
"""What is absorbed per output entry, from a node, the values of its operands and its own, its
relevance, and the options of the sweep."""


def _per_entry(r: Matrix, part: Matrix, whole: Matrix) -> Matrix:
    return Matrix(*r.shape, lambda j, p: r[j, p] * part[j, p] / whole[j, p])


def _pushed(z: Matrix, *, eps: Number, sign: Matrix | None = None) -> Matrix:
    """epsilon sign(z), entry by entry."""

    def push(j: int, p: int) -> sp.Expr:
        s = None if sign is None else sign[j, p]
        return stabilize(z[j, p], eps=eps, sign=s) - z[j, p]

    return Matrix(*z.shape, push)


def _by_stabiliser(
    node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options
) -> Matrix:
    p = _pushed(z, **options)
    return _per_entry(r, p, z + p)


def _by_stabiliser_of_product(
    node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options
) -> Matrix:
    p = _pushed(z, **options)
    return _per_entry(r, p, len(xs) * z + p)


def _by_stabiliser_without_bias(
    node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options
) -> Matrix:
    return _by_stabiliser(node, xs, xs[0] * xs[1], r, options)


def _by_bias(node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options) -> Matrix:
    b = Matrix.vstack(*[xs[2]] * z.rows)
    return _per_entry(r, b, z + _pushed(z, **options))


def _by_taylor_term(
    node: Node, xs: Sequence[Matrix], a: Matrix, r: Matrix, options: Options
) -> Matrix:
    (z,) = xs

    def absorbed(j: int, i: int) -> sp.Expr:
        zbar = sum(a[j, k] * z[j, k] for k in range(z.cols))
        return r[j, i] * (1 - z[j, i] + zbar)

    return Matrix(*z.shape, absorbed)


def _by_bias_of_gradient(
    node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options
) -> Matrix:
    return _by_bias(node, xs, z, r, {"eps": 0})


def _by_factors(node: Node, xs: Sequence[Matrix], z: Matrix, r: Matrix, options: Options) -> Matrix:
    return (1 - len(xs)) * r


def _by_slope(node: Node, xs: Sequence[Matrix], y: Matrix, r: Matrix, options: Options) -> Matrix:
    t = sp.Dummy("t", real=True)
    slope = sp.diff(ACTIVATIONS[node.attributes["function"]](t), t)
    (x,) = xs
    return Matrix(*r.shape, lambda n, i: r[n, i] * (1 - x[n, i] * slope.subs(t, x[n, i]) / y[n, i]))


def _by_deviation(
    node: Node, xs: Sequence[Matrix], y: Matrix, r: Matrix, options: Options
) -> Matrix:
    """What is lost as the deviation moves along: all but norm-epsilon's part of its square."""
    sizes_of = deviations if node.op == kinds.LAYER_NORM else root_mean_squares
    h = node.attributes.get("norm_eps", 0)
    sizes = sizes_of(xs[0], norm_eps=h)
    shift = Matrix.vstack(*[xs[2]] * y.rows) if len(xs) == 3 else 0 * y
    return Matrix(
        *r.shape, lambda n, k: r[n, k] * (1 - shift[n, k] / y[n, k]) * (1 - h / sizes[n] ** 2)
    )


EQ_1: dict[str, Amount] = {BIAS: _by_bias, STABILISER: _by_stabiliser}
HALVES: dict[str, Amount] = {STABILISER: _by_stabiliser_of_product}
FACTORS: dict[str, Amount] = {DEGREE: _by_factors}
HELD: dict[str, Amount] = {CONSTANT: lambda node, xs, z, r, options: r}

LEMMAS: dict[tuple[str, str], dict[str, Amount]] = {
    (kinds.LINEAR, kinds.EPSILON): EQ_1,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): {STABILISER: _by_stabiliser_without_bias},
    (kinds.ADD, kinds.EPSILON): {STABILISER: _by_stabiliser},
    (kinds.SCORES, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.SCORES, kinds.CONSTANT): HELD,
    (kinds.SOFTMAX, kinds.TAYLOR): {TAYLOR: _by_taylor_term},
    (kinds.SOFTMAX, kinds.CONSTANT): HELD,
    (kinds.READOUT, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.READOUT, kinds.VALUE_ONLY): {STABILISER: _by_stabiliser},
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): {},
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): EQ_1,
    (kinds.LAYER_NORM, kinds.IDENTITY): {},
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): {STABILISER: _by_stabiliser},
    (kinds.ACTIVATION, kinds.IDENTITY): {},
    # gradient x input, operation by operation
    (kinds.LINEAR, kinds.GRADIENT): {BIAS: _by_bias_of_gradient},
    (kinds.ADD, kinds.GRADIENT): {},
    (kinds.SCORES, kinds.GRADIENT): FACTORS,
    (kinds.SOFTMAX, kinds.GRADIENT): {TAYLOR: _by_taylor_term},
    (kinds.READOUT, kinds.GRADIENT): FACTORS,
    (kinds.BILINEAR, kinds.GRADIENT): FACTORS,
    (kinds.PRODUCT, kinds.GRADIENT): FACTORS,
    (kinds.LAYER_NORM, kinds.GRADIENT): {BIAS: _by_bias_of_gradient, DEGREE: _by_deviation},
    (kinds.RMS_NORM, kinds.GRADIENT): {DEGREE: _by_deviation},
    (kinds.ACTIVATION, kinds.GRADIENT): {DEGREE: _by_slope},
}
"""By kind and rule: what absorbs relevance, and how much of it per output entry."""

PASSED_BY: dict[tuple[str, str], tuple[int, ...]] = {
    (kinds.READOUT, kinds.VALUE_ONLY): (0,),
    (kinds.SCORES, kinds.CONSTANT): (0, 1),
    (kinds.SOFTMAX, kinds.CONSTANT): (0,),
}
"""The operands, by place, to which a rule sends nothing, whatever it received."""


def _lemma(node: Node, rule: str) -> dict[str, Amount]:
    """The causes that there are at this node: without a bias, none absorbs."""
    causes = LEMMAS[node.op, rule]
    return {c: amount for c, amount in causes.items() if c != BIAS or len(node.args) == 3}


def _ruled(order: list[Node], composite: Composite) -> dict[Node, str]:
    """Rule of every operation that hands relevance on, all of them with a lemma."""
    rules = assigned(order, composite)
    orphans = [
        f"{node.op} by {rule}" for node, rule in rules.items() if (node.op, rule) not in LEMMAS
    ]
    if orphans:
        raise LookupError(
            f"{len(orphans)} of {len(rules)} operations have no lemma: {', '.join(orphans)}; "
            "add an entry to LEMMAS in axioms/rules/ledger.py"
        )
    return rules


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Total relevance at the start, at every node that keeps it, and at every cause."""

    started: sp.Expr
    kept: Mapping[Node, sp.Expr]  # leaves, and operations that depend on no input
    absorbed: Mapping[tuple[Node, str], sp.Expr]  # by operation and cause

    @property
    def gap(self) -> sp.Expr:
        """What started less what was kept and absorbed: 0, by induction over the operations."""
        return self.started - sum(self.kept.values()) - sum(self.absorbed.values())

    def by_kind(self) -> dict[tuple[str, str], sp.Expr]:
        """What was absorbed, by kind of operation and cause."""
        totals: dict[tuple[str, str], sp.Expr] = {}
        for (node, cause), amount in self.absorbed.items():
            totals[node.op, cause] = totals.get((node.op, cause), 0) + amount
        return totals


@noted
def ledger(root: Node, point: LeafValues, composite: Composite, **options: Unpack[Sweep]) -> Ledger:
    """The lemmas of every operation under ``root``, from the root to the leaves.

    Arguments as in ``propagate``, whose relevance is what arrives; the messages are not read.
    Raises LookupError that lists every operation without a lemma.
    """
    order = topological(root)
    rules, values = _ruled(order, composite), evaluate(root, point)
    received = propagate(root, point, composite, **options)
    eps, signs = options.get("eps", 0), options.get("signs") or {}
    kept: dict[Node, sp.Expr] = {}
    absorbed: dict[tuple[Node, str], sp.Expr] = {}
    for node in reversed(order):
        r = received[node]
        if node in rules:
            stabiliser: Options = {"eps": eps, "sign": signs.get(node)}
            operands = [values[arg] for arg in node.args]
            for cause, amount in _lemma(node, rules[node]).items():
                absorbed[node, cause] = sum(amount(node, operands, values[node], r, stabiliser))
        elif node.op not in MOVES:  # which move relevance and keep none
            kept[node] = sum(r)
    return Ledger(started=sum(received[root]), kept=kept, absorbed=absorbed)


def unknown_messages(root: Node, relevance: Number) -> tuple[sp.Expr, list[sp.Expr]]:
    """The sweep with an unknown message, a symbol, to every operand of every operation.

    Returns what the leaves keep of ``relevance``, and what each operation does not send on.
    """
    sent: dict[Node, list[sp.Symbol]] = {}

    def unknown(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
        sent[node] = [sp.Symbol(f"m{len(sent)}_{k}", real=True) for k in range(len(xs))]
        return [Matrix([[m]]) for m in sent[node]]

    rules = {kind: names[0] for kind, names in kinds.RULES.items()}  # none of which is used
    received = propagate(
        root,
        {x.name: 1 for x in topological(root) if not x.args},
        Composite("unknown", rules),
        relevance=relevance,
        instead=dict.fromkeys(rules, unknown),
    )
    kept = [r[0] for node, r in received.items() if node.op not in MOVES and node not in sent]
    return sum(kept), [received[node][0] - sum(messages) for node, messages in sent.items()]


@noted
def absorbing(root: Node, composite: Composite) -> dict[Node, set[str]]:
    """What can absorb relevance at every operation that receives some, at any point.

    The graph alone is read, not the shapes or values of its leaves; operations to which no rule
    passes anything are left out.  Raises LookupError as ``ledger``.
    """
    order = topological(root)
    rules = _ruled(order, composite)
    reached = {root}
    for node in reversed(order):
        if node in reached and (node in rules or node.op in MOVES):
            passed_by = PASSED_BY.get((node.op, rules.get(node, "")), ())
            reached |= {arg for k, arg in enumerate(node.args) if k not in passed_by}
    return {node: set(_lemma(node, rule)) for node, rule in rules.items() if node in reached}


def causes(root: Node, composite: Composite) -> set[tuple[str, str]]:
    """Every (kind of operation, cause) that the ledger of this graph can hold, at any point."""
    found = absorbing(root, composite)
    return {(node.op, cause) for node, names in found.items() for cause in names}

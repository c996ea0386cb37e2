"""Accounts for relevance at each operation: how much arrives, passes on, and is absorbed.

Absorbed relevance is computed from the lemmas of theorem 25, not as a difference of messages;
the difference that is left is listed as numerical, and is of the size of rounding.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from axioms import kinds
from axioms.composites import BIAS, CONSTANT, STABILISER, TAYLOR, Composite, assigned
from axioms.graph import INPUT, PARAMETER, Node
from numeric.reference import evaluate, mapped
from numeric.reference.rules import share, stabilize

NUMERICAL = "numerical"


@dataclass(frozen=True, kw_only=True)
class Line:
    """Relevance at one operation, in logits."""

    node: Node
    rule: str
    arrived: float
    passed: float
    absorbed: Mapping[str, float]  # by cause

    @property
    def numerical(self) -> float:
        return self.arrived - self.passed - sum(self.absorbed.values())

    @property
    def kind(self) -> str:
        return self.node.op


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """Relevance from the logit to the leaves; all in logits.

    lines: one per operation, from the logit downwards
    leaves: the relevance of each leaf, in its own shape
    received: the relevance of every node
    """

    started: float
    lines: tuple[Line, ...]
    leaves: Mapping[Node, np.ndarray]
    received: Mapping[Node, np.ndarray]


def ledger(
    order: list[Node],
    leaves: Mapping[Node, Any],
    values: Mapping[Node, np.ndarray],
    composite: Composite,
    start: np.ndarray,
    *,
    eps: float,
) -> Ledger:
    """Writes every operation's line under the rules of ``composite``.

    Arguments as in ``evaluate.propagate``.  Raises LookupError that lists rules without a lemma.
    """
    rules = assigned(order, composite)
    orphans = sorted({f"{n.op} by {rule}" for n, rule in rules.items()} - set(map(_name, LEMMAS)))
    if orphans:
        raise LookupError(
            f"no lemma says what is absorbed by {', '.join(orphans)}; the composite "
            f"{composite.name!r} can be audited once LEMMAS in numeric/auditing/ledger.py has it"
        )
    sent: dict[Node, float] = {}
    received = evaluate.propagate(
        order, leaves, composite, start, eps=eps, values=values, sent=sent
    )
    lines = []
    for node in reversed(order):
        if node in rules:
            r, xs = received[node], evaluate.operands(node, values, leaves)
            lemma = LEMMAS[node.op, rules[node]]
            given = node, xs, values[node], r, evaluate.stabiliser(node, eps)
            absorbed = {c: float(f(*given).sum()) for c, f in lemma.items()}
            arrived = float(r.sum())
            passed, rule = sent[node], rules[node]
            lines.append(
                Line(node=node, rule=rule, arrived=arrived, passed=passed, absorbed=absorbed)
            )
    ends = {node: received[node] for node in order if node.op == INPUT}
    return Ledger(started=float(start.sum()), lines=tuple(lines), leaves=ends, received=received)


def _name(key: tuple[str, str]) -> str:
    return f"{key[0]} by {key[1]}"


def _push(z: np.ndarray, eps: float) -> np.ndarray:
    z = np.where(np.isinf(z), 0.0, z)  # a logit hidden by a mask
    pushed: np.ndarray = stabilize(z, eps) - z
    return pushed


Array = np.ndarray
Arrays = Sequence[np.ndarray]
Lemma = Callable[[Node, Arrays, Array, Array, float], Array]
"""Takes node, operands, output, its relevance, stabiliser; returns absorbed relevance by entry."""
OfLine = TypeVar("OfLine")


def _by_stabiliser(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    absorbed: np.ndarray = share(r, z, eps) * _push(z, eps)
    return absorbed


@np.errstate(over="ignore")  # of logits hidden by a mask
def _by_stabiliser_of_product(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    absorbed: np.ndarray = share(r, 2 * z, eps) * _push(2 * z, eps)
    return absorbed


def _bias(node: Node, xs: Sequence[np.ndarray]) -> np.ndarray | float:
    if f := node.attributes.get("map"):
        return mapped.bias(f, xs)
    return xs[2] if len(xs) == 3 else 0.0


def _by_stabiliser_without_bias(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return _by_stabiliser(node, xs, z - _bias(node, xs), r, eps)


def _by_bias(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return share(r, z, eps) * _bias(node, xs)


def _fixed_operands(node: Node, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [x for x, arg in zip(xs, node.args, strict=True) if arg.op == PARAMETER]


def _by_fixed_term(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    part = share(r, z, eps)
    return sum((part * x for x in evaluate.unmask(_fixed_operands(node, xs))), np.zeros(1))


@np.errstate(over="ignore")
def _by_fixed_factor(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    fixed = 2 - sum(arg.op != PARAMETER for arg in node.args)  # a map holds its fixed factors
    return share(r, 2 * z, eps) * np.where(np.isinf(z), 0.0, z) * fixed


def _by_fixed_values(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return share(r, z, eps) * z if len(xs) == 1 else np.zeros(1)


def _by_taylor_term(node: Node, xs: Arrays, a: Array, r: Array, eps: float) -> Array:
    x, a, r = (evaluate.rows(node, each) for each in (xs[0], a, r))
    z = np.where(np.isneginf(x), 0.0, x)  # a hidden key has weight 0 and receives nothing
    absorbed: np.ndarray = r * (1 - z + (a * z).sum(axis=-1, keepdims=True))
    return absorbed


EQ_1: dict[str, Lemma] = {BIAS: _by_bias, STABILISER: _by_stabiliser}
HALVES: dict[str, Lemma] = {CONSTANT: _by_fixed_factor, STABILISER: _by_stabiliser_of_product}
HELD: dict[str, Lemma] = {CONSTANT: lambda node, xs, z, r, eps: r}

LEMMAS: dict[tuple[str, str], dict[str, Lemma]] = {
    (kinds.LINEAR, kinds.EPSILON): EQ_1,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): {STABILISER: _by_stabiliser_without_bias},
    (kinds.ADD, kinds.EPSILON): {BIAS: _by_fixed_term, STABILISER: _by_stabiliser},
    (kinds.SCORES, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.SCORES, kinds.CONSTANT): HELD,
    (kinds.SOFTMAX, kinds.TAYLOR): {TAYLOR: _by_taylor_term},
    (kinds.SOFTMAX, kinds.CONSTANT): HELD,
    (kinds.READOUT, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.READOUT, kinds.VALUE_ONLY): {CONSTANT: _by_fixed_values, STABILISER: _by_stabiliser},
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): HALVES,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): {},
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): EQ_1,
    (kinds.LAYER_NORM, kinds.IDENTITY): {},
    (kinds.RMS_NORM, kinds.HELD_DEVIATION): {STABILISER: _by_stabiliser},
    (kinds.ACTIVATION, kinds.IDENTITY): {},
}
"""By kind and rule: the causes, each with its absorbed relevance per entry of the output."""


def totals(lines: Iterable[Line], key: Callable[[Line], OfLine]) -> dict[OfLine, dict[str, float]]:
    """Sums absorbed relevance by ``key(line)`` and cause, the largest total size first."""
    table: dict[OfLine, dict[str, float]] = {}
    for line in lines:
        row = table.setdefault(key(line), {})
        for cause, amount in (*line.absorbed.items(), (NUMERICAL, line.numerical)):
            row[cause] = row.get(cause, 0.0) + amount
    return dict(sorted(table.items(), key=lambda item: -sum(map(abs, item[1].values()))))

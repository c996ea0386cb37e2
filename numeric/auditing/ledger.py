"""Accounts for relevance at each operation: how much arrives, passes on, and is absorbed.

Absorbed relevance is computed from the lemmas of theorem 25, not as a difference of messages;
the difference that is left is listed as numerical, and is of the size of rounding.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from lrp_axioms.axioms.composites import Composite, assigned
from lrp_axioms.axioms.graph import INPUT, Node
from lrp_axioms.numeric.reference import evaluate
from lrp_axioms.numeric.reference.dispatch import RULES

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
    orphans = sorted({(node.op, rule) for node, rule in rules.items()} - RULES.keys())
    if orphans:
        named = ", ".join(f"{kind} by {rule}" for kind, rule in orphans)
        raise LookupError(
            f"no lemma says what is absorbed by {named}; the composite "
            f"{composite.name!r} can be audited once RULES in numeric/reference/dispatch.py has it"
        )
    sent: dict[Node, float] = {}
    received = evaluate.propagate(
        order, leaves, composite, start, eps=eps, values=values, sent=sent
    )
    lines = []
    for node in reversed(order):
        if node in rules:
            r, xs = received[node], evaluate.operands(node, values, leaves)
            lemma = RULES[node.op, rules[node]].absorbs
            given = node, xs, values[node], r, evaluate.stabiliser(node, eps)
            absorbed = {c: float(f(*given).sum()) for c, f in lemma.items()}
            arrived = float(r.sum())
            passed, rule = sent[node], rules[node]
            lines.append(
                Line(node=node, rule=rule, arrived=arrived, passed=passed, absorbed=absorbed)
            )
    ends = {node: received[node] for node in order if node.op == INPUT}
    return Ledger(started=float(start.sum()), lines=tuple(lines), leaves=ends, received=received)


OfLine = TypeVar("OfLine")


def totals(lines: Iterable[Line], key: Callable[[Line], OfLine]) -> dict[OfLine, dict[str, float]]:
    """Sums absorbed relevance by ``key(line)`` and cause, the largest total size first."""
    table: dict[OfLine, dict[str, float]] = {}
    for line in lines:
        row = table.setdefault(key(line), {})
        for cause, amount in (*line.absorbed.items(), (NUMERICAL, line.numerical)):
            row[cause] = row.get(cause, 0.0) + amount
    return dict(sorted(table.items(), key=lambda item: -sum(map(abs, item[1].values()))))

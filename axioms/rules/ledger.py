"""Where relevance is absorbed: the lemmas of all operations, and the ledger they add up to.

A lemma, in the record of a rule, says exactly how much of the relevance R of each output entry an
operation does not hand on, by cause.  With p = epsilon sign(z), and z the output, bias b included:

  bias          R b / (z + p)       linear layers, and LayerNorm at its observed deviation
  stabiliser    R p / (n z + p)     n = 1 in Eq. 1, the number of factors in Eqs. 3 and 4
  Taylor term   R (1 - z + zbar)    Eq. 5, z the logit and zbar the mean of its row under A
  constant      R                   rules that hold the operands constant
  degree        R (1 - sum of x dz/dx / z)   the plain gradient of nonlinear operations: -(n - 1) R
                              of n factors, R (1 - h/S^2) N/z of a norm of rows N and deviation S

Theorem 25 proves every lemma, and theorem 73 the lemmas of the gradient; along any graph they add
up to the relevance that the leaves miss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import sympy as sp
from sympy import Matrix

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import BIAS, Composite, assigned
from lrp_axioms.axioms.decide.identity import Number
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import MOVES, Node, topological
from lrp_axioms.axioms.rules.propagate import RULES, LeafValues, Sweep, evaluate, propagate
from lrp_axioms.axioms.rules.rule import Amount, Options, Visit


def _lemma(node: Node, rule: str) -> dict[str, Amount]:
    """The causes that there are at this node: without a bias, none absorbs."""
    causes = RULES[node.op, rule].absorbs
    has_bias = node.attributes.get("bias", len(node.args) == 3)
    return {c: amount for c, amount in causes.items() if c != BIAS or has_bias}


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Total relevance at the start, at every node that keeps it, and at every cause."""

    started: sp.Expr
    kept: Mapping[Node, sp.Expr]  # leaves, and operations that depend on no input
    absorbed: Mapping[tuple[Node, str], sp.Expr]  # by operation and cause

    @property
    def gap(self) -> sp.Expr:
        """Started less kept and absorbed relevance: 0, by induction over the operations."""
        return self.started - sum(self.kept.values()) - sum(self.absorbed.values())

    def by_kind(self) -> dict[tuple[str, str], sp.Expr]:
        """Absorbed relevance, by kind of operation and cause."""
        totals: dict[tuple[str, str], sp.Expr] = {}
        for (node, cause), amount in self.absorbed.items():
            totals[node.op, cause] = totals.get((node.op, cause), 0) + amount
        return totals


@noted
def ledger(root: Node, point: LeafValues, composite: Composite, **options: Unpack[Sweep]) -> Ledger:
    """The lemmas of every operation under ``root``, from the root to the leaves.

    Arguments as in ``propagate``, whose relevance arrives at each node; messages are not read.
    Raises UnassignedOperation that lists every operation without a rule.
    """
    order = topological(root)
    rules, values = assigned(order, composite, RULES), evaluate(root, point)
    received = propagate(root, point, composite, **options)
    eps, signs = options.get("eps", 0), options.get("signs") or {}
    kept: dict[Node, sp.Expr] = {}
    absorbed: dict[tuple[Node, str], sp.Expr] = {}
    for node in reversed(order):
        r = received[node]
        if node in rules:
            stabiliser: Options = {"eps": eps, "sign": signs.get(node)}
            operands = [values[arg] for arg in node.args]
            visit = Visit(node, operands, values[node], r, stabiliser)
            for cause, amount in _lemma(node, rules[node]).items():
                absorbed[node, cause] = sum(amount(visit))
        elif node.op not in MOVES:  # which move relevance and keep none
            kept[node] = sum(r)
    return Ledger(started=sum(received[root]), kept=kept, absorbed=absorbed)


def unknown_messages(root: Node, relevance: Number) -> tuple[sp.Expr, list[sp.Expr]]:
    """The sweep with an unknown message, a symbol, to every operand of every operation.

    Returns the part of ``relevance`` that the leaves keep, and the parts that operations withhold.
    """
    sent: dict[Node, list[sp.Symbol]] = {}

    def unknown(node: Node, xs: Sequence[Matrix], r: Matrix, options: Options) -> Sequence[Matrix]:
        sent[node] = [sp.Symbol(f"m{len(sent)}_{k}", real=True) for k in range(len(xs))]
        return [Matrix([[m]]) for m in sent[node]]

    rules = {kind: names[0] for kind, names in kinds.RULES.items()}  # none is used
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
    """Causes that can absorb relevance, for every operation that receives some, at any point.

    The graph alone is read, not the shapes or values of its leaves; operations that no rule passes
    relevance to are left out.  Raises UnassignedOperation as ``ledger``.
    """
    order = topological(root)
    rules = assigned(order, composite, RULES)
    reached = {root}
    for node in reversed(order):
        if node in reached and (node in rules or node.op in MOVES):
            passed_by = RULES[node.op, rules[node]].passes_by if node in rules else ()
            reached |= {arg for k, arg in enumerate(node.args) if k not in passed_by}
    return {node: set(_lemma(node, rule)) for node, rule in rules.items() if node in reached}


def causes(root: Node, composite: Composite) -> set[tuple[str, str]]:
    """Every (kind of operation, cause) that the ledger of this graph can hold, at any point."""
    found = absorbing(root, composite)
    return {(node.op, cause) for node, names in found.items() for cause in names}

"""Mask relevance of a graph: that of one row (theorem 54), at every attention of it.

It is a function of attention weights, values and the gradient behind them, so unlike a rule it
does not see which operations compute these.
"""

import sympy as sp

from axioms import kinds
from axioms.composites import UnassignedOperation
from axioms.decide.denotation import denoted
from axioms.decide.identity import generic
from axioms.graph import Node, leaf, topological
from axioms.rewrites.channels import copies_of
from axioms.rewrites.rewrite import exchanged
from axioms.rules.leave_one_out import mask_relevance
from axioms.rules.propagate import Explanation, LeafValues, evaluate


def by_masks(root: Node, point: LeafValues, gradient: sp.Matrix | None = None) -> Explanation:
    """Mask relevance of every token (column) in every row, summed over heads, under one name.

    ``gradient`` is that of the logit at the root, ones unless given.  The keys that are copies of
    a token count as one.
    Raises UnassignedOperation for a graph without attention.
    """
    heads = [node for node in topological(root) if node.op == kinds.READOUT]
    if not heads:
        raise UnassignedOperation(f"{root} attends to nothing; mask relevance is of attention")
    values = evaluate(root, point)
    start = sp.ones(*values[root].shape) if gradient is None else gradient

    def of_head(head: Node) -> sp.Matrix:
        weights, v = (values[x] for x in head.args)
        c = _gradient_at(head, values[head], root, point, start)
        rows = [mask_relevance(weights[n, :], v, c[n, :].T).T for n in range(weights.rows)]
        copied = copies_of(head.args[1])
        found = sp.Matrix.vstack(*rows)
        return found * values[copied].T if copied else found

    first, *others = map(of_head, heads)
    return {"masks": sum(others, first)}


OUTPUT = "output of a head"


def _gradient_at(
    head: Node, value: sp.Matrix, root: Node, point: LeafValues, start: sp.Matrix
) -> sp.Matrix:
    """The gradient at the output of a head, of all entries of the root times ``start``."""
    output = generic(OUTPUT, *value.shape)
    behind = denoted(exchanged(root, head, leaf(OUTPUT)), {**point, OUTPUT: output})
    logit = sum(behind.multiply_elementwise(start))
    at = dict(zip(output, value, strict=True))
    return output.applyfunc(lambda o: sp.diff(logit, o).subs(at))

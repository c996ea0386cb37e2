"""Attributions without rules: effects of leaving out, path integrals, and mask relevance.

All but mask relevance depend on the function alone.  Mask relevance of a graph is the one of a row
(theorem 54), at every attention of it: a function of attention weights, values and the gradient
behind them, which does not see the operations that compute these.
"""

import itertools
from collections.abc import Collection, Mapping
from math import factorial
from typing import Any, TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import UnassignedOperation
from lrp_axioms.axioms.decide.denotation import denoted
from lrp_axioms.axioms.decide.identity import Point, generic
from lrp_axioms.axioms.decide.records import noted
from lrp_axioms.axioms.graph import Node, leaf, topological
from lrp_axioms.axioms.rewrites.channels import copies_of
from lrp_axioms.axioms.rewrites.rewrite import exchanged
from lrp_axioms.axioms.rules.propagate import Explanation, LeafValues, evaluate

Effects: TypeAlias = dict[sp.Symbol, sp.Expr]  # symbol of a point -> its share
Texts: TypeAlias = Mapping[frozenset[Any], sp.Expr]  # words that are kept -> the logit


@noted
def leave_one_out(f: sp.Expr, point: Point) -> Effects:
    """LOO_i = f(x) - f(x with x_i = 0), for every symbol of ``point``  (paper, Sec. 2.1)."""
    value = f.subs(point, simultaneous=True)
    return {x: value - f.subs({**point, x: 0}, simultaneous=True) for x in point}


@noted
def difference(f: Texts, words: Collection[Any], text: Collection[Any]) -> sp.Expr:
    """Sum of (-1)^|T| f(text without T) over all subsets T of ``words``, in logits.

    It is the leave-one-out of one word and the interaction of two; of all words of the text it is
    their dividend (Harsanyi 1963).  Raises ValueError for a word that the text lacks.
    """
    if absent := sorted(map(str, {*words} - {*text})):
        raise ValueError(f"the text has no {absent[0]}; choose from {sorted(map(str, text))}")
    return sum(
        (-1) ** n * f[frozenset(text).difference(left_out)]
        for n in range(len(words) + 1)
        for left_out in itertools.combinations(words, n)
    )


@noted
def sum_to_one(a: sp.Matrix) -> sp.Matrix:
    """Divides a map by the sum of its entries, as the paper does before correlating (Sec. 4.1)."""
    return a / sum(a)


@noted
def leave_key_out(exp_z: sp.Matrix, v: sp.Matrix) -> sp.Matrix:
    """O - O_without_i of one attention row, for every key i, by a softmax over the others.

    exp_z[0, i] are the exponentials of its logits, v[i, p] the values; the result is [i, p].
    Raises ValueError for a single key: without it no attention is left.
    """
    n = v.rows
    if n < 2:
        raise ValueError(f"{n} key: leaving it out leaves no attention; pass at least 2 keys")

    def readout(keys: list[int]) -> sp.Matrix:
        e = exp_z[:, keys]
        return e * v[keys, :] / sum(e)

    everything = list(range(n))
    rows = [readout(everything) - readout([k for k in everything if k != i]) for i in everything]
    return sp.Matrix.vstack(*rows)


@noted
def mask_relevance(exp_z: sp.Matrix, v: sp.Matrix, c: sp.Matrix) -> sp.Matrix:
    """A_i / (1 - A_i) <v_i - O, c> of one attention row, for every key i: relevance of its mask.

    exp_z and v are as in ``leave_key_out``, and c[p, 0] is the gradient of the logit at the
    row's output O; the result is [i, 0].
    """
    a = exp_z / sum(exp_z)
    o = a * v
    return sp.Matrix([a[i] / (1 - a[i]) * ((v[i, :] - o) * c)[0] for i in range(v.rows)])


@noted
def shapley(f: sp.Expr, point: Point) -> Effects:
    """Shapley value of every symbol of ``point``, absent symbols being zero; 2**n evaluations."""
    n = len(point)

    def worth(present: Collection[sp.Symbol]) -> sp.Expr:
        at = {x: sp.sympify(value if x in present else 0) for x, value in point.items()}
        return f.xreplace(at)

    def value(x: sp.Symbol) -> sp.Expr:
        others = [y for y in point if y != x]
        return sum(
            sp.Rational(factorial(size) * factorial(n - size - 1), factorial(n))
            * (worth({x, *coalition}) - worth(coalition))
            for size in range(n)
            for coalition in itertools.combinations(others, size)
        )

    return {x: value(x) for x in point}


@noted
def integrated_gradients(f: sp.Expr, point: Point) -> Effects:
    """Integrated Gradients of every symbol of ``point`` from the zero baseline  (App. A)."""
    t = sp.Dummy("t", positive=True)
    path = {x: t * value for x, value in point.items()}
    return {
        x: value * sp.integrate(sp.expand(sp.diff(f, x).subs(path, simultaneous=True)), (t, 0, 1))
        for x, value in point.items()
    }


def by_masks(root: Node, point: LeafValues, gradient: sp.Matrix | None = None) -> Explanation:
    """Mask relevance of every token (column) in every row, summed over heads, under one name.

    ``gradient`` is the gradient of the logit at the root, ones unless given.  Keys that are copies
    of one token count as one.
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

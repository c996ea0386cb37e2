"""Graphs of position in attention: from content and position leaves to one query's row.

Roots are the logits of one query, or its weights or one embedding where position enters later or
earlier.  Leaves named ``position ...`` make up position.  The reciprocal stands for any activation:
the identity rule treats all alike, and the reciprocal keeps values rational.
"""

from collections.abc import Mapping

import sympy as sp

from lrp_axioms.axioms.graph import TRANSPOSE, Node, activation, leaf, linear, scores

POSITION = "position"


def total(found: Mapping[str, sp.Matrix], *, of_position: bool) -> sp.Expr:
    """The signed sum over position leaves, or over the others."""
    return sum(sum(r) for name, r in found.items() if name.startswith(POSITION) == of_position)


def position(name: str) -> Node:
    return leaf(f"{POSITION} {name}")


def absolute() -> Node:
    return leaf("x") + position("table")


def biased_logits() -> Node:
    """Scores + a map of the table: features one per distance, the distance itself, or waves."""
    return scores(leaf("q"), leaf("k")) + linear(position("table"), "features")


def multiplied_weights() -> Node:
    return leaf("weights") * linear(position("table"), "features")


def mapped_logits() -> Node:
    """S + f(S, B), f of two layers over score and bias of each pair, one key per row."""
    logits = Node(TRANSPOSE, (scores(leaf("q"), leaf("k")),))
    bias = Node(TRANSPOSE, (linear(position("table"), "features"),))
    hidden = linear(logits, "inner S") + linear(bias, "inner B")
    return logits + linear(activation("reciprocal", hidden), "outer")


def chain(steps: int) -> Node:
    """k <- k + k N for each step matrix N = -beta w w^T, then the score."""
    key = leaf("k")
    for step in range(steps):
        key = key + key @ position(f"step {step}")
    return scores(leaf("q"), key)


def rotated(cos: Node, sin: Node) -> Node:
    """q cos + (a quarter turn of q) sin, then the scores of keys as they are."""
    q = leaf("q")
    return scores(q * cos + linear(q, "quarter turn") * sin, leaf("k"))


def rotary() -> Node:
    return rotated(position("cos"), position("sin"))


def contextual_rotary() -> Node:
    """The angles are a map of steps that tokens give."""
    angles = linear(position("steps"), "sums")
    return rotated(activation("reciprocal", angles), activation("reciprocal", angles))


FAMILIES = {
    "sinusoidal": absolute,
    "relative, linear and fourier bias": biased_logits,
    "toeplitz": multiplied_weights,
    "logit map": mapped_logits,
    "householder, one step": lambda: chain(1),
    "householder, two steps": lambda: chain(2),
    "rotary": rotary,
    "contextual rotary": contextual_rotary,
}

TWO_BY_TWO = {"k", "features", "quarter turn", "sums"} | {f"{POSITION} step {n}" for n in range(3)}
SHAPES = {"inner S": (1, 2), "inner B": (1, 2), "outer": (2, 1)}


def shape(name: str) -> tuple[int, int]:
    """The smallest shape of a leaf that is not degenerate."""
    return SHAPES.get(name, (2, 2) if name in TWO_BY_TWO else (1, 2))

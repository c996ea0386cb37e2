"""How much of the relevance of every output entry a rule does not hand on, by cause, in arrays.

The lemmas of theorem 25 in numbers; the records of ``dispatch`` say which rule has which.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lrp_axioms.axioms.composites import BIAS, CONSTANT, STABILISER
from lrp_axioms.axioms.graph import PARAMETER, Node
from lrp_axioms.numeric.reference import mapped
from lrp_axioms.numeric.reference.rules import share, stabilize

Array = np.ndarray
Arrays = Sequence[np.ndarray]
Lemma = Callable[[Node, Arrays, Array, Array, float], Array]
"""(node, operands, output, relevance of the output, stabiliser) -> absorbed, by entry."""


def unmask(xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands of a sum of logits; where one is -inf a mask hides them, and nothing arrives."""
    return [np.where(np.isneginf(x), 0.0, x) for x in xs]


def rows(node: Node, x: np.ndarray) -> np.ndarray:
    """The axis along which a softmax runs as the last one, or back at its place."""
    return x.swapaxes(node.attributes.get("axis", -1), -1)


def _pushed(z: np.ndarray, eps: float) -> np.ndarray:
    z = np.where(np.isinf(z), 0.0, z)  # a logit that a mask took out
    pushed: np.ndarray = stabilize(z, eps) - z
    return pushed


def by_stabiliser(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    absorbed: np.ndarray = share(r, z, eps) * _pushed(z, eps)
    return absorbed


@np.errstate(over="ignore")  # of logits that a mask took out
def by_stabiliser_of_product(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    absorbed: np.ndarray = share(r, 2 * z, eps) * _pushed(2 * z, eps)
    return absorbed


def _bias(node: Node, xs: Sequence[np.ndarray]) -> np.ndarray | float:
    if f := node.attributes.get("map"):
        return mapped.bias(f, xs)
    return xs[2] if len(xs) == 3 else 0.0


def by_stabiliser_without_bias(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return by_stabiliser(node, xs, z - _bias(node, xs), r, eps)


def by_bias(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return share(r, z, eps) * _bias(node, xs)


def by_fixed_term(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    part = share(r, z, eps)
    fixed = [x for x, arg in zip(xs, node.args, strict=True) if arg.op == PARAMETER]
    return sum((part * x for x in unmask(fixed)), np.zeros(1))


@np.errstate(over="ignore")
def by_fixed_factor(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    fixed = 2 - sum(arg.op != PARAMETER for arg in node.args)  # a map has these inside
    return share(r, 2 * z, eps) * np.where(np.isinf(z), 0.0, z) * fixed


def by_fixed_values(node: Node, xs: Arrays, z: Array, r: Array, eps: float) -> Array:
    return share(r, z, eps) * z if len(xs) == 1 else np.zeros(1)


def by_taylor_term(node: Node, xs: Arrays, a: Array, r: Array, eps: float) -> Array:
    x, a, r = (rows(node, each) for each in (xs[0], a, r))
    z = np.where(np.isneginf(x), 0.0, x)  # a hidden key has weight 0 and receives nothing
    absorbed: np.ndarray = r * (1 - z + (a * z).sum(axis=-1, keepdims=True))
    return absorbed


EQ_1: Mapping[str, Lemma] = {BIAS: by_bias, STABILISER: by_stabiliser}
HALVES: Mapping[str, Lemma] = {CONSTANT: by_fixed_factor, STABILISER: by_stabiliser_of_product}
HELD: Mapping[str, Lemma] = {CONSTANT: lambda node, xs, z, r, eps: r}

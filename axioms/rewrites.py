"""Rewrites: implementations that denote the same function."""

import operator
from collections.abc import Callable, Sequence

from axioms.graph import Node


def bracketings(
    factors: Sequence[Node], combine: Callable[[Node, Node], Node] = operator.mul
) -> list[Node]:
    """All ways to bracket ``factors`` in their order: Catalan(n - 1) binary trees."""
    if len(factors) == 1:
        return list(factors)
    return [
        combine(left, right)
        for cut in range(1, len(factors))
        for left in bracketings(factors[:cut], combine)
        for right in bracketings(factors[cut:], combine)
    ]

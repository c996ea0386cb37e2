"""Sets of axioms that no method obeys together, by theorems 60, 63 and 67."""

from collections.abc import Mapping

from lrp_axioms.axioms.scoreboard.axiom_cells import (
    CONSERVATION,
    LOCALITY,
    LOO_OF_ATTENTION,
    LOO_OF_PRODUCTS,
    SYMMETRY,
    UNITS,
)
from lrp_axioms.axioms.theorems.axiom_sets import Axioms

ORDER, BRACKETS, ONE = "commute products", "re-associate products", "multiply by one"
ONE_SHARE = {
    (ORDER, BRACKETS): "one share c for all products has c = 1/2 and c^2 = c (theorems 60 and 67)",
    (ORDER, ONE): "one share c for all products has c = 1/2 and c = 1 (theorem 67)",
    (SYMMETRY,): "one share c for all products has c = 1/2 and c^2 + c = 1 (theorem 67)",
}
"""Axioms that a local rule cannot obey if it conserves with one share for all products, and why."""
TO_THE_LEFT = "the left factor gets all, and equal factors get half each (theorem 67)"
EXCLUDED: Mapping[Axioms, str] = {
    frozenset({CONSERVATION, LOO_OF_PRODUCTS}): "the parts of n factors sum to n (theorem 63)",
    frozenset({CONSERVATION, LOO_OF_ATTENTION}): "with equal values any key can go (theorem 63)",
    frozenset({LOCALITY, LOO_OF_ATTENTION, "duplicate keys"}): (
        "without a copy of a key, the other copy takes over (theorem 67)"
    ),
    **{
        frozenset({CONSERVATION, LOCALITY, same, *others}): why
        for others, why in ONE_SHARE.items()
        for same in (UNITS, "distribute products", "factor sums")
    },
    **{
        frozenset({CONSERVATION, LOCALITY, "fold batch norm", other}): TO_THE_LEFT
        for other in (ORDER, SYMMETRY)
    },
}
"""The smallest sets of axioms that no method obeys, and why."""

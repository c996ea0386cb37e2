"""Finds axioms that can be had together: sets that exclude each other, sets that cannot grow.

Both follow from the axioms that each method obeys.  A set can be had if some method obeys all of
it; any other set is only *not had*, and becomes excluded by a theorem.
"""

from collections.abc import Iterable

Axioms = frozenset[str]


def largest(obeyed: Iterable[Axioms]) -> set[Axioms]:
    """The sets that are no proper part of another."""
    sets = set(obeyed)
    return {one for one in sets if not any(one < other for other in sets)}


def smallest(sets: Iterable[Axioms]) -> set[Axioms]:
    """The sets that have no proper part among the others."""
    sets = set(sets)
    return {one for one in sets if not any(other < one for other in sets)}


def smallest_not_had(obeyed: Iterable[Axioms], axioms: Axioms) -> set[Axioms]:
    """The sets of axioms that no method obeys while some method obeys every proper part.

    Each holds, for every method, an axiom that the method lacks, and no axiom more than needed.
    """
    found: set[Axioms] = {frozenset()}
    for holds in largest(obeyed):
        found = smallest(chosen | {x} for chosen in found for x in axioms - holds)
    return found


def largest_without(excluded: Iterable[Axioms], axioms: Axioms) -> set[Axioms]:
    """The largest sets of axioms that hold none of the ``excluded`` ones."""
    given_up: set[Axioms] = {frozenset()}
    for bad in excluded:
        given_up = smallest(chosen | {x} for chosen in given_up for x in bad)
    return {axioms - chosen for chosen in given_up}

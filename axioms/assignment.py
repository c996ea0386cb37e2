"""Which rule handles which node of a graph."""

from collections.abc import Collection
from typing import TypeAlias

from axioms.composites import Composite, Operation
from axioms.graph import CONSTANT, INPUT, MOVES, Node

Assignment: TypeAlias = dict[Node, str]  # the name of the rule of every node that has one


def assigned(
    order: list[Node],
    composite: Composite,
    known: Collection[tuple[str, str]] | None = None,
) -> Assignment:
    """Rule of every node that depends on an input, or one error that lists those without.

    ``known`` as in ``Composite.assign``.
    """
    carrying: set[Node] = set()
    for node in order:
        if node.op == CONSTANT:
            continue  # it knows the shape of its operand, not its value
        if node.op == INPUT or not carrying.isdisjoint(node.args):
            carrying.add(node)
    ruled = [node for node in order if node in carrying and node.op not in (INPUT, *MOVES)]
    operations = [
        Operation(
            kind=node.op,
            module=node.origin.module if node.origin else node.name,
            layer=node.attributes.get("layer"),
        )
        for node in ruled
    ]
    return dict(zip(ruled, composite.assign(operations, known=known), strict=True))

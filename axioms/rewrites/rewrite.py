"""A rewrite as one record: its step, the graphs it applies to, its effect on canonized graphs.

A step replaces one node by another way to compute the same values; graphs are never changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from lrp_axioms.axioms.graph import Node, rebuild, topological
from lrp_axioms.axioms.rewrites.places import Applies

Alternatives: TypeAlias = Callable[[Node], Iterator[Node]]  # node -> nodes of the same value
Family: TypeAlias = tuple[str, Callable[[Any, Any], Alternatives]]
"""The name of a family of steps, and a function from one parameter and its inverse to a step."""
Shapes: TypeAlias = Mapping[str, tuple[int, int]]  # by the name of the leaf

# Boards, each a table of its own in docs/SCOREBOARD.md.
GENERAL = "general"
OF_ATTENTION = "attention"  # mask relevance is defined there
OF_UNITS = "units"  # gated units, RMSNorm, soft caps and recurrences

ANY_FACTOR, ANY_CHANGE = "positive factors", "invertible changes of channels"  # families


class Canonized(Enum):
    """How a rewrite of a graph changes the canonized graph."""

    ALIKE = "not at all: every explanation is the same, at every epsilon"
    BESIDE = "by the same rewrite, which changes no explanation, or not at all"
    IN_THE_LIMIT = "only where sums and layers have one map, all that counts as epsilon -> 0"
    OF_HEADS = "as in the limit, where readouts pass sums and layers of values on"

    @property
    def at_every_epsilon(self) -> bool:
        return self in (Canonized.ALIKE, Canonized.BESIDE)


@dataclass(frozen=True)
class Template:
    """A graph and the shapes of its leaves: generic ones for proofs, least ones for witnesses.

    In the generic shapes no sum has a single term beside a bias, and layers and scores have one
    output, which rules linear in relevance extend to any number; the least ones keep a witness
    readable.
    """

    root: Node
    generic: Shapes
    least: Shapes = field(default_factory=dict)  # overrides generic shapes

    def wider_shapes(self) -> Shapes:
        """Adds one channel, or a second entry each way if every leaf has a single one."""
        alone = {1: 2} if set(self.generic.values()) == {(1, 1)} else {1: 1}
        return {
            name: (alone.get(rows, rows + 1), alone.get(columns, columns + 1))
            for name, (rows, columns) in self.generic.items()
        }

    def least_shapes(self) -> Shapes:
        """Shapes for the search of witnesses."""
        return {**self.generic, **self.least}


@dataclass(frozen=True, eq=False)  # the same only as itself, as a key of caches
class Rewrite:
    """A step by name; called with a graph, it gives all graphs that are one step away.

    ``templates`` are the smallest graphs that it applies to, with the scope of its lemma.
    ``applies`` finds it in a captured graph.
    """

    name: str
    step: Alternatives
    templates: list[Template]
    _: KW_ONLY
    board: str = GENERAL
    canonized: Canonized | None = None
    applies: Applies | None = None
    family: Family | None = None

    def __call__(self, root: Node) -> list[Node]:
        return everywhere(self.step, root)


def everywhere(step: Alternatives, root: Node) -> list[Node]:
    """Graphs with one node of ``root`` replaced by one of its alternatives, in order."""
    return [exchanged(root, old, new) for old in topological(root) for new in step(old)]


def exchanged(root: Node, old: Node, new: Node) -> Node:
    """The graph with ``new`` in the place of one of its nodes."""
    return rebuild(root, lambda node: new if node is old else node)

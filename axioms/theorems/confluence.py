"""Compares canonized graphs up to the order of operands and to the computation of fixed parts.

A part is fixed if no input reaches it: weights, biases, scales, constants, and their functions.
No rule sees more of a fixed part than its value, none sees the order of factors and terms,
and a sum sees only the total of its fixed terms.  So graphs that are ``alike`` have the same
relevance at every epsilon.  Theorems 64 and 65 decide which rewrites leave them alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, reduce
from operator import add
from typing import TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.decide.denotation import KEPT, same_value
from lrp_axioms.axioms.decide.identity import identical
from lrp_axioms.axioms.graph import CONSTANT, INPUT, Node, live, rebuild, topological
from lrp_axioms.axioms.rules.propagate import LeafValues, evaluate

Skeleton: TypeAlias = tuple[object, ...]
"""Operations as nested tuples, operands of products and sums sorted, fixed parts as matrices."""
FIXED = "fixed"
Split: TypeAlias = tuple[object, list[sp.ImmutableMatrix]]
"""A skeleton without its matrices, and the matrices."""
Map: TypeAlias = dict[object, sp.Matrix]  # matrix by entering part, and the fixed term
Seen: TypeAlias = tuple[dict[Node, Skeleton], dict[Node, Map]]  # of nodes that an input reaches


def skeleton(root: Node, values: Mapping[Node, sp.Matrix], seen: Seen | None = None) -> Skeleton:
    """The parts of a graph that rules see, from the value of each node; inputs may be all 0.

    ``seen`` keeps the parts of nodes from one graph to the next.
    """
    found, _ = seen or ({}, {})
    for node in topological(root):
        if node in found:
            continue
        if node.op == INPUT:
            found[node] = (INPUT, node.name)
        elif node.op != CONSTANT and any(x in found for x in node.args):
            found[node] = _operation(node, values, found)
    return found.get(root) or _number(values[root])


def regions(
    root: Node,
    values: Mapping[Node, sp.Matrix],
    seen: Seen | None = None,
    *,
    through_heads: bool = False,
) -> Skeleton:
    """As ``skeleton``, but of sums and layers only their map: a matrix for each node that enters.

    As epsilon -> 0 they pass relevance value times g on to it as its value times g W', by its
    matrix W (theorem 61), in however many steps.  ``through_heads`` goes on through readouts:
    A (y W + 1 b) is (A y) W + 1 b, since the rows of a softmax add up to 1.
    """
    found, maps = seen or ({}, {})
    for node in topological(root):
        if node in maps:
            continue
        live = [x for x in node.args if x in maps]
        unit = sp.eye(values[node].cols)
        if node.op == INPUT:
            maps[node] = {(INPUT, node.name): unit}
        elif not live or node.op == CONSTANT:
            continue
        elif node.op == kinds.LINEAR:
            x, weight, *bias = node.args
            maps[node] = {key: w * values[weight] for key, w in maps[x].items()}
            for row in bias:
                _add(maps[node], {FIXED: sp.ones(values[x].rows, 1) * values[row]})
        elif node.op == kinds.ADD:
            maps[node] = {}
            for term in node.args:
                _add(maps[node], maps.get(term) or {FIXED: values[term]})
        elif through_heads and node.op == kinds.READOUT and node.args[0].op == kinds.SOFTMAX:
            maps[node] = _read(node, values, found, maps.get(node.args[1]))
        else:
            maps[node] = {_operation(node, values, found): unit}
        parts = ((key, _multiplied_out(w)) for key, w in maps[node].items())
        found[node] = _sort((key, w) for key, w in parts if any(w))
    return found.get(root) or _number(values[root])


def _add(one: Map, other: Map) -> None:
    for key, matrix in other.items():
        one[key] = one[key] + matrix if key in one else matrix


def _read(
    node: Node,
    values: Mapping[Node, sp.Matrix],
    found: Mapping[Node, Skeleton],
    entering: Map | None,
) -> Map:
    """The map of a readout: it reads the parts entering its values, but keeps a shared row."""
    weights, read = node.args
    of = node.op, found.get(weights) or _number(values[weights])
    entering = entering or {FIXED: values[read]}
    every: Map = {(*of, key): w for key, w in entering.items()}
    if FIXED in entering:
        row = entering[FIXED][0, :]
        every[*of, FIXED] = entering[FIXED] - sp.ones(values[read].rows, 1) * row
        every[FIXED] = sp.ones(values[weights].rows, 1) * row
    return every


def _operation(
    node: Node, values: Mapping[Node, sp.Matrix], found: Mapping[Node, Skeleton]
) -> Skeleton:
    """A node by its kind, attributes and operands; operands outside ``found`` are fixed."""
    if node.op not in (kinds.PRODUCT, kinds.ADD):
        operands = (found.get(x) or _number(values[x]) for x in node.args)
        return node.op, *sorted(node.attributes.items()), *operands
    fixed = [values[x] for x in node.args if x not in found]
    live = _sort(found[x] for x in node.args if x in found)
    return node.op, *_together(node.op, fixed), *live


def _number(value: sp.Matrix) -> Skeleton:
    return (_multiplied_out(value),)


def _multiplied_out(value: sp.Matrix) -> sp.ImmutableMatrix:
    return sp.ImmutableMatrix(*value.shape, list(map(_expanded, value)))


_expanded = lru_cache(KEPT)(sp.expand)
_written = lru_cache(KEPT)(str)


def _sort(parts: Iterable[Skeleton]) -> Skeleton:
    return tuple(sorted(parts, key=_order))


@lru_cache(KEPT)
def _order(part: object) -> str:
    """The sort key of a part: its operations and matrices in words."""
    if isinstance(part, tuple):
        return f"({', '.join(map(_order, part))})"
    if isinstance(part, sp.ImmutableMatrix):
        return f"{part.shape} {', '.join(map(_written, part))}"
    return repr(part)


def _together(op: str, fixed: Sequence[sp.Matrix]) -> list[Skeleton]:
    """Fixed terms as their sum; fixed factors as how many they are, and their product."""
    if not fixed:
        return []
    total = reduce(add if op == kinds.ADD else sp.Matrix.multiply_elementwise, fixed)
    return [(len(fixed) if op == kinds.PRODUCT else FIXED, *_number(total))]


def _split(part: object) -> Split:
    """A skeleton with a mark for each matrix in it, and the matrices."""
    if isinstance(part, sp.ImmutableMatrix):
        return part.shape, [part]
    if not isinstance(part, tuple):
        return part, []
    pairs = [_split(inner) for inner in part]
    return tuple(left for left, _ in pairs), [m for _, right in pairs for m in right]


class _Sweeps:
    """Splits graphs at one point; a part that several graphs have in common is swept once."""

    def __init__(self, point: LeafValues, by: Callable[..., Skeleton]):
        self.point, self.by = point, by
        self.nodes: dict[object, Node] = {}
        self.values: dict[Node, sp.Matrix] = {}
        self.seen: Seen = {}, {}
        self.splits: dict[Node, Split] = {}

    def split(self, root: Node) -> Split:
        root, known = rebuild(root, self._common), self.values
        if root not in self.splits:
            known |= evaluate(root, self.point, blank=live(topological(root)), known=known)
            self.splits[root] = _split(self.by(root, known, self.seen))
        return self.splits[root]

    def _common(self, node: Node) -> Node:
        """The first node of this content, whose operands are such nodes."""
        attributes = ((key, _hashable(x)) for key, x in sorted(node.attributes.items()))
        return self.nodes.setdefault((node.op, node.name, node.args, *attributes), node)


def _hashable(x: object) -> object:
    return x.as_immutable() if isinstance(x, sp.MatrixBase) else x


class Comparison:
    """Compares pairs of graphs at one point, each side by sweeps of its own.

    ``point`` has a matrix for each leaf, of different symbols for leaves that are no inputs.
    ``by`` gives the compared skeleton; ``regions`` keeps only the parts that count as epsilon -> 0.
    """

    def __init__(self, point: LeafValues, by: Callable[..., Skeleton] = skeleton):
        self._left, self._right = _Sweeps(point, by), _Sweeps(point, by)
        self._same = cache(_decide)

    def alike(self, one: Node, other: Node) -> bool:
        """Whether graphs are the same up to the order of factors and terms, and to fixed parts."""
        return self.any_alike([one], [other])

    def any_alike(self, some: Sequence[Node], others: Sequence[Node]) -> bool:
        """Whether one of ``some`` graphs is ``alike`` one of the ``others``."""
        right = [*map(self._right.split, others)]
        return any(
            self._equal(one, other) for one in map(self._left.split, some) for other in right
        )

    def _equal(self, one: Split, other: Split) -> bool:
        (left, fixed), (right, others) = one, other
        return left == right and all(map(self._same, fixed, others))


def _decide(one: sp.ImmutableMatrix, other: sp.ImmutableMatrix) -> bool:
    if one == other:
        return identical(one, other)
    return same_value(sp.Matrix(one), sp.Matrix(other))

"""What is said of a rule beside the rewrites: that it conserves, is linear, and has a symmetry.

A claim is about one operation alone.  It is a function of ``explain``, which gives the relevance
of the operands at a point, and of the point; it returns two lists that it says are equal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any, TypeAlias

import sympy as sp

from axioms import kinds
from axioms.graph import Node, leaf, parameter
from axioms.invariance.points import LeafMatrices, Shapes
from axioms.own_rules.of_rows import Rows, turned

Entries: TypeAlias = list[Any]
Point: TypeAlias = Mapping[str, Rows]  # matrices by their names
Explain: TypeAlias = Callable[[Point], Point]  # relevance of the operands at a point


def _operation(kind: str, *operands: Node, **attributes: object) -> Node:
    return Node(kind, operands, attributes=attributes)


# kind -> one operation of it, and the names of its operands and of its relevance R that are
# numbers, rows and columns
OPERATIONS: dict[str, tuple[Node, str, str, str]] = {
    kinds.PRODUCT: (leaf("x") * leaf("y"), "xyR", "", ""),
    kinds.ADD: (leaf("x") + leaf("y"), "xyR", "", ""),
    kinds.LINEAR: (
        _operation(kinds.LINEAR, leaf("x"), parameter("w"), parameter("b")),
        *("bR", "x", "w"),
    ),
    kinds.BILINEAR: (leaf("a") @ leaf("v"), "R", "a", "v"),
    kinds.SCORES: (_operation(kinds.SCORES, leaf("q"), leaf("k")), "R", "qk", ""),
    kinds.READOUT: (_operation(kinds.READOUT, leaf("a"), leaf("v")), "R", "a", "v"),
    kinds.SOFTMAX: (_operation(kinds.SOFTMAX, leaf("z")), "", "zR", ""),
    kinds.ACTIVATION: (
        _operation(kinds.ACTIVATION, leaf("x"), function="gelu"),
        *("xR", "", ""),
    ),
}
COUNTS = (1, 2, 3)  # of entries in rows and columns


def counts(kind: str) -> tuple[int, ...]:
    """The numbers of inputs for which claims are decided; two operands have one entry each."""
    _, _, rows, columns = OPERATIONS[kind]
    return COUNTS if rows + columns else (1,)


def shapes(kind: str, count: int) -> Shapes:
    """The shapes of the operands of one operation and of its relevance."""
    _, numbers, rows, columns = OPERATIONS[kind]
    of = ((numbers, (1, 1)), (rows, (1, count)), (columns, (count, 1)))
    return {name: shape for names, shape in of for name in names}


OTHER, FACTOR = "S", "c"  # a second relevance, and a positive number


def symbols(shapes: Shapes) -> LeafMatrices:
    """A point of different real symbols: x0 and x1, or x alone; the factor c is positive."""

    def entry(name: str, shape: tuple[int, int], k: int) -> sp.Symbol:
        assumptions = {"positive": True} if name == FACTOR else {"real": True}
        return sp.Symbol(name if shape == (1, 1) else f"{name}{k}", **assumptions)

    return {
        name: sp.Matrix(*shape, lambda i, j, name=name, shape=shape: entry(name, shape, i + j))
        for name, shape in shapes.items()
    }


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Two lists that are equal if the claim holds; ``needs`` names what is no operand nor R."""

    sides: Callable[[Explain, Point], tuple[Entries, Entries]]
    needs: str = ""


def _listed(point: Point) -> Entries:
    return [entry for rows in point.values() for entry in _entries(rows)]


def _entries(rows: Rows) -> Entries:
    return [entry for row in rows for entry in row]


def _each(function: Callable[..., Any], *matrices: Rows) -> Rows:
    rows = zip(*matrices, strict=True)
    return [[function(*entries) for entries in zip(*row, strict=True)] for row in rows]


def _conserves(explain: Explain, at: Point) -> tuple[Entries, Entries]:
    return [sum(_listed(explain(at)))], [sum(_entries(at["R"]))]


def _linear(explain: Explain, at: Point) -> tuple[Entries, Entries]:
    relevances = (_each(add, at["R"], at[OTHER]), at["R"], at[OTHER])
    both, one, other = (_listed(explain({**at, "R": r})) for r in relevances)
    return both, list(map(add, one, other))


def _reordered(explain: Explain, at: Point) -> tuple[Entries, Entries]:
    """Operands and relevance in the opposite order or moved on by one, and so are the messages."""

    def ordered(point: Point, order: Callable[[Entries], Entries]) -> Point:
        return {name: _like(rows, order(_entries(rows))) for name, rows in point.items()}

    found = explain(at)
    orders = (lambda m: m[::-1], lambda m: m[1:] + m[:1])
    same = [m for order in orders for m in _listed(ordered(found, order))]
    return same, [m for order in orders for m in _listed(explain(ordered(at, order)))]


def _like(rows: Rows, entries: Entries) -> Rows:
    left = iter(entries)
    return [[next(left) for _ in row] for row in rows]


def _transposed(explain: Explain, at: Point) -> tuple[Entries, Entries]:
    def swapped(point: Point) -> Point:
        return {**point, "a": turned(point["v"]), "v": turned(point["a"])}

    return _listed(explain(at)), _listed(swapped(explain(swapped(at))))


def _shifted(explain: Explain, at: Point) -> tuple[Entries, Entries]:
    ((c,),) = at[FACTOR]
    return _listed(explain(at)), _listed(explain({**at, "z": _each(lambda z: z + c, at["z"])}))


def _rescaled(one: str, other: str) -> Claim:
    def sides(explain: Explain, at: Point) -> tuple[Entries, Entries]:
        ((c,),) = at[FACTOR]
        larger, smaller = _each(lambda x: x * c, at[one]), _each(lambda x: x / c, at[other])
        return _listed(explain(at)), _listed(explain({**at, one: larger, other: smaller}))

    return Claim(sides=sides, needs=FACTOR)


CONSERVES = "conserves relevance"
GENERAL: dict[str, Claim] = {
    CONSERVES: Claim(sides=_conserves),
    "is linear in relevance": Claim(sides=_linear, needs=OTHER),
}
SYMMETRIES: dict[str, dict[str, Claim]] = {
    kinds.PRODUCT: {"the same for x y and (c x) (y / c), c > 0": _rescaled("x", "y")},
    kinds.LINEAR: {"the same for inputs in another order": Claim(sides=_reordered)},
    kinds.BILINEAR: {
        "the same for A V and its transpose": Claim(sides=_transposed),
        "the same for A V and (c A) (V / c), c > 0": _rescaled("a", "v"),
    },
    kinds.READOUT: {"the same for keys in another order": Claim(sides=_reordered)},
    kinds.SOFTMAX: {
        "the same for logits in another order": Claim(sides=_reordered),
        "the same for logits and logits + c": Claim(sides=_shifted, needs=FACTOR),
    },
}
"""By kind: what no rewrite of ``axioms.invariance.rewrites`` asks of a rule."""


def claims(kind: str) -> dict[str, Claim]:
    """Every claim about rules of one kind; conservation comes first."""
    return {**GENERAL, **SYMMETRIES.get(kind, {})}

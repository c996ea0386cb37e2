"""What is said of a rule beside the rewrites: that it conserves, is linear, and has a symmetry.

A claim is about one operation alone.  It is a function of ``explain``, which gives the relevance
of the operands at a point, and of the point; it returns two lists that it says are equal.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import sympy as sp

from axioms import kinds
from axioms.algebra.propagate import Explanation
from axioms.graph import Node, leaf, parameter
from axioms.invariance.points import LeafMatrices, Shapes

Entries: TypeAlias = list[sp.Expr]
Explain: TypeAlias = Callable[[LeafMatrices], Explanation]  # relevance of the operands at a point


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

    sides: Callable[[Explain, LeafMatrices], tuple[Entries, Entries]]
    needs: str = ""


def _listed(explanation: Explanation | LeafMatrices) -> Entries:
    return [entry for messages in explanation.values() for entry in messages]


def _conserves(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
    return [sum(_listed(explain(at)))], [sum(at["R"])]


def _linear(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
    both, one, other = (
        _listed(explain({**at, "R": r})) for r in (at["R"] + at[OTHER], at["R"], at[OTHER])
    )
    return both, [x + y for x, y in zip(one, other, strict=True)]


def _reordered(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
    """Operands and relevance in the opposite order or moved on by one, and so are the messages."""

    def ordered(point: LeafMatrices, order: Callable[[Entries], Entries]) -> LeafMatrices:
        return {name: sp.Matrix(*m.shape, order(list(m))) for name, m in point.items()}

    found = explain(at)
    orders = (lambda m: m[::-1], lambda m: m[1:] + m[:1])
    same = [m for order in orders for m in _listed(ordered(found, order))]
    return same, [m for order in orders for m in _listed(explain(ordered(at, order)))]


def _transposed(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
    def swapped(point: LeafMatrices) -> LeafMatrices:
        return {**point, "a": point["v"].T, "v": point["a"].T}

    return _listed(explain(at)), _listed(swapped(explain(swapped(at))))


def _shifted(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
    (c,) = at[FACTOR]
    return _listed(explain(at)), _listed(explain({**at, "z": at["z"].applyfunc(lambda z: z + c)}))


def _rescaled(one: str, other: str) -> Claim:
    def sides(explain: Explain, at: LeafMatrices) -> tuple[Entries, Entries]:
        (c,) = at[FACTOR]
        moved = {**at, one: at[one] * c, other: at[other] / c}
        return _listed(explain(at)), _listed(explain(moved))

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

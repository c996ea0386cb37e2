"""Claims about a rule beside the rewrites: conservation, linearity and symmetries.

A claim compares the messages of a rule before and after a change of the operands that keeps the
output.  A claim is data: it is decided for lists of operands, for one operand in the place of any
number of operands, and at points.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy as sp

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.own_rules.rules import Nested, flat

Given: TypeAlias = Mapping[str, Nested]  # the arguments of a rule, S and c, by name
Change: TypeAlias = Callable[[Given], dict[sp.Symbol, sp.Expr]]
OTHER, FACTOR = "S", sp.Symbol("c", positive=True)  # a second relevance, and a positive number


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Changes of the operands, and two lists that are equal if the claim holds.

    ``sides`` makes the lists from the setting and the messages after each change; the setting
    gives the total relevance.
    """

    changes: tuple[Change, ...]
    sides: Callable[..., tuple[list[Any], list[Any]]]
    needs: str = ""  # S or c, if the changes use it
    is_order: bool = False  # holds for every formula of an input and of sums over all inputs


def _same(given: Given) -> dict[sp.Symbol, sp.Expr]:
    return {}


def _other(given: Given) -> dict[sp.Symbol, sp.Expr]:
    return dict(zip(flat(given["R"]), flat(given[OTHER]), strict=True))


def _more(given: Given) -> dict[sp.Symbol, sp.Expr]:
    return {r: r + s for r, s in _other(given).items()}


def _reorder_lists(by: Callable[[list[Any]], list[Any]]) -> Change:
    def change(given: Given) -> dict[sp.Symbol, sp.Expr]:
        lists = [found for found in given.values() if isinstance(found, list)]
        return {x: y for found in lists for x, y in zip(found, by(found), strict=True)}

    return change


ORDERS: tuple[Callable[[list[Any]], list[Any]], ...] = (  # every order is made of these two
    lambda found: found[::-1],
    lambda found: found[1:] + found[:1],
)


def _reorder(setting: Any, *found: Any) -> tuple[list[Any], list[Any]]:
    same, *moved = ([m] if not isinstance(m[0], list) else m for m in found)
    return [x for order in ORDERS for group in same for x in order(group)], flat(moved)


def _scaling(one: str, other: str) -> Claim:
    def change(given: Given) -> dict[sp.Symbol, sp.Expr]:
        larger = {x: x * FACTOR for x in flat(given[one])}
        return {**larger, **{x: x / FACTOR for x in flat(given[other])}}

    return Claim(changes=(_same, change), sides=_both_sides, needs="c")


def _both_sides(setting: Any, one: Any, other: Any) -> tuple[list[Any], list[Any]]:
    return flat(one), flat(other)


def _exchange(given: Given) -> dict[sp.Symbol, sp.Expr]:
    a, v = flat(given["a"]), flat(given["v"])
    return dict(zip([*a, *v], [*v, *a], strict=True))


CONSERVES = "conserves relevance"
LINEAR = "is linear in relevance"
GENERAL: dict[str, Claim] = {
    CONSERVES: Claim(
        changes=(_same,),
        sides=lambda setting, found: ([setting.total(flat(found))], [setting.relevance]),
    ),
    LINEAR: Claim(
        needs=OTHER,
        changes=(_more, _same, _other),
        sides=lambda setting, both, one, other: (
            flat(both),
            [x + y for x, y in zip(flat(one), flat(other), strict=True)],
        ),
    ),
}
ORDER = Claim(changes=(_same, *map(_reorder_lists, ORDERS)), sides=_reorder, is_order=True)
SYMMETRIES: dict[str, dict[str, Claim]] = {
    kinds.PRODUCT: {"the same for x y and (c x) (y / c), c > 0": _scaling("x", "y")},
    kinds.LINEAR: {"the same for inputs in another order": ORDER},
    kinds.BILINEAR: {
        "the same for A V and its transpose": Claim(
            changes=(_same, _exchange),
            sides=lambda setting, one, other: (flat(one), flat(other[::-1])),
        ),
        "the same for A V and (c A) (V / c), c > 0": _scaling("a", "v"),
    },
    kinds.READOUT: {"the same for keys in another order": ORDER},
    kinds.SOFTMAX: {
        "the same for logits in another order": ORDER,
        "the same for logits and logits + c": Claim(
            changes=(_same, lambda given: {z: z + FACTOR for z in flat(given["z"])}),
            sides=_both_sides,
            needs="c",
        ),
    },
}
"""Claims by kind that no rewrite of ``axioms.rewrites.rewrites`` implies."""


def claims(kind: str) -> dict[str, Claim]:
    """Every claim about rules of one kind; conservation comes first."""
    return {**GENERAL, **SYMMETRIES.get(kind, {})}

"""A torch call as a function of those of its arguments that relevance can reach."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_unflatten

from axioms import kinds
from axioms.graph import Node
from numeric.auditing.maps import Map
from numeric.engine import operations as does
from numeric.engine.handlers import is_mask
from numeric.engine.marks import PRODUCT, is_number, mark, reached

if TYPE_CHECKING:
    from numeric.auditing.recorder import Recorder, Running

WORD, POSITION, TYPE, FIXED = "word", "position", "token type", "fixed"
"""Roles of leaves: what reaches a leaf that is no word is a part of the residual."""


def call(
    rec: "Recorder",
    running: "Running",
    index: int | None,
    taken: Sequence[int],
    row: Sequence[Any],
    nesting: Any,
) -> Callable[..., Tensor]:
    """The call as a function of those of its arguments whose places are ``taken``."""
    kept = [
        None if k in taken else rec.keep(x) if isinstance(x, Tensor) else x
        for k, x in enumerate(row)
    ]
    func, inplace = running.func, running.inplace
    # The one function whose result is a matter of where its input lies in memory.
    strides = row[0].stride() if running.call.name == "as_strided" else ()

    def function(*xs: Tensor) -> Tensor:
        new = list(kept)
        for k, x in zip(taken, xs, strict=True):
            new[k] = _laid_out(x, strides) if strides else x
        args, kwargs = tree_unflatten(new, nesting)
        if inplace:
            args = (args[0].clone(), *args[1:])
        given: Any = func(*args, **kwargs)
        given = args[0] if inplace else given
        out: Tensor = given if index is None else given[index]
        return out

    return function


def _laid_out(x: Tensor, strides: Sequence[int]) -> Tensor:
    return torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x)


def taken_of(
    rec: "Recorder", running: "Running", *, learned: bool = False
) -> tuple[list[Any], Any, list[int], list[Node]]:
    row, nesting = running.operands()
    taken = [k for k, x in enumerate(row) if reached((x,)) or (learned and counts(x))]
    node_of: Callable[[Tensor], Node] = lambda x: (
        rec.node_of(x) if reached((x,)) else fixed_leaf(rec, running, x)
    )
    return row, nesting, taken, [node_of(row[k]) for k in taken]


def counts(x: object) -> bool:
    """Whether relevance can end in entries of a fixed tensor that are moved among others."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim == 0:
        return False
    return not is_mask(x)


def fixed_leaf(rec: "Recorder", running: "Running", x: Tensor) -> Node:
    return rec.leaf(x, WORD if running.rising else FIXED)


def mapped(
    rec: "Recorder",
    running: "Running",
    out: Tensor,
    index: int | None,
    *,
    op: str,
    **attributes: Any,
) -> Node:
    """Any function, by torch."""
    row, nesting, taken, of = taken_of(rec, running)
    function = Map(call(rec, running, index, taken, row, nesting))
    return rec.make(op, of, out.shape, map=function, **attributes)


def composed(
    rec: "Recorder", running: "Running", out: Tensor, index: int | None, pending: Sequence[Node]
) -> Node:
    """A function of what is no operation by itself: one half of a product, or complex numbers."""
    row, nesting, taken, of = taken_of(rec, running)
    function = call(rec, running, index, taken, row, nesting)
    if not pending:
        return rec.make(kinds.LINEAR, of, out.shape, map=Map(function), pending=True, exact=True)
    (inner,) = pending
    if len(of) > 1:
        rec.refuse(f"{running.call.name} of {len(of)} activations")
    first = inner.attributes["map"].function
    about = dict(inner.attributes) | {"map": Map(lambda *xs: function(first(*xs)))}
    about["shape"] = tuple(out.shape)
    if about.get("scale") is not None:
        about["scale"] = _scaled(running, about["scale"])
    if mark(out) != PRODUCT and not out.is_complex():
        del about["pending"]
    return replace(inner, attributes=about)


def _scaled(running: "Running", scale: float) -> float | None:
    """The factor of a product after one more function of it, or None if that was no scaling."""
    if running.call.role not in (does.MULTIPLY, does.DIVIDE):
        return None
    numbers = [float(x) for x in running.args[:2] if is_number(x)]
    if len(numbers) != 1:
        return None
    return scale * numbers[0] if running.call.role == does.MULTIPLY else scale / numbers[0]

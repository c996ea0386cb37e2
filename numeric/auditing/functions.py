"""Makes a torch call a function of the arguments that relevance can reach."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_unflatten

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import Node, Origin
from lrp_axioms.numeric.auditing.draft import FIXED, WORD, Draft, Running
from lrp_axioms.numeric.auditing.maps import Map
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.at_output import is_mask
from lrp_axioms.numeric.engine.marks import PRODUCT, Chain, is_number, mark, reached


def call(
    draft: Draft, running: Running, *, learned: bool = False
) -> tuple[Callable[..., Tensor], list[Node]]:
    """Returns the call as a function of the arguments that relevance reaches, and their nodes.

    ``learned``: fixed tensors that relevance can end in are arguments, too.
    """
    row, nesting = running.operands()
    taken = [k for k, x in enumerate(row) if reached((x,)) or (learned and counts(x))]
    nodes = [
        draft.node_of(x) if reached((x,)) else fixed_leaf(draft, running, x)
        for x in (row[k] for k in taken)
    ]
    kept = [
        None if k in taken else draft.keep(x) if isinstance(x, Tensor) else x
        for k, x in enumerate(row)
    ]
    func, inplace, index = running.func, running.inplace, running.index
    # The one function whose result depends on its input's layout in memory.
    strides = row[0].stride() if running.call.name == "as_strided" else ()

    def function(*xs: Tensor) -> Tensor:
        new = list(kept)
        for k, x in zip(taken, xs, strict=True):
            new[k] = torch.empty_strided(x.shape, strides, dtype=x.dtype).copy_(x) if strides else x
        args, kwargs = tree_unflatten(new, nesting)
        if inplace:
            args = (args[0].clone(), *args[1:])
        given: Any = func(*args, **kwargs)
        given = args[0] if inplace else given
        out: Tensor = given if index is None else given[index]
        return out

    return function, nodes


def counts(x: object) -> bool:
    """Decides whether relevance can end in a fixed tensor's entries when they are moved."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim == 0:
        return False
    return not is_mask(x)


def fixed_leaf(draft: Draft, running: Running, x: Tensor) -> Node:
    return draft.leaf(x, WORD if running.rising else FIXED)


def mapped(draft: Draft, running: Running, *, op: str, **attributes: Any) -> Node:
    """Makes a node of any function, computed by torch."""
    function, of = call(draft, running)
    return draft.make(op, of, running.out.shape, map=Map(function), **attributes)


def composed(draft: Draft, running: Running, pending: Sequence[Node]) -> Node:
    """Makes a node of half a product, or of complex numbers: no operation by themselves."""
    function, of = call(draft, running)
    out: Tensor = running.out
    if not pending:
        return draft.make(kinds.LINEAR, of, out.shape, map=Map(function), pending=True, exact=True)
    (inner,) = pending
    if len(of) > 1:
        draft.refuse(f"{running.call.name} of {len(of)} activations")
    first = inner.attributes["map"].function
    about = dict(inner.attributes) | {"map": Map(lambda *xs: function(first(*xs)))}
    about["shape"] = tuple(out.shape)
    if about.get("scale") is not None:
        about["scale"] = _rescale(running, about["scale"])
    if mark(out) != PRODUCT and not out.is_complex():
        del about["pending"]
    return replace(inner, attributes=about)


def _rescale(running: Running, scale: float) -> float | None:
    """Returns a product's factor after one more function, or None if that was no scaling."""
    if running.call.role not in (does.MULTIPLY, does.DIVIDE):
        return None
    numbers = [float(x) for x in running.args[:2] if is_number(x)]
    if len(numbers) != 1:
        return None
    return scale * numbers[0] if running.call.role == does.MULTIPLY else scale / numbers[0]


def activation(draft: Draft, chain: Chain, where: tuple[Origin, int | None]) -> Node:
    """Records a function of each entry; IDENTITY needs only its value.

    A value at 0 other than 0 is recorded as a fixed term of a sum.
    """
    root, shape, (value, _) = draft.node_of(chain.root), chain.root.shape, chain.at_zero()
    above = chain.replay if value is None else lambda x: chain.replay(x) - value
    named = {"function": _name(chain), "map": Map(above)}
    y = draft.make(kinds.ACTIVATION, (root,), shape, where, **named)
    if value is None:
        return y
    return draft.make(kinds.ADD, (y, draft.parameter(value)), shape, where)


KNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
POINTS = torch.linspace(-4, 4, 33, dtype=torch.float64).numpy()


def _name(chain: Chain) -> str:
    """Names a function by its values, so that every spelling gets one name."""
    try:
        found = Map(chain.replay)(POINTS)
    except RuntimeError:  # with a parameter for each channel
        return str(chain.key[0])
    alike = (name for name, f in KNOWN.items() if abs(Map(f)(POINTS) - found).max() < 1e-12)
    return next(alike, str(chain.key[0]))

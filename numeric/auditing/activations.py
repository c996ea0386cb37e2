"""Functions of each entry by itself as nodes, each by one name, however it is spelled."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from axioms import kinds
from axioms.graph import Node, Origin
from numeric.auditing.maps import Map
from numeric.engine.marks import Chain

if TYPE_CHECKING:
    from numeric.auditing.recorder import Recorder


def activation(rec: "Recorder", chain: Chain, where: tuple[Origin, int | None]) -> Node:
    """Records a function of each entry; IDENTITY needs only its value.

    A value at 0 other than 0 is recorded as a fixed term of a sum.
    """
    root, shape, (value, _) = rec.node_of(chain.root), chain.root.shape, chain.at_zero()
    above = chain.replay if value is None else lambda x: chain.replay(x) - value
    named = {"function": _name(chain), "map": Map(above)}
    y = rec.make(kinds.ACTIVATION, (root,), shape, where, **named)
    if value is None:
        return y
    return rec.make(kinds.ADD, (y, rec.parameter(value)), shape, where)


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
    """What a function is called, however it is spelled."""
    try:
        found = Map(chain.replay)(POINTS)
    except RuntimeError:  # with a parameter for each channel
        return str(chain.key[0])
    alike = (name for name, f in KNOWN.items() if abs(Map(f)(POINTS) - found).max() < 1e-12)
    return next(alike, str(chain.key[0]))

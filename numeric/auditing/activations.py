"""Functions of each entry by itself as nodes, each by one name, however it is spelled."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from axioms import kinds
from axioms.graph import Node, Origin
from numeric.auditing.maps import Map
from numeric.fast.marks import Chain

if TYPE_CHECKING:
    from numeric.auditing.recorder import Recorder


def activation(rec: "Recorder", chain: Chain, where: tuple[Origin, int | None]) -> Node:
    """A function of each entry by itself; IDENTITY needs to know no more than its value."""
    root = rec.node_of(chain.root)
    function = Map(chain.replay)
    return rec.make(
        kinds.ACTIVATION, (root,), chain.root.shape, where, function=_name(chain), map=function
    )


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

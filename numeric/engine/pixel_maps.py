"""Positions of a map of pixels: numbered, moved by the model, and put in order."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def numbered(x: Tensor, channels: int) -> Tensor:
    """Numbers the positions of a map from 1, alike in all channels."""
    first = x.select(channels, 0)
    numbers = torch.arange(1, first.numel() + 1, device=x.device).view(first.shape)
    return torch.empty_like(x, dtype=torch.int64).copy_(numbers.unsqueeze(channels))


def nowhere(args: Sequence[Any]) -> dict[int, Tensor]:
    """Returns zeros for all tensors among the arguments that are no indices, by identity."""
    flat = [y for x in args for y in (x if isinstance(x, (list, tuple)) else [x])]
    beside = [x for x in flat if isinstance(x, Tensor) and x.is_floating_point()]
    return {id(x): torch.zeros_like(x, dtype=torch.int64) for x in beside}


def in_order(x: Tensor, place: Tensor | None, leaf: Tensor, channels: int) -> Tensor:
    """Arranges a map as (..., position, channel), by the numbers of its positions in ``leaf``.

    ``place`` has these numbers, and 0 at tokens that the model puts among them, which come first.
    """
    found = _flat(x, leaf, channels)
    if place is None:
        return found
    order = _flat(place, leaf, channels)[..., :1].argsort(dim=-2, stable=True)
    return found.take_along_dim(order.to(found.device), dim=-2)


def _flat(x: Tensor, leaf: Tensor, channels: int) -> Tensor:
    size = leaf.shape[channels]
    unmoved = x.shape[1:] == leaf.shape[1:] or (x.ndim == 3 and x.shape[-1] != size)
    x = x.movedim(channels if unmoved else -1, -1)
    return x.flatten(1, -2) if x.ndim > 3 else x

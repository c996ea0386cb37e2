"""Tensors that share their memory: what is written into a part of one changes the whole."""

from collections.abc import Callable

import torch
from torch import Tensor


def is_part(x: Tensor, base: Tensor) -> bool:
    """Whether ``x`` is a part of ``base`` whose place in it can be told by strides."""
    return base.is_contiguous() and x.dtype == base.dtype


def part_of(x: Tensor, base: Tensor) -> Callable[[Tensor], Tensor]:
    """How ``x`` is cut out of its ``base``."""
    where = x.shape, x.stride(), x.storage_offset() - base.storage_offset()
    return lambda whole: whole.as_strided(*where)


def write_into(x: Tensor, base: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The base after a value was written into the place of ``x``."""
    part = part_of(x, base)

    def write(value: Tensor, whole: Tensor) -> Tensor:
        whole = whole.clone(memory_format=torch.contiguous_format)
        part(whole).copy_(value)
        return whole

    return write

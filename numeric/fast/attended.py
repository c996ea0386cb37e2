"""What one forward pass attends to: every softmax, so that its weights can be had behind it.

A fused kernel keeps no weights; they are computed again from its queries and keys, a few rows at a
time.  Gradients are asked for at edges of the graph, because code may write into a tensor.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from numeric.fast import rules, value_only
from numeric.fast.marks import Args, Kwargs

Rows = Iterator[tuple[int, Tensor, Tensor]]
"""First row, and weights and their gradients of the rows from there: (batch, head, row, key)."""


@dataclass(frozen=True, eq=False)
class Fused:
    """A call of a fused kernel; queries, keys and values are (batch, head, token, channel).

    asked: the output, whose gradient ``rows`` needs
    """

    asked: GradientEdge
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    given: Kwargs
    place: str

    @property
    def size(self) -> tuple[int, ...]:
        """That of the weights."""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def readouts(self) -> list[GradientEdge]:
        return [self.asked]

    def shape(self, batch: int) -> tuple[int, ...] | None:
        """(batch, head, row, key), or None for weights of another form."""
        return self.size if len(self.query) == batch else None

    def rows(self, c: Tensor, batch: int) -> Rows:
        """``c``: the gradient of the output."""
        query, key, value, c = map(rules.wide, (self.query, self.key, self.value, c))
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        scaling = self.given.get("scale") or query.shape[-1] ** -0.5
        heads, count, keys = *query.shape[1:3], key.shape[2]
        step = max(1, value_only.AT_ONCE // (batch * heads * keys))
        for first in range(0, count, step):
            part = slice(first, min(first + step, count))
            mask = self._mask(part, keys)
            weights = value_only.weights(query[:, :, part], key, mask, scaling)
            yield first, weights, c[:, :, part] @ value.mT

    def _mask(self, rows: slice, keys: int) -> Tensor | None:
        mask = self.mask
        if self.given.get("is_causal"):  # which goes with no mask
            ones = torch.ones(rows.stop - rows.start, keys, dtype=torch.bool)
            return ones.to(self.query.device).tril(rows.start)
        if mask is None:
            return None
        own = mask[..., rows, :] if mask.ndim > 1 and mask.shape[-2] > 1 else mask
        return own if own.dtype == torch.bool else rules.wide(own)


@dataclass(frozen=True, eq=False)
class Explicit:
    """A softmax that a model calls itself.

    asked: what it gave, whose gradient ``rows`` needs
    last: whether it is taken over the last axis
    readouts: products of its weights and values; none if it is no attention
    """

    asked: GradientEdge
    weights: Tensor
    last: bool
    place: str
    readouts: list[GradientEdge] = field(default_factory=list)

    @classmethod
    def of(cls, out: Tensor, args: Args, kwargs: Kwargs, place: str) -> "Explicit":
        axis: Any = kwargs.get("dim", args[1] if len(args) > 1 else None)
        asked = get_gradient_edge(out.requires_grad_())  # rules may have cut it off
        return cls(asked, out.detach(), axis in (-1, out.ndim - 1), place)

    @property
    def size(self) -> tuple[int, ...]:
        return tuple(self.weights.shape)

    def shape(self, batch: int) -> tuple[int, ...] | None:
        """(batch, head, row, key), or None for weights of another form."""
        first, *between, row, key = self.size if len(self.size) > 2 else (0, 0, 0)
        fits = first == batch if between else first and first % batch == 0
        heads = first // batch * math.prod(between)
        return (batch, heads, row, key) if fits and self.last else None

    def rows(self, c: Tensor, batch: int) -> Rows:
        """``c``: the gradient of the weights."""
        form = (batch, -1, *self.size[-2:])
        yield 0, rules.wide(self.weights).reshape(form), rules.wide(c).reshape(form)


Attended = Fused | Explicit

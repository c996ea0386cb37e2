"""Value-only attention (CP-LRP) without the part of the backward pass that it throws away.

A fused kernel's backward pass finds the cotangents of Q, K and V together, in five products.
Where no relevance passes the softmax only the cotangent of V is needed, which takes two.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

EXACT = (torch.float32, torch.float64)  # lower precision is the fused kernel's business
AT_ONCE = 1 << 24  # attention weights, so that few of them stand in memory beside the graph


Run = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A kernel of attention: (query, key, value) -> output."""


class ReadOut(torch.autograd.Function):
    """Applies ``run(query, key, value)``, and gives a cotangent to V, but none to Q and K.

    query, key, value: (batch, head, token, channel) -> (batch, token, head, channel)
    """

    apply: Callable[..., Tensor]

    @staticmethod
    def forward(
        ctx: Any,
        run: Run,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float,
    ) -> Tensor:
        ctx.save_for_backward(query, key, mask)
        ctx.scaling = scaling
        return run(query, key, value)

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Tensor | None, ...]:
        query, key, mask = ctx.saved_tensors
        batch, heads, tokens, _ = query.shape
        step = max(1, AT_ONCE // (heads * tokens * key.shape[2]))
        if batch <= step:
            whole = weights(query, key, mask, ctx.scaling)
            return None, None, None, whole.mT @ c, None, None
        of_value = []
        for start in range(0, batch, step):
            part = slice(start, start + step)
            by_example = mask is not None and mask.ndim == 4 and len(mask) == batch
            seen = mask[part] if by_example else mask
            own = weights(query[part], key[part], seen, ctx.scaling)
            of_value.append(own.mT @ c[part])
        return None, None, None, torch.cat(of_value), None, None


def weights(query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """Returns softmax(scaling Q K^T + mask) in one tensor: (batch, head, token, token)."""
    q, k = query.flatten(0, 1), key.flatten(0, 1)
    scores = torch.baddbmm(q.new_zeros(()), q, k.mT, beta=0, alpha=scaling)
    scores = scores.view(*query.shape[:2], *scores.shape[1:])
    if mask is not None and mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -torch.inf)
    elif mask is not None:
        scores.add_(mask)
    found = torch.softmax(scores, dim=-1, out=scores)
    if mask is not None and mask.dtype == torch.bool:
        found.masked_fill_(~mask.any(dim=-1, keepdim=True), 0)  # padding that sees nothing
    return found


def knows(query: Tensor, key: Tensor, *, causal: bool | None) -> bool:
    """Decides whether ``ReadOut`` can stand for the fused kernel: on CPU, in float32 or wider.

    Every head of queries must have its own keys, and causality must show in the mask.
    """
    plain = query.ndim == 4 and query.shape[:2] == key.shape[:2] and not causal
    return plain and query.device.type == "cpu" and query.dtype in EXACT

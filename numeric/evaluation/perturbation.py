"""What the model does while tokens are removed in order of relevance (Sec. 4.1; Samek, 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.inputs import Batch
from numeric.methods.masking import masked_logits

ORDERS = {"morf": True, "lerf": False}
"""Most relevant first, least relevant first: whether relevance falls along the order."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Target logit after each removal step; step 0 removes nothing.

    logits: (example, step), NaN after the last step of shorter texts
    mean: (example,) along the curve: the paper's "LeRF" and "MoRF" columns
    aopc: (example,) mean drop from the start: the classical AOPC
    """

    logits: Tensor

    @property
    def mean(self) -> Tensor:
        return self.logits.nanmean(dim=1)

    @property
    def aopc(self) -> Tensor:
        return (self.logits[:, :1] - self.logits).nanmean(dim=1)


def perturbation_curve(
    model,
    batch: Batch,
    relevance: Tensor,
    target: Tensor,
    *,
    order: str,
    chunk: int = 1,
    batch_size: int = 128,
) -> Curve:
    """The target logit while chunks of tokens are masked in the given order of relevance.

    relevance: (example, token)   target: (example,)   order: "morf" or "lerf"
    A chunk is ``chunk`` neighbouring tokens and has the sum of their relevance (Appendix B.1.2:
    16 for IMDB).  All tokens take part, [CLS] and [SEP] too; the curve ends when one chunk is
    left, because attention over no token at all is not defined.  Ties keep the order of the text.
    """
    if order not in ORDERS:
        raise ValueError(f"order={order!r}: pass one of {', '.join(ORDERS)}")
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk={chunk!r}: pass a whole number of tokens, at least 1")
    present = batch.attention_mask == 1
    if relevance.shape != present.shape or not relevance[present].isfinite().all():
        raise ValueError(
            f"relevance of shape {tuple(relevance.shape)} for a batch of {tuple(present.shape)}: "
            "pass one finite value per token"
        )
    grouped = _in_chunks(relevance * present, chunk).sum(dim=2)
    occupied = _in_chunks(present, chunk).any(dim=2)
    step_of = _removal_step(grouped, occupied, falling=ORDERS[order])
    step_of = step_of.repeat_interleave(chunk, dim=1)[:, : present.shape[1]]  # by token

    count = occupied.sum(dim=1, keepdim=True)
    steps = torch.arange(int(count.max()), device=present.device)
    example, step = (steps < count).nonzero(as_tuple=True)
    keep = present[example] & (step_of[example] > step[:, None])
    values = masked_logits(model, batch, example, keep, target, batch_size=batch_size)
    logits = values.new_full((len(present), len(steps)), torch.nan)
    logits[example, step] = values
    return Curve(logits)


def _in_chunks(x, chunk):
    """(example, token) -> (example, chunk, token), filled with zeros at the end."""
    return nn.functional.pad(x, (0, -x.shape[1] % chunk)).unflatten(1, (-1, chunk))


def _removal_step(relevance, present, *, falling):
    """The step, counted from 1, in which each chunk is removed; padding comes last."""
    key = (-relevance if falling else relevance).masked_fill(~present, torch.inf)
    return key.argsort(dim=1, stable=True).argsort(dim=1) + 1

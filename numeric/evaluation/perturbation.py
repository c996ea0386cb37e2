"""Records logits while tokens are removed in order of relevance (Sec. 4.1; Samek, 2017)."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.methods.masking import masked_logits
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout

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


def perturbation_curves(
    model: PreTrainedModel,
    batch: Batch,
    relevances: Sequence[Tensor],
    target: Label | Target,
    *,
    chunk: int = 1,
) -> list[list[Curve]]:
    """Returns the target logit while chunks of tokens are masked in order of relevance.

    relevances: maps of (example, token)   target: (example,)   -> by map, by order in ``ORDERS``
    A chunk is ``chunk`` neighbouring tokens, padding left out, and has the sum of their relevance
    (Appendix B.1.2: 16 for IMDB).  All tokens take part, [CLS] and [SEP] too; the curve ends when
    one chunk is left, because attention over no token at all is not defined.  Ties keep the order
    of the text.  Equal copies in several curves run once; copies of all texts, maps, orders and
    steps run together, as memory (``masking``) allows.
    Raises ValueError for no map, a map that does not fit, and a logit that is not finite.
    """

    def run(example: Tensor, keep: Tensor) -> Tensor:
        readout = Readout.of(model, batch, [target])
        with outside():  # copies run without the rules of an enclosing block
            return masked_logits(model, batch, example, keep, readout, batch_size=128)[:, 0]

    return curves(batch.attention_mask == 1, relevances, run, chunk=chunk)


def finite(values: Tensor) -> Tensor:
    """Returns numbers of copies; raises ValueError unless all are finite."""
    if not values.isfinite().all():
        raise ValueError(
            "without some tokens the model has no finite logit; check its weights, or load it in "
            "float32"
        )
    return values


def curves(
    present: Tensor,
    relevances: Sequence[Tensor],
    run: Callable[[Tensor, Tensor], Tensor],
    *,
    chunk: int = 1,
) -> list[list[Curve]]:
    """Returns the curves of maps over ``present``, (example, token), as ``perturbation_curves``.

    ``run`` returns the number of copies of ``example``, (copy,), that keep (copy, token) alone.
    """
    if not len(relevances):
        raise ValueError("0 maps: pass at least one map of (example, token)")
    chunk = builtin(chunk)
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk={chunk!r}: pass a whole number of tokens, at least 1")
    chunk = min(chunk, present.shape[1])  # a longer chunk only adds zeros
    front = (~present).byte().argsort(dim=1, stable=True)  # a chunk is of the text, not of padding
    occupied = _cut_chunks(present.gather(1, front), chunk).any(dim=2)
    count = occupied.sum(dim=1, keepdim=True)
    steps = torch.arange(int(count.max()), device=present.device)
    example, step = (steps < count).nonzero(as_tuple=True)
    keeps = []
    for relevance, falling in itertools.product(relevances, ORDERS.values()):
        if relevance.shape != present.shape or not relevance[present].isfinite().all():
            raise ValueError(
                f"relevance of shape {tuple(relevance.shape)} for a batch of "
                f"{tuple(present.shape)}: pass one finite value per token"
            )
        grouped = _cut_chunks(relevance.where(present, 0).gather(1, front), chunk).sum(dim=2)
        step_of = _removal_step(grouped, occupied, falling=falling)
        step_of = step_of.repeat_interleave(chunk, dim=1).gather(1, front.argsort(dim=1))
        keeps.append(present[example] & (step_of[example] > step[:, None]))
    first, copy = _find_distinct(example.repeat(len(keeps)), torch.cat(keeps))
    values = finite(run(example.repeat(len(keeps))[first], torch.cat(keeps)[first]))
    logits = values.new_full((len(keeps), len(present), len(steps)), torch.nan)
    logits[:, example, step] = values[copy].unflatten(0, (len(keeps), -1))
    found = map(Curve, logits)
    return [[next(found) for _ in ORDERS] for _ in relevances]


def _find_distinct(example: Tensor, keep: Tensor) -> Iterator[Tensor]:
    """Returns the copies that differ from all before them, and which of these each copy equals."""
    bits = np.packbits(keep.numpy(force=True), axis=1)
    number = example.numpy(force=True).astype(np.int64)[:, None].view(np.uint8)
    rows = np.ascontiguousarray(np.concatenate([number, bits], axis=1))
    _, first, copy = np.unique(
        rows.view(f"V{rows.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    return (torch.from_numpy(x).to(keep.device) for x in (first, copy.ravel()))


def _cut_chunks(x: Tensor, chunk: int) -> Tensor:
    """Cuts (example, token) into (example, chunk, token), filled with zeros at the end."""
    chunks: Tensor = nn.functional.pad(x, (0, -x.shape[1] % chunk)).unflatten(1, (-1, chunk))
    return chunks


def _removal_step(relevance: Tensor, present: Tensor, *, falling: bool) -> Tensor:
    """Returns the number of the step, from 1, that removes each chunk; padding comes last."""
    key = (-relevance if falling else relevance).masked_fill(~present, torch.inf)
    return key.argsort(dim=1, stable=True).argsort(dim=1) + 1

"""Leave-One-Out, the reference for LRP."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods import memory_budget, windows
from lrp_axioms.numeric.methods.budget import Groups, by_groups
from lrp_axioms.numeric.methods.image_loo import without_patches
from lrp_axioms.numeric.methods.masking import masked_logits
from lrp_axioms.numeric.methods.removals import check
from lrp_axioms.numeric.methods.shared import whole
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import Batch, places_of_images
from lrp_axioms.numeric.targets.readout import Found, Readout

Without = Callable[[Tensor, Tensor], Tensor]
Told = Callable[[Tensor, Tensor, Tensor], object]
DTYPES = ("float64", "float32", "bfloat16", "float16")


def leave_one_out(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    batch_size: int = 128,
    removal: str | int = "attention-mask",
    memory: int | str = memory_budget.AUTO,
    dtype: str | None = None,
    budget: int | None = None,
    patch: int | None = None,
    groups: Groups | Sequence[Groups] | None = None,
    each: Told | None = None,
) -> Iterator[Found]:
    """Computes LOO_i = f(x) - f(x without i) by the attention mask (Sec. 2.1, 4.1).

    ``removal`` is "attention-mask", "deletion" or a token id to put in place (``masking``).
    One forward pass per token, at most ``batch_size`` masked copies at a time and no more than
    ``memory`` holds: bytes beside the model's, or "auto" (``chunks``).
    ``dtype``, such as "bfloat16", is the dtype of a copy of the model that runs the copies; class
    and logit stay the model's own, and so do frequencies of rotary positions.  ``details``:
    ``logit_in_dtype`` (batch,), in logits, which the losses then start from; its distance from the
    logit is the size of the error.
    ``budget`` limits the passes of a text.  A longer text then loses groups of tokens first
    (``groups``: neighbouring tokens each, or numbers (batch, token), such as numbers of sentences;
    without it, about as many groups as tokens in each), and then, with all passes that are left,
    single tokens of the groups with the largest losses; other tokens share their group's loss.
    With a list, such as numbers of documents and of sentences, documents are opened into sentences
    first (``by_groups``, which also describes the ``details``).
    In an encoder with a decoder the tokens of both texts are left out, except the first of the
    decoder, because its first row would have nothing to attend to: its relevance is 0.
    ``each(example, part, lost)`` is told the losses of every ``batch_size`` copies as they come:
    (copy,) rows of the batch, (copy, token) that are left out, and (copy, target) losses in logits.
    An error that it raises ends the call.  In a text with an image, ``each`` is told of words.
    Models that count positions by the mask, such as OPT and Bloom, move the tokens behind a hidden
    one up.
    Patches of an image give way to the mean patch (``image_loo``), ``patch`` pixels wide.  In a
    text with an image, placeholders of the image stay where they are, and have relevance 0.
    Nothing makes these differences add up to the logit; ``residual`` is the difference.
    Raises ValueError for a text of one token: without it there is nothing to attend to.
    """
    if groups is not None and budget is None:
        raise ValueError("groups has no use without a budget; pass budget")
    images: Sequence[Tensor | None] = []
    grid: dict[str, Tensor] = {}
    if batch.pixel_values is None and patch is not None:
        raise ValueError(f"patch={patch!r}: inputs has no image; leave it out")
    if batch.pixel_values is not None:
        targets, logits, lost, grid = without_patches(model, batch, readout, patch, batch_size)
        images = [*lost]
    if batch.pixel_values is not None and batch.input_ids is None:
        own = dtype, budget, groups, each
        if removal != "attention-mask" or any(x is not None for x in own):
            raise ValueError("removal, dtype, budget, groups and each are of texts: leave them out")
        for target, logit, own in zip(targets, logits, lost, strict=True):
            yield Found(own, target.target, logit, dict(grid))
        return
    texts = losses(
        model, batch, readout, batch_size=batch_size, removal=removal, memory=memory, dtype=dtype
    )
    words = texts.words
    if batch.mixed:
        words[:, : batch.ids.shape[1]] &= ~places_of_images(model, batch)
    needed = words & first_seen_tokens(batch, texts.readout)
    every = max(1, int(words.sum(dim=1).max())) if budget is None else budget
    without = texts.without if each is None else _telling(texts.without, each, batch_size)
    relevance, details = by_groups(without, words, budget=every, groups=groups, needed=needed)
    targets = texts.readout.targets
    images = images if batch.mixed else [None] * len(targets)
    of_targets = zip(targets, texts.logits, texts.starts, relevance, images, strict=True)
    for target, logit, start, own, image in of_targets:
        found = {} if budget is None else dict(details)
        found |= {} if image is None else {"patches": image} | grid
        found |= {} if dtype is None else {"logit_in_dtype": start}
        yield Found(own, target.target, logit, found)


@dataclass(frozen=True, eq=False)
class Losses:
    """The losses of every target when tokens are left out.

    words: (batch, token), all that is left out   readout: with the targets that were chosen
    logits: (batch,) of each target   starts: (target, batch), the logits before a loss
    without: (copy,) examples and (copy, token) to leave out -> (copy, target), in logits
    """

    words: Tensor
    readout: Readout
    logits: list[Tensor]
    starts: Tensor
    without: Without


def in_dtype(model: PreTrainedModel, dtype: str) -> PreTrainedModel:
    """Copies a model into a dtype; frequencies of rotary positions stay as in a loaded model."""
    other = copy.deepcopy(model)
    kept = [
        (module, name, x)
        for module in other.modules()
        for name, x in module.named_buffers(recurse=False)
        if name.endswith("inv_freq")
    ]
    other.to(getattr(torch, dtype))
    for module, name, x in kept:
        setattr(module, name, x)
    return other


def _telling(without: Without, each: Told, size: int) -> Without:
    """Leaves out parts of texts in turn, ``size`` copies at a time, and tells the losses."""
    memory_budget.check_batch_size(size)

    def found(example: Tensor, part: Tensor) -> Iterator[Tensor]:
        for copies in zip(example.split(size), part.split(size), strict=True):
            lost = without(*copies)
            each(*copies, lost)
            yield lost

    return lambda example, part: torch.cat([*found(example, part)])


def losses(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    batch_size: int,
    removal: str | int = "attention-mask",
    memory: int | str,
    dtype: str | None = None,
) -> Losses:
    """Runs the texts as they are; options and errors as in ``leave_one_out``."""
    check(model, batch.facts, removal)
    present = batch.present == 1
    words = present.clone()  # all that is left out
    if batch.decoder_input_ids is not None:
        words[:, batch.attention_mask.shape[1]] = False
    alone = (batch.attention_mask.sum(dim=1) == 1).nonzero()[:, 0].tolist()
    if alone:
        raise ValueError(
            f"one token only in examples {alone}: without it there is nothing left to attend to; "
            "leave these texts out of the batch"
        )
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r}: pass None or one of {', '.join(DTYPES)}")
    with torch.no_grad():
        kept = whole(model, batch, readout)
        readout = readout.choose(kept.rows)
        logits = [each.of(kept.rows) for each in readout.targets]
        if dtype is not None:
            model = in_dtype(model, dtype)
            kept = whole(model, batch, readout)
    starts = torch.stack([each.of(kept.rows) for each in readout.targets]).to(logits[0].dtype)

    def without(example: Tensor, part: Tensor) -> Tensor:
        keep = present[example] & ~part
        if removal == "attention-mask":
            windows.check(model, batch, example, keep, readout)
        less = masked_logits(
            model, batch, example, keep, readout, kept=kept,
            batch_size=batch_size, removal=removal, memory=memory,
        )  # fmt: skip
        return starts[:, example].mT - less.to(starts.dtype)

    return Losses(words, readout, logits, starts, without)


def first_seen_tokens(batch: Batch, readout: Readout) -> Tensor:
    """Marks the tokens that the first read row attends to: (batch, token)."""
    columns = torch.arange(batch.present.shape[1], device=batch.device)
    if batch.decoder_input_ids is not None:
        return (columns < batch.attention_mask.shape[1]).expand_as(batch.present)
    if readout.head != heads.NEXT:
        return torch.ones_like(batch.present, dtype=torch.bool)
    return columns <= readout.rows.amin(dim=1, keepdim=True)

"""Logits of many masked copies of a batch, by attention mask, without padding waste."""

import torch
from torch import Tensor

from numeric.inputs import Batch


def masked_logits(
    model, batch: Batch, example: Tensor, keep: Tensor, target: Tensor, *, batch_size: int
) -> Tensor:
    """Logit of class ``target[example[n]]`` of copy n, in which only ``keep[n]`` is attended to.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy,) logits
    Copies run sorted by length, so that each forward pass is as narrow as its longest text.
    Logits come in float32 or wider.  Raises ValueError for a ``batch_size`` below 1.
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    lengths = _length(batch.attention_mask)[example]
    wide = torch.promote_types(model.dtype, torch.float32)
    logits = torch.empty(len(example), dtype=wide, device=keep.device)
    with torch.inference_mode():
        for chunk in lengths.argsort(descending=True, stable=True).split(batch_size):
            tokens = int(lengths[chunk[0]])
            rows = batch.rows(example[chunk], tokens=tokens).arguments()
            rows["attention_mask"] = keep[chunk, :tokens].to(batch.attention_mask.dtype)
            out = model(**rows).logits.to(wide)
            logits[chunk] = out.gather(1, target[example[chunk], None])[:, 0]
    return logits


def _length(mask):
    """Columns up to the last token of each row."""
    position = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return (mask * position).amax(dim=1).long()

"""Logits of many masked copies of a batch, by attention mask, without waste."""

import torch
from torch import Tensor

from numeric.inputs import Batch


def masked_logits(
    model, batch: Batch, example: Tensor, keep: Tensor, target: Tensor, *, batch_size: int
) -> Tensor:
    """Logit of class ``target[example[n]]`` of copy n, in which only ``keep[n]`` is attended to.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy,) logits
    Exact, but cheaper than it looks: a masked token has attention weight exactly 0, so it is
    left out of the forward pass, with the others at their own positions.  Only the first token
    stays as a query even when masked, because the classifier reads its row.  Copies run sorted
    by length.
    """
    query = keep.clone()
    query[:, 0] = True
    lengths = query.sum(dim=1)
    front = (~query).to(torch.uint8).argsort(dim=1, stable=True)  # positions, queries first
    tokens = batch.arguments()
    mask = tokens.pop("attention_mask")
    logits = torch.empty(len(example), dtype=model.dtype, device=keep.device)
    with torch.inference_mode():
        for chunk in lengths.argsort(descending=True, stable=True).split(batch_size):
            where, positions = example[chunk], front[chunk, : int(lengths[chunk[0]])]
            out = model(
                **{key: x[where].gather(1, positions) for key, x in tokens.items()},
                attention_mask=keep[chunk].gather(1, positions).to(mask.dtype),
                position_ids=positions,
            )
            logits[chunk] = out.logits.gather(1, target[where, None])[:, 0]
    return logits

"""Logits of many masked copies of a batch, by attention mask, without waste."""

import torch
from torch import Tensor

from numeric.fast import families
from numeric.inputs import Batch


def masked_logits(
    model, batch: Batch, example: Tensor, keep: Tensor, target: Tensor, *, batch_size: int
) -> Tensor:
    """Logit of class ``target[example[n]]`` of copy n, in which only ``keep[n]`` is attended to.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy,) logits
    Exact, but cheaper than it looks: a masked token has attention weight exactly 0, so it is
    left out of the forward pass, with the others at their own positions.  Only the first token
    stays as a query even when masked, because the classifier reads its row.  Copies run sorted
    by length.  Logits come in float32 or wider.
    Raises ValueError for a ``batch_size`` below 1 and for models that read another row.
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    if not families.reads_first_token(model):
        raise ValueError(
            f"model is a {type(model).__name__}: tokens can be left out of classifiers that read "
            "the first token, such as BertForSequenceClassification"
        )
    query = keep.clone()
    query[:, 0] = True
    lengths = query.sum(dim=1)
    front = (~query).to(torch.uint8).argsort(dim=1, stable=True)  # positions, queries first
    tokens = batch.arguments()
    mask = tokens.pop("attention_mask")
    wide = torch.promote_types(model.dtype, torch.float32)
    logits = torch.empty(len(example), dtype=wide, device=keep.device)
    with torch.inference_mode():
        for chunk in lengths.argsort(descending=True, stable=True).split(batch_size):
            where, positions = example[chunk], front[chunk, : int(lengths[chunk[0]])]
            out = model(
                **{key: x[where].gather(1, positions) for key, x in tokens.items()},
                attention_mask=keep[chunk].gather(1, positions).to(mask.dtype),
                position_ids=positions,
            )
            logits[chunk] = out.logits.gather(1, target[where, None])[:, 0].to(wide)
    return logits

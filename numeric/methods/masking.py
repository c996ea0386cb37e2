"""Logits of many copies of a batch with tokens removed, without waste."""

import torch
from torch import Tensor

from numeric.fast import families
from numeric.inputs import Batch

REMOVALS = ("attention-mask", "deletion")
"""How tokens are removed; a token id instead puts that token, such as [MASK], in their place."""


def masked_logits(
    model,
    batch: Batch,
    example: Tensor,
    keep: Tensor,
    target: Tensor,
    *,
    batch_size: int,
    removal: str | int = "attention-mask",
) -> Tensor:
    """Logit of class ``target[example[n]]`` of copy n, from which all but ``keep[n]`` is removed.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy,) logits
    ``removal``: "attention-mask" (§4.1) hides tokens as keys; "deletion" also moves what follows
    them up; a token id replaces them, and everything stays in view.
    Exact, but cheaper than it looks: a masked token has attention weight exactly 0, so it is
    left out of the forward pass, with the others at their own positions.  Only the first token
    stays as a query even when removed, because the classifier reads its row.  Copies run sorted
    by length.  Logits come in float32 or wider.
    Raises ValueError for a ``batch_size`` below 1, an unknown ``removal``, and for models that
    read another row.
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    check(model, removal)
    if batch.input_ids is None or not families.reads_first_token(model):
        raise ValueError(
            f"model is a {type(model).__name__}: tokens can be left out of classifiers that read "
            "the first token of a text, such as BertForSequenceClassification"
        )
    tokens = batch.arguments()
    present = tokens.pop("attention_mask") == 1
    replaced = isinstance(removal, int)
    seen = present[example] if replaced else keep  # what a copy attends to
    query = seen.clone()
    query[:, 0] = True
    lengths = query.sum(dim=1)
    front = (~query).to(torch.uint8).argsort(dim=1, stable=True)  # columns, queries first
    own = families.position_ids(model, batch.input_ids)
    wide = torch.promote_types(model.dtype, torch.float32)
    logits = torch.empty(len(example), dtype=wide, device=keep.device)
    with torch.inference_mode():
        for chunk in lengths.argsort(descending=True, stable=True).split(batch_size):
            where, columns = example[chunk], front[chunk, : int(lengths[chunk[0]])]
            inputs = {key: x[where].gather(1, columns) for key, x in tokens.items()}
            positions = columns if own is None else own[where].gather(1, columns)
            if replaced:
                kept = keep[chunk].gather(1, columns)
                inputs["input_ids"] = torch.where(kept, inputs["input_ids"], removal)
            out = model(
                **inputs,
                attention_mask=seen[chunk].gather(1, columns).to(batch.attention_mask.dtype),
                position_ids=None if removal == "deletion" else positions,
            )
            logits[chunk] = out.logits.gather(1, target[where, None])[:, 0].to(wide)
    return logits


def check(model, removal) -> None:
    """Raises ValueError for an unknown way to remove tokens."""
    size = getattr(model.config, "vocab_size", 0)
    token = isinstance(removal, int) and not isinstance(removal, bool) and 0 <= removal < size
    if not token and removal not in REMOVALS:
        raise ValueError(
            f"removal={removal!r}: pass one of {', '.join(REMOVALS)}, or the id of a token to put "
            f"in place, such as tokenizer.mask_token_id (0 to {size - 1})"
        )

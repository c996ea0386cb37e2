"""Leave-One-Out: the reference that LRP is compared with."""

import copy

import torch

from numeric.methods.chunks import AUTO
from numeric.methods.masking import check, masked_logits
from numeric.methods.whole import whole
from numeric.readout import Found

DTYPES = ("float64", "float32", "bfloat16", "float16")


def leave_one_out(
    model,
    batch,
    readout,
    *,
    batch_size: int = 128,
    removal: str | int = "attention-mask",
    memory: int | str = AUTO,
    dtype: str | None = None,
):
    """LOO_i = f(x) - f(x without i), token i left out by the attention mask (Sec. 2.1, 4.1).

    ``removal`` is "attention-mask", "deletion" or a token id to put in place (``masking``).
    One forward pass per token, at most ``batch_size`` masked copies at a time and no more than
    ``memory`` holds: bytes beside the model's, or "auto" (``chunks``).
    ``dtype``, such as "bfloat16", is that of the copies, run by a copy of the model; class and
    logit stay those of the model as it is.  ``details``: ``logit_in_dtype`` (batch,), in logits,
    from which the copies are then taken; its distance from the logit is the size of the error.
    Nothing makes these differences add up to the logit; ``residual`` says by how much they do not.
    Raises ValueError for a text of one token, without which there is nothing to attend to.
    """
    check(model, removal)
    present = batch.attention_mask == 1
    alone = (present.sum(dim=1) == 1).nonzero()[:, 0].tolist()
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
            model = copy.deepcopy(model).to(getattr(torch, dtype))
            kept = whole(model, batch, readout)
    example, token = present.nonzero(as_tuple=True)
    keep = present[example]
    keep[torch.arange(len(token), device=token.device), token] = False
    options = {"batch_size": batch_size, "removal": removal, "memory": memory}
    without = masked_logits(model, batch, example, keep, readout, kept=kept, **options)
    for each, logit, less in zip(readout.targets, logits, without.mT, strict=True):
        start = each.of(kept.rows).to(logit.dtype)
        relevance = torch.zeros(present.shape, dtype=logit.dtype, device=logit.device)
        relevance[example, token] = start[example] - less.to(logit.dtype)
        details = {} if dtype is None else {"logit_in_dtype": start}
        yield Found(relevance, each.target, logit, details)

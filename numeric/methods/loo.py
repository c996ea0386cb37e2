"""Leave-One-Out: the reference that LRP is compared with."""

import torch

from numeric.methods.masking import masked_logits


def leave_one_out(
    model, batch, choose, *, batch_size: int = 128, removal: str | int = "attention-mask"
):
    """LOO_i = f(x) - f(x without i), token i left out by the attention mask (Sec. 2.1, 4.1).

    ``removal`` is "attention-mask", "deletion" or a token id to put in place (``masking``).

    One forward pass per token, ``batch_size`` masked copies at a time.  Nothing makes these
    differences add up to the logit; ``residual`` says by how much they do not.
    Raises ValueError for a text of one token, without which there is nothing to attend to.
    """
    present = batch.attention_mask == 1
    alone = (present.sum(dim=1) == 1).nonzero()[:, 0].tolist()
    if alone:
        raise ValueError(
            f"one token only in examples {alone}: without it there is nothing left to attend to; "
            "leave these texts out of the batch"
        )
    with torch.no_grad():
        target, logit = choose(model(**batch.arguments()).logits)
    example, token = present.nonzero(as_tuple=True)
    keep = present[example]
    keep[torch.arange(len(token)), token] = False
    without = masked_logits(
        model, batch, example, keep, target, batch_size=batch_size, removal=removal
    )
    relevance = torch.zeros(present.shape, dtype=logit.dtype, device=logit.device)
    relevance[example, token] = logit[example] - without
    return relevance, target, logit, {}

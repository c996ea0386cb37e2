"""Integrated Gradients over word embeddings (Sundararajan et al., 2017; paper, Appendix A)."""

import numpy as np
import torch

from numeric.fast import families
from numeric.fast.patches import exclusive, frozen
from numeric.inputs import read_tokens

BASELINES = ("zero", "pad")


def integrated_gradients(model, batch, choose, *, steps: int = 32, baseline: str = "zero"):
    """Gradient along the straight path from ``baseline`` to the word embeddings, x difference.

    Position and type embeddings stay in place: on a path that scales the whole sum the
    LayerNorm behind it would hold every gradient at zero.  Rotary decoders add nothing to words,
    and their RMSNorm does just that to a path from "zero": expect a gap.
    ``baseline`` is "zero" or "pad" (the [PAD] embedding); ``steps`` are Gauss-Legendre nodes.
    ``details``: ``baseline_logit`` and ``completeness_gap``, both (batch,), in logits.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r}: pass one of {', '.join(BASELINES)}")
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps={steps!r}: pass a whole number of quadrature nodes, at least 1")
    if batch.input_ids is None:
        raise ValueError(f"{type(model).__name__} has no words, along whose path to integrate")
    words = model.get_input_embeddings()
    rest = batch.arguments()
    own = families.position_ids(model, batch.input_ids)  # which the model counts by ids
    rest |= {} if own is None else {"position_ids": own}
    word = words(rest.pop("input_ids")).detach()
    start = torch.zeros_like(word) if baseline == "zero" else words.weight[_pad(model)].detach()

    def forward(alpha):
        path = (start + alpha * (word - start)).requires_grad_()
        return path, model(inputs_embeds=path, **rest).logits

    with torch.no_grad():
        target, logit = choose(forward(1.0)[1])
        _check_reading(model, batch)
        baseline_logit = forward(0.0)[1].gather(1, target[:, None])[:, 0].to(logit.dtype)
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(word, dtype=torch.promote_types(word.dtype, torch.float32))
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        with exclusive(model), frozen(model), torch.enable_grad():
            path, logits = forward(float(node))
            (gradient,) = torch.autograd.grad(logits.gather(1, target[:, None]).sum(), path)
        total += float(weight) * gradient
    relevance = ((word - start) * total).sum(dim=-1)
    gap = logit - baseline_logit - (relevance * batch.attention_mask).sum(dim=1)
    return relevance, target, logit, {"baseline_logit": baseline_logit, "completeness_gap": gap}


def _check_reading(model, batch):
    """Raises ValueError where a model that is given embeddings reads another token."""
    if families.reads_first_token(model):
        return
    last = batch.input_ids.shape[1] - 1
    others = (read_tokens(model, batch) != last).nonzero()[:, 0].tolist()
    if others:
        raise ValueError(
            f"examples {others} are padded on the right, where {type(model).__name__} reads its "
            "logits once embeddings take the place of ids; pad on the left "
            '(tokenizer.padding_side = "left")'
        )


def _pad(model):
    if model.config.pad_token_id is None:
        raise ValueError('baseline="pad": this model has no [PAD] token; pass baseline="zero"')
    return model.config.pad_token_id

"""Attention rollout: products of attention matrices, blind to values and feed-forward layers."""

import torch

from numeric.fast.patches import attention_implementation

VARIANTS = ("paper", "abnar-zuidema")


def attention_rollout(model, batch, choose, *, variant: str = "paper"):
    """Row of [CLS] of the product of all layers' head-averaged attention (Eq. Rollout).

    ``variant`` is "paper" (A(l) ... A(1), no identity) or "abnar-zuidema" (each A(l) averaged
    with the identity, for the residual connection).  Values are shares of attention that sum to
    1, not logits: ``residual`` has no meaning here.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r}: pass one of {', '.join(VARIANTS)}")
    with attention_implementation(model, "eager"), torch.no_grad():
        output = model(**batch.arguments(), output_attentions=True)
    target, logit = choose(output.logits)
    attention = [a.mean(dim=1) for a in output.attentions]  # (batch, query, key)
    if variant == "abnar-zuidema":
        attention = [(a + torch.eye(a.shape[-1]).to(a)) / 2 for a in attention]
    rollout = attention[0]
    for a in attention[1:]:
        rollout = a @ rollout
    return rollout[:, 0], target, logit, {}

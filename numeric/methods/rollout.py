"""Attention rollout: products of attention matrices, blind to values and feed-forward layers."""

from contextlib import ExitStack

import torch

from numeric.fast import families
from numeric.fast.patches import attention_implementation, change_output
from numeric.inputs import read_tokens

VARIANTS = ("paper", "abnar-zuidema")


def attention_rollout(model, batch, choose, *, variant: str = "paper"):
    """Product of all layers' head-averaged attention (Eq. Rollout), its row of the token read.

    That is [CLS] or the last token, where the logits come from.  ``variant`` is "paper" (A(l)
    ... A(1), no identity) or "abnar-zuidema" (each A(l) averaged with the identity, for the
    residual connection).  Values are shares of attention that sum to 1, not logits: ``residual``
    has no meaning here.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant={variant!r}: pass one of {', '.join(VARIANTS)}")
    attention = []  # by layer, each (batch, query, key)

    def see(output):
        attention.append(output[1].to(torch.promote_types(model.dtype, torch.float32)).mean(dim=1))

    readouts = [m for m in model.modules() if type(m) in families.ATTENTION]
    if not readouts:
        raise ValueError(
            f"no attention that is known in {type(model).__name__}; the classes are "
            f"{', '.join(cls.__name__ for cls in families.ATTENTION)}"
        )
    # Not output_attentions=True, after which Transformers leaves its own hooks on the model.
    with attention_implementation(model.modules(), "eager"), ExitStack() as undo, torch.no_grad():
        for module in readouts:
            undo.callback(change_output(module, see))
        target, logit = choose(model(**batch.arguments()).logits)
    if variant == "abnar-zuidema":
        attention = [(a + torch.eye(a.shape[-1]).to(a)) / 2 for a in attention]
    rollout = attention[0]
    for a in attention[1:]:
        rollout = a @ rollout
    row = read_tokens(model, batch)
    return rollout[torch.arange(len(row), device=row.device), row], target, logit, {}

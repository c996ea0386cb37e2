"""Attention rollout: products of attention matrices, blind to values and feed-forward layers."""

import torch

from numeric.fast import families
from numeric.fast.patches import attention_implementation, change_output, twin
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

    model = twin(model)
    readouts = [m for m in model.modules() if type(m) in families.ATTENTION]
    if not readouts:
        raise ValueError(
            f"no attention that is known in {type(model).__name__}; the classes are "
            f"{', '.join(cls.__name__ for cls in families.ATTENTION)}"
        )
    # Not output_attentions=True, after which Transformers leaves its own hooks on the model.
    attention_implementation(model.modules(), "eager")
    for module in readouts:
        change_output(module, see)
    with torch.no_grad():
        target, logit = choose(model(**batch.arguments()).logits)
    if variant == "abnar-zuidema":
        one = torch.eye(attention[0].shape[-1], device=attention[0].device)
        attention = [(a + one) / 2 for a in attention]
    rollout = attention[0]
    for a in attention[1:]:
        rollout = a @ rollout
    row = read_tokens(model, batch)
    return rollout[torch.arange(len(row), device=row.device), row], target, logit, {}

"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

import torch

from axioms.composites import Composite
from numeric.fast import scope

SHARES = ("embedding", "word")


def lrp(model, batch, choose, *, composite: Composite, epsilon: float = 0.0, share="embedding"):
    """Relevance of each token's embedding by the rules of ``composite`` (Eqs. 1, 3, 4, 5).

    ``share`` is "embedding" (word + position + type, before the first LayerNorm) or "word"
    (the word embedding's share of that sum by the epsilon rule).  Absorbed: biases, LayerNorm's
    beta and epsilon, and whatever the softmax rule does not conserve.
    Plain gradient x input has no relevance at the whole sum, because a LayerNorm follows, whose
    output does not change when its input is scaled; its default share is therefore "word".
    """
    if share not in SHARES:
        raise ValueError(f"share={share!r}: pass one of {', '.join(SHARES)}")
    with scope.applied(model, composite, eps=epsilon) as tap, torch.enable_grad():
        target, logit = choose(model(**batch.arguments()).logits)
        (c,) = torch.autograd.grad(logit.sum(), tap.embedding)
    part = tap.word if share == "word" else tap.embedding.detach().to(tap.word.dtype)
    return (part * c).sum(dim=-1), target, logit.detach(), {}

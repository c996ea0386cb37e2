"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

import torch
from torch import Tensor

from axioms.composites import Composite
from numeric.fast import rotary, scope
from numeric.methods import positions as position_shares

SHARES = ("embedding", "word")


def lrp(
    model,
    batch,
    choose,
    *,
    composite: Composite,
    epsilon: float = 0.0,
    share="embedding",
    positions: str | None = None,
):
    """Relevance of each token's embedding by the rules of ``composite`` (Eqs. 1, 3, 4, 5).

    ``share`` is "embedding" (word + position + type, before the first LayerNorm) or "word"
    (the word embedding's share of that sum by the epsilon rule).  Absorbed: biases, LayerNorm's
    beta and epsilon, and whatever the softmax rule does not conserve.
    With ``positions="signed"`` the details hold the shares of "word", "position" and "token type",
    (batch, token), and of "rotary", (batch, layer, token), which keeps half of the relevance of
    turned queries and keys; a token's relevance is the sum of them.  "absolute" sums the shares
    of position by absolute value, and "excess" (batch) is what that adds.  None: rotation is
    a fixed linear map.
    Plain gradient x input has no relevance at the whole sum, because a LayerNorm follows, whose
    output does not change when its input is scaled; its default share is therefore "word".
    """
    check_share(share)
    position_shares.check(positions)
    halved = positions is not None and rotary.has_rotary(model)
    with (
        scope.applied(model, composite, eps=epsilon, rotary_keeps_half=halved) as tap,
        torch.enable_grad(),
    ):
        target, logit = choose(tap.model(**batch.arguments()).logits)
        turned = [y for kept in tap.turned.values() for y, _ in kept if y.requires_grad]
        c, *of_turned = torch.autograd.grad(logit.sum(), [tap.embedding, *turned])
    if positions is None:
        return read(tap, c, share), target, logit.detach(), {}
    at_turned = {id(y): part for y, part in zip(turned, of_turned, strict=True)}
    of_rotary = rotary.rotary_relevance(tap.turned, at_turned) if halved else None
    mask = batch.attention_mask
    details = position_shares.shares(tap.parts(), c, of_rotary, mask, positions)
    relevance = details["word"] if share == "word" else position_shares.of_tokens(details)
    return relevance, target, logit.detach(), details


def check_share(share):
    if share not in SHARES:
        raise ValueError(f"share={share!r}: pass one of {', '.join(SHARES)}")


def read(tap: scope.Tap, c: Tensor, share: str) -> Tensor:
    """Relevance of every token, (batch, token), from the gradient ``c`` at ``tap.embedding``."""
    part = tap.word if share == "word" else tap.embedding.detach().to(tap.word.dtype)
    return (part * c).sum(dim=-1)

"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

import torch
from torch import Tensor

from axioms.composites import Composite
from numeric.fast import scope
from numeric.fast.entries import Entry
from numeric.fast.rules import wide
from numeric.inputs import read_logits
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
    turns = positions is not None
    with torch.enable_grad():
        with scope.applied(model, composite, eps=epsilon, turns=turns) as rules:
            logits = read_logits(model, batch, model(**batch.arguments()))
        target, logit = choose(rules.settle(logits))
        asked = [rules.entry.embedding, *rules.turned.tensors()]
        c, *of_turned = torch.autograd.grad(logit.sum(), asked, allow_unused=turns)
    parts = rules.entry.parts() if turns or share == "word" else {}
    if not turns:
        return read(rules.entry, c, parts.get("word")), target, logit.detach(), {}
    of_rotary = rules.turned.relevance(of_turned)
    details = position_shares.shares(parts, c, of_rotary, batch.attention_mask, positions)
    relevance = details["word"] if share == "word" else position_shares.of_tokens(details)
    return relevance, target, logit.detach(), details


def check_share(share):
    if share not in SHARES:
        raise ValueError(f"share={share!r}: pass one of {', '.join(SHARES)}")


def read(entry: Entry, c: Tensor, part: Tensor | None = None) -> Tensor:
    """Relevance of every token, (batch, token), or of an image's positions.

    ``c`` is the gradient at the embedding, ``part`` what of it is explained (None: all of it).
    """
    part = wide(entry.embedding.detach()) if part is None else part
    if entry.ids is None and part.ndim == 4:  # a map of channels
        return (part * c).sum(dim=1).flatten(1)
    return (part * c).sum(dim=-1)

"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

import torch
from torch import Tensor

from axioms.composites import Composite
from numeric.fast import scope
from numeric.fast.entries import of_tokens
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
    Encoders with a decoder look every token up twice, and it gets the sum of both; what the decoder
    starts with is no token of the text, and its relevance is in the residual.
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
        entries = rules.lookups
        if not logit.requires_grad:
            raise ValueError(
                f"the logits of {type(model).__name__} do not depend on the words in any way that "
                "torch shows: some module detaches its input, or leaves torch; explain a model "
                "that does not"
            )
        asked = [*(entry.embedding for entry in entries), *rules.turned.tensors()]
        found = torch.autograd.grad(logit.sum(), asked, allow_unused=turns)
    by_token = lambda of_entries: of_tokens(entries, of_entries, batch.input_ids)
    c = by_token(found[: len(entries)])
    if not turns and share == "embedding":
        whole = by_token([wide(entry.embedding.detach()) for entry in entries])
        return read(whole, c), target, logit.detach(), {}
    parts = [entry.parts() for entry in entries]
    parts = {name: by_token([part[name] for part in parts]) for name in parts[0]}
    if not turns:
        return read(parts["word"], c), target, logit.detach(), {}
    of_rotary = rules.turned.relevance(found[len(entries) :])
    details = position_shares.shares(parts, c, of_rotary, batch.attention_mask, positions)
    relevance = details["word"] if share == "word" else position_shares.of_tokens(details)
    return relevance, target, logit.detach(), details


def check_share(share):
    if share not in SHARES:
        raise ValueError(f"share={share!r}: pass one of {', '.join(SHARES)}")


def read(part: Tensor, c: Tensor) -> Tensor:
    """Relevance of every token, (batch, token), or of an image's positions, row by row.

    ``part`` is what of the embedding is explained, and ``c`` the gradient there.
    """
    if part.ndim == 4:  # a map of channels
        return (part * c).sum(dim=1).flatten(1)
    return (part * c).sum(dim=-1)

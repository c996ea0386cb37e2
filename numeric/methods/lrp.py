"""Layer-wise Relevance Propagation with any Composite, in one forward and one backward pass."""

from collections.abc import Iterable

import torch
from torch import Tensor

from axioms.composites import Composite
from numeric.fast import scope
from numeric.fast.entries import of_tokens
from numeric.fast.inside import Inside
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
    at: str | Iterable[str] | None = None,
    channels: bool = False,
):
    """Relevance of each token's embedding by the rules of ``composite`` (Eqs. 1, 3, 4, 5).

    ``share`` is "embedding" (word + position + type, before the first LayerNorm) or "word"
    (the word embedding's share of that sum by the epsilon rule).  Absorbed: biases, LayerNorm's
    beta and epsilon, and whatever the softmax rule does not conserve.
    With ``positions="signed"`` the details hold the shares of "word", "position" and "token type",
    (batch, token), and of "rotary", (batch, layer, token), which keeps half of the relevance of
    turned queries and keys; a token's relevance is the sum of them.  "absolute" sums the shares
    of position by absolute value, and "excess" (batch) is what that adds.  Models in which neither
    is found raise ValueError.  None: rotation is a fixed linear map.
    ``at`` is a path of ``model.named_modules()``, or several, in which ``*`` stands for any one
    name.  ``details["inside"]`` holds the relevance at what each of these modules returns, of
    a tuple its first tensor: summed over channels, the last axis or that of a map of an image
    (batch, channel, height, width), unless ``channels`` is True.  A module that is called several
    times is there as path#0, path#1, ...
    Encoders with a decoder look every token up twice, and it gets the sum of both; what the decoder
    starts with is no token of the text, and its relevance is in the residual.
    Plain gradient x input has no relevance at the whole sum, because a LayerNorm follows, whose
    output does not change when its input is scaled; its default share is therefore "word".
    """
    check_share(share)
    position_shares.check(positions)
    turns = positions is not None
    inside = Inside(model, at)
    with torch.enable_grad():
        with scope.applied(inside.model, composite, eps=epsilon, turns=turns) as rules:
            logits = rules.end(read_logits(model, batch, inside.model(**batch.arguments())))
        target, logit = choose(logits)
        entries = rules.lookups
        if not logit.requires_grad:
            raise ValueError(
                f"the logits of {type(model).__name__} do not depend on the words in any way that "
                "torch shows: some module detaches its input, or leaves torch; explain a model "
                "that does not"
            )
        embeddings = [entry.embedding for entry in entries]
        asked = [*embeddings, *inside.tensors(), *rules.turned.tensors()]
        optional = turns or bool(inside.paths)
        found = iter(torch.autograd.grad(logit.sum(), asked, allow_unused=optional))
    by_token = lambda of_entries: of_tokens(entries, of_entries, batch.input_ids)
    c = by_token([next(found) for _ in entries])
    image = None if batch.pixel_values is None else batch.pixel_values.shape[2:]
    details = {"inside": inside.relevance(found, channels=channels, image=image)}
    if not turns and share == "embedding":
        whole = by_token([wide(embedding.detach()) for embedding in embeddings])
        return read(whole, c), target, logit.detach(), details
    parts = [entry.parts() for entry in entries]
    parts = {name: by_token([part[name] for part in parts]) for name in parts[0]}
    if not turns:
        return read(parts["word"], c), target, logit.detach(), details
    of_rotary = rules.turned.relevance(found)
    shares = position_shares.shares(parts, c, of_rotary, batch.attention_mask, positions)
    position_shares.check_found(model, shares)
    relevance = shares["word"] if share == "word" else position_shares.of_tokens(shares)
    return relevance, target, logit.detach(), shares | details


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

"""Splits off relevance of position in stock models: added to words, or in rotated queries and keys.

The signed shares add up: word + position + token type is the relevance of the embedding, and with
rotary position, which keeps half of the relevance of rotated queries and keys, the sum is all.
"""

import torch
from torch import Tensor, nn

POSITIONS = (None, "signed", "absolute")


def check(positions: object) -> None:
    if positions not in POSITIONS:
        raise ValueError(
            f"positions={positions!r}: pass one of {', '.join(map(repr, POSITIONS))}; only signed "
            "shares add up to the logit"
        )


def shares(
    embeddings: dict[str, Tensor], c: Tensor, rotary: Tensor | None, mask: Tensor, how: str
) -> dict[str, Tensor]:
    """Returns relevance of word, position and token type, and of rotary position by layer.

    embeddings: by name, (batch, token, channel); c: relevance per unit of embedding, in that
    shape; rotary: (batch, layer, token, channel) or None; mask: (batch, token), 1 at tokens
    -> (batch, token) each, rotary (batch, layer, token), in logits.
    With ``how="absolute"`` position is summed over channels by absolute value, as in the
    literature; "excess" (batch) is the difference of these sums from the signed ones.
    """
    real = mask == 1
    entries = {name: part * c * real[..., None] for name, part in embeddings.items()}
    if rotary is not None:
        entries["rotary"] = rotary * real[:, None, :, None]
    signed = {name: part.sum(dim=-1) for name, part in entries.items()}
    if how == "signed":
        return signed
    absolute = {name: entries[name].abs().sum(dim=-1) for name in PLACES if name in entries}
    beyond = [(x - signed[name]).flatten(1).sum(dim=1) for name, x in absolute.items()]
    return signed | absolute | {"excess": torch.stack(beyond).sum(dim=0)}


def check_found(model: nn.Module, shares: dict[str, Tensor]) -> None:
    """Raises ValueError where position has no share, because its place was not recognised."""
    if "rotary" not in shares and not shares["position"].any():
        raise ValueError(
            f"{type(model).__name__} neither adds positions to words, before anything else, nor "
            "turns queries and keys by products with cos and sin, as LLaMA does: what position "
            "receives cannot be told; pass positions=None"
        )


PLACES = ("position", "rotary")


def of_tokens(details: dict[str, Tensor]) -> Tensor:
    """Sums all signed shares, rotary position's over the layers: (batch, token)."""
    added = [part for name, part in details.items() if name not in ("rotary", "excess")]
    rotary = details["rotary"].sum(dim=1) if "rotary" in details else torch.zeros_like(added[0])
    return sum(added) + rotary

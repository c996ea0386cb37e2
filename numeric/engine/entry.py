"""One lookup of words, or map of pixels, and its relevance by the tokens of a text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.numeric.engine import pixel_maps, rules


@dataclass(eq=False)
class Entry:
    """The tensors of one lookup of words, or of one map of pixels.

    leaf: of the autograd graph   embedding: word + position + type, as far as they are added up
    word, token_type: their parts of the embedding
    eps: the stabiliser at that sum
    channels: the axis of channels in a map of pixels by a convolution, else the last axis
    place: the position of the map that an entry of the embedding reads, from 1; 0 for no position
    """

    ids: Tensor | None
    leaf: Tensor
    embedding: Tensor
    word: Tensor
    token_type: Tensor | None = None
    eps: float = 0.0
    channels: int = -1
    place: Tensor | None = None
    older: list[tuple[Any, ...]] = field(default_factory=list)  # parts before each growth

    def grow(self, *parts: Any) -> None:
        """Takes an embedding with one more term or factor, its word, type, place and stabiliser."""
        self.older.append((self.embedding, self.word, self.token_type, self.place, self.eps))
        self.embedding, self.word, self.token_type, self.place, self.eps = parts

    def go_back(self, grown: int) -> None:
        """Takes the embedding that had ``grown`` terms and factors."""
        parts = self.older[grown]
        self.embedding, self.word, self.token_type, self.place, self.eps = parts
        del self.older[grown:]

    def whole(self) -> dict[str, Tensor]:
        """Returns the embedding in float32 or wider."""
        return {"embedding": rules.wide(self.embedding.detach())}

    def parts(self) -> dict[str, Tensor]:
        """Splits the embedding into its terms, less the share of the stabiliser at their sum.

        Position is the rest beside word and token type.  In float32 or wider.
        """
        whole = rules.wide(self.embedding.detach())
        kept = whole / rules.stabilize(whole, self.eps) if self.eps else 1
        known = {"word": rules.wide(self.word) * kept}
        if self.token_type is not None:
            known["token type"] = rules.wide(self.token_type) * kept
        return known | {"position": whole * kept - sum(known.values())}

    def is_of(self, text: Tensor) -> bool:
        """Decides whether this looks up just the tokens of ``text``."""
        return self.ids is not None and _is_same(self.ids, text)

    def in_text(self, x: Tensor, text: Tensor) -> Tensor:
        """Returns ``x``, (*shape of ids, channel), by tokens of ``text``: (batch, token, channel).

        Decoders look a text up that is shifted right by one.  Their first token is no token of the
        text; its relevance counts as lost, like relevance of tokens a model puts around the text.
        Raises ValueError for other ids.
        """
        ids = self.ids
        if ids is None:
            raise ValueError(f"pixels are no tokens of a text, {tuple(text.shape)}")
        if _is_same(ids, text):
            return x
        if ids.T.equal(text):
            return x.transpose(0, 1)
        if ids.numel() == text.numel() and ids.flatten().equal(text.flatten()):
            return x.reshape(*text.shape, -1)
        tokens = text.shape[1]
        for columns in (slice(tokens), slice(-tokens, None)):
            if ids.ndim == 2 and ids[:, columns].equal(text):
                return x[:, columns]
        if ids.shape == text.shape and ids[:, 1:].equal(text[:, :-1]):
            return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], dim=1)
        if ids.shape == text.shape and len(text[ids != text].unique()) == 1 and (ids == text).any():
            return x  # the model exchanges one token, the placeholder of an image
        raise ValueError(
            f"ids {tuple(ids.shape)} that are looked up are neither those of the text, "
            f"{tuple(text.shape)}, nor these shifted right by one: whose relevance is whose is not "
            "known; explain a model that reads its text as it is"
        )

    def by_channel(self, x: Tensor) -> Tensor:
        """Arranges a map of pixels as (..., position, channel), in the order of the first map."""
        return pixel_maps.in_order(x, self.place, self.leaf, self.channels)


def _is_same(ids: Tensor, text: Tensor) -> bool:
    """Compares two tensors of ids; for a plain view it reads no values."""
    whole = ids.shape == text.shape and ids.stride() == text.stride()
    return ids is text or (whole and ids._base is text) or ids.equal(text)


def of_tokens(entries: list[Entry], of_entries: list[Tensor], texts: list[Tensor]) -> Tensor:
    """Arranges tensors of all lookups by the tokens of ``texts``, which stand side by side.

    Several lookups of one token stand side by side in the channels.  An image's map stays as
    it is, unless it comes with a text.
    """
    found = list(zip(entries, of_entries, strict=True))
    found = [(entry, x) for entry, x in found if entry.ids is not None or not texts]
    if not texts:
        return torch.cat([entry.by_channel(x) for entry, x in found], dim=-1)
    if len(texts) == 1:
        return torch.cat([entry.in_text(x, *texts) for entry, x in found], dim=-1)
    return _of_both(found, *texts)


def _of_both(found: Sequence[tuple[Entry, Tensor]], source: Tensor, written: Tensor) -> Tensor:
    """Arranges an encoder's lookup and then a decoder's by their tokens.

    Raises ValueError for any other lookups than one of each.
    """
    texts = source, written
    if len(found) != 2 or not all(
        entry.is_of(x) for (entry, _), x in zip(found, texts, strict=True)
    ):
        shapes = [x.ids.shape for x, _ in found if x.ids is not None]
        listed = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(
            f"lookups of ids {listed}, where one of input_ids {tuple(source.shape)} is expected "
            f"and then one of decoder_input_ids {tuple(written.shape)}: whose relevance is whose "
            "is not known; explain a model that looks its texts up as they are"
        )
    return torch.cat([x for _, x in found], dim=1)

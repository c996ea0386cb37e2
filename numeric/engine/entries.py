"""Finds where words and pixels enter a model, and follows them to the sum of embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import pixel_maps, rules
from lrp_axioms.numeric.engine.calls import Call, Use
from lrp_axioms.numeric.engine.marks import ADAPTER, TOKEN_TYPE, exchanged, is_number, mark, marked
from lrp_axioms.numeric.engine.operations import ADD, CAST, DIVIDE, LINEAR, MOVE, MULTIPLY, SUBTRACT
from lrp_axioms.numeric.engine.protocol import Handler, Rules
from lrp_axioms.numeric.models.batches import PIXELS, first_map


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


@dataclass(frozen=True, eq=False)
class Rising:
    """A tensor between the lookup of an entry and the sum of embeddings, or a piece of it."""

    tensor: Tensor
    entry: Entry
    word: Tensor
    token_type: Tensor | None
    place: Tensor | None


class Entries:
    """The entries of one forward pass.

    Embeddings are followed while they are only moved, scaled and added to constants; relevance is
    read at the resulting sum.  ``typed``: token types are told from positions.
    """

    def __init__(self, model: nn.Module, *, typed: bool, eps: float = 0.0) -> None:
        self.eps = eps
        self.of = type(model).__name__
        main = getattr(model, "main_input_name", "")
        takes = signature(model.forward).parameters if main else ()
        self.pixels = main == PIXELS or PIXELS in takes
        self.words = first_map(model) if "input_ids" in takes or not self.pixels else None
        known = model.named_modules() if typed else ()
        self.types = [m for path, m in known if path.endswith("token_type_embeddings")]
        self.first: Tensor | None = None  # weights of the first map of pixels
        self.all: list[Entry] = []
        self.rising: dict[int, Rising] = {}

    @property
    def found(self) -> list[Entry]:
        """Where words or pixels enter; ValueError if that is nowhere."""
        if not self.all:
            raise ValueError(
                f"{self.of} looks no words up in its input embeddings, whose relevance is asked "
                "for; explain a model that does"
            )
        return self.all

    @property
    def only(self) -> Entry:
        """The one place where words enter; ValueError if there is none, or several."""
        if len(self.found) != 1:
            raise ValueError(
                f"{self.of} looks words up {len(self.all)} times, where one lookup of its input "
                "embeddings is expected; explain a model that reads its text once, or call "
                "attribute() for each composite"
            )
        return self.all[0]

    def begin(self, call: Call, out: Tensor, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        """Makes ``out`` a part of the graph if it looks words up or is the first map of pixels."""
        weight: Any = rest[0] if rest else named.get("weight")
        pixels = call.role == LINEAR
        if pixels and self.first is None:
            if not x.is_floating_point() or x.ndim < 3:
                return out  # weights, which some models standardise
            self.first = weight
        if not (weight is self.first if pixels else self._is_table(weight)):
            typed = any(weight is table.weight for table in self.types)
            inside = self.words.parameters() if self.words and self.words._modules else ()
            adapts = any(weight.data_ptr() == p.data_ptr() for p in inside)
            return marked(out, TOKEN_TYPE if typed else ADAPTER) if typed or adapts else out
        leaf = out.requires_grad_()
        embedding = leaf.clone()  # code may change it in place
        entry = Entry(None if pixels else x, leaf, embedding, leaf.detach())
        entry.channels = 1 if pixels and call.name.startswith("conv") else -1
        self.all.append(entry)
        if pixels:
            entry.place = pixel_maps.numbered(leaf, entry.channels)
        self._follow(embedding, entry, entry.word, None, entry.place)
        return embedding

    def _is_table(self, weight: Any) -> bool:
        """Decides whether ``weight`` is the table of words, which some models compute anew."""
        table: Any = getattr(self.words, "weight", None)
        alike = type(table) is Tensor and table.shape == weight.shape
        return weight is table or (alike and table.equal(weight))

    def rise(self, engine: Rules, handler: Handler, use: Use) -> Any:
        """Calls ``handler``; an entry's embedding grows by it, or is complete."""
        call, func, args, kwargs, carrying = use
        found = [each for y in carrying if (each := self.rising.get(id(y)))]
        joins = len(found) < len(carrying)  # by a tensor that is no part of an embedding
        entries = {each.entry for each in found}
        looked_up = all(entry.ids is not None for entry in entries)
        if len(found) == 2 and len(entries) == 2 and call.role == ADD and looked_up:
            first, second = found
            self._end(second.entry)  # token types that are looked up among words
            self.all.remove(second.entry)
            args = first.tensor, marked(second.tensor.detach(), TOKEN_TYPE)
            use = use._replace(args=args)
            found, entries = [first], {first.entry}
        moves = call.role in (MOVE, CAST)
        if joins or len(entries) != 1 or (len(found) > 1 and not moves):
            for entry in entries:
                self._end(entry)
                if call.fills and args[0] is entry.embedding:
                    self._part(engine, entry)
            return handler(engine, use)
        (entry,), (each, *_) = entries, found
        x, word, token_type, place = each.tensor, each.word, each.token_type, each.place
        constants = [y for y in args if y is not x]
        scales = call.role in (MULTIPLY, DIVIDE) and is_number(constants[0]) and x is args[0]
        if call.role in (ADD, SUBTRACT) and not is_number(constants[0]):
            fixed = [y if y is x else y.detach() for y in args]
            out = func(*fixed, **kwargs)
            if kwargs or call.role == SUBTRACT or x is not args[0]:  # scaled or negated
                beside = [y if y is x else torch.zeros_like(y) for y in args]
                word = func(*exchanged(beside, {id(x): word}), **kwargs)
                if token_type is not None:
                    token_type = func(*exchanged(beside, {id(x): token_type}), **kwargs)
            entry.eps = self.eps if engine.rule(kinds.ADD) == kinds.EPSILON else 0.0
            if (what := mark(constants[0])) in (TOKEN_TYPE, ADAPTER):
                alone = func(*exchanged(fixed, {id(x): torch.zeros_like(x)}), **kwargs).detach()
                word = word + alone if what == ADAPTER else word
                token_type = alone if what == TOKEN_TYPE else token_type
        elif moves or scales:
            out = handler(engine, use)
            if not isinstance(out, Tensor):
                self._end(entry)
                if call.name == "setitem" and args[0] is entry.embedding:
                    entry.word = _put(word, *args[1:])
                return out
            marked(out, None)  # functions of it begin here, where relevance is read
            if call.role == CAST:
                return self._follow(out, entry, word, token_type, place)
            with torch.no_grad():
                if moves and place is not None:
                    places = pixel_maps.nowhere(args) | {id(r.tensor): r.place for r in found}
                    place = func(*exchanged(args, places), **kwargs)
                word = func(*exchanged(args, {id(r.tensor): r.word for r in found}), **kwargs)
                if token_type is not None:
                    types = {id(r.tensor): r.token_type for r in found}
                    token_type = func(*exchanged(args, types), **kwargs)
        else:
            self._end(entry)
            return handler(engine, use)
        # A moved embedding is read where it was; a token that is put before patches counts.
        grown = entry.ids is None and out.ndim < 4 and out.numel() > entry.embedding.numel()
        if not moves or grown:
            entry.embedding, entry.word = out, word
            entry.token_type, entry.place = token_type, place
        return self._follow(out, entry, word, token_type, place)

    def _follow(self, out: Tensor, entry: Entry, *parts: Any) -> Tensor:
        self.rising[id(out)] = Rising(out, entry, *parts)
        return out

    def _part(self, engine: Rules, entry: Entry) -> None:
        """Reads an embedding where it was looked up, because an image is written over tokens."""
        if not entry.leaf.equal(entry.embedding):
            engine.refuse("a write of an image into embeddings that are scaled or added to")
        entry.embedding = entry.leaf

    def _end(self, entry: Entry) -> None:
        self.rising = {key: each for key, each in self.rising.items() if each.entry is not entry}


def _put(word: Tensor, where: Any, value: Any) -> Tensor:
    """Writes over some tokens of ``word`` as the model does, such as tokens that end an image."""
    word = word.clone()
    word[where] = value.detach() if isinstance(value, Tensor) else value
    return word

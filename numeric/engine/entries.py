"""Finds where words and pixels enter a model, and follows them to the sum of embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import pixel_maps, rules
from lrp_axioms.numeric.engine.calls import Call, Use
from lrp_axioms.numeric.engine.entry import Entry
from lrp_axioms.numeric.engine.marks import ADAPTER, TOKEN_TYPE, exchanged, is_number, mark, marked
from lrp_axioms.numeric.engine.operations import ADD, CAST, DIVIDE, LINEAR, MOVE, MULTIPLY, SUBTRACT
from lrp_axioms.numeric.engine.rulebook import Handler, Rulebook
from lrp_axioms.numeric.models.batches import PIXELS, first_map


@dataclass(frozen=True, eq=False)
class Rising:
    """A tensor between the lookup of an entry and the sum of embeddings, or a piece of it."""

    tensor: Tensor
    entry: Entry
    grown: int  # terms and factors that the embedding had
    word: Tensor
    token_type: Tensor | None
    place: Tensor | None
    moved: bool = False  # whether an entry may stand at another place than in the embedding

    @property
    def is_older(self) -> bool:
        """Decides whether the embedding has grown since."""
        return self.grown < len(self.entry.older)


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

    def is_rising(self, x: Tensor) -> bool:
        """Decides whether ``x`` is the embedding so far, and not an older one."""
        each = self.rising.get(id(x))
        return each is not None and not each.is_older

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
        return self._follow(Rising(embedding, entry, 0, entry.word, None, entry.place))

    def _is_table(self, weight: Any) -> bool:
        """Decides whether ``weight`` is the table of words, which some models compute anew."""
        table: Any = getattr(self.words, "weight", None)
        alike = type(table) is Tensor and table.shape == weight.shape
        return weight is table or (alike and table.equal(weight))

    def rise(self, engine: Rulebook, handler: Handler, use: Use) -> Any:
        """Calls ``handler``; an entry's embedding grows by it, or is complete."""
        call, func, args, kwargs, carrying = use
        found = [each for y in carrying if (each := self.rising.get(id(y)))] if self.rising else []
        if not found:
            return handler(engine, use)
        joins = len(found) < len(carrying)  # by a tensor that is no part of an embedding
        entries = {each.entry for each in found}
        looked_up = all(entry.ids is not None for entry in entries)
        adds = call.role in (ADD, SUBTRACT) and len(entries) == 1 and looked_up and not joins
        adds = adds and not any(each.moved for each in found)
        if adds and all(any(y is x for x in carrying) for y in args):
            return self._add_up(engine, use, found)
        moves, again = call.role in (MOVE, CAST), any(each.is_older for each in found)
        several = len({(each.entry, each.grown) for each in found}) > 1
        if again and (joins or several or not moves):  # a move may read a shape, as expand_as
            return self._used_again(engine, handler, use, found)
        if len(found) == 2 and len(entries) == 2 and call.role == ADD and looked_up:
            first, second = found
            self._end(second.entry)  # token types that are looked up among words
            self.all.remove(second.entry)
            args = first.tensor, marked(second.tensor.detach(), TOKEN_TYPE)
            use = use._replace(args=args)
            found, entries = [first], {first.entry}
        if joins or len(entries) != 1 or (len(found) > 1 and not moves):
            for entry in entries:
                self._end(entry)
                if call.fills and args[0] is entry.embedding:
                    self._part(engine, entry)
            return handler(engine, use)
        (entry,), (each, *_) = entries, found
        x, word, token_type, place = each.tensor, each.word, each.token_type, each.place
        constants = [y for y in args if y is not x]
        eps, moved = entry.eps, any(each.moved for each in found)
        scales = call.role in (MULTIPLY, DIVIDE) and is_number(constants[0]) and x is args[0]
        if call.role in (ADD, SUBTRACT) and not is_number(constants[0]):
            fixed = [y if y is x else y.detach() for y in args]
            eps = self._stabiliser(engine)
            out = rules.epsilon(func(*fixed, **kwargs), eps=eps)
            if kwargs or call.role == SUBTRACT or x is not args[0]:  # scaled or negated
                beside = [y if y is x else torch.zeros_like(y) for y in args]
                word = func(*exchanged(beside, {id(x): word}), **kwargs)
                if token_type is not None:
                    token_type = func(*exchanged(beside, {id(x): token_type}), **kwargs)
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
                return self._follow(Rising(out, entry, each.grown, word, token_type, place, moved))
            moved = moved or (moves and call.name not in ("clone", "contiguous"))
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
        longer = entry.ids is None and out.ndim < 4 and out.numel() > entry.embedding.numel()
        if moves and (again or not longer):
            return self._follow(Rising(out, entry, each.grown, word, token_type, place, moved))
        entry.grow(out, word, token_type, place, eps)
        return self._follow(Rising(out, entry, len(entry.older), word, token_type, place, moved))

    def _follow(self, each: Rising) -> Tensor:
        self.rising[id(each.tensor)] = each
        return each.tensor

    def wrote(self, x: Tensor, value: Tensor) -> None:
        """Follows ``x`` as the value that is written into it."""
        each = self.rising.pop(id(value), None)
        self.rising.pop(id(x), None)
        if each:
            self._follow(replace(each, tensor=x))

    def _stabiliser(self, engine: Rulebook) -> float:
        """Returns epsilon, or 0 if sums have another rule; it acts on relevance before the sum."""
        return self.eps if engine.rule(kinds.ADD) == kinds.EPSILON else 0.0

    def _add_up(self, engine: Rulebook, use: Use, found: Sequence[Rising]) -> Tensor:
        """Adds an embedding and an older one, as in a step from words to other words."""
        (entry,) = {each.entry for each in found}
        eps = self._stabiliser(engine)
        out = rules.epsilon(use.func(*use.args, **use.kwargs), eps=eps)
        with torch.no_grad():
            words = {id(x.tensor): x.word for x in found}
            word = use.func(*exchanged(use.args, words), **use.kwargs)
            types = {id(x.tensor): x.token_type for x in found if x.token_type is not None}
            token_type = None
            if types:
                nothing = {id(x.tensor): torch.zeros_like(x.word) for x in found}
                token_type = use.func(*exchanged(use.args, nothing | types), **use.kwargs)
        entry.grow(out, word, token_type, None, eps)
        least = min(each.grown for each in found)  # all between it and the sum lacks a path
        entry.older[least:] = [entry.older[least]] * (len(entry.older) - least)
        return self._follow(Rising(out, entry, len(entry.older), word, token_type, None))

    def _used_again(
        self, engine: Rulebook, handler: Handler, use: Use, found: Sequence[Rising]
    ) -> Any:
        """Reads an embedding before it grew, because its older value is used again."""
        for each in found:
            if each.is_older:
                each.entry.go_back(each.grown)
        for entry in {each.entry for each in found}:
            self._end(entry)
        return handler(engine, use)

    def _part(self, engine: Rulebook, entry: Entry) -> None:
        """Reads an embedding where it was looked up, because an image is written over tokens."""
        if not entry.leaf.equal(entry.embedding):
            engine.refuse("a write of an image into embeddings that are scaled or added to")
        entry.embedding = entry.leaf

    def _end(self, entry: Entry) -> None:
        self.rising = {
            key: each
            for key, each in self.rising.items()
            if each.entry is not entry or each.is_older
        }


def _put(word: Tensor, where: Any, value: Any) -> Tensor:
    """Writes over some tokens of ``word`` as the model does, such as tokens that end an image."""
    word = word.clone()
    word[where] = value.detach() if isinstance(value, Tensor) else value
    return word

"""Where words and pixels enter a model, and what is added to them before anything else happens."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from axioms import kinds
from numeric.fast import rules
from numeric.fast.marks import TOKEN_TYPE, is_number, mark, marked
from numeric.fast.operations import ADD, CAST, DIVIDE, MOVE, MULTIPLY, SUBTRACT

PIXELS = "pixel_values"


@dataclass(eq=False)
class Entry:
    """What one lookup of words, or one map of pixels, brings into the model.

    leaf: of the autograd graph   embedding: word + position + type, as far as they are added up
    word, token_type: the parts of the embedding that these contribute
    eps: the stabiliser at that sum
    """

    ids: Tensor | None
    leaf: Tensor
    embedding: Tensor
    word: Tensor
    token_type: Tensor | None = None
    eps: float = 0.0

    def parts(self) -> dict[str, Tensor]:
        """What adds up to the embedding, less the share of the stabiliser at that sum.

        Position is all that is neither word nor token type.  In float32 or wider.
        """
        whole = rules.wide(self.embedding.detach())
        kept = whole / rules.stabilize(whole, self.eps) if self.eps else 1
        known = {"word": rules.wide(self.word) * kept}
        if self.token_type is not None:
            known["token type"] = rules.wide(self.token_type) * kept
        return known | {"position": whole * kept - sum(known.values())}


class Entries:
    """The entries of one forward pass.

    Embeddings are followed while they are only moved, scaled and added to constants; the sum that
    comes out is where relevance is read.  ``typed``: token types are told from positions.
    """

    def __init__(self, model: nn.Module, *, typed: bool):
        self.pixels = getattr(model, "main_input_name", "") == PIXELS
        self.table = None if self.pixels else _table(model)
        self.types = _types(model) if typed else ()
        self.all: list[Entry] = []
        self.rising: dict[int, tuple[Tensor, Entry]] = {}

    def begin(self, call, out: Tensor, x, weight, *_, **__) -> Tensor:
        """``out`` as a part of the graph, if it is a lookup of words or the first map of pixels."""
        if self.pixels:
            if not x.is_floating_point() or x.ndim < 3:
                return out
            self.pixels = False
        elif weight is not self.table:
            return marked(out, TOKEN_TYPE) if id(weight) in self.types else out
        leaf = out.requires_grad_()
        embedding = leaf.clone()  # which code in place may change
        entry = Entry(None if self.table is None else x, leaf, embedding, leaf.detach())
        self.all.append(entry)
        self.rising[id(embedding)] = embedding, entry
        return embedding

    def rise(self, engine, handler, call, func, args, kwargs, carrying):
        """What ``handler`` does; an entry grows by it, or has ended."""
        (x, *others) = carrying
        entry, *added = (self._of(y) for y in carrying)
        if len(added) == 1 and entry and added[0] and call.role == ADD:
            self._end(added[0])  # token types that are looked up among words
            self.all.remove(added[0])
            args, others = (x, marked(others[0].detach(), TOKEN_TYPE)), ()
        if others or entry is None:
            for ended in (entry, *added):
                self._end(ended)
            return handler(engine, call.name, func, args, kwargs, carrying)
        constants = [y for y in args if y is not x]
        scales = call.role in (MULTIPLY, DIVIDE) and is_number(constants[0]) and x is args[0]
        if call.role in (ADD, SUBTRACT) and not is_number(constants[0]):
            out = func(*(y.detach() if isinstance(y, Tensor) and y is not x else y for y in args))
            entry.eps = engine.eps if engine.rule(kinds.ADD) == kinds.EPSILON else 0.0
            if mark(constants[0]) == TOKEN_TYPE:
                entry.token_type = constants[0].detach().expand_as(out)
        elif call.role in (MOVE, CAST) or scales:
            out = handler(engine, call.name, func, args, kwargs, carrying)
            if not isinstance(out, Tensor):
                self._end(entry)
                return out
            if call.role == CAST:
                self.rising[id(out)] = out, entry
                return out
            with torch.no_grad():
                entry.word = func(*(_with(y, x, entry.word) for y in args), **kwargs)
                if entry.token_type is not None:
                    entry.token_type = func(
                        *(_with(y, x, entry.token_type) for y in args), **kwargs
                    )
        else:
            self._end(entry)
            return handler(engine, call.name, func, args, kwargs, carrying)
        if call.role != MOVE or entry.ids is None:
            entry.embedding = out
        self.rising[id(out)] = out, entry
        return out

    def _of(self, x):
        return self.rising.get(id(x), (None, None))[1]

    def _end(self, entry):
        self.rising = {key: each for key, each in self.rising.items() if each[1] is not entry}


def _with(x, old, new):
    """``x`` with ``old`` replaced, if it is that or a list with it."""
    if x is old:
        return new
    if type(x) in (list, tuple):
        return [new if y is old else y for y in x]
    return x


def _table(model):
    try:
        return getattr(model.get_input_embeddings(), "weight", None)
    except (AttributeError, NotImplementedError):  # of models that have no such thing
        return None


def _types(model):
    return {
        id(m.weight) for path, m in model.named_modules() if path.endswith("token_type_embeddings")
    }

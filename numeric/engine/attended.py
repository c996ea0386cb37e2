"""Records every softmax of a forward pass, so that its attention weights can be had afterwards.

A fused kernel keeps no weights; they are computed again from its queries and keys, a few rows at a
time.  Gradients are taken at edges of the graph, because code may write into a tensor.  Another
pass can run with lower scores.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import attention, handlers, rules, value_only
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.at_output import MASKED
from lrp_axioms.numeric.engine.attention import Operands
from lrp_axioms.numeric.engine.calls import Call, Called, Use
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import WEIGHTS, Args, Function, Kwargs, Weights, marked
from lrp_axioms.numeric.engine.refusals import NO_GRADIENT
from lrp_axioms.numeric.engine.rulebook import Rulebook

ON_CPU = 1 << 20
"""Attention weights at once, so few that caches hold them.

16 times as many took 1.8 times as long for a text of 2,000 tokens.
"""


@dataclass(frozen=True, eq=False)
class Damping:
    """A term to add to the scores of some calls, or a factor on them.

    term: (batch, token, token), for the first keys; all others stay as they are
    calls: the softmaxes and fused calls whose scores it changes, counted from 0
    multiplies: whether it is a factor, which depends on the key alone: (batch, 1, token)
    """

    term: Tensor
    calls: frozenset[int]
    multiplies: bool = False

    def of(self, call: int, keys: int) -> Tensor | None:
        """Returns the term by (batch, token, key), or None where there is none."""
        if call not in self.calls:
            return None
        more = keys - self.term.shape[-1]
        return torch.nn.functional.pad(self.term, (0, more), value=float(self.multiplies))


@dataclass(frozen=True, eq=False)
class Fused:
    """A call of a fused kernel; queries, keys and values are (batch, head, token, channel).

    edge: of the output; ``effects`` needs its gradient
    """

    edge: GradientEdge | None
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    given: Kwargs
    place: str

    @property
    def size(self) -> tuple[int, ...]:
        """The size of the weights."""
        return (*self.query.shape[:3], self.key.shape[2])

    @property
    def readouts(self) -> list[GradientEdge]:
        return [self.edge] if self.edge else []

    def without_graph(self) -> "Fused":
        """Returns a copy without the pass's graph, which still gives the weights."""
        return replace(self, edge=None)

    def shape(self, batch: int) -> tuple[int, ...] | None:
        """Returns (batch, head, row, key), or None for weights of another form."""
        return self.size if len(self.query) == batch else None

    def weights(self, batch: int) -> Iterator[tuple[slice, Tensor]]:
        """Yields slices of rows and their weights, (batch, head, row, key)."""
        query, key = rules.wide(self.query), self._of_each_head(self.key)
        scaling = self.given.get("scale") or query.shape[-1] ** -0.5
        heads, count, keys = *query.shape[1:3], key.shape[2]
        at_once = ON_CPU if query.device.type == "cpu" else value_only.AT_ONCE
        step = max(1, at_once // (batch * heads * keys))
        for first in range(0, count, step):
            part = slice(first, min(first + step, count))
            mask = self._mask(part, keys)
            yield part, value_only.weights(query[:, :, part], key, mask, scaling)

    def effects(self, c: Tensor, batch: int, rows: slice) -> Tensor:
        """Returns the logit's gradient by the weights, <G_i, v_j>, from ``c``, the output's."""
        return rules.wide(c)[:, :, rows] @ self._of_each_head(self.value).mT

    def _of_each_head(self, x: Tensor) -> Tensor:
        groups = self.query.shape[1] // x.shape[1]
        return rules.wide(x).repeat_interleave(groups, dim=1)

    def _mask(self, rows: slice, keys: int) -> Tensor | None:
        mask = self.mask
        if self.given.get("is_causal"):  # and then there is no mask
            ones = torch.ones(rows.stop - rows.start, keys, dtype=torch.bool)
            return ones.to(self.query.device).tril(rows.start)
        if mask is None:
            return None
        own = mask[..., rows, :] if mask.ndim > 1 and mask.shape[-2] > 1 else mask
        return own if own.dtype == torch.bool else rules.wide(own)


@dataclass(frozen=True, eq=False)
class Explicit:
    """A softmax that a model calls itself.

    edge: of its output; ``effects`` needs its gradient
    last: whether it is taken over the last axis
    readouts: products of its weights and values; none if it is no attention
    """

    edge: GradientEdge | None
    values: Tensor
    last: bool
    place: str
    readouts: list[GradientEdge] = field(default_factory=list)

    @classmethod
    def of(cls, out: Tensor, args: Args, kwargs: Kwargs, place: str) -> "Explicit":
        axis: Any = kwargs.get("dim", args[1] if len(args) > 1 else None)
        edge = get_gradient_edge(out.requires_grad_())  # rules may have cut it off
        return cls(edge, out.detach(), axis in (-1, out.ndim - 1), place)

    @property
    def size(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def without_graph(self) -> "Explicit":
        """Returns a copy with the weights alone, without the pass's graph."""
        return replace(self, edge=None, readouts=[])

    def shape(self, batch: int) -> tuple[int, ...] | None:
        """Returns (batch, head, row, key), or None for weights of another form."""
        first, *between, row, key = self.size if len(self.size) > 2 else (0, 0, 0)
        fits = first == batch if between else first and first % batch == 0
        heads = first // batch * math.prod(between)
        return (batch, heads, row, key) if fits and self.last else None

    def weights(self, batch: int) -> Iterator[tuple[slice, Tensor]]:
        """Yields all weights, (batch, head, row, key)."""
        yield slice(0, self.size[-2]), self._by_head(self.values, batch)

    def effects(self, c: Tensor, batch: int, rows: slice) -> Tensor:
        """Returns the logit's gradient by the weights, which is ``c``."""
        return self._by_head(c, batch)

    def _by_head(self, x: Tensor, batch: int) -> Tensor:
        return rules.wide(x).reshape(batch, -1, *self.size[-2:])


Attended = Fused | Explicit


class Attending:
    """Records every softmax of one pass of ``block`` in ``all``, and damps its scores if asked."""

    def __init__(self, block: Propagation, damping: Damping | None = None) -> None:
        self.all: list[Attended] = []
        self.damping, self.places, self.refuse = damping, block.places, block.book.refuse
        block.handlers |= {does.SOFTMAX: self.softmax, does.ATTENTION: self.attention}
        block.observe(called=self.called)

    def called(self, go: Called, call: Call, func: Function, args: Args, kwargs: Kwargs) -> Any:
        """Refuses a softmax where gradients are off, because its weights would have none."""
        attends = call.role in (does.SOFTMAX, does.ATTENTION) and not torch.is_grad_enabled()
        if attends and not self.places.in_another_run():
            self.refuse(NO_GRADIENT, call.name)
        return go(call, func, args, kwargs)

    def softmax(self, engine: Rulebook, use: Use) -> Tensor:
        use = handlers.in_own_dtype(use)
        args, kwargs = self._lower_scores(engine, *use.args, **use.kwargs)
        use = use._replace(args=args, kwargs=kwargs)
        out = handlers.softmax(engine, use)
        seen = Explicit.of(out, use.args, use.kwargs, self.places.describe())
        self.all.append(seen)
        weights = Weights(WEIGHTS)
        weights.readouts = seen.readouts
        return marked(out, weights)

    def attention(self, engine: Rulebook, use: Use) -> Tensor:
        found = attention.operands(engine, use)
        if not found.fuses or found.query.ndim != 4:
            return attention.spell_out(found)
        found = self._damp(found)
        out = attention.apply_factors(engine, found)
        q, k, v = (x.detach() for x in (found.query, found.key, found.value))
        edge, place = get_gradient_edge(out), self.places.describe()
        self.all.append(Fused(edge, q, k, v, found.mask, found.given, place))
        return out

    def _next_term(self, keys: int) -> Tensor | None:
        """Returns the term for the next softmax's scores, (batch, token, key), or None."""
        return self.damping.of(len(self.all), keys) if self.damping else None

    def _lower_scores(
        self, engine: Rulebook, input: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Args, Kwargs]:
        """Returns the arguments of a softmax over ``input``, with damped scores."""
        term = self._next_term(input.shape[-1])
        if self.damping is None or term is None:
            return (input, *args), kwargs
        z = engine.settle(input, kinds.SCORES)
        by_text = z.reshape(len(term), -1, *z.shape[-2:])
        term = term[:, None].to(z.dtype)
        lower = by_text + term
        if self.damping.multiplies:  # hidden scores stay hidden
            self._check_unshifted(by_text)
            lower = (by_text * term).where(by_text > MASKED, by_text)
        return (lower.reshape(z.shape), *args), kwargs

    def _check_unshifted(self, scores: Tensor) -> None:
        """Raises ValueError if every row's largest score is 0: a factor would raise the others."""
        largest = scores.amax(dim=-1)
        unshifted = (largest != 0) & (largest > MASKED)  # a hidden row has none
        if not unshifted.any() and ((scores > MASKED) & (scores != 0)).any():
            raise ValueError(
                f"{self.places.describe()} subtracts the largest score of each row before its "
                "softmax, and a factor below 1 then raises scores; pass another method, such as "
                '"loo" or "attnlrp"'
            )

    def _damp(self, found: Operands) -> Operands:
        """Returns a fused call with a mask that lowers its scores, or with keys times a factor."""
        query, mask = found.query, found.mask
        added = self._next_term(found.key.shape[2])
        if self.damping is None or added is None:
            return found
        if self.damping.multiplies:
            return found._replace(key=found.key * added[:, :, :, None].to(found.key.dtype))
        added = added[:, None].to(query.dtype)
        if found.given.get("is_causal"):
            mask = torch.ones(added.shape[-2:], dtype=torch.bool, device=query.device).tril()
        if mask is not None and mask.dtype == torch.bool:
            added = added.where(mask, torch.finfo(added.dtype).min)
        elif mask is not None:
            added = added + mask
        return found._replace(mask=added, given=found.given | {"is_causal": False})


def rows_read(c: Tensor, batch: int) -> Tensor:
    """Finds the rows a logit depends on, (batch, row), by its gradient ``c``, (..., row, x)."""
    return c.reshape(batch, -1, *c.shape[-2:]).ne(0).any(dim=3).any(dim=1)

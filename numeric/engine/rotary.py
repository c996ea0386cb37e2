"""Splits the relevance of queries and keys in half where a model rotates them by position.

q' = q cos + rot(q) sin: Eq. 1 on the sum hands R_q' to its two terms, and each splits its part in
half between q and the layer's (cos, sin).  Over the channels of a head q . c_q = q' . c_q' for
cotangents c, because a rotation is linear, so that both halves can be read at q.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.handlers import multiply
from lrp_axioms.numeric.engine.marks import COSINE, SINE, is_number, mark
from lrp_axioms.numeric.engine.rulebook import Rulebook
from lrp_axioms.numeric.engine.settled import run
from lrp_axioms.numeric.models.places import Places


class Turned:
    """Queries and keys that one pass rotates, (batch, head, token, channel), by layer."""

    def __init__(self, composite: Composite, places: Places) -> None:
        self.composite, self.places = composite, places
        self.by_layer: dict[int | None, list[Tensor]] = {}
        self.unsplit: dict[str, None] = {}  # modules with products that do not split relevance

    def multiply(self, engine: Rulebook, use: Use) -> Tensor:
        """Splits a product by cosines or sines in half between the activation and them."""
        x = use.carrying[0]
        other = use.other(x)
        if len(use.carrying) > 1 or mark(other) not in (COSINE, SINE) or is_number(other):
            unturned: Tensor = multiply(engine, use)
            return unturned
        self._note(engine.settle(x), mark(other))
        return engine.apply(kinds.PRODUCT, run(engine, use))

    def _note(self, x: Tensor, factor: str) -> None:
        (place, *_) = self.places.operations(kinds.PRODUCT)
        rule = self.composite.rule(kinds.PRODUCT, layer=place.layer, module=place.module)
        if rule != kinds.EQUAL_SPLIT:
            self.unsplit[place.module] = None
        if factor == COSINE:
            self.by_layer.setdefault(place.layer, []).append(x)

    def check(self) -> None:
        """Raises ValueError that lists the modules with products that do not split relevance."""
        if self.unsplit:
            raise ValueError(
                f"composite {self.composite.name!r} does not split products at "
                f"{', '.join(self.unsplit)}, where rotary position needs it; pass rules with "
                f"{kinds.PRODUCT!r}: {kinds.EQUAL_SPLIT!r}, or positions=None"
            )

    def tensors(self) -> list[Tensor]:
        return [x for _, xs in self._in_order() for x in xs]

    def _in_order(self) -> list[tuple[int | None, list[Tensor]]]:
        """Sorts by layer; queries and keys outside of the layers come first."""
        return sorted(self.by_layer.items(), key=lambda item: -1 if item[0] is None else item[0])

    def relevance(self, cotangents: Iterable[Tensor | None]) -> Tensor | None:
        """Returns relevance of each layer's (cos, sin) by channel: (batch, layer, token, channel).

        ``cotangents`` belong to ``tensors()``, None without relevance.  Channels are q's and k's.
        Raises ValueError where keys of several tokens are merged, as in DeepSeek V4.
        """
        if not self.by_layer:
            return None
        lengths = sorted({x.shape[-2] for x in self.tensors()})
        if len(lengths) > 1:
            raise ValueError(
                f"queries and keys of {' and '.join(map(str, lengths))} positions are turned, some "
                "of which stand for several tokens; pass positions=None"
            )
        cotangents, layers = iter(cotangents), []
        for _, turned in self._in_order():
            parts = []
            for x in turned:
                c = next(cotangents)
                r = torch.zeros_like(x) if c is None else x.detach() * c
                parts.append(r.transpose(1, 2).flatten(2))
            layers.append(torch.cat(parts, dim=-1))
        return torch.stack(layers, dim=1)

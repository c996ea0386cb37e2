"""What was found of a generated text: a matrix of relevance, and its forms."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

import torch
from rich.console import RenderableType
from torch import Tensor

from numeric.generation.words import units
from numeric.results import stored
from numeric.spelling import printable

TENSORS = ("relevance", "logit", "residual")
SHOWN = 60  # characters of what was written, in a line


@dataclass(frozen=True)
class Facts:
    """Fields of a Generation in its file, except tensors."""

    tokens: tuple[str, ...]
    source: int
    model: str
    method: str
    scale: Literal["logit", "log-probability"] = "logit"


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Generation:
    """Relevance of every token for every token that was written; all in logits.

    relevance: (written, token), 0 at a written token itself and at what follows it
    logit: (written,) what is explained: the logit or log-probability of each written token
    residual: (written,) logit minus the sum of relevance: what was absorbed or lost
    tokens: the text of every token, the written ones last
    source: how many of them an encoder read; 0 for a model without one
    """

    relevance: Tensor
    logit: Tensor
    residual: Tensor
    tokens: tuple[str, ...]
    source: int
    model: str
    method: str
    scale: str = "logit"

    def __repr__(self) -> str:
        text = shorten("".join(self.written).strip(), SHOWN)
        count, length = self.relevance.shape
        return printable(f"Generation({self.method}: {count} x {length} tokens, written {text!r})")

    @property
    def written(self) -> tuple[str, ...]:
        """The tokens that are explained."""
        return self.tokens[self.first :]

    @property
    def first(self) -> int:
        """The column of the first written token."""
        return len(self.tokens) - len(self.logit)

    def by(self, unit: str) -> "Generation":
        """The same of words or sentences (``unit`` "word" or "sentence"): tokens are added up.

        Relevance is linear, so that a row of several tokens is that of the sum of their logits; in
        it a word that is written has relevance of its own first tokens for its last.
        Raises ValueError for another unit.
        """
        starts = (self.source, self.source + 1) if self.source else ()
        numbers = torch.tensor(units(self.tokens, unit, (*starts, self.first)))
        rows = numbers[self.first :] - numbers[self.first]
        texts = [""] * (int(numbers[-1]) + 1)
        for number, token in zip(numbers.tolist(), self.tokens, strict=True):
            texts[number] += token
        return replace(
            self,
            relevance=_added(_added(self.relevance, rows).mT, numbers).mT,
            logit=_added(self.logit, rows),
            residual=_added(self.residual, rows),
            tokens=tuple(texts),
            source=len(set(numbers[: self.source].tolist())),
        )

    def save(self, path: str | Path) -> None:
        """Writes one file of safetensors, whose header holds the rest as JSON."""
        facts = {name: x for name, x in vars(self).items() if name not in TENSORS}
        stored.write(path, "generation", {name: getattr(self, name) for name in TENSORS}, facts)

    @classmethod
    def load(cls, path: str | Path) -> "Generation":
        """What ``save`` wrote.  Raises ValueError for any other file."""
        return stored.read(path, "generation", Facts, cls._of)

    @classmethod
    def _of(cls, tensors: dict[str, Tensor], facts: Facts) -> "Generation":
        written = tuple(tensors["logit"].shape) if "logit" in tensors else ()
        shapes = {"logit": written, "residual": written}
        stored.check(tensors, {"relevance": (*written, len(facts.tokens)), **shapes})
        most = len(facts.tokens) - len(tensors["logit"])
        if len(written) != 1 or not 0 <= facts.source <= most:
            said = f"logit has shape {written} and source is {facts.source}"
            raise ValueError(f"{said}, which do not fit {len(facts.tokens)} tokens")
        if not most:
            raise ValueError(
                f"all {len(facts.tokens)} tokens are written, and no token is before them"
            )
        given: dict[str, Any] = {**tensors, **vars(facts)}
        return cls(**given)

    def terminal(self, width: int = 80) -> Iterable[RenderableType]:
        """A heat map for rich, in as many tables of at most ``width`` characters as it needs."""
        from numeric.generation.views import terminal

        return terminal(self, width)

    def html(self, unit: str = "token") -> str:
        """A self-contained page, on which a written token shows what it was written because of.

        It opens on tokens, or on the ``unit`` "word" or "sentence".
        Raises ValueError for another unit.
        """
        from numeric.generation.views import html

        return html(self, unit)

    def png(self) -> bytes:
        """The heat map as a picture."""
        from numeric.generation.views import png

        return png(self)

    def _repr_html_(self) -> str:
        # A frame, because the page has a style and a script of its own.
        style = "width:100%;height:32rem;border:0"
        return f'<iframe style="{style}" srcdoc="{escape(self.html())}"></iframe>'


def _added(x: Tensor, numbers: Tensor) -> Tensor:
    """Sums of what has the same number, along the first axis."""
    return x.new_zeros(int(numbers[-1]) + 1, *x.shape[1:]).index_add_(0, numbers, x)

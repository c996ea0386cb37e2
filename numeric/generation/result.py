"""The explanation of a generated text: a matrix of relevance, and its forms."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from jinja2 import Environment
from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from lrp_axioms.numeric.results import pictures, render, stored
from lrp_axioms.numeric.results.layer_maps import tables
from lrp_axioms.numeric.results.render import Cell, LayerMap
from lrp_axioms.numeric.results.result import ROLLOUT
from lrp_axioms.numeric.results.words import UNITS, units
from lrp_axioms.numeric.spelling import beginning, printable

TENSORS = ("relevance", "logit", "residual", "probability")
SHOWN = 60  # characters of the written text, in a line
LEGEND = "Red speaks for what was written; blue, underlined, against it." + render.UNDERLINES
SIGNS = "Red speaks for the written token; blue, with a dot, against it."
PICTURE = (
    f"Rows: what was written. Columns: what was read before it. {SIGNS} Each row has its own scale."
)
SHARES = "Shares of attention, which are not logits"
TITLE = 60  # characters of the written text, in a title
SCALES = "each column, a written token, has its own scale."


@dataclass(frozen=True)
class Facts:
    """Fields of a Generation in its file, except tensors."""

    tokens: tuple[str, ...]
    source: int
    model: str
    method: str
    scale: Literal["logit", "log-probability", "log-probability difference"] = "logit"
    contrast: str | None = None
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Generation:
    """Relevance of every token for every written token; all in logits.

    relevance: (written, token), 0 at a written token itself and at later ones
    logit: (written,) the explained logit or log-probability of each written token, or with a
        contrast the difference for the first token that differs, and for the rest
    residual: (written,) logit minus the sum of relevance: absorbed or lost relevance
    tokens: the text of every token, the written ones last
    source: how many of them an encoder read; 0 for a model without one
    probability: (written,) of each written token after the text before it; None in older files
    contrast: the text in whose place the written one is explained
    segments: the name of every token's part of the prompt, () without names; tokens of an answer
        that precede the explained ones are in the rest
    """

    relevance: Tensor
    logit: Tensor
    residual: Tensor
    tokens: tuple[str, ...]
    source: int
    model: str
    method: str
    scale: str = "logit"
    probability: Tensor | None = None
    contrast: str | None = None
    segments: tuple[str, ...] = ()

    def __repr__(self) -> str:
        text = beginning("".join(self.written), SHOWN)
        count, length = self.relevance.shape
        return printable(f"Generation({self.method}: {count} x {length} tokens, written {text!r})")

    @property
    def shares(self) -> bool:
        """Decides whether relevance is shares of attention, which are no parts of the logit."""
        return self.method == ROLLOUT

    @property
    def written(self) -> tuple[str, ...]:
        """The explained tokens."""
        return self.tokens[self.first :]

    @property
    def first(self) -> int:
        """The column of the first written token."""
        return len(self.tokens) - len(self.logit)

    def by(self, unit: str) -> "Generation":
        """Sums tokens to words or sentences, or the tokens before the written ones to segments.

        ``unit`` is "word", "sentence" or "segment".  No word goes on in another segment.
        Relevance is linear: a row of several tokens explains the sum of their logits, and a written
        word has relevance of its own first tokens for its last.
        Raises ValueError for another unit, and for segments where there are none.
        """
        starts, p = (self.source, self.source + 1) if self.source else (), self.probability
        parts = [*dict.fromkeys(self.segments)]
        if unit == "segment" and parts:
            written = range(len(parts), len(parts) + len(self.logit))
            numbers = torch.tensor([*map(parts.index, self.segments), *written])
        else:
            cuts = [n for n, (x, y) in enumerate(pairwise(self.segments), start=1) if x != y]
            numbers = torch.tensor(units(self.tokens, unit, (*starts, *cuts, self.first)))
        rows = numbers[self.first :] - numbers[self.first]
        texts = [""] * (int(numbers[-1]) + 1)
        for number, token in zip(numbers.tolist(), self.tokens, strict=True):
            texts[number] += token
        if unit == "segment":
            texts[: len(parts)] = parts
        return replace(
            self,
            relevance=_add_up(_add_up(self.relevance, rows).mT, numbers).mT,
            logit=_add_up(self.logit, rows),
            residual=_add_up(self.residual, rows),
            tokens=tuple(texts),
            source=len(set(numbers[: self.source].tolist())),
            probability=None if p is None else _add_up(p.log(), rows).exp(),
            segments=tuple(dict(zip(numbers.tolist(), self.segments, strict=False)).values()),
        )

    def save(self, path: str | Path) -> None:
        """Writes one file of safetensors, whose header holds the rest as JSON."""
        tensors = {name: x for name in TENSORS if (x := getattr(self, name)) is not None}
        facts = {name: x for name, x in vars(self).items() if name not in TENSORS}
        stored.write(path, "generation", tensors, facts)

    @classmethod
    def load(cls, path: str | Path) -> "Generation":
        """Reads a file that ``save`` wrote.  Raises ValueError for any other file."""
        return stored.read(path, "generation", Facts, cls._of)

    @classmethod
    def _of(cls, tensors: dict[str, Tensor], facts: Facts) -> "Generation":
        written = tuple(tensors["logit"].shape) if "logit" in tensors else ()
        known = TENSORS if "probability" in tensors else TENSORS[:-1]  # not in older files
        shapes = dict.fromkeys(known[1:], written)
        stored.check(tensors, {"relevance": (*written, len(facts.tokens)), **shapes})
        most = len(facts.tokens) - len(tensors["logit"])
        if len(written) != 1 or not 0 <= facts.source <= most:
            said = f"logit has shape {written} and source is {facts.source}"
            raise ValueError(f"{said}, which do not fit {len(facts.tokens)} tokens")
        if facts.segments and len(facts.segments) != most:
            raise ValueError(f"{len(facts.segments)} segments for {most} tokens")
        if not most:
            raise ValueError(
                f"all {len(facts.tokens)} tokens are written, and no token is before them"
            )
        given: dict[str, Any] = {**tensors, **vars(facts)}
        return cls(**given)

    def terminal(self, width: int = 80) -> Iterator[RenderableType]:
        """Yields a heat map for rich, in as many tables of at most ``width`` letters as needed."""
        yield Text(title(self), style="bold")
        yield from tables(heat_map(self), width)
        if self.contrast is not None:
            rows = zip(self.written, self.logit.tolist(), self.residual.tolist(), strict=True)
            numbers = (f"{shown(x)} {number:+.3g} (residual {r:+.3g})" for x, number, r in rows)
            yield Text(f"Explained {self.scale}: {', '.join(numbers)}")
        if self.probability is not None:
            each = zip(self.written, self.probability.tolist(), strict=True)
            yield Text("Probability: " + ", ".join(f"{shown(x)} {p:.3g}" for x, p in each))
        if self.segments:
            found = self.by("segment")
            sums = zip(found.segments, found.relevance.sum(dim=0).tolist(), strict=False)
            named = (f"{shown(x)} {r:+.3g}" for x, r in sums)
            yield Text("Segments, for the whole answer: " + ", ".join(named))
        said = f"In logits; {SCALES} {render.LEGEND.replace('the class', 'it')}"
        yield Text(f"{SHARES}; {SCALES}" if self.shares else said, style="dim")

    def html(self, unit: str = "token", notes: Iterable[str] = ()) -> str:
        """Returns a self-contained page with the relevance of all tokens for each written one.

        It opens on tokens, or on the ``unit`` "word", "sentence" or "segment"; every text in it is
        escaped, and ``notes`` are shown below the legend.
        Raises ValueError for another unit.
        """
        template = files("lrp_axioms.numeric.generation").joinpath("page.html").read_text("utf-8")
        names = [*UNITS] + ["segment"] * bool(self.segments)
        maps = {"token": self} | {name: self.by(name) for name in names}
        if unit not in maps:
            raise ValueError(f"unit={unit!r}: pass one of {', '.join(maps)}")
        facts = {name: _facts(each) for name, each in maps.items()}
        return (
            Environment(autoescape=True)
            .from_string(template)
            .render(
                title=title(self),
                legend=f"{SHARES}." if self.shares else LEGEND,
                made=render.made(self.model, self.method, {}),
                notes=[*filter(None, notes)],
                maps=facts,
                opened=unit,
                data={"maps": facts, "scale": self.scale, "opened": unit, "least": render.LEAST},
                **render.fixed(template),
            )
        )

    def png(self) -> bytes:
        """Draws the heat map as PNG, one row per written token; negative relevance has a dot."""
        each = f"{self.method}: why each token was written"
        said = title(self) if self.shares or self.contrast is not None else each
        legend = PICTURE.replace(SIGNS, f"{SHARES}.") if self.shares else PICTURE
        made, split = render.made(self.model, self.method, {}), self.source or self.first
        return pictures.maps([heat_map(self)], title=said, legend=legend, made=made, split=split)

    def _repr_html_(self) -> str:
        # A frame, because the page has a style and a script of its own.
        style = "width:100%;height:32rem;border:0"
        return f'<iframe style="{style}" srcdoc="{escape(self.html())}"></iframe>'


def _add_up(x: Tensor, numbers: Tensor) -> Tensor:
    """Sums entries with equal ``numbers`` along the first axis."""
    return x.new_zeros(int(numbers[-1]) + 1, *x.shape[1:]).index_add_(0, numbers, x)


def shown(token: str) -> str:
    """Prepares a token for a table: no space before it, visible line breaks and tabs.

    A token that holds only some bytes of a character has no text.
    """
    if not token:
        return "<bytes>"
    token = token.strip(" ").replace("\n", "⏎").replace("\t", "⇥") or "␣"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in token)


def title(found: Generation) -> str:
    text = "".join(found.written).strip()
    why, where = f"why {found.model} wrote", f"where {found.model} attends as it writes"
    said = f"{found.method}: {where if found.shares else why} {beginning(text, TITLE)!r}"
    if found.contrast is not None:
        said += f" and not {beginning(found.contrast, TITLE)!r}"
    return printable(said)


class _Triangle(LayerMap):
    """A map without numbers at tokens that came later, where there is no relevance at all."""

    def rows(self) -> Iterator[tuple[str, list[Cell]]]:
        for (token, cells), values in zip(super().rows(), [*self.values, None], strict=True):
            if values is not None:
                cells = [c if x else c | {"shown": ""} for c, x in zip(cells, values, strict=True)]
            yield token, cells


def heat_map(found: Generation) -> LayerMap:
    """Maps context by written tokens, without a last token that nothing was written after."""
    count = len(found.tokens) - int(not found.relevance[:, -1].any())
    context = tuple(map(shown, found.tokens[:count]))
    values = found.relevance[:, :count].mT.double().numpy()
    return _Triangle("", tuple(map(shown, found.written)), context, values)


def _facts(found: Generation) -> dict[str, Any]:

    def rounded(x: Tensor) -> list[float]:
        return [float(f"{value:.8g}") for value in x.tolist()]

    return {
        "tokens": found.tokens,
        "source": found.source,
        "first": found.first,
        "relevance": [rounded(row) for row in found.relevance],
        "logit": rounded(found.logit),
        "residual": None if found.shares else rounded(found.residual),
        "probability": None if found.probability is None else rounded(found.probability),
    }

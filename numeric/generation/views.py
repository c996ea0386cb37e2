"""A generated text and its relevance on a screen, on a page, and as a picture."""

import textwrap
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from numeric.generation.result import Generation
from numeric.generation.words import UNITS
from numeric.results import pictures, render
from numeric.results.layer_maps import Cell, LayerMap, tables
from numeric.spelling import printable

LEGEND = "Red speaks for what was written; blue, underlined, against it."
PICTURE = (
    "Rows: what was written. Columns: what was read before it. Red speaks for the written token; "
    "blue, with a dot, against it. Each row has its own scale."
)
TITLE = 60  # characters of what was written, in a title
SCALES = "In logits; each column, a written token, has its own scale."


def shown(token: str) -> str:
    """A token for a table: without the space before it, and with line breaks to be seen."""
    token = token.strip(" ").replace("\n", "⏎") or "␣"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in token)


def title(found: Generation) -> str:
    text = "".join(found.written).strip()
    said = f"{found.method}: why {found.model} wrote {textwrap.shorten(text, TITLE)!r}"
    return printable(said)


class _Triangle(LayerMap):
    """A map without numbers at tokens that came later, where there is no relevance at all."""

    def rows(self) -> Iterator[tuple[str, list[Cell]]]:
        for (token, cells), values in zip(super().rows(), [*self.values, None], strict=True):
            if values is not None:
                cells = [c if x else c | {"shown": ""} for c, x in zip(cells, values, strict=True)]
            yield token, cells


def heat_map(found: Generation) -> LayerMap:
    """Context by what was written, without a last token after which nothing was written."""
    count = len(found.tokens) - int(not found.relevance[:, -1].any())
    context = tuple(map(shown, found.tokens[:count]))
    values = found.relevance[:, :count].mT.double().numpy()
    return _Triangle("", tuple(map(shown, found.written)), context, values)


def terminal(found: Generation, width: int) -> Iterator[RenderableType]:
    """For rich: a heat map in tables of at most ``width`` characters."""
    yield Text(title(found), style="bold")
    yield from tables(heat_map(found), width)
    yield Text(f"{SCALES} {render.LEGEND.replace('the class', 'it')}", style="dim")


def html(found: Generation, unit: str = "token") -> str:
    """A self-contained page that opens on a unit; every text in it is escaped."""
    template = files("numeric.generation").joinpath("page.html").read_text("utf-8")
    maps = {"token": found} | {name: found.by(name) for name in UNITS}
    if unit not in maps:
        raise ValueError(f"unit={unit!r}: pass one of {', '.join(maps)}")
    facts = {name: _facts(each) for name, each in maps.items()}
    return (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            title=title(found),
            legend=LEGEND,
            made=made(found),
            maps=facts,
            opened=unit,
            data={"maps": facts, "scale": found.scale, "opened": unit},
            **render.fixed(template),
        )
    )


def _facts(found: Generation) -> dict[str, Any]:

    def rounded(x: Tensor) -> list[float]:
        return [float(f"{value:.4g}") for value in x.tolist()]

    return {
        "tokens": found.tokens,
        "source": found.source,
        "first": found.first,
        "relevance": [rounded(row) for row in found.relevance],
        "logit": rounded(found.logit),
        "residual": rounded(found.residual),
    }


def png(found: Generation) -> bytes:
    """The heat map as PNG, one row per written token; what is against it has a dot."""
    title = f"{found.method}: why each token was written"
    split = found.source or found.first
    return pictures.maps(
        [heat_map(found)], title=title, legend=PICTURE, made=made(found), split=split
    )


def made(found: Generation) -> str:
    return render.made(found.model, found.method, {})

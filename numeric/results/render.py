"""Colours tokens by relevance: red speaks for the explained class, blue against it.

Negative relevance is also underlined, for eyes and printers without colour.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
from jinja2 import Environment
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from lrp_axioms.numeric.results import folds
from lrp_axioms.numeric.results.overlays import address
from lrp_axioms.numeric.spelling import printable

COLOURS = """\
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --dim: #5c5c66; --line: #ccc;
  --for: 214 40 40; --against: 40 90 220; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #17171a; --dim: #a5a5b0; --line: #444;
    --for: 235 70 70; --against: 90 140 255; }
}"""
"""The colours of all pages, light and dark: letters, paper, lines, and relevance of each sign."""

SOURCE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
{{ colours | safe }}
body { font: 18px/2 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 50rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
.token { padding: .15rem .25rem; border-radius: .2rem; white-space: pre-wrap; }
.against { text-decoration: underline; }
.text { max-height: 4500px; overflow-y: auto; } @media print { .text { max-height: none; } }
summary { font-size: .9rem; cursor: pointer; }
small, table { font-size: .8rem; color: var(--dim); line-height: 1.5; display: block; }
th, td { padding: 0 1rem 0 0; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
.layers { border-spacing: 1px; }
.layers td, .layers th { padding: 0 .2rem; white-space: nowrap; }
.layers td { color: var(--ink); }
.layers tr > :first-child { position: sticky; left: 0; background: var(--paper); }
.summed tr:last-child { font-weight: bold; }
</style></head>
<body>
<h1 style="font-size:1.1rem">{{ title }}</h1>
{% if sections|length > 1 %}<small>Each map has its own scale of colours.</small>
{% endif %}{% for s in sections %}{% if loop.index0 == shown %}
<details><summary>{{ sections|length - shown }} more maps</summary>{% endif %}
{% if sections|length > 1 %}<h2 style="font-size:1rem">{{ loop.index }}. {{ s.title }}</h2>
{% endif %}{% if s.picture is not none %}<p><img src="{{ address(s.picture) }}" alt="relevance of
patches" style="width:20rem;max-width:100%"></p>
{% endif %}<p class="text">{% for t in s.cells() %}<span class="token{{ t.sign }}"
title="{{ t.value }}" style="background:{{ t.background }}">{{ t.token }}</span> {% endfor %}</p>
<p><small>{{ s.legend }}<br>{{ s.caption }}</small></p>
{{ s.below }}<details{% if sections|length == 1 and s.tokens|length <= 20 %} open{% endif %}>
<summary>{{ s.tokens|length }} {{ s.unit }}s by the size of their {{ s.number }}</summary>
<table><tr><th class="number">position</th><th>{{ s.unit }}</th>
<th class="number">{{ s.number }}</th></tr>
{% for t in s.by_size() %}<tr><td class="number">{{ t.position }}</td><td>{{ t.token }}</td>
<td class="number">{{ t.value }}</td></tr>
{% endfor %}</table></details>
{% for m in s.maps %}<details{% if s.tokens|length <= mapped %} open{% endif %}>
<summary>{{ m.heading }}{{ m.where }}</summary>
<div class="wide"><table class="layers{{ " summed" if m.summed }}"><tr><th></th>
{% for name in m.columns %}<th class="number">{{ name }}</th>{% endfor %}</tr>
{% for token, cells in m.rows() %}<tr><th>{{ token }}</th>
{% for c in cells %}<td class="number {{ c.sign }}" title="{{ c.value }}"
style="background:{{ c.shade }}">{{ c.shown }}</td>
{% endfor %}</tr>
{% endfor %}</table></div></details>
{% endfor %}{% if s.maps %}<p><small>{{ s.maps[0].legend }}</small></p>{% endif %}
{% endfor %}{% if shown < sections|length %}</details>
{% endif %}{% if made %}<p><small>{{ made }}</small></p>
{% endif %}</body></html>
"""
PAGE = Environment(autoescape=True).from_string(SOURCE)


NOTHING = "'none'"
SPEED = ("batch_size", "memory")  # options that change nothing else
LEGEND = "Red speaks for the class; blue, underlined, against it."
LEAST = 0.05  # of the largest size: relevance against the target is underlined beyond it
UNDERLINES = f" Underlines begin at {LEAST:.0%} of the largest.".replace("%", " %")
LAYERS = "In logits, after each layer; each column has its own scale; emb: embeddings."


Cell = dict[str, str]


@dataclass(frozen=True, eq=False)
class LayerMap:
    """Relevance of every token, row by row, at the outputs of one stack's layers.

    where: the path that the layers share
    columns: the number of each layer, or of the call of a shared one
    values: (token, column)
    """

    where: str
    columns: tuple[str, ...]
    tokens: tuple[str, ...]
    values: np.ndarray

    legend: ClassVar[str] = LAYERS
    heading: ClassVar[str] = "Layers of "
    summed: ClassVar[bool] = True
    axis: ClassVar[int | None] = 0  # along which one size has the full colour; None: both

    def tops(self) -> np.ndarray:
        """Returns the sizes that have the full colour: (1, column), the largest of each column."""
        return np.asarray(np.abs(self.values).max(axis=self.axis, keepdims=True))

    def shades(self) -> np.ndarray:
        """Returns the colour of every cell, (token, column, 3)."""
        tops = self.tops()
        flat = colours((self.values / np.where(tops > 0, tops, 1)).flatten().tolist())
        return np.array(flat).reshape(*self.values.shape, 3)

    def against(self) -> np.ndarray:
        """Decides for each cell whether it is below 0 by more than ``LEAST`` of the full colour."""
        return np.asarray(self.values < -LEAST * self.tops())

    def rows(self) -> Iterator[tuple[str, list[Cell]]]:
        """Yields the cells of every token, with text and colour; then the cells of the sum."""
        each = zip(self.tokens, self.values, self.shades().tolist(), self.against(), strict=True)
        for token, *row in each:
            yield token, [_cell(*cell) for cell in zip(*row, strict=True)]
        if self.summed:
            sums = self.values.sum(axis=0)
            yield "sum", [_cell(value, (255, 255, 255), value < 0) for value in sums]


def _cell(value: float, rgb: tuple[int, int, int], against: bool) -> Cell:  # noqa: FBT001
    return {
        "shown": short(value),
        "value": f"{value:+z.4f}",
        "sign": "against" if against else "",
        "background": "rgb({},{},{})".format(*rgb),
        "shade": shade(rgb),
    }


def short(value: float) -> str:
    """Writes a signed number in at most four characters, up to 999: +.07, -1.3, +120."""
    if abs(value) < 0.995:
        return f"{value:+z.2f}".replace("0.", ".", 1)
    return f"{value:+.{int(abs(value) < 9.95)}f}"


@dataclass(frozen=True, eq=False)
class Section:
    """One text with the relevance of its tokens, for pages, pictures and terminals.

    caption: the sum of relevance, in words
    legend: the meaning of the colours
    maps: its relevance in the layers of the model
    picture: an image under the relevance of its patches, (height, width, 3)
    below: escaped HTML below the caption of a page   unit, number: names of its table's columns
    """

    tokens: Sequence[str]
    relevance: Sequence[float]
    title: str
    caption: str
    legend: str = LEGEND
    maps: Sequence[LayerMap] = ()
    picture: np.ndarray | None = None
    below: Markup | str = ""
    unit: str = "token"
    number: str = "relevance"

    def cells(self) -> Iterator[dict[str, str]]:
        """Yields every token's text, number and colour for a page."""
        colour, marked = colours(self.relevance), underlined(self.relevance)
        places = zip(self.tokens, self.relevance, colour, marked, strict=True)
        for n, (token, value, rgb, against) in enumerate(places):
            sign = " against" if against else ""
            shown = {"value": f"{value:+z.4f}", "background": shade(rgb), "sign": sign}
            yield {"token": token, "position": str(n)} | shown

    def by_size(self) -> list[dict[str, str]]:
        """Returns the cells with the largest relevance first."""
        cells = list(self.cells())
        return [cells[n] for n in by_size(self.relevance)]

    def terminal(self) -> tuple[Text, Text, Text, Table, Text]:
        """Returns title, coloured text, legend, numbers and caption, for rich."""
        words = []
        numbers = table("token", "relevance")
        looks = colours(self.relevance), underlined(self.relevance)
        cells = zip(map(printable, self.tokens), self.relevance, *looks, strict=True)
        for token, value, (r, g, b), marked in cells:
            against = "underline " if marked else ""
            words.append(Text(token, style=f"{against}black on rgb({r},{g},{b})"))
            numbers.add_row(Text(token), f"{value:+z.4f}")
        title, legend = Text(printable(self.title), style="bold"), Text(self.legend, style="dim")
        return title, Text(" ").join(words), legend, numbers, Text(self.caption)


def legend(explained: str) -> str:
    """Explains the colours for the ``explained`` noun: a tag, a token, a target, or a class."""
    return LEGEND.replace("class", explained) + UNDERLINES


def underlined(relevance: Sequence[float]) -> list[bool]:
    """Decides for each token whether it speaks against by more than ``LEAST`` of the largest."""
    values = np.asarray(relevance, dtype=float)
    found: list[bool] = (values < -LEAST * np.abs(values).max(initial=0.0)).tolist()
    return found


def by_size(relevance: Sequence[float]) -> list[int]:
    """Returns the places of tokens, with the largest relevance first."""
    return sorted(range(len(relevance)), key=lambda n: -abs(relevance[n]))


def colours(relevance: Sequence[float]) -> list[tuple[int, int, int]]:
    """Returns an RGB background per token: white at 0, full red or blue at the largest size."""
    values = np.asarray(relevance, dtype=float)
    top = np.abs(values).max(initial=0.0)
    fade = 255 - np.round(180 * (np.abs(values) / (top or 1.0))).astype(int)
    return [
        (255, f, f) if v >= 0 else (f, f, 255) for v, f in zip(values, fade.tolist(), strict=True)
    ]


def shade(rgb: tuple[int, int, int]) -> str:
    """Writes one of ``colours`` for a page, whose paper is light or dark."""
    name = "against" if rgb[0] < 255 else "for"
    return f"rgb(var(--{name}) / {(255 - min(rgb)) / 255:.2f})"


def table(*headers: str) -> Table:
    """Returns an empty table whose last column holds numbers."""
    found = Table(*headers, box=None, header_style="bold", pad_edge=False)
    found.columns[-1].justify = "right"
    return found


def html(sections: Sequence[Section], *, title: str, made: str) -> str:
    """Returns a self-contained page of texts; everything in it is escaped.

    ``made`` is its last line: the model, the method and the program.
    """
    folded = {"shown": folds.count_open(sections), "mapped": folds.MAPPED}
    words = {"title": title, "made": made} | folded | fixed(SOURCE)
    return printable(PAGE.render(sections=sections, address=address, **words))


def fixed(source: str) -> dict[str, str]:
    """Returns colours and Content-Security-Policy of a template: only its own styles and scripts.

    A ``<style>`` or ``<script>`` in ``source`` may use no variable but the colours.
    """

    def hashes(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        texts = (part.replace("{{ colours | safe }}", COLOURS).encode() for part in parts)
        return " ".join(f"'sha256-{b64encode(sha256(x).digest()).decode()}'" for x in texts)

    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src-attr 'unsafe-inline'; style-src-elem {hashes('style')}; "
        f"script-src {hashes('script') or NOTHING}"
    )
    return {"colours": COLOURS, "policy": policy}


def made(model: str, method: str, options: Mapping[str, Any]) -> str:
    """Writes the last line of a page or picture: the model, method, version and date."""
    told = {name: x for name, x in options.items() if name not in SPEED and x is not False}
    plain = [f"{name} {x}" for name, x in told.items() if isinstance(x, str | int | float)]
    what = f"Model {model}; method {method}" if model else f"Method {method}"
    more = f" ({', '.join(plain)})" if plain else ""
    program = f"lrp-axioms {version('lrp-axioms')}"
    return printable(f"{what}{more}; made by {program} on {date.today().isoformat()}.")

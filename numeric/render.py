"""Tokens coloured by relevance: red speaks for the explained class, blue against it.

What speaks against it is also underlined, for eyes and printers without colour.
"""

from collections.abc import Sequence

import numpy as np
from jinja2 import Environment
from rich.table import Table
from rich.text import Text

PAGE = Environment(autoescape=True).from_string(
    """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{{ title }}</title>
<style>
body { font: 18px/2 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
.token { padding: .15rem .25rem; border-radius: .2rem; white-space: pre; }
.against { text-decoration: underline; }
small, table { font-size: .8rem; color: #444; line-height: 1.5; display: block; }
th, td { padding: 0 1rem 0 0; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
</style></head>
<body>
<h1 style="font-size:1.1rem">{{ title }}</h1>
<p>{% for t in tokens %}<span class="token{{ t.sign }}" title="{{ t.value }}"
style="background:{{ t.background }}">{{ t.token }}</span> {% endfor %}</p>
<p><small>{{ legend }}<br>{{ caption }}</small></p>
<table><tr><th>token</th><th class="number">relevance</th></tr>
{% for t in tokens %}<tr><td>{{ t.token }}</td><td class="number">{{ t.value }}</td></tr>
{% endfor %}</table>
</body></html>
"""
)


LEGEND = "Red speaks for the class; blue, underlined, against it."


def colours(relevance: Sequence[float]) -> list[tuple[int, int, int]]:
    """An RGB background per token: white at 0, full red or blue at the largest magnitude."""
    values = np.asarray(relevance, dtype=float)
    top = np.abs(values).max(initial=0.0)
    fade = 255 - np.round(180 * np.abs(values) / (top or 1.0)).astype(int)
    return [
        (255, f, f) if v >= 0 else (f, f, 255) for v, f in zip(values, fade.tolist(), strict=True)
    ]


def terminal(tokens: Sequence[str], relevance: Sequence[float]) -> tuple[Text, Text, Table]:
    """The sentence with coloured backgrounds, its legend, and a table of the numbers, for rich."""
    words = []
    table = Table("token", "relevance", box=None, header_style="bold", pad_edge=False)
    table.columns[1].justify = "right"
    for token, value, (r, g, b) in zip(tokens, relevance, colours(relevance), strict=True):
        against = "underline " if value < 0 else ""
        words.append(Text(token, style=f"{against}black on rgb({r},{g},{b})"))
        table.add_row(Text(token), f"{value:+.4f}")
    return Text(" ").join(words), Text(LEGEND, style="dim"), table


def html(tokens: Sequence[str], relevance: Sequence[float], *, title: str, caption: str) -> str:
    """A self-contained page; tokens are escaped."""
    cells = [
        {
            "token": token,
            "value": f"{value:+.4f}",
            "background": f"rgb{rgb}",
            "sign": " against" if value < 0 else "",
        }
        for token, value, rgb in zip(tokens, relevance, colours(relevance), strict=True)
    ]
    return PAGE.render(tokens=cells, title=title, caption=caption, legend=LEGEND)

"""Heat maps of a notebook's cell."""

from collections.abc import Iterator, Sequence

from jinja2 import Environment

from lrp_axioms.numeric.results.render import Section
from lrp_axioms.numeric.spelling import printable

CELLS = Environment(autoescape=True, trim_blocks=True).from_string(
    """<div style="line-height:2;max-width:60rem">
{% for s in samples %}
<div><strong>{{ method }}</strong> {{ s.about }}<br>
{% for t in s.tokens %}
<span title="{{ t.value }}" style="padding:.15em .25em;border-radius:.2em;white-space:pre;\
background:rgba({{ t.colour }}){{ ";text-decoration:underline" if t.sign }}">{{ t.token }}</span>
{% endfor %}
</div>
{% endfor %}
<small style="opacity:.8">{{ legend }}{{ more }}</small></div>"""
)
"""A cell of a notebook: styles are inline, and its colours show on light and dark alike."""


def heat_maps(method: str, samples: Sequence[tuple[str, Section]], left: int, legend: str) -> str:
    """Draws samples, each with a line about it.

    ``left`` samples are not shown, if that is positive; ``legend`` explains the colours.
    """
    facts = {
        "method": method,
        "samples": [{"about": about, "tokens": _shade_tokens(found)} for about, found in samples],
        "legend": legend,
        "more": f" {left} more samples are not shown." if left > 0 else "",
    }
    return printable(CELLS.render(facts))


def _shade_tokens(found: Section) -> Iterator[dict[str, str]]:
    """Yields transparent colours, so that letters keep the colour of their page."""
    top = max(map(abs, found.relevance), default=0.0) or 1.0
    for cell, value in zip(found.cells(), found.relevance, strict=True):
        hue = "31,119,255" if value < 0 else "235,40,40"
        yield cell | {"colour": f"{hue},{0.55 * abs(value) / top:.2f}"}

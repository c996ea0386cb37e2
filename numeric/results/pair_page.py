"""The part of a page about pairs: arcs beside the names of parts, groups, and a map of pairs."""

from collections.abc import Sequence
from typing import ClassVar

from jinja2 import Environment
from markupsafe import Markup

from lrp_axioms.numeric.results.render import LayerMap

ROW, LEFT, RIGHT = 26, 150, 330  # of the arcs, in pixels
LETTERS = 18  # of a name beside arcs

BELOW = Environment(autoescape=True, trim_blocks=True).from_string(
    """<svg viewBox="0 0 {{ right + 60 }} {{ row * names|length }}" role="img"
aria-label="pairs of parts with the largest interactions" style="width:100%;max-width:32rem;
font:14px system-ui,sans-serif">
{% for name in names %}<text x="{{ left }}" y="{{ row * loop.index0 + 17 }}" text-anchor="end"
fill="currentColor">{{ name }}</text>
{% endfor %}{% for a in arcs %}<path d="{{ a.path }}" fill="none" style="stroke:rgb(var(--{{ a.hue
}}))" stroke-width="{{ a.width }}"{% if a.dashed %} stroke-dasharray="6 3"{% endif
%}><title>{{ a.said }}</title></path>
{% endfor %}</svg>
<p><small>{{ legend }}</small></p>
<details open><summary>Groups that act together, and then parts in no group; each is left out as a
whole</summary>
<table><tr><th class="number">loss</th><th>group, and below it its parts</th></tr>
{% for depth, name, loss in groups %}<tr><td class="number">{{ loss }}</td>
<td style="padding-left:{{ [depth, 20]|min }}rem">{{ name }}</td></tr>
{% endfor %}</table></details>
<p><small>{{ explained }}</small></p>"""
)


def below(
    names: Sequence[str],
    pairs: Sequence[tuple[int, int, float]],
    groups: Sequence[tuple[int, str, str]],
    *,
    legend: str,
    explained: str,
) -> Markup:
    """Writes arcs between ``pairs`` of the names, (first, second, interaction), and the groups.

    groups: the depth, the name and the loss of every node of a tree, ready to print
    """
    arcs = []
    top = max((abs(value) for *_, value in pairs), default=0) or 1
    far = max((j - i for i, j, _ in pairs), default=1)
    for i, j, value in pairs:
        y, z = (ROW * n + ROW // 2 for n in (i, j))
        bulge = LEFT + 30 + 1.3 * (RIGHT - LEFT) * (j - i) / far
        arcs.append(
            {
                "path": f"M{LEFT + 6} {y}C{bulge:.0f} {y} {bulge:.0f} {z} {LEFT + 6} {z}",
                "hue": "against" if value < 0 else "for",
                "dashed": value < 0,
                "width": f"{0.5 + 4 * abs(value) / top:.1f}",
                "said": f"{names[i]}, {names[j]}: {value:+z.4f}",
            }
        )
    shown = [x if len(x) <= LETTERS else f"{x[: LETTERS - 1]}…" for x in names]
    facts = {"arcs": arcs, "groups": groups, "legend": legend, "explained": explained}
    return Markup(BELOW.render(facts, names=shown, row=ROW, left=LEFT, right=RIGHT))


class Pairs(LayerMap):
    """A map of pairs, all by one scale."""

    heading: ClassVar[str] = "Interactions of pairs, by "
    legend: ClassVar[str] = (
        "Interactions in logits, one scale for all: LOO of the row + LOO of the column - the loss "
        "of both."
    )
    summed: ClassVar[bool] = False
    axis: ClassVar[int | None] = None

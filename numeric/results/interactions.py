"""The explanation of words that act together: losses of parts, pairs and groups of one text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
from jinja2 import Environment
from markupsafe import Markup
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.text import Text
from torch import Tensor

from lrp_axioms.axioms.extras import need
from lrp_axioms.numeric.results import pictures, render
from lrp_axioms.numeric.results.render import LEAST, LayerMap
from lrp_axioms.numeric.results.result import Attribution, made, section
from lrp_axioms.numeric.spelling import printable

if TYPE_CHECKING:
    from pandas import DataFrame

SHARE = 0.25  # of the largest interaction: the mean interaction that keeps a group together
SHOWN = 10  # pairs of a summary
ARCS = 24  # pairs of a picture
ROW, LEFT, RIGHT = 26, 150, 330  # of the arcs of a page, in pixels
LETTERS = 18  # of a name beside arcs
GROUP = tuple[tuple[int, ...], float]
"""The numbers of the parts of a group, and its loss in logits."""

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
<details open><summary>Groups that act together, each left out as a whole</summary>
<table><tr><th class="number">loss</th><th>group</th></tr>
{% for name, loss in groups %}<tr><td class="number">{{ loss }}</td><td>{{ name }}</td></tr>
{% endfor %}</table></details>
<p><small>{{ explained }}</small></p>"""
)


@dataclass(frozen=True, eq=False, repr=False)  # tensors have no one truth value
class Interactions(Attribution):
    """The losses of the parts of one text, of their pairs and of groups; all in logits.

    relevance: (1, part) the loss LOO_i of each part   tokens: the names of the parts
    details: "pairs" (part, part), the interactions I_ij = LOO_i + LOO_j - the loss of both;
        "by_loss" (part, part), 1 where both were left out, 0 where I_ij is an estimate;
        "merges" (part - 1, 2), the tree of groups (``methods.pair_losses.merges``);
        "losses" (2 part - 1,), of every node of the tree as a whole, NaN where nothing would be
        left; "explained" (3,), the shares of the variance of losses without random quarters of the
        parts that parts, groups and pairs explain; "error" (1,), the root mean square of the
        estimates' errors in the pairs that were left out, for estimated pairs; NaN without any
    said: the explained number, in words of a title
    """

    said: str = ""

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Reads a file of ``save``.  Raises ValueError for any other, as of another method."""
        found = super().load(path)
        if found.method != "interactions":
            raise ValueError(f"{path} holds a map by {found.method}; call Attribution.load")
        return found

    def __repr__(self) -> str:
        said = f"{len(self.names)} parts by {self.options['by']}, logit {self.logit[0]:+z.4f}"
        return f"Interactions({said})"

    @property
    def names(self) -> list[str]:
        """The parts: tokens, words or sentences."""
        return [str(name) for _, name, _ in self.lines(0)]

    @property
    def labels(self) -> list[str]:
        """The parts; a position from 0 follows each name that occurs twice."""
        names = [printable(name) for name in self.names]
        return [f"{x} ({n})" if names.count(x) > 1 else x for n, x in enumerate(names)]

    @property
    def pairs(self) -> Tensor:
        """The interactions of all pairs, (part, part), in logits; 0 on the diagonal."""
        return self.details["pairs"]

    @property
    def explained(self) -> dict[str, float]:
        """The shares of the variance that single parts, groups and pairs explain, or NaN."""
        keys = ("parts", "groups", "pairs")
        return dict(zip(keys, self.details["explained"].tolist(), strict=True))

    @property
    def error(self) -> float | None:
        """The root mean square error of the estimates in the pairs that were left out, or None."""
        found = self.details.get("error")
        return None if found is None or found.isnan() else float(found[0])

    def largest(self, count: int = SHOWN) -> list[tuple[int, int, float]]:
        """Lists the pairs with the largest interactions by size: two numbers of parts, and I_ij."""
        values = self.pairs.double().numpy(force=True)
        places = np.stack(np.triu_indices(len(values), 1), axis=1)
        order = np.argsort(-np.abs(values[*places.T]), kind="stable")[:count]
        return [(i, j, float(values[i, j])) for i, j in places[order].tolist()]

    def drawn(self) -> list[tuple[int, int, float]]:
        """Lists the pairs of a picture: at most ``ARCS``, and none that is too small to tell."""
        found = self.largest(ARCS)
        return [x for x in found if abs(x[2]) >= LEAST * abs(found[0][2]) > 0]

    def groups(self, share: float = SHARE) -> list[GROUP]:
        """Lists groups of parts that act together, with the loss of each as a whole.

        Groups are merged while the mean size of the interactions between them is at least ``share``
        of the largest one.  Raises ValueError for a share that is not between 0 and 1.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share={share!r}: pass a number above 0, at most 1")
        size = self.pairs.abs().double().numpy(force=True)
        members: list[tuple[int, ...]] = [(n,) for n in range(len(size))]
        kept = dict.fromkeys(range(len(size)))
        losses = self.details["losses"].tolist()
        for a, b in self.details["merges"].tolist():
            mean = size[np.ix_(members[a], members[b])].mean()
            whole = math.isnan(losses[len(members)])  # nothing would be left to attend to
            if a in kept and b in kept and mean >= share * size.max() > 0 and not whole:
                del kept[a], kept[b]
                kept[len(members)] = None
            members.append(tuple(sorted(members[a] + members[b])))
        found = [(members[node], losses[node]) for node in kept]
        return sorted(found, key=lambda group: -abs(group[1]))

    def name_of(self, parts: Sequence[int]) -> str:
        """Writes a group, the numbers ``parts`` in order, with "…" where parts are missing."""
        said = ""
        for before, n in zip((None, *parts), parts, strict=False):
            gap = "" if before is None else " " if n == before + 1 else " … "
            said += gap + self.names[n]
        return printable(said)

    def to_pandas(self) -> "DataFrame":
        """Returns one line per pair: numbers and names of both parts, interaction, by_loss."""
        need("Interactions.to_pandas", "pandas")
        import pandas as pd

        names, count = self.names, len(self.names)
        by_loss = self.details["by_loss"].bool().tolist()
        rows = [
            (i, j, names[i], names[j], value, by_loss[i][j])
            for i, j, value in self.largest(count * count)
        ]
        columns = ["first", "second", "first part", "second part", "interaction", "by_loss"]
        return pd.DataFrame(rows, columns=columns)

    def to_parquet(self, path: str | Path) -> None:
        """Writes the lines of ``to_pandas`` as a Parquet file."""
        self.to_pandas().to_parquet(path, index=False)

    def by(self, unit: str, tokenizer: object) -> NoReturn:
        raise ValueError(
            f"by={unit!r}: losses of words are no sums of losses of tokens; call "
            f"interactions(model, tokenizer, text, by={unit!r})"
        )

    def sections(self) -> list[render.Section]:
        """Makes the section of the text, with arcs and groups below it, and a map of its pairs."""
        shown = section(self, 0)
        why = self.said or f"for target {self.target[0].tolist()}"
        return [
            render.Section(
                shown.tokens,
                shown.relevance,
                f"Which {self.options['by']}s act together {why}?",
                self._caption(),
                shown.legend,
                [_Pairs(str(self.options["by"]), *2 * (tuple(self.names),), self._values())],
                below=Markup(BELOW.render(self._facts())),
            )
        ]

    def terminal(self, width: int = 80) -> Iterator[RenderableType]:
        """Yields the text by losses, the largest pairs, and the groups, for rich."""
        (shown,) = self.sections()
        title, words, legend, _, caption = shown.terminal()
        parts = [title, words, legend, caption, self.pair_table(), self.group_table()]
        yield from (Constrain(part, width) for part in (*parts, Text(self.said_explained())))

    def pair_table(self, count: int = SHOWN) -> RenderableType:
        """Returns a table of the largest pairs, for rich."""
        table = render.table("first", "second", "both lost", "interaction")
        alone, names, known = self.relevance[0].tolist(), self.labels, self.details["by_loss"]
        for i, j, value in self.largest(count):
            both = f"{alone[i] + alone[j] - value:+z.4f}" if known[i, j] else "estimated"
            table.add_row(Text(names[i]), Text(names[j]), both, f"{value:+z.4f}")
        return table

    def group_table(self, count: int = SHOWN) -> RenderableType:
        """Returns a table of the groups with the largest losses, for rich."""
        table = render.table("group, left out as a whole", "loss")
        for parts, loss in self.groups()[:count]:
            table.add_row(Text(self.name_of(parts)), f"{loss:+z.4f}")
        return table

    def said_explained(self) -> str:
        """Says how much parts, groups and pairs explain, in one sentence."""
        unit = self.options["by"]
        if any(map(math.isnan, self.explained.values())):
            return f"The logit does not vary without random quarters of the {unit}s."
        parts, groups, pairs = map(_said_share, self.explained.values())
        return (
            f"Of the variance of the logit without random quarters of the {unit}s, the losses of "
            f"single {unit}s explain {parts}, the losses of groups {groups}, and pairs {pairs}."
        )

    def png(self, images: Sequence[object] = (), grid: object = None) -> bytes:
        """Draws the parts with arcs between the pairs of the largest interactions, and a map.

        ``images`` and ``grid`` are as in ``Attribution.png``, and a text has none.
        """
        (shown,) = self.sections()
        return pictures.arcs(
            shown, self.drawn(), legend=ARC_LEGEND, said=self.said_explained(),
            made=made(self),
        )  # fmt: skip

    def _values(self) -> np.ndarray:
        return np.asarray(self.pairs.double().numpy(force=True))

    def _caption(self) -> str:
        said = f"Logit {self.logit[0]:+z.4f}; numbers are losses without each part alone."
        if "error" in self.details:
            known = int(self.details["by_loss"].sum()) // 2
            said += f" {known} pairs were left out, and all others are estimates"
            off = "" if self.error is None else f" by {self.error:.2f} logits (root mean square)"
            said += f"; in these pairs the estimates err{off}." if off else "."
        return said

    def _facts(self) -> dict[str, object]:
        """Returns the arcs and groups of a page."""
        drawn, names, pairs = [], self.labels, self.drawn()
        top = max((abs(value) for *_, value in pairs), default=0) or 1
        far = max((j - i for i, j, _ in pairs), default=1)
        for i, j, value in pairs:
            y, z = (ROW * n + ROW // 2 for n in (i, j))
            bulge = LEFT + 30 + 1.3 * (RIGHT - LEFT) * (j - i) / far
            drawn.append(
                {
                    "path": f"M{LEFT + 6} {y}C{bulge:.0f} {y} {bulge:.0f} {z} {LEFT + 6} {z}",
                    "hue": "against" if value < 0 else "for",
                    "dashed": value < 0,
                    "width": f"{0.5 + 4 * abs(value) / top:.1f}",
                    "said": f"{names[i]}, {names[j]}: {value:+z.4f}",
                }
            )
        groups = [(self.name_of(parts), f"{loss:+z.4f}") for parts, loss in self.groups()]
        return {
            "names": [_shorten(name) for name in names], "arcs": drawn, "groups": groups,
            "row": ROW, "left": LEFT, "right": RIGHT, "legend": ARC_LEGEND,
            "explained": self.said_explained(),
        }  # fmt: skip


def _said_share(x: float) -> str:
    return f"{100 * x:.0f} %" if x >= 0 else f"nothing (R² = {x:z.2f})"


def _shorten(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


ARC_LEGEND = (
    f"Arcs: at most {ARCS} pairs, with {100 * LEAST:.0f} % of the largest interaction or more. "
    "Red: both together take away less than the sum of their losses; blue, dashed: more."
)


class _Pairs(LayerMap):
    """A map of pairs, all by one scale."""

    heading: ClassVar[str] = "Interactions of pairs, by "
    legend: ClassVar[str] = (
        "Interactions in logits, one scale for all: LOO of the row + LOO of the column - the loss "
        "of both."
    )
    summed: ClassVar[bool] = False

    def tops(self) -> np.ndarray:
        return np.asarray(np.abs(self.values).max(keepdims=True))

"""The explanation of words that act together: losses of parts, pairs and groups of one text."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.text import Text
from torch import Tensor

from lrp_axioms.axioms.extras import need
from lrp_axioms.axioms.writing import write_named
from lrp_axioms.numeric.results import pair_page, pictures, render
from lrp_axioms.numeric.results.render import LEAST
from lrp_axioms.numeric.results.result import Attribution, made, section
from lrp_axioms.numeric.results.spelled import readable
from lrp_axioms.numeric.spelling import printable

if TYPE_CHECKING:
    from pandas import DataFrame

SHARE = 0.25  # of the largest interaction: the mean interaction that keeps a group together
SHOWN = 10  # pairs of a summary
ARCS = 24  # pairs of a picture
DEEPEST = 20  # steps that a node of a tree is indented
Node = tuple[int, tuple[int, ...], float]
"""The depth of a node, from 0, the numbers of its parts, and its loss as a whole, in logits."""


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
        said = (
            f"{len(self.names)} parts by {self.options['by']}, {self.number} {self.logit[0]:+z.4f}"
        )
        return f"Interactions({said})"

    @property
    def names(self) -> list[str]:
        """The parts: tokens, words or sentences."""
        names = [str(name) for _, name, _ in self.lines(0)]
        return readable(names) if self.options["by"] == "token" else names

    @property
    def labels(self) -> list[str]:
        """The parts; a position from 0 follows each name that occurs twice."""
        names = [printable(name) for name in self.names]
        count = Counter(names)
        return [f"{x} ({n})" if count[x] > 1 else x for n, x in enumerate(names)]

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
        values = self.pairs.cpu().double().numpy(force=True)
        places = np.stack(np.triu_indices(len(values), 1), axis=1)
        order = np.argsort(-np.abs(values[*places.T]), kind="stable")[:count]
        return [(i, j, float(values[i, j])) for i, j in places[order].tolist()]

    def drawn(self) -> list[tuple[int, int, float]]:
        """Lists the pairs of a picture: at most ``ARCS``, and none that is too small to tell."""
        found = self.largest(ARCS)
        return [x for x in found if abs(x[2]) >= LEAST * abs(found[0][2]) > 0]

    def tree(self, share: float = SHARE) -> list[Node]:
        """Lists groups of parts that act together, and below each group the nodes it is made of.

        A node of depth 0 is a group, or, behind all groups, a part that is in none.  Groups are
        merged while the mean size of the interactions between them is at least ``share`` of the
        largest interaction.  Nodes of one depth are in order of the size of their losses.
        Raises ValueError for a share that is not above 0 and at most 1.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share={share!r}: pass a number above 0, at most 1")
        size = self.pairs.abs().cpu().double().numpy(force=True)
        members: list[tuple[int, ...]] = [(n,) for n in range(len(size))]
        kept = dict.fromkeys(range(len(size)))
        merges, losses = self.details["merges"].tolist(), self.details["losses"].tolist()
        for a, b in merges:
            mean = size[np.ix_(members[a], members[b])].mean()
            whole = math.isnan(losses[len(members)])  # nothing would be left to attend to
            if a in kept and b in kept and mean >= share * size.max() > 0 and not whole:
                del kept[a], kept[b]
                kept[len(members)] = None
            members.append(tuple(sorted(members[a] + members[b])))
        found, open_nodes = [], [(0, node) for node in kept]
        open_nodes.sort(key=lambda x: (len(members[x[1]]) > 1, abs(losses[x[1]])))
        while open_nodes:
            depth, node = open_nodes.pop()
            found.append((depth, members[node], losses[node]))
            inside = [] if node < len(size) else merges[node - len(size)]
            open_nodes += [(depth + 1, n) for n in sorted(inside, key=lambda n: abs(losses[n]))]
        return found

    def groups(self, share: float = SHARE) -> list[tuple[tuple[int, ...], float]]:
        """Lists the numbers of the parts of each group, and its loss: ``tree`` at depth 0."""
        return [(parts, loss) for depth, parts, loss in self.tree(share) if depth == 0]

    def name_of(self, parts: Sequence[int]) -> str:
        """Writes the labels of a group, the numbers ``parts`` in order, and "…" at gaps."""
        said, labels = "", self.labels
        for before, n in zip((None, *parts), parts, strict=False):
            gap = "" if before is None else " " if n == before + 1 else " … "
            said += gap + labels[n]
        return said

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
        write_named(Path(path), self.to_pandas().to_parquet(index=False))

    def by(self, unit: str, tokenizer: object) -> NoReturn:
        raise ValueError(
            f"by={unit!r}: losses of words are no sums of losses of tokens; call "
            f"interactions(model, tokenizer, text, by={unit!r})"
        )

    def sections(self) -> list[render.Section]:
        """Makes the section of the text, with arcs and groups below it, and a map of its pairs."""
        shown = section(self, 0)
        why = self.said or f"for target {self.target[0].tolist()}"
        values = np.asarray(self.pairs.cpu().double().numpy(force=True))
        groups = [(depth, self.name_of(p), f"{loss:+z.4f}") for depth, p, loss in self.tree()]
        return [
            render.Section(
                self.names,
                shown.relevance,
                f"Which {self.options['by']}s act together {why}?",
                self._caption(),
                shown.legend,
                [pair_page.Pairs(str(self.options["by"]), *2 * (tuple(self.names),), values)],
                below=pair_page.below(
                    self.labels,
                    self.drawn(),
                    groups,
                    legend=ARC_LEGEND,
                    explained=self.said_explained(),
                ),
                unit=str(self.options["by"]),
                number="loss",
            )
        ]

    def terminal(self, width: int = 80) -> Iterator[RenderableType]:
        """Yields the text by losses, the largest pairs, and the groups, for rich."""
        (shown,) = self.sections()
        title, words, legend, _, caption = shown.terminal()
        parts = [title, words, legend, caption, self.pair_table(), self.group_table(2 * SHOWN)]
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
        """Returns a table of groups, each with its parts below it, for rich: ``count`` nodes."""
        table, found = render.table("group, left out as a whole", "loss"), self.tree()
        for depth, parts, loss in found[:count]:
            indent = 0, 0, 0, 2 * min(depth, DEEPEST)
            table.add_row(Padding(Text(self.name_of(parts)), indent), f"{loss:+z.4f}")
        if more := len(found[count:]):
            table.add_row(f"… and {more} more", "")
        return table

    def said_explained(self) -> str:
        """Says how much parts, groups and pairs explain, in one sentence."""
        unit = self.options["by"]
        if any(map(math.isnan, self.explained.values())):
            return f"The {self.number} does not vary without random quarters of the {unit}s."
        parts, groups, pairs = map(_said_share, self.explained.values())
        return (
            f"Of the variance of the {self.number} without random quarters of the {unit}s, the "
            f"losses of single {unit}s explain {parts}, the losses of groups {groups}, and pairs "
            f"{pairs}."
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

    def _caption(self) -> str:
        number = f"{self.number.capitalize()} {self.logit[0]:+z.4f}"
        said = f"{number}; numbers are losses without each part alone."
        if "error" in self.details:
            known = int(self.details["by_loss"].sum()) // 2
            said += f" {known} pairs were left out, and all others are estimates"
            off = "" if self.error is None else f" by {self.error:.2f} logits (root mean square)"
            said += f"; in these pairs the estimates err{off}." if off else "."
        return said


def _said_share(x: float) -> str:
    return f"{100 * x:.0f} %" if x >= 0 else f"nothing (R² = {x:z.2f})"


ARC_LEGEND = (
    f"Arcs: at most {ARCS} pairs, with {100 * LEAST:.0f} % of the largest interaction or more. "
    "Red: both together take away less than the sum of their losses; blue, dashed: more."
)

"""Relevance by token and layer of one text: as tables for a terminal, and as cells for a page."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from numeric.results import render
from numeric.results.result import Attribution

CELL = 5  # characters, four of them for a number
Cell = dict[str, str]


@dataclass(frozen=True, eq=False)
class LayerMap:
    """Relevance of every token, row by row, at what the layers of one stack pass on.

    where: the path that the layers share
    columns: the number of each layer, or of the call of a shared one
    values: (token, column)
    """

    where: str
    columns: tuple[str, ...]
    tokens: tuple[str, ...]
    values: np.ndarray

    def rows(self) -> Iterator[tuple[str, list[Cell]]]:
        """The cells of every token, what they show and its colour; then those of the sum."""
        colours = zip(*map(render.colours, self.values.T), strict=True)
        for token, values, row in zip(self.tokens, self.values, colours, strict=True):
            yield token, [_cell(value, rgb) for value, rgb in zip(values, row, strict=True)]
        yield "sum", [_cell(value, (255, 255, 255)) for value in self.values.sum(axis=0)]


def _cell(value: float, rgb: tuple[int, int, int]) -> Cell:
    return {
        "shown": short(value),
        "value": f"{value:+z.4f}",
        "sign": "against" if value < 0 else "",
        "background": "rgb({},{},{})".format(*rgb),
        "shade": render.shade(rgb),
    }


def short(value: float) -> str:
    """A signed number in at most four characters, up to 999: +.07, -1.3, +120."""
    if abs(value) < 0.995:
        return f"{value:+z.2f}".replace("0.", ".", 1)
    return f"{value:+.{int(abs(value) < 9.95)}f}"


def layer_maps(a: Attribution, tokens: Sequence[str], *, shifted: bool = False) -> list[LayerMap]:
    """The maps of all stacks of layers that ``a`` holds of one text.

    Where there is one stack, its first column is the sum of the embeddings.  ``shifted``: decoders
    read the text after a token that starts it, without its last token.
    """
    stacks: dict[tuple[str, int], dict[str, Tensor]] = {}
    for path, relevance in a.inside.items():
        where, _, number = re.split(r"([.#])(?=\d+$)", path)
        stacks.setdefault((where, relevance.numel()), {})[number] = relevance.flatten()
    maps = []
    for (where, length), columns in stacks.items():
        names: Sequence[str] = [str(n) for n in range(length)]
        if length == len(tokens):
            names = ["(start)", *tokens[:-1]] if shifted and "decoder" in where else tokens
            columns = {"emb": a.relevance[0], **columns} if len(stacks) == 1 else columns
        values = np.array([column.tolist() for column in columns.values()]).T
        maps.append(LayerMap(where, tuple(columns), tuple(names), values))
    return maps


def terminal(maps: Sequence[LayerMap], width: int) -> Iterator[RenderableType]:
    """The maps for rich, each in as many tables of at most ``width`` characters as it needs."""
    for found in maps:
        yield Text(f"\nLayers of {found.where}", style="bold")
        yield from tables(found, width)
    if maps:
        yield Text(render.LAYERS, style="dim")


def tables(found: LayerMap, width: int) -> Iterator[Table]:
    """One map, in as many tables of at most ``width`` characters as it needs."""
    names, count = min(max(map(cell_len, found.tokens)), width // 3), len(found.columns)
    step = ceil(count / ceil(count / max(1, (width - names) // CELL)))
    for start in range(0, count, step):
        yield _part(found, slice(start, start + step), names)


def _part(found: LayerMap, columns: slice, width: int) -> Table:
    table = Table(box=None, padding=0, header_style="dim")
    table.add_column("", overflow="fold", max_width=width)
    for name in found.columns[columns]:
        table.add_column(Text(name), justify="right", width=CELL)
    for token, cells in found.rows():
        table.add_row(Text(token), *map(_text, cells[columns]))
    return table


def _text(cell: Cell) -> Text:
    style = f"black on {cell['background']}" + " underline" * bool(cell["sign"])
    return Text(" ").append(f"{cell['shown']:>4}", style)

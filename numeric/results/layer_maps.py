"""Draws relevance by token and layer of one text: as tables for a terminal, as cells for a page."""

import re
from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from lrp_axioms.numeric.results import render
from lrp_axioms.numeric.results.render import Cell, LayerMap
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.results.spelled import readable

CELL = 5  # characters, four of them for a number


def layer_maps(a: Attribution, tokens: Sequence[str], *, shifted: bool = False) -> list[LayerMap]:
    """Returns the maps of all stacks of layers that ``a`` holds for one text.

    If there is one stack, its first column is the sum of the embeddings.  ``shifted``: decoders
    read the text after a token that starts it, without its last token.
    """
    stacks: dict[tuple[str, int], dict[str, Tensor]] = {}
    for path, relevance in a.inside.items():
        where, _, number = re.split(r"([.#])(?=\d+$)", path)
        stacks.setdefault((where, relevance.numel()), {})[number] = relevance.flatten()
    maps, tokens = [], readable(tokens)
    for (where, length), columns in stacks.items():
        names: Sequence[str] = [str(n) for n in range(length)]
        if length == len(tokens):
            names = ["(start)", *tokens[:-1]] if shifted and "decoder" in where else tokens
            columns = {"emb": a.relevance[0], **columns} if len(stacks) == 1 else columns
        values = np.array([column.tolist() for column in columns.values()]).T
        maps.append(LayerMap(where, tuple(columns), tuple(names), values))
    return maps


def terminal(maps: Sequence[LayerMap], width: int) -> Iterator[RenderableType]:
    """Yields maps for rich, each in as many tables of at most ``width`` characters as needed."""
    for found in maps:
        yield Text(f"\nLayers of {found.where}", style="bold")
        yield from tables(found, width)
    if maps:
        yield Text(render.LAYERS, style="dim")


def tables(found: LayerMap, width: int) -> Iterator[Table]:
    """Yields one map, in as many tables of at most ``width`` characters as needed."""
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

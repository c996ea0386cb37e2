"""Draws explanations as PNG on white: texts with coloured tokens, and maps of tokens by column.

A picture is made to be read at 420 pixels, and its file has twice as many.
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import floor, log10
from typing import Any

import numpy as np

from lrp_axioms.axioms.extras import need
from lrp_axioms.numeric.results import render
from lrp_axioms.numeric.results.render import LayerMap

INCH = 72  # points, the unit of all lengths here
WIDTH, EDGE = 302.0, 8.0  # of a picture: 302 points are 420 pixels
NORMAL, SMALL = 9.5, 7.5  # sizes of letters
LINE = 1.3  # from one line of letters to the next, in their size
ROOM = 3.0  # beside the letters of a token, and between tokens
COLUMN, ROW = 18.0, 15.0  # of a map
LONGEST = 150.0  # of a name
LETTERS = 256  # measured at once: no line has room for more
PIXELS, MOST = 200, 60_000  # of an inch, and of the longest side of a file
DIM, RED, BLUE = "0.35", "#c62828", "#2855c6"
MAPPED = 40  # tokens of a map of pairs


def texts(sections: Sequence[render.Section], *, made: str) -> bytes:
    """Draws texts one below the other, tokens above their relevance; blue is underlined, too."""
    page = _Page(WIDTH)
    for each in sections:
        page.write(each.title, NORMAL, weight="bold")
        if each.picture is not None:
            page.image(each.picture)
        page.tokens(each)
        page.write(each.legend)
        page.write(each.caption)
        page.y += EDGE
    return page.png(made)


def maps(
    found: Sequence[LayerMap], *, title: str, legend: str, made: str, split: int | None = None
) -> bytes:
    """Draws maps one below the other; each column has its own scale, and blue has a dot.

    ``split``: the columns of the maps are rows of the picture, which a line divides there.
    """
    grids = [_Grid(each, turned=split is not None) for each in found]
    page = _Page(max(WIDTH, *(2 * EDGE + grid.width for grid in grids)))
    page.write(title, NORMAL, weight="bold")
    for grid in grids:
        if grid.found.where:
            page.write(f"Layers of {grid.found.where}")
        page.grid(grid, split)
    page.write(legend)
    return page.png(made)


def arcs(
    found: render.Section,
    pairs: Sequence[tuple[int, int, float]],
    *,
    legend: str,
    said: str,
    made: str,
) -> bytes:
    """Draws tokens one below the other, arcs between ``pairs`` of them, and the section's map.

    Arcs below 0 are blue and dashed.  A map of more than ``MAPPED`` tokens is left out.
    """
    grids = [_Grid(each, turned=False) for each in found.maps if len(each.tokens) <= MAPPED]
    page = _Page(max(WIDTH, *(2 * EDGE + grid.width for grid in grids), 0))
    page.write(found.title, NORMAL, weight="bold")
    page.arcs(found, pairs)
    for text in (found.legend, legend, found.caption, said):
        page.write(text)
    for grid in grids:
        page.grid(grid, None)
        page.write(grid.found.legend)
    return page.png(made)


class _Grid:
    """A map as it stands in a picture: the names of rows and columns, and their room."""

    def __init__(self, found: LayerMap, *, turned: bool) -> None:
        self.found, self.turned = found, turned
        names = (found.columns, found.tokens) if turned else (found.tokens, found.columns)
        self.rows, self.columns = ([_fit_name(name, LONGEST) for name in each] for each in names)
        widest = max(map(_width, self.columns))
        self.leans = widest > 1.3 * COLUMN
        self.left = max(map(_width, self.rows)) + ROOM
        self.top = (widest if self.leans else NORMAL) + 2 * ROOM
        self.width = self.left + COLUMN * len(self.columns)

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the colour of every cell, and rows and columns of cells below 0."""
        colours = np.asarray(self.found.shades(), dtype=np.uint8)
        below = np.argwhere(self.found.against()).T
        return (colours.swapaxes(0, 1), below[::-1]) if self.turned else (colours, below)


class _Page:
    """A picture that is filled from the top; ``y`` is the height that is used."""

    def __init__(self, width: float) -> None:
        need("a picture", "matplotlib")
        from matplotlib.figure import Figure

        self.width, self.y = width, EDGE
        self.figure = Figure()
        self.axes = self.figure.add_axes((0, 0, 1, 1))

    def write(self, text: str, size: float = SMALL, **style: Any) -> None:
        """Writes a paragraph."""
        room = self.width - 2 * EDGE
        words = [part for word in text.split() for part in _parts(word, room, size)]
        widths = [_width(f"{word} ", size, style.get("weight", "normal")) for word in words]
        for line in _lines(widths, room):
            self.y += LINE * size
            self.put(EDGE, self.y, " ".join(words[n] for n in line), size, **style)
        self.y += ROOM

    def tokens(self, found: render.Section) -> None:
        """Draws every token on its colour, and its relevance below it."""
        from matplotlib.patches import Rectangle

        room = self.width - 2 * EDGE
        shown = [_fit_name(token, room - 2 * ROOM) for token in found.tokens]
        numbers = _numbers(found.relevance)
        pairs = zip(shown, numbers, strict=True)
        widths = [max(_width(token), _width(x, SMALL)) + 2 * ROOM for token, x in pairs]
        colours, against = render.colours(found.relevance), render.underlined(found.relevance)
        for line in _lines([width + ROOM for width in widths], room + ROOM):
            x, y = EDGE, self.y + ROOM
            for n in line:
                colour = tuple(part / 255 for part in colours[n])
                self.axes.add_patch(Rectangle((x, y), widths[n], ROW, color=colour, linewidth=0))
                middle, half = x + widths[n] / 2, _width(shown[n]) / 2
                self.put(middle, y + 0.7 * ROW, shown[n], NORMAL, ha="center")
                self.put(middle, y + ROW + SMALL + 1, numbers[n], SMALL, ha="center", color=DIM)
                if against[n]:
                    self.line((middle - half, middle + half), 2 * [y + 0.85 * ROW])
                x += widths[n] + ROOM
            self.y = y + ROW + SMALL + ROOM
        self.y += 2 * ROOM

    def arcs(self, found: render.Section, pairs: Sequence[tuple[int, int, float]]) -> None:
        """Draws a token in each row, underlined as in ``tokens``, and arcs to its right."""
        from matplotlib.patches import PathPatch, Rectangle
        from matplotlib.path import Path

        names = [_fit_name(token, WIDTH / 3) for token in found.tokens]
        numbers = _numbers(found.relevance)
        left = EDGE + max(map(_width, names)) + 2 * ROOM
        start = left + max(_width(x, SMALL) for x in numbers) + 2 * ROOM
        room = WIDTH - EDGE - start
        top, base = max((abs(x) for *_, x in pairs), default=0) or 1, self.y + ROOM
        far = max((j - i for i, j, _ in pairs), default=1)
        signs = render.colours(found.relevance), render.underlined(found.relevance)
        rows = zip(names, numbers, *signs, strict=True)
        for n, (name, number, rgb, against) in enumerate(rows):
            colour, y = tuple(part / 255 for part in rgb), base + n * ROW
            self.axes.add_patch(Rectangle((EDGE, y), left - EDGE, ROW - 1, color=colour, lw=0))
            self.put(left - ROOM, y + 0.7 * ROW, name, NORMAL, ha="right")
            if against:
                self.line((left - ROOM - _width(name), left - ROOM), 2 * [y + 0.85 * ROW])
            self.put(start - ROOM, y + 0.7 * ROW, number, SMALL, ha="right", color=DIM)
        for i, j, value in reversed(pairs):
            y, z = (base + ROW * (n + 0.5) for n in (i, j))
            bulge = start + 1.3 * room * (0.2 + 0.8 * (j - i) / far)
            path = Path(
                [(start, y), (bulge, y), (bulge, z), (start, z)], [Path.MOVETO] + 3 * [Path.CURVE4]
            )
            hue, dash = (BLUE, (0, (4, 2))) if value < 0 else (RED, "-")
            width = 0.4 + 2.6 * abs(value) / top
            self.axes.add_patch(PathPatch(path, fill=False, ec=hue, lw=width, ls=dash))
        self.y = base + ROW * len(names) + ROOM

    def image(self, picture: np.ndarray) -> None:
        """Draws a picture as wide as the page, and at most as high."""
        room = self.width - 2 * EDGE
        width, height = (n * room / max(picture.shape) for n in (picture.shape[1], len(picture)))
        place = EDGE, EDGE + width, self.y + ROOM + height, self.y + ROOM
        self.axes.imshow(picture, extent=place, interpolation="nearest")
        self.y = place[2] + ROOM

    def grid(self, grid: _Grid, split: int | None) -> None:
        """Draws a map with the names of its rows and columns."""
        colours, (down, across) = grid.cells()
        left, top = EDGE + grid.left, self.y + grid.top
        right, bottom = left + COLUMN * len(grid.columns), top + ROW * len(grid.rows)
        self.axes.imshow(colours, extent=(left, right, bottom, top), interpolation="nearest")
        places = left + COLUMN * (across + 0.5), top + ROW * (down + 0.5)
        self.axes.plot(*places, ".", color="black", markersize=2)
        for n, name in enumerate(grid.columns):
            lean = {"rotation": 90, "va": "bottom"} if grid.leans else {}
            self.put(left + COLUMN * (n + 0.5), top - ROOM, name, NORMAL, ha="center", **lean)
        for n, name in enumerate(grid.rows):
            self.put(left - ROOM, top + ROW * (n + 0.7), name, NORMAL, ha="right")
        if split:
            self.line(2 * [left + COLUMN * split], (top, bottom))
        self.y = bottom + ROOM

    def put(self, x: float, y: float, text: str, size: float, **style: Any) -> None:
        """Draws letters that stand on ``y``."""
        self.axes.text(x, y, text, size=size, parse_math=False, **style)

    def line(self, x: Sequence[float], y: Sequence[float]) -> None:
        self.axes.plot(x, y, color="black", linewidth=0.8)

    def png(self, made: str) -> bytes:
        """Ends the picture with the line ``made``, and returns it."""
        self.write(made, color=DIM)
        height = self.y + EDGE
        self.axes.set(xlim=(0, self.width), ylim=(height, 0), aspect="auto")
        self.axes.set_axis_off()
        size = self.width / INCH, height / INCH
        self.figure.set_size_inches(*size)
        file = io.BytesIO()
        with _any_script():
            self.figure.savefig(file, dpi=min(PIXELS, MOST / max(size)))
        return file.getvalue()


def _lines(widths: Sequence[float], room: float) -> Iterator[list[int]]:
    """Fills lines with numbers of items, by width; each item fits a line by itself."""
    line: list[int] = []
    left = room
    for n, width in enumerate(widths):
        if line and width > left:
            yield line
            line, left = [], room
        line.append(n)
        left -= width
    yield line


def _parts(word: str, room: float, size: float) -> Iterator[str]:
    """Cuts a word into as many parts as it needs."""
    while word:
        part = word[:LETTERS]
        while len(part) > 1 and _width(f"{part} ", size, "bold") > room:
            part = part[: -max(1, len(part) // 8)]
        yield part
        word = word[len(part) :]


def _fit_name(name: str, room: float) -> str:
    """Returns a name in one line, cut where it is too long; unprintable letters are boxes."""
    name = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    first = next(_parts(name, room, NORMAL), "")
    return f"{first[:-1]}…" if len(first) < len(name) else first


def _numbers(values: Sequence[float]) -> list[str]:
    """Writes numbers with as many decimals as show three digits of the largest one."""
    top = max(map(abs, values), default=0)
    decimals = min(max(2 - floor(log10(top)), 0), 6) if top else 2
    return [f"{value:+z.{decimals}f}" for value in values]


@lru_cache(maxsize=4096)
def _width(text: str, size: float = NORMAL, weight: str = "normal") -> float:
    """Measures the width of letters, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    with _any_script():
        return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


@contextmanager
def _any_script() -> Iterator[None]:
    """Draws signs without a font here as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield

"""The picture that ``explain --layers`` writes."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np

from benchmarks.experiments import drawing
from numeric import render
from numeric.layer_maps import LayerMap


@mpl.rc_context(drawing.STYLE | {"text.parse_math": False})
def png(maps: Sequence[LayerMap], title: str) -> bytes:
    """Relevance of tokens by layer as PNG, red for the class and blue against it.

    Each column has its own scale, as in the terminal; what is against is marked with a dot.
    """
    rows, columns = (max(n) for n in zip(*(found.values.shape for found in maps), strict=True))
    size = (min(2 + 0.35 * columns, 40), min(1.2 + 0.25 * rows * len(maps), 100))
    figure = drawing.empty(*size)
    figure.suptitle(title)
    for axes, found in zip(figure.subplots(len(maps), squeeze=False)[:, 0], maps, strict=True):
        cells = np.array([render.colours(column) for column in found.values.T], dtype=np.uint8)
        axes.imshow(cells.swapaxes(0, 1), aspect="auto", interpolation="nearest")
        axes.plot(*np.argwhere(found.values.T < 0).T, ".", color="black", markersize=2)
        axes.set_xticks(range(len(found.columns)), found.columns)
        axes.set_yticks(range(len(found.tokens)), found.tokens)
        axes.set_xlabel(f"layers of {found.where}")
    legend = "red: for the target; blue, with a dot: against it; each column has its own scale"
    figure.supxlabel(legend, fontsize=7)
    return drawing.as_png(figure)

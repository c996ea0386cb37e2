"""Parts of figures that several experiments share; the module of each draws its own figure.

Whoever only measures does not import this module, because matplotlib takes its time to load.
"""

import io

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from lrp_axioms.benchmarks.experiments.record import experiment

GREYS = {"all": "0.25", "content": "0.65"}
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


@mpl.rc_context(STYLE)
def draw(result) -> Figure | None:
    """Draws the figure of a Result, readable in greyscale, or None if its table has none."""
    make = experiment(result.table).figure
    return make and make(result)


@mpl.rc_context(STYLE)
def png(result) -> bytes | None:
    """Draws the figure of a Result as PNG, or None if its table has none."""
    figure = draw(result)
    return figure and as_png(figure)


def as_png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, dpi=150)
    return file.getvalue()


def empty(width: float, height: float) -> Figure:
    """Makes a figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained")


def interval(rows, key):
    """Returns means of a column, and distances to the lower and upper ends of their intervals."""
    mean, low, high = (np.array([row[key + end] for row in rows]) for end in ("", " low", " high"))
    return mean, np.abs([mean - low, high - mean])


def bars(axes, x, rows, key: str, tokens: str) -> None:
    """Draws means of a column with their intervals, in the grey of ``tokens``."""
    mean, errors = interval(rows, key)
    axes.bar(x, mean, 0.38, yerr=errors, color=GREYS[tokens], label=f"{tokens} tokens")


def with_legend(figure: Figure, columns: int = 5, handles=()) -> Figure:
    """Adds a legend of ``handles``, or of the first axes, above the axes, where no data can be."""
    handles = handles or figure.axes[0].get_legend_handles_labels()[0]
    style = {"ncols": columns, "frameon": False, "fontsize": 8}
    figure.legend(handles=handles, loc="outside upper center", **style)
    return figure

"""The sweep of Table 1 on MNIST as one strip of dots per number of the paper."""

import numpy as np

MARKERS = {"learned": "o", "sinusoidal": "^", "none": "s"}


def strips(result):
    """Every specification as a dot, grouped by pooling; the paper's number as a line.

    Dark: networks as accurate as the paper's; open: less accurate.
    """
    from benchmarks.experiments import drawing

    numbers = {row["number"]: row["paper r"] for row in result.rows}
    groups = list(dict.fromkeys(row["pooling"] for row in result.rows))
    least = result.settings["accuracy"]
    figure = drawing.empty(9, 4)
    panels = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    for axes, (number, paper) in zip(panels, numbers.items(), strict=True):
        for marker, good, rows in _strips(result.rows, number, least):
            x = [groups.index(row["pooling"]) for row in rows] + _spread(len(rows))
            face, edge = ("0.2", "0.2") if good else ("none", "0.6")
            style = {"facecolors": face, "edgecolors": edge, "linewidths": 0.6}
            axes.scatter(x, [row["r"] for row in rows], s=9, marker=marker, **style)
        axes.axhline(paper, color="black", ls="--", lw=1.2, zorder=3)
        axes.axhline(0, color="0.8", lw=0.8, zorder=0)
        axes.set_title(f"{number}\npaper: {paper:.4f}", fontsize=9)
        axes.set_xticks(range(len(groups)), groups)
        axes.set_xlim(-0.6, len(groups) - 0.4)
    panels[0].set_ylim(-1.05, 1.05)
    images = result.settings["analysis"]["images"]
    panels[0].set_ylabel(f"mean Pearson r over {images} test images")
    figure.supxlabel("pooling", fontsize=9)
    style = {"ncols": 6, "frameon": False, "fontsize": 8}
    figure.legend(handles=_keys(least), loc="outside upper center", **style)
    return figure


def _strips(rows, number, least):
    """Rows of one number by marker and by whether the network is accurate; the others first."""
    for good in (False, True):
        for positions, marker in MARKERS.items():
            about = number, positions, good
            is_of = lambda row: (row["number"], row["positions"], row["accuracy"] >= least)
            yield marker, good, [row for row in rows if is_of(row) == about]


def _spread(count):
    """Offsets that tell dots of one group apart: the same ones every time."""
    return (np.arange(count) * 0.618034 % 1 - 0.5) * 0.7


def _keys(least):
    from matplotlib.lines import Line2D

    style = {"ls": "", "color": "0.2", "ms": 4}
    positions = [
        Line2D([], [], marker=marker, mfc="none", label=f"positions {name}", **style)
        for name, marker in MARKERS.items()
    ]
    return [
        *positions,
        Line2D([], [], marker="o", label=f"accuracy ≥ {least:.2f}", **style),
        Line2D([], [], marker="o", mfc="none", mec="0.6", label="less", **style),
        Line2D([], [], color="black", ls="--", label="paper"),
    ]

"""One function per figure: Result -> matplotlib Figure, readable in greyscale."""

import io
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from benchmarks.experiments.table1.figures import table1_mnist
from numeric import render
from numeric.layer_maps import LayerMap

GREYS = {"all": "0.25", "content": "0.65"}
MARKERS = {"front to back": "o", "back to front": "s", "single layer": "^"}
LINES = {"front to back": "-", "back to front": "--", "single layer": ":"}
OF_METHODS = {
    "attnlrp": ("AttnLRP", "#0072B2", "o"),
    "cp-lrp": ("CP-LRP", "#D55E00", "s"),
    "gradient-x-input": ("gradient × input", "#009E73", "^"),
    "integrated-gradients": ("IG", "#CC79A7", "v"),
    "attention-rollout": ("rollout", "#E69F00", "x"),
    "loo": ("LOO", "#000000", "D"),
}
"""Label, colour (Okabe and Ito's, which the colour-blind tell apart) and marker of every method."""
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


@mpl.rc_context(STYLE)
def png(result) -> bytes | None:
    """The figure of a result as PNG, or None if its table has none."""
    if result.table not in FIGURES:
        return None
    return _bytes(FIGURES[result.table](result))


def _bytes(figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, dpi=150)
    return file.getvalue()


@mpl.rc_context(STYLE | {"text.parse_math": False})
def layers(maps: Sequence[LayerMap], title: str) -> bytes:
    """Relevance of tokens by layer as PNG, red for the class and blue against it.

    Each column has its own scale, as in the terminal; what is against is marked with a dot.
    """
    rows, columns = (max(n) for n in zip(*(found.values.shape for found in maps), strict=True))
    size = (min(2 + 0.35 * columns, 40), min(1.2 + 0.25 * rows * len(maps), 100))
    figure = Figure(figsize=size, layout="constrained")
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
    return _bytes(figure)


def table1(result) -> Figure:
    """Table 1 as points: r of each pair of maps, raw and normalised, with the paper's numbers."""
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    names = [f"{row['explainer']}\n{row['pair']}" for row in result.rows]
    x = np.arange(len(names))
    for offset, maps, marker in ((-0.15, "raw", "o"), (0.15, "sum to one", "s")):
        mean = np.array([row[f"r {maps}"] for row in result.rows])
        low, high = (
            np.array([row[f"r {maps} {e}"] for row in result.rows]) for e in ("low", "high")
        )
        axes.errorbar(
            x + offset,
            mean,
            yerr=np.abs([mean - low, high - mean]),
            fmt=marker,
            color="0.2",
            mfc="0.2" if maps == "raw" else "white",
            label=f"measured, {maps}",
        )
    axes.plot(x, [row["paper r"] for row in result.rows], "x", color="tab:red", label="paper")
    axes.set_xticks(x, names, fontsize=7)
    axes.set_ylabel("Pearson's r (mean, 95 % interval)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    return _with_legend(figure)


def table2(result) -> Figure:
    """r with LOO by method, over all and over content tokens, with the paper's marks."""
    pairs = zip(result.rows[::2], result.rows[1::2], strict=True)
    pairs = [(row, paper) for row, paper in pairs if row["method"] != "LOO"]
    rows = [row for row, _ in pairs]
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    x = np.arange(len(rows))
    for offset, tokens in ((-0.2, "all"), (0.2, "content")):
        mean = np.array([row[f"r {tokens}"] for row in rows])
        ends = [np.array([row[f"r {tokens} {end}"] for row in rows]) for end in ("low", "high")]
        axes.bar(
            x + offset,
            mean,
            0.38,
            yerr=np.abs([mean - ends[0], ends[1] - mean]),
            color=GREYS[tokens],
            label=f"{tokens} tokens",
        )
    paper = [row.get("r all, sum to one", np.nan) for _, row in pairs]
    axes.plot(x, paper, "D", color="white", mec="black", label="paper (BERT-base, sum to one)")
    axes.set_xticks(x, [row["method"] for row in rows])
    axes.set_ylabel("Pearson's r with Leave-One-Out")
    axes.axhline(0, color="0.5", lw=0.8)
    return _with_legend(figure)


def figure2(result, *, narrow: bool = False) -> Figure:
    """r with LOO and Δ against the layer, for the three orders; crosses: the paper (Table A3).

    The panels are side by side, or below each other on a ``narrow`` page.
    """
    figure = Figure(figsize=(4.4, 5.4) if narrow else (8, 3.4), layout="constrained")
    panels = {"r all": "r, all tokens", "r content": "r, content tokens", "Δ": "Δ = LeRF − MoRF"}
    panels = {key: title for key, title in panels.items() if key in result.rows[0]}
    paper = {"r all": "paper r all, sum to one", "Δ": "paper Δ"}
    shape = (len(panels), 1) if narrow else (1, len(panels))
    for axes, (key, title) in zip(figure.subplots(*shape), panels.items(), strict=True):
        for order, marker in MARKERS.items():
            rows = [row for row in result.rows if row["order"] == order]
            layers = [row["layer"] for row in rows]
            style = {"marker": marker, "ms": 4, "color": "0.2"}
            style["mfc"] = "white" if order == "single layer" else "0.2"
            axes.plot(layers, [row[key] for row in rows], LINES[order], label=order, **style)
            if paper.get(key) in rows[0]:
                theirs = [row[paper[key]] for row in rows]
                label = "paper (BERT-base)" if order == "front to back" else None
                axes.plot(layers, theirs, LINES[order], marker="x", ms=4, color="0.65", label=label)
        axes.axhline(result.rows[0][key], color="tab:red", ls="--", lw=1, zorder=0, label="AttnLRP")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("layer")
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.axes[0].set_ylabel("Pearson's r with Leave-One-Out")
    if "Δ" in panels:
        figure.axes[-1].set_ylabel("logits")
    return _with_legend(figure, columns=2 if narrow else 5)


def softmax(result) -> Figure:
    """By layer: flatness and the errors of §3.2, and what bypassing that layer gains."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes, gain = figure.subplots(1, 2)
    layers = [row["layer"] for row in result.rows]
    lines = {
        "flatness": ("flatness of attention", "o-", "0.2"),
        "structural_bias": ("structural bias", "s--", "0.2"),
        "linearization_error": ("linearization error", "^:", "0.2"),
        "centred_error": ("the same, centred", "v:", "0.6"),
    }
    for key, (label, style, grey) in lines.items():
        axes.plot(layers, [row[key] for row in result.rows], style, color=grey, ms=4, label=label)
    axes.set_ylabel("relative to what it should be")
    for tokens, shift in (("all", -0.2), ("content", 0.2)):
        mean = np.array([row[f"gain {tokens}"] for row in result.rows])
        ends = [
            np.array([row[f"gain {tokens} {e}"] for row in result.rows]) for e in ("low", "high")
        ]
        errors = np.abs([mean - ends[0], ends[1] - mean])
        style = {"color": GREYS[tokens], "label": f"{tokens} tokens"}
        gain.bar(np.array(layers) + shift, mean, 0.38, yerr=errors, **style)
    gain.axhline(0, color="0.5", lw=0.8)
    gain.set_ylabel("gain in r, this layer bypassed")
    gain.legend(frameon=False, fontsize=8, loc="upper left")
    for each in (axes, gain):
        each.set_xlabel("layer")
        each.xaxis.get_major_locator().set_params(integer=True)
    return _with_legend(figure)


def causes(result) -> Figure:
    """The pointing game of every method against the distance of the cause, by task; with chance."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    rows = [row for row in result.rows if row["measure"] == "pointing" and row["distance"] != "all"]
    tasks = dict.fromkeys(row["task"] for row in rows if row["task"] != "all")
    for axes, task in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, tasks, strict=True):
        of_task = [row for row in rows if row["task"] == task]
        x = np.arange(len(of_task))
        for n, (method, (label, colour, marker)) in enumerate(OF_METHODS.items()):
            y, low, high = (
                np.array([row[method + end] for row in of_task]) for end in ("", " low", " high")
            )
            axes.errorbar(
                x + 0.07 * (n - 2.5),
                y,
                yerr=np.abs([y - low, high - y]),
                color=colour,
                marker=marker,
                ms=4,
                lw=1,
                label=label,
            )
        axes.plot(x, [row["chance"] for row in of_task], ":", color="0.5", label="chance")
        axes.set_xticks(x, [row["distance"] for row in of_task])
        axes.set_title(task, fontsize=9)
        axes.set_ylim(-0.03, 1.03)
    figure.supxlabel("distance of the cause", fontsize=9)
    figure.supylabel("largest relevance at a cause (share, 95 %)", fontsize=9)
    return _with_legend(figure)


def timing(result) -> Figure:
    """Milliseconds against text length, log-log."""
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    for label, style in {"LOO": "D-.", "AttnLRP": "o-", "CP-LRP": "s--", "gradient": "^:"}.items():
        axes.loglog(
            [row["tokens"] for row in result.rows],
            [row[f"{label.lower()} ms"] for row in result.rows],
            style,
            color="0.2",
            mfc="white" if label == "gradient" else "0.2",
            ms=4,
            label=label,
        )
    ticks = [row["tokens"] for row in result.rows]
    axes.set_xticks(ticks, ticks)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("tokens in the text")
    axes.set_ylabel("milliseconds per text (median)")
    return _with_legend(figure)


def _with_legend(figure, columns=5):
    """Above the axes, where no data can be."""
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)
    return figure


FIGURES = {
    "table1": table1,
    "table1-mnist": table1_mnist,
    "table2": table2,
    "figure2": figure2,
    "softmax": softmax,
    "causes": causes,
    "time": timing,
}
"""By table."""

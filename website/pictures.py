"""``make pictures``: pictures of README and docs, from the embedded model and sentences."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.experiments import drawing, trade_off
from benchmarks.experiments import figure2 as layers
from benchmarks.experiments.record import Request
from benchmarks.experiments.reproduce import reproduce
from benchmarks.research.other_shapes import compare
from benchmarks.sources import data, models
from numeric import attribute
from numeric.results import render

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TEXT = "not a bad film"
COLUMNS = {
    "loo": "Leave-\nOne-Out",
    "cp-lrp": "CP-LRP",
    "attnlrp": "AttnLRP",
    "integrated-gradients": "Integrated\nGradients",
    "attention-rollout": "attention\nrollout",
}
STYLE = drawing.STYLE | {"font.size": 11, "axes.labelsize": 10, "svg.hashsalt": "lrp-axioms"}


def heat_map() -> Figure:
    """Relevance of every token of one sentence, by method; all logits have one scale of colours."""
    embedded = models.load()
    inputs = embedded.tokenizer([TEXT], return_tensors="pt")
    tokens = embedded.tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    found = [attribute(embedded.model, inputs, name).relevance[0].tolist() for name in COLUMNS]
    figure = Figure(figsize=(5.2, 3.5), layout="constrained")
    names, logits, shares = list(COLUMNS.values()), found[:-1], found[-1:]
    ratios = {"width_ratios": [len(logits), len(shares)]}
    panels = figure.subplots(1, 2, gridspec_kw=ratios)
    _cells(panels[0], logits, names[:-1], "logits: one scale of colours")
    _cells(panels[1], shares, names[-1:], "shares")
    panels[0].set_yticks(range(len(tokens)), tokens, fontsize=12)
    return figure


def _cells(axes, found: Sequence[Sequence[float]], names: Sequence[str], unit: str) -> None:
    """Draws columns of numbers on one scale of colours."""
    flat = render.colours([value for column in found for value in column])
    cells = np.array(flat, dtype=np.uint8).reshape(len(found), -1, 3)
    axes.imshow(cells.swapaxes(0, 1), aspect="auto", interpolation="nearest")
    for x, column in enumerate(found):
        for y, value in enumerate(column):
            axes.text(x, y, f"{value:+z.2f}", ha="center", va="center", color="black")
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks([])
    axes.set_xlabel(unit)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def figure2() -> Figure:
    """Figure 2 on the embedded model, beside the paper's numbers, for a narrow page."""
    with TemporaryDirectory() as folder:  # a run that is kept would show an older engine
        request = Request(
            classifier=models.load(), data=data.load(), output=Path(folder), curves=False
        )
        (result,) = reproduce(request, wanted=["figure2"])
    return layers.figure(result, narrow=True)


def tradeoff() -> Figure:
    """Agreement with Leave-One-Out by passes through the embedded model."""
    names = trade_off.EXPERIMENT.rows
    with TemporaryDirectory() as folder:
        found = compare.measure("embedded", data.load(), Path(folder), names=names)
    return trade_off.figure(trade_off.trade_off(found))


PICTURES = {"heatmap": heat_map, "figure2": figure2, "tradeoff": tradeoff}


@mpl.rc_context(STYLE)
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes some or all as SVG, on white, so that they can be read on a dark page too."""
    parser = argparse.ArgumentParser(prog="website.pictures", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(PICTURES)}")
    names = parser.parse_args(arguments).names or [*PICTURES]
    if unknown := [name for name in names if name not in PICTURES]:
        parser.error(f"{', '.join(unknown)}: pass NAME of {', '.join(PICTURES)}")
    for name in names:
        path = IMAGES / f"{name}.svg"
        PICTURES[name]().savefig(path, metadata={"Date": None})
        print(f"wrote {path.relative_to(IMAGES.parents[1])}")


if __name__ == "__main__":
    main()

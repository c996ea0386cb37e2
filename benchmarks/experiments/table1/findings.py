"""Sentences and a figure about the numbers of Table 1 that the sweep on MNIST reaches."""

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

MARKERS = {"learned": "o", "sinusoidal": "^", "none": "s"}
AXES = ("level", "bias", "baseline", "sides")
ANY = "–"  # a number that does not depend on an axis


def findings(
    rows: list[dict], *, tolerance: float, accuracy: float, invariance: dict[str, tuple[float, int]]
) -> Iterator[str]:
    """Yields a sentence per number of the paper, on all together, on accuracy and on invariance.

    rows: of `mnist.sweep`; invariance: explainer -> the largest difference between the two orders,
    in units of a map's largest value, and its number of images.
    """
    yield from accuracies(rows, accuracy)
    for number in dict.fromkeys(row["number"] for row in rows):
        mine = [row for row in rows if row["number"] == number]
        yield _one(number, mine, tolerance, accuracy)
    yield from _all(rows)
    found = ", ".join(
        f"{name} {value:.0e} on {count} images" for name, (value, count) in invariance.items()
    )
    yield (
        "Both orders have the same LOO and the same IG map for every network; largest difference "
        f"in units of a map's largest value: {found}."
    )


def accuracies(rows: list[dict], least: float) -> Iterator[str]:
    """Lists networks that are as accurate as the paper's, and others."""
    networks = {_network(row): row["accuracy"] for row in rows}
    for sign, chosen in (("at least", True), ("less than", False)):
        part = {name: value for name, value in networks.items() if (value >= least) == chosen}
        if part:
            names = "; ".join(f"{name} {value:.3f}" for name, value in part.items())
            yield f"Test accuracy {sign} {least:.2f} (paper: 0.85): {names}."


def together(rows: list[dict]) -> list[tuple[dict, set[str]]]:
    """Yields every complete specification with the numbers that it reaches, most first.

    A complete one fixes network, level, bias, baseline, sides, maps and pixels for all numbers.
    """
    groups = defaultdict(list)
    for row in rows:
        groups[_network(row), row["maps"], row["pixels"]].append(row)
    values = [sorted({row[axis] for row in rows} - {ANY}) for axis in AXES]
    found = []
    for (network, maps, pixels), group in groups.items():
        about = {"network": network, "accuracy": group[0]["accuracy"]}
        about |= {"maps": maps, "pixels": pixels}
        for choice in itertools.product(*values):
            choices = dict(zip(AXES, choice, strict=True))
            fits = [r for r in group if all(r[a] in (ANY, v) for a, v in choices.items())]
            found.append((about | choices, {row["number"] for row in fits if row["reached"]}))
    return sorted(found, key=lambda pair: -len(pair[1]))


def _one(number, rows, tolerance, accuracy):
    paper = rows[0]["paper r"]
    start = f"{number} ({paper}): "
    reached = [row for row in rows if row["reached"]]
    good = [row for row in reached if row["accuracy"] >= accuracy]
    if not reached:
        defined = [row for row in rows if row["r"] == row["r"]]
        near = min(defined, key=lambda row: abs(row["r"] - paper), default=None)
        return f"{start}reached within {tolerance} by none of {len(rows)} specifications" + (
            f"; the closest is {near['r']:.4f} ({_name(near)})." if near else "."
        )
    closest = min(good or reached, key=lambda row: abs(row["r"] - paper))
    networks = "; ".join(sorted({_network(row) for row in good}))
    return (
        f"{start}reached within {tolerance} by {len(reached)} of {len(rows)} specifications, "
        f"{len(good)} of them with accuracy of at least {accuracy:.2f}"
        f"{f' (networks: {networks})' if good else ''}; the closest of these is "
        f"{closest['r']:.4f} ({_name(closest)})."
    )


def _all(rows):
    ranked = together(rows)
    numbers = len({row["number"] for row in rows})
    most = len(ranked[0][1])
    best = [(about, found) for about, found in ranked if len(found) == most]
    if most == 0:
        yield f"No specification reaches any of the {numbers} numbers."
        return
    yield (
        f"Of {len(ranked)} complete specifications, {len(best)} reach {most} of the {numbers} "
        f"numbers at once, and none more."
    )
    kinds = {(about["network"], about["accuracy"], tuple(sorted(f))) for about, f in best}
    for network, accuracy, found in sorted(kinds):
        yield f"At once in {network} (accuracy {accuracy:.3f}): {', '.join(found)}."


def _network(row):
    return f"{row['model']}, seed {row['seed']}"


def _name(row):
    """Describes a specification in words."""
    words = {
        "level": "at the {}",
        "bias": "bias {} the denominator",
        "baseline": "from the {}",
        "sides": "sides as in §{}",
    }
    parts = [text.format(row[axis]) for axis, text in words.items() if row[axis] != ANY]
    return "; ".join([_network(row), *parts, f"maps {row['maps']}", f"{row['pixels']} pixels"])


def strips(result):
    """Draws every specification as a dot, grouped by pooling; the paper's number as a line.

    Dark: networks as accurate as the paper's; open: less accurate.
    """
    from lrp_axioms.benchmarks.experiments import drawing

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
    return drawing.with_legend(figure, columns=6, handles=_keys(least))


def _strips(rows, number, least):
    """Groups rows of a number by marker and accuracy of the network; inaccurate ones first."""
    for good in (False, True):
        for positions, marker in MARKERS.items():
            about = number, positions, good
            is_of = lambda row: (row["number"], row["positions"], row["accuracy"] >= least)
            yield marker, good, [row for row in rows if is_of(row) == about]


def _spread(count):
    """Returns fixed offsets that tell dots of a group apart."""
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

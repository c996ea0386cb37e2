"""Figures that only the notebooks have, readable in greyscale."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.experiments import drawing

GREYS = {"all": "0.2", "content": "0.6"}


@mpl.rc_context(drawing.STYLE)
def gaps(found: Mapping[str, np.ndarray]) -> Figure:
    """Share of texts with at most so large an r of CP-LRP minus r of AttnLRP, by token set.

    The middle 98 % of the texts are shown.
    """
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    axes = figure.subplots()
    styles = {"all": {"color": "0.1"}, "content": {"color": "0.5", "ls": "--"}}
    raw = {tokens: found[tokens] for tokens in styles}
    for tokens, gap in raw.items():
        x = np.sort(gap[~np.isnan(gap)])
        share = np.arange(1, len(x) + 1) / len(x)
        axes.plot(x, share, drawstyle="steps-post", label=f"{tokens} tokens", **styles[tokens])
    axes.set_xlim(*np.nanquantile(np.concatenate([*raw.values()]), [0.01, 0.99]))
    axes.axvline(0, color="0.5", lw=0.8)
    axes.axhline(0.5, color="0.5", lw=0.8)
    axes.set_xlabel("r with Leave-One-Out: CP-LRP minus AttnLRP")
    axes.set_ylabel("share of texts below")
    axes.legend(frameon=False)
    return figure


@mpl.rc_context(drawing.STYLE)
def layer_gains(gains: Mapping[str, Sequence], paper: Sequence[float]) -> Figure:
    """Gain in r when one layer alone bypasses the softmax, with intervals; crosses: the paper."""
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    axes = figure.subplots()
    for tokens, shift in (("all", -0.2), ("content", 0.2)):
        mean, low, high = (
            np.array([getattr(gain, end) for gain in gains[tokens]])
            for end in ("mean", "low", "high")
        )
        errors = np.abs([mean - low, high - mean])
        style = {"color": GREYS[tokens], "label": f"measured, {tokens} tokens"}
        axes.bar(np.arange(1, len(mean) + 1) + shift, mean, 0.38, yerr=errors, **style)
    axes.plot(range(1, len(paper) + 1), paper, "kx", label="paper (Table A3, BERT-base)")
    axes.axhline(0, color="0.5", lw=0.8)
    axes.set_xlabel("layer that bypasses the softmax, alone")
    axes.set_ylabel("gain in r over AttnLRP")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=8)
    return figure


@mpl.rc_context(drawing.STYLE)
def against(points: Mapping[str, Sequence[float]], gain: Sequence[float]) -> Figure:
    """One panel per quantity: its value in every layer (numbered) against the layer's gain."""
    figure = Figure(figsize=(7.5, 2.7), layout="constrained")
    panels = figure.subplots(1, len(points), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, points.items(), strict=True):
        axes.plot(values, gain, "o", color="0.75", ms=12)
        for n, place in enumerate(zip(values, gain, strict=True), start=1):
            axes.annotate(str(n), place, ha="center", va="center", fontsize=8)
        axes.axhline(0, color="0.5", lw=0.8)
        axes.set_xlabel(f"{name} (dimensionless)")
    panels[0].set_ylabel("gain in r, all tokens")
    return figure


@mpl.rc_context(drawing.STYLE)
def special(gaps: Mapping[str, Mapping[str, Mapping]]) -> Figure:
    """r of CP-LRP minus r of AttnLRP with special tokens left out, by data set."""
    figure = Figure(figsize=(6.5, 2.6), layout="constrained")
    axes = figure.subplots()
    for n, (dataset, rows) in enumerate(gaps.items()):
        gap, errors = drawing.interval(rows.values(), "gap")
        places = np.arange(len(rows)) + 0.15 * (2 * n - 1)
        axes.errorbar(places, gap, errors, fmt="os"[n], color=("0.1", "0.55")[n], label=dataset)
        axes.set_xticks(range(len(rows)), rows)
    axes.axhline(0, color="0.5", lw=0.8)
    axes.set_xlabel("tokens that count in the correlation")
    axes.set_ylabel("r of CP-LRP − AttnLRP")
    axes.legend(frameon=False)
    return figure


@mpl.rc_context(drawing.STYLE)
def choices(result) -> Figure:
    """r with Leave-One-Out (attention mask) of both methods under every open choice."""
    names = list(dict.fromkeys(r["choice"] for r in result.rows if r["method"] != "LOO"))
    figure = Figure(figsize=(7.5, 3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, tokens in zip(panels, GREYS, strict=True):
        for method, marker in (("AttnLRP", "o"), ("CP-LRP", "s")):
            rows = {r["choice"]: r for r in result.rows if r["method"] == method}
            shown = [rows[name] for name in names]
            r, errors = drawing.interval(shown, f"attention mask {tokens}")
            places = np.arange(len(names)) + (0.15 if method == "CP-LRP" else -0.15)
            style = {"color": "0.2", "mfc": "white" if method == "AttnLRP" else "0.2", "ms": 4}
            axes.errorbar(r, places, xerr=errors, fmt=marker, label=method, **style)
        axes.set_title(f"{tokens} tokens", fontsize=9)
        axes.set_xlabel("Pearson's r with Leave-One-Out")
        axes.set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    panels[1].legend(frameon=False, fontsize=8)
    return figure


@mpl.rc_context(drawing.STYLE)
def heads(found: Mapping[str, np.ndarray], rules: Sequence[str]) -> Figure:
    """One panel per rule: flatness of every head against r within its rows; darker: later layer."""
    figure = Figure(figsize=(7.5, 3), layout="constrained")
    panels = figure.subplots(1, len(rules), sharey=True)
    layers = np.broadcast_to(
        np.arange(1, len(found["flatness"]) + 1)[:, None], found[rules[0]].shape
    )
    for axes, rule in zip(panels, rules, strict=True):
        points = axes.scatter(
            found["flatness"], found[rule], c=layers, cmap="Greys", vmin=-4, ec="0.3", lw=0.4, s=22
        )
        axes.axhline(0, color="0.5", lw=0.8)
        axes.set_title(rule, fontsize=9)
        axes.set_xlabel("flatness of attention (dimensionless)")
    panels[0].set_ylabel("r with Leave-One-Out, within rows")
    bar = figure.colorbar(points, ax=panels, label="layer")
    bar.ax.set_ylim(1, layers.max())
    return figure


@mpl.rc_context(drawing.STYLE)
def shares(explained: np.ndarray, names: Sequence[str]) -> Figure:
    """The share of texts with at least so much of their variance explained, by account."""
    figure = Figure(figsize=(6.5, 2.8), layout="constrained")
    axes = figure.subplots()
    for values, name, line in zip(explained.T, names, (":", "--", "-"), strict=True):
        x = np.sort(values.clip(min=0))
        axes.step(x, 1 - np.arange(len(x)) / len(x), where="pre", color="0.2", ls=line, label=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("share of the variance that is explained, at least")
    axes.set_ylabel("share of texts")
    axes.legend(frameon=False)
    return figure

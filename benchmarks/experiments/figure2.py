"""Figure 2 and Table A3: agreement with Leave-One-Out when some layers bypass the softmax."""

import numpy as np

from lrp_axioms.axioms.kinds import IDENTITY
from lrp_axioms.benchmarks.experiments.maps import (
    SEED,
    Measured,
    correlations,
    means,
    stacked,
    statistics,
    too_few,
)
from lrp_axioms.benchmarks.experiments.record import DASH, Experiment, number, value
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO, cells, layers_label
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean

MARKERS = {"front to back": "o", "back to front": "s", "single layer": "^"}
SUM_TO_ONE = "r all, sum to one"
PANELS = {
    SUM_TO_ONE: "r, all tokens, sum to one",
    "r all": "r, all tokens",
    "r content": "r, content tokens",
    "Δ": "Δ = LeRF − MoRF",
}
CURVES = {
    "": {"color": "0.2"},
    f"{IDENTITY} ": {"color": "tab:blue", "label": "identity at the softmax"},
    "paper ": {"color": "0.65", "label": "paper (BERT-base)", "marker": "x"},
}
"""Start of a row's keys -> style of its lines; a label is the legend's for the first order."""
LINES = {"front to back": "-", "back to front": "--", "single layer": ":"}


def figure2(data: Measured) -> Result:
    loo = data.maps["LOO"]
    others = {label: maps for label, maps in data.maps.items() if maps is not loo}
    by_identity = {label for label in others if label.startswith(IDENTITY)}
    found = {k: statistics(maps, loo) for k, maps in others.items() if k not in by_identity}
    averages = {label: means(values) for label, values in found.items()}
    averages |= {label: means(correlations(others[label], loo)) for label in by_identity}
    depth = max(len(label.split()) for label in found)

    def both(chosen):
        identity = averages[layers_label(chosen, IDENTITY)]
        named = {f"{IDENTITY} {key}": value for key, value in identity.items()}
        return averages[layers_label(chosen)] | named

    rows = [{"order": "AttnLRP", "layer": 0, "layers": 0, **both(())}]
    for (order, n), chosen in cells(depth).items():
        row = {"order": order, "layer": n, "layers": len(chosen), **both(chosen)}
        rows.append(row | _paper_cell(data.paper.get(order, {}), n, depth))
    return data.result(
        "figure2",
        title=f"Figure 2: which layers gain from bypassing the softmax, on {data.dataset}",
        text=TEXT,
        rows=rows,
        examples=stacked(found, loo, "layers"),
        notes=(
            *_sweep_notes(found, rows),
            *_shape(rows),
            *([] if "Δ" in rows[0] else [WITHOUT_CURVES]),
            *too_few(len(loo.present)),
            *undefined(rows),
        ),
    )


def _paper_cell(columns, n, depth):
    """The paper's numbers for one cell, if its model is as deep as this one."""
    return {
        f"paper {key}": values[n - 1] for key, values in columns.items() if len(values) == depth
    }


def _sweep_notes(found, rows):
    """Names the single layers that gain, from intervals of the paired difference to AttnLRP."""
    for tokens in ("all", "content"):
        key = f"r {tokens}"
        singles = [row["layer"] for row in rows if row["order"] == "single layer"]
        apart = lambda n, key=key: found[str(n)][key] - found["none"][key]
        gaps = {n: bootstrap_mean(apart(n), seed=SEED) for n in singles}
        up = [str(n) for n, gap in gaps.items() if gap.low > 0]
        down = [str(n) for n, gap in gaps.items() if gap.high < 0]
        best = max(gaps, key=lambda n: gaps[n].mean)
        yield (
            f"Over {tokens} tokens, bypassing one softmax brings AttnLRP closer to Leave-One-Out "
            f"in {_layers(up)}, and farther in {_layers(down)} (paired 95 % intervals exclude 0); "
            f"most in layer {best}: {gaps[best].mean:+z.3f} "
            f"[{gaps[best].low:+z.3f}, {gaps[best].high:+z.3f}]."
        )


def ratios(rows) -> dict[str, np.ndarray]:
    """Returns rule -> r of sum-to-one maps over CP-LRP's, at the cells that the paper has."""
    known = [row for row in rows if f"paper {SUM_TO_ONE}" in row]
    if not known:
        return {}
    whole = max(known, key=lambda row: row["layers"])  # CP-LRP
    return {
        rule: np.array([row[rule + SUM_TO_ONE] / whole[rule + SUM_TO_ONE] for row in known])
        for rule in CURVES
    }


def _shape(rows):
    """Compares the paper's cells with both rules, each as a ratio to CP-LRP in every layer."""
    found = ratios(rows)
    if not found:
        return
    gap = {rule: np.sqrt(np.mean((x - found["paper "]) ** 2)) for rule, x in found.items()}
    yield (
        f"As ratios to CP-LRP everywhere, the paper's {len(found['paper '])} values of r (sum to "
        f"one) are {gap['']:.2f} from Eq. 5 and {gap[f'{IDENTITY} ']:.2f} from the identity rule "
        "(root mean square)."
    )


def _layers(numbers):
    return f"layers {', '.join(numbers)}" if numbers else "no layer"


def figure(result, *, narrow: bool = False):
    """r with LOO and Δ against the layer, for the three orders; light crosses: the paper.

    The panels are side by side, or below each other on a ``narrow`` page.
    """
    from lrp_axioms.benchmarks.experiments import drawing

    figure = drawing.empty(4.4, 8) if narrow else drawing.empty(10, 3.6)
    panels = {key: title for key, title in PANELS.items() if key in result.rows[0]}
    shape = (len(panels), 1) if narrow else (1, len(panels))
    for axes, (key, title) in zip(figure.subplots(*shape), panels.items(), strict=True):
        for order, marker in MARKERS.items():
            rows = [row for row in result.rows if row["order"] == order]
            layers = [row["layer"] for row in rows]
            for rule, style in CURVES.items():
                if rule + key in rows[0]:
                    look = {"marker": marker, "label": order, **style}
                    look["mfc"] = "white" if order == "single layer" else look["color"]
                    if rule and order != "front to back":
                        look["label"] = None
                    values = [row[rule + key] for row in rows]
                    axes.plot(layers, values, LINES[order], ms=4, **look)
        axes.axhline(result.rows[0][key], color="tab:red", ls="--", lw=1, zorder=0, label="AttnLRP")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("layer")
        axes.xaxis.get_major_locator().set_params(integer=True)
    correlations = [axes for axes, key in zip(figure.axes, panels, strict=True) if key != "Δ"]
    limits = [y for axes in correlations for y in axes.get_ylim()]
    for axes in correlations:  # one scale, since they are compared
        axes.set_ylim(min(limits), max(limits))
    figure.axes[0].set_ylabel("Pearson's r with Leave-One-Out")
    if "Δ" in panels:
        figure.axes[-1].set_ylabel("logits")
    return drawing.with_legend(figure, columns=2 if narrow else 5)


TEXT = (
    "AttnLRP everywhere, except that the named layers treat attention as CP-LRP does (all "
    "relevance to the values, none through the softmax): mean Pearson's r with Leave-One-Out, and "
    "Δ = LeRF − MoRF. Layer n of 'front to back' means layers 1 to n, of 'back to front' layers n "
    "to the last. The paper's numbers (Table A3) are for BERT-base and maps that sum to one; "
    "'identity' is r of such maps with R_Z = R_A in the place of Eq. 5 in all other layers. In "
    "the figure black is Eq. 5, blue the identity rule, and grey the paper."
)
WITHOUT_CURVES = "Δ is left out: `lrp-axioms reproduce figure2 --curves` measures it."

EXPERIMENT = Experiment(
    name="figure2",
    rows=(LOO, "figure2-{}", "figure2-{}-identity"),
    run=figure2,
    columns=[
        ("layer", lambda row: str(row["layer"] or DASH)),
        ("bypassed", value("order")),
        ("count", value("layers")),
        ("r, all\ntokens", number("r all")),
        ("content\ntokens", number("r content")),
        ("r, sum\nto one", number("r all, sum to one")),
        ("iden-\ntity", number("identity r all, sum to one")),
        ("paper", number("paper r all, sum to one", 2)),
        ("Δ", number("Δ", 2)),
        ("paper", number("paper Δ", 2)),
    ],
    shortest=lambda row: row["order"] in ("AttnLRP", "front to back") and row["layer"] % 4 == 0,
    figure=figure,
)

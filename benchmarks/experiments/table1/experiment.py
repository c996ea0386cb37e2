"""Table 1 on the embedded digits, over networks that were trained from several seeds."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.experiments.maps import SEED, means
from benchmarks.experiments.record import Experiment, interval, number, value
from benchmarks.experiments.result import Result, joined, undefined
from benchmarks.experiments.table1 import digits, methods
from benchmarks.running.workers import Each, Track, collected, in_turn, untracked
from numeric.evaluation.correlation import bootstrap_mean

SEEDS = (0, 1, 2)


def table1(
    *,
    seeds: Sequence[int] = SEEDS,
    epochs: int = digits.EPOCHS,
    count: int | None = None,
    each: Each = in_turn,
    track: Track = untracked,
) -> Result:
    """Table 1 on the embedded digits: one linear-attention network per seed, two factorizations."""
    network = partial(_network, epochs, count)
    runs = collected(network, seeds, each=each, track=track, description="digits")
    examples = joined(
        {"seed": [seed] * len(run.examples["label"])}
        | {key: values.tolist() for key, values in run.examples.items()}
        for seed, run in runs.items()
    )
    rows = [
        _row(runs, examples, explainer, pair, paper)
        for explainer, row in digits.PAPER.items()
        for pair, paper in row.items()
    ]
    accuracy = {seed: round(run.accuracy, 3) for seed, run in runs.items()}
    return Result(
        name="table1",
        table="table1",
        title="Table 1: one function, two factorizations, on handwritten digits",
        text=(
            "Linear attention without softmax on 8×8 digits, evaluated as (QKᵀ)V (L, qk_first) or "
            "Q(KᵀV) (R, kv_first) with the same weights: mean Pearson's r between pixel maps "
            f"over {len(examples['seed']) // len(runs)} test images of each of "
            f"{len(runs)} trained networks (accuracy {', '.join(map(str, accuracy.values()))}). "
            "The paper's numbers are from 14×14 MNIST and a network whose details it leaves open. "
            "The number of epochs follows from the accuracy on held-out training images "
            f"(at least {digits.GOAL} for every seed, benchmarks/experiments/table1/digits.py)."
        ),
        settings={"seeds": [*runs], "epochs": epochs, "epsilon": 1e-6, "accuracy": accuracy},
        rows=rows,
        examples=examples,
        notes=(*_notes(rows), *undefined(rows)),
    )


def _network(epochs, count, seed):
    return digits.measured(seed=seed, epochs=epochs, count=count)


def _notes(rows):
    """Compares the numbers with the paper's table, in words."""
    r = {f"{row['explainer']} {row['pair']}": row["r raw"] for row in rows}
    same = [name for name in ("LOO", "IG", "AttnLRP") if r[f"{name} L vs R"] > 1 - 1e-9]
    differ = [name for name in ("LOO", "IG", "AttnLRP") if name not in same]
    yield (
        f"The same map for both factorizations: {', '.join(same) or 'none'}; different maps: "
        f"{', '.join(differ) or 'none'} (in the paper: LOO, IG; AttnLRP)."
    )
    far = [row for row in rows if abs(row["r raw"] - row["paper r"]) > 0.5]
    if far:
        cells = [f"{row['explainer']} {row['pair']} ({row['paper r']})" for row in far]
        yield f"More than 0.5 away from the paper: {', '.join(cells)}."


def _row(runs, examples, explainer, pair, paper):
    key = f"{explainer} {pair}"
    row = {"explainer": explainer, "pair": pair, "paper r": paper}
    row |= means({f"r {maps}": examples[f"{key} {maps} all"] for maps in methods.MAPS})
    seeds = [run.examples[f"{key} raw all"] for run in runs.values()]
    per_seed = [bootstrap_mean(values, seed=SEED).mean for values in seeds]
    return row | {"range": f"{min(per_seed):.2f}–{max(per_seed):.2f}"}


def figure(result):
    """r of each pair of maps as points, raw and normalised, with the paper's numbers."""
    from benchmarks.experiments import drawing

    figure = drawing.empty(7, 3)
    axes = figure.subplots()
    names = [f"{row['explainer']}\n{row['pair']}" for row in result.rows]
    x = np.arange(len(names))
    for offset, maps, marker in ((-0.15, "raw", "o"), (0.15, "sum to one", "s")):
        mean, errors = drawing.interval(result.rows, f"r {maps}")
        style = {"color": "0.2", "mfc": "0.2" if maps == "raw" else "white"}
        axes.errorbar(x + offset, mean, yerr=errors, fmt=marker, label=f"measured, {maps}", **style)
    axes.plot(x, [row["paper r"] for row in result.rows], "x", color="tab:red", label="paper")
    axes.set_xticks(x, names, fontsize=7)
    axes.set_ylabel("Pearson's r (mean, 95 % interval)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    return drawing.with_legend(figure)


EXPERIMENT = Experiment(
    name="table1",
    run=lambda request: table1(each=request.each, track=request.track),
    columns=[
        ("maps compared", lambda row: f"{row['explainer']} {row['pair'].replace(' vs ', '–')}"),
        ("r, raw", interval("r raw", ends=3)),
        ("over seeds", value("range")),
        ("r, sum\nto one", interval("r sum to one", ends=3)),
        ("paper", number("paper r", 4)),
    ],
    figure=figure,
)

"""The table of causes: its columns, one for each attribution method, and its figure."""

from itertools import cycle

import numpy as np

from benchmarks.experiments.causes.measure import COUNT, answering, causes
from benchmarks.experiments.record import Experiment, above_interval, number
from numeric.methods.catalogue import METHODS

MORE = ("mass", "rank")
"""Measures that a terminal shows of all tasks together, beside the pointing game of each."""
STYLES = (
    ("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "v"),
    ("#E69F00", "x"), ("#000000", "D"), ("#56B4E9", "P"), ("#777777", "*"),
)  # fmt: skip
"""Colour (Okabe and Ito's, which the colour-blind tell apart) and marker, by turn of the method."""


def _cause(row):
    """The task, its distance unless all are meant, and the measure unless it is pointing."""
    task = row["task"] + f", {row['distance']}" * (row["distance"] != "all")
    return task if row["measure"] == "pointing" else f"{row['measure']}: {task}"


def _narrow(label):
    """A label that is no wider than its column."""
    return "\n".join(label.replace("gradient ×", "grad. x").rsplit(" ", 1))


def figure(result):
    """The pointing game of every method against the distance of the cause, by task; with chance."""
    from benchmarks.experiments import drawing

    figure = drawing.empty(8, 5)
    methods = [each for each in METHODS.values() if each.name in result.rows[0]]
    rows = [row for row in result.rows if row["measure"] == "pointing" and row["distance"] != "all"]
    tasks = dict.fromkeys(row["task"] for row in rows if row["task"] != "all")
    for axes, task in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, tasks, strict=True):
        of_task = [row for row in rows if row["task"] == task]
        x = np.arange(len(of_task))
        for n, (method, (colour, marker)) in enumerate(zip(methods, cycle(STYLES))):
            y, errors = drawing.interval(of_task, method.name)
            style = {"color": colour, "marker": marker, "ms": 4, "lw": 1, "label": method.label}
            axes.errorbar(x + 0.07 * (n - (len(methods) - 1) / 2), y, yerr=errors, **style)
        axes.plot(x, [row["chance"] for row in of_task], ":", color="0.5", label="chance")
        axes.set_xticks(x, [row["distance"] for row in of_task])
        axes.set_title(task, fontsize=9)
        axes.set_ylim(-0.03, 1.03)
    figure.supxlabel("distance of the cause", fontsize=9)
    figure.supylabel("largest relevance at a cause (share, 95 %)", fontsize=9)
    return drawing.with_legend(figure)


EXPERIMENT = Experiment(
    name="causes",
    prepare=lambda request: {"model": answering(request.classifier)},
    run=lambda request, model: causes(
        model=model, count=request.prompts or COUNT, each=request.each, track=request.track
    ),
    columns=[
        ("pointing\nby task", _cause),
        ("chance", number("chance", 2)),
        *((_narrow(each.label), above_interval(each.name, one="1")) for each in METHODS.values()),
    ],
    shortest=lambda row: (
        row["distance"] == "all"
        and (row["measure"] == "pointing" or (row["task"] == "all" and row["measure"] in MORE))
    ),
    figure=figure,
)

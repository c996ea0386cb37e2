"""The table of activation patching: a column per rule, and a figure of the text experiments."""

from benchmarks.experiments.columns import number, value
from benchmarks.experiments.record import Experiment

LABELS = {
    "gradient": "gradient", "norms": "norms", "activations": "activ.", "gates": "gates",
    "halves": "halves", "bypass": "bypass", "attnlrp": "AttnLRP", "cp-lrp": "CP-LRP",
}  # fmt: skip
"""Set of rules -> what its column is called."""


def prepare(request):
    """The models that are measured."""
    from benchmarks.experiments.patching.measure import asked

    return {"names": asked(request.classifier)}


def run(request, names):
    """The table, by a module that loads models, which those who only show it do without."""
    from benchmarks.experiments.patching.measure import COUNT, measured

    count = request.prompts or COUNT
    return measured(names, request.data, count=count, each=request.each, track=request.track)


def _above_interval(key):
    """r with its interval in the line below, for columns that are narrow."""

    def cell(row):
        ends = (f"{row[f'{key} {end}']:z.2f}".replace("0.", ".", 1) for end in ("low", "high"))
        return f"{row[key]:z.2f}\n{'–'.join(ends)}"

    return cell


def figure(result):
    """r of every set of rules by kind of place, for each model whose weights are trained."""
    from benchmarks.experiments import drawing

    rows = [row for row in result.rows if row["corrupted"] in ("another word", "zeros")]
    rows = [row for row in rows if not row["model"].startswith("random")]
    shown = list(dict.fromkeys((row["model"], row["corrupted"]) for row in rows))
    made = drawing.empty(9, 2.6 * len(shown))
    axes = made.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, (model, corrupted) in zip(axes, shown, strict=True):
        of = [row for row in rows if (row["model"], row["corrupted"]) == (model, corrupted)]
        for n, (row, marker) in enumerate(zip(of, "osD", strict=True)):
            for x, key in enumerate(LABELS):
                y, reach = drawing.interval([row], key)
                style = {"marker": marker, "color": ("#0072B2", "#D55E00", "#009E73")[n], "ms": 5}
                label = row["place"] if x == 0 else None
                axis.errorbar([x + 0.15 * (n - 1)], y, yerr=reach, ls="", label=label, **style)
        axis.set_title(f"{model}, {corrupted}", fontsize=9)
        axis.set_xticks(range(len(LABELS)), list(LABELS.values()))
        axis.set_ylabel("Pearson's r", fontsize=9)
    return drawing.with_legend(made)


EXPERIMENT = Experiment(
    name="patching",
    prepare=prepare,
    run=run,
    columns=[
        ("model", value("model")),
        ("corrupted by", value("corrupted")),
        ("place", value("place")),
        *((label, _above_interval(key)) for key, label in LABELS.items()),
        ("norms by\ntheorem 57", number("held", 2)),
    ],
    shortest=lambda row: row["corrupted"] == "another word",
    figure=figure,
    summary=lambda result: result.notes[:1],
)

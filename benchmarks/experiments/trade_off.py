"""How close to Leave-One-Out a method comes for so many passes through the model."""

import re
from collections.abc import Iterator

import numpy as np

from lrp_axioms.benchmarks.experiments.maps import Measured, correlations, means, too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, interval, number, value
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO, LRP

FAMILIES = {
    "AttnLRP": "o", "CP-LRP": "s", "Mask relevance": "^", "Rollout": "x", "IG": "v",
    "Budgeted LOO": "P", "LOO": "D",
}  # fmt: skip
"""Beginning of a label -> its marker."""
PASSES = {
    "AttnLRP|CP-LRP|Mask relevance": lambda tokens, n: np.full(len(tokens), 2),
    "Rollout": lambda tokens, n: np.full(len(tokens), 1),
    "LOO": lambda tokens, n: tokens + 1,  # one of the whole text
    r"LOO, budget (\d+)": lambda tokens, n: np.minimum(tokens, n) + 1,
    r"Mask relevance, midpoint (\d+)": lambda tokens, n: np.full(len(tokens), 1 + 2 * n),
    r"Budgeted LOO, (\d+)": lambda tokens, n: np.minimum(tokens, n) + 3,
    r"IG, (\d+) steps": lambda tokens, n: np.full(len(tokens), 2 * n),
}
"""Pattern of a label -> forward and backward passes, which count one each, of texts of tokens."""


def passes(label: str, tokens: np.ndarray) -> np.ndarray:
    """Counts the passes of the method of ``label`` for texts of so many ``tokens``: (text,).

    Raises ValueError for a label that says neither its steps nor its budget.
    """
    for pattern, count in PASSES.items():
        if found := re.fullmatch(pattern, label):
            return count(tokens, *map(int, found.groups() or ("0",)))
    raise ValueError(f"nothing is known of the passes of {label!r}; call it such as 'IG, 8 steps'")


def trade_off(data: Measured) -> Result:
    """Computes r with Leave-One-Out, and passes per text, for every method and setting."""
    loo = data.maps["LOO"]
    rows = []
    for label, maps in data.maps.items():
        found = {"passes": passes(label, loo.values["tokens"])} | correlations(maps, loo)
        rows.append({"method": label, **means(found)})
    rows.sort(key=lambda row: (row["passes"], row["method"]))
    return data.result(
        "tradeoff",
        title=f"What a pass buys: agreement with Leave-One-Out by cost, on {data.dataset}",
        text=(
            "Mean Pearson's r with Leave-One-Out over texts, with 95 % bootstrap intervals, beside "
            "the passes through the model that a text takes in the mean: forward and backward "
            "passes count one each, and what IG spends on its completeness gap is left out. "
            "'Mask relevance, midpoint g' takes g gradients at half masks; "
            "'LOO, budget k' spends k passes on groups of tokens and then on single tokens, and "
            "'Budgeted LOO, k' on the k tokens that mask relevance is least sure of; 'IG, n "
            "steps' sums n gradients."
        ),
        rows=rows,
        notes=(*_notes(rows), *too_few(len(loo.present)), *undefined(rows)),
    )


def _notes(rows: list[dict]) -> Iterator[str]:
    for tokens in ("all", "content"):
        best: list[dict] = []
        key = f"r {tokens}"
        defined = [row for row in rows if not np.isnan(row[key])]
        for row in sorted(defined, key=lambda x, key=key: (x["passes"], -x[key])):
            if not best or row[key] > best[-1][key]:
                best.append(row)
        said = (
            f"{x['method']} (r {x[f'r {tokens}']:.2f} in {x['passes']:.1f} passes)" for x in best
        )
        yield f"Best for their cost, over {tokens} tokens: {', '.join(said) or 'undefined'}."


def figure(result: Result):
    """Draws r against passes, on a logarithmic axis; lines join the settings of one method."""
    from lrp_axioms.benchmarks.experiments import drawing

    made = drawing.empty(8, 3.4)
    for axes, tokens in zip(made.subplots(1, 2, sharey=True), ("all", "content"), strict=True):
        for family, marker in FAMILIES.items():
            rows = [row for row in result.rows if row["method"].split(",")[0] == family]
            if not rows:
                continue
            mean, reach = drawing.interval(rows, f"r {tokens}")
            style = {"marker": marker, "ms": 5, "lw": 1, "color": "0.2", "label": family}
            style["mfc"] = "white" if family == "LOO" else "0.2"
            axes.errorbar([row["passes"] for row in rows], mean, yerr=reach, **style)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{tokens} tokens", fontsize=9)
        axes.set_xlabel("passes through the model per text (mean)")
    made.axes[0].set_ylabel("Pearson's r with Leave-One-Out")
    return drawing.with_legend(made)


ROWS = (
    LOO, *LRP, "table2-{}-attention-rollout", "table2-{}-mask-relevance",
    "tradeoff-{}", "tradeoff-{}-mask-relevance", "tradeoff-{}-budgeted-loo",
)  # fmt: skip

EXPERIMENT = Experiment(
    name="tradeoff",
    rows=ROWS,
    run=trade_off,
    columns=[
        ("method", value("method")),
        ("passes", number("passes", 1)),
        ("r, all\ntokens", interval("r all")),
        ("r, content\ntokens", interval("r content")),
    ],
    figure=figure,
)

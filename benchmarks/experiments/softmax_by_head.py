"""``python -m benchmarks.experiments.softmax_by_head MODEL ...``: theorem 59 in a trained model.

Within one attention row, the relevance of its keys by CP-LRP and by AttnLRP is correlated with
what leaving a key out of the row changes.  At equal logits c theorem 59 predicts r = 1 for CP-LRP,
and the sign of 1 + c for AttnLRP.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from benchmarks.experiments import arguments, text
from benchmarks.experiments.columns import interval, number
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric.evaluation.correlation import pearson
from numeric.evaluation.softmax_errors import Messages, row_messages

RULES = {"CP-LRP": lambda m: m.value, "AttnLRP": lambda m: (m.value + m.taylor) / 2}
FLATNESS = (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1)  # entropy of a row over that of equal weights
LOGIT = (-np.inf, -1.5, -0.5, np.inf)  # mean of a row
FLAT = 0.95  # above which rows are told apart by their logits
Rows = dict[str, np.ndarray]
"""(layer, head, query): "flatness", mean "logit", and r with removals within the row, by rule."""


def rows_of(m: Messages) -> Rows:
    """The rows of one layer, of a text alone; r is NaN where nothing differs within the row."""
    keep, removal, weights, logits = (
        x[0].numpy() for x in (m.keep, m.removal, m.weights, m.logits)
    )
    keys = keep.sum(axis=-1)
    flat = lambda x: x.reshape(-1, x.shape[-1])
    return {
        "flatness": torch.special.entr(torch.tensor(weights)).sum(dim=-1).numpy() / np.log(keys),
        "logit": logits.sum(axis=-1) / keys,
    } | {
        name: pearson(flat(rule(m)[0].numpy()), flat(removal), flat(keep)).reshape(keys.shape)
        for name, rule in RULES.items()
    }


def measured(classifier: models.Classifier, texts: data.Texts) -> Iterator[Rows]:
    """The attention rows of every text, for the predicted class."""
    for n in range(len(texts.texts)):
        inputs, _ = text.in_batch(classifier, texts, [n])
        layers = [rows_of(m) for m in row_messages(classifier.model, inputs)]
        yield {key: np.stack([layer[key] for layer in layers]) for key in layers[0]}


def within(texts: Sequence[Rows], key: str, low: float, high: float, least: float = 0) -> dict:
    """Means over texts, of rows with low < key <= high that are at least so flat.

    Rows that the logit does not depend on have no r, and do not count: those of the last layer
    but the one that is read.
    """
    found: dict[str, list[float]] = {
        name: [] for name in ("share", *RULES, *(f"{rule} below 0" for rule in RULES))
    }
    for rows in texts:
        counts = ~np.isnan([rows[rule] for rule in RULES]).any(axis=0)
        chosen = counts & (low < rows[key]) & (rows[key] <= high) & (rows["flatness"] >= least)
        found["share"].append(chosen.sum() / counts.sum())
        for rule in RULES:
            r = rows[rule][chosen]
            found[rule].append(r.mean() if r.size else np.nan)
            found[f"{rule} below 0"].append((r < 0).mean() if r.size else np.nan)
    return means({name: np.array(values) for name, values in found.items()})


def by_head(texts: Sequence[Rows]) -> Rows:
    """(layer, head): the mean over texts and those queries whose r is defined."""
    counts = [np.where(np.isnan(rows["CP-LRP"]), np.nan, 1) for rows in texts]
    return {
        key: np.mean(
            [np.nanmean(rows[key] * n, -1) for rows, n in zip(texts, counts, strict=True)], 0
        )
        for key in texts[0]
    }


def tables(texts: Sequence[Rows]) -> Iterator[str]:
    """r within rows by flatness, then of flat rows by their mean logit, in Markdown."""
    for key, edges, least in (("flatness", FLATNESS, 0), ("logit", LOGIT, FLAT)):
        heads = [f"r of {rule}" for rule in RULES] + [f"{rule} below 0" for rule in RULES]
        yield f"| {key} | share of rows | {' | '.join(heads)} |"
        yield f"|---|--:|{'--:|' * len(heads)}"
        for low, high in pairwise(edges):
            row = within(texts, key, low, high, least)
            cells = [
                f"{low} to {high}",
                number("share", 4)(row),
                *(interval(r)(row) for r in RULES),
            ]
            cells += [interval(f"{rule} below 0", 2)(row) for rule in RULES]
            yield f"| {' | '.join(cells)} |"
        yield ""


def main(argv: Sequence[str] | None = None) -> None:
    """Prints both tables for each model."""
    options = arguments.parser(main.__doc__, examples=100).parse_args(argv)
    texts = arguments.first_texts(options)
    for name in options.models:
        print(f"{Path(name).name}\n")
        print("\n".join(tables(list(measured(models.load(name), texts)))))


if __name__ == "__main__":
    main()

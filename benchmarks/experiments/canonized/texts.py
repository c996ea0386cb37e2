"""``python -m benchmarks.experiments.canonized.texts MODEL ...``: rules for attention blocks.

It prints, for each model and rule of the whole block, r with Leave-One-Out on development texts,
and the share of absolute relevance that special tokens get.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.experiments import arguments, text
from benchmarks.experiments.canonized.blocks import (
    BlockRule,
    explained,
    integrated,
    shared,
    softmax_along_path,
)
from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric import attribute
from numeric.evaluation.correlation import pearson

LOO, ATTNLRP = "Leave-One-Out", "(1/4, 1/4, 1/2): AttnLRP"
RULES: dict[str, BlockRule] = {
    "(0, 0, 1): CP-LRP": shared(0, 0, 1),
    ATTNLRP: shared(1 / 4, 1 / 4, 1 / 2),
    "(1/3, 1/3, 1/3): merged": shared(1 / 3, 1 / 3, 1 / 3),
    "(1/2, 1/2, 0): scores alone": shared(1 / 2, 1 / 2, 0),
    "Integrated Gradients of the block": integrated(),
    "AttnLRP, softmax along a path": softmax_along_path(),
    "(1/2, 1/2, 1)": shared(1 / 2, 1 / 2, 1),
    "(1, 1, 1): gradient": shared(1, 1, 1),
}
"""By the shares of Q, K and V; in the last two they do not add up to 1."""
AGREEMENT, SPECIAL = ("all", "content"), "special"
By = dict[str, dict[str, np.ndarray]]
"""By rule and statistic, one value for each text."""


def statistics(
    found: ArrayLike, loo: ArrayLike, present: np.ndarray, special: np.ndarray
) -> dict[str, np.ndarray]:
    """r over all and over content tokens, and the share of |relevance| that special tokens get.

    All are (text, token), and the results (text,).  Padding is special, too.
    """
    size = np.where(present, np.abs(np.asarray(found, dtype=np.float64)), 0)
    return {
        "all": pearson(found, loo, present),
        "content": pearson(found, loo, ~special),
        SPECIAL: (size * special).sum(axis=1) / size.sum(axis=1),
    }


def measured(classifier: models.Classifier, texts: data.Texts) -> By:
    """Statistics of every rule, and of Leave-One-Out itself."""
    parts: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in (*RULES, LOO)}
    for _, inputs, special in text.batches(classifier, texts):
        loo = attribute(classifier.model, inputs, "loo")
        judged: Callable[..., dict[str, np.ndarray]] = partial(
            statistics,
            loo=loo.relevance,
            present=(inputs["attention_mask"] == 1).numpy(),
            special=special.numpy(),
        )
        for name, rule in RULES.items():
            parts[name].append(
                judged(explained(classifier.model, inputs, rule, loo.target).relevance)
            )
        parts[LOO].append(judged(loo.relevance))
    return {
        name: {key: np.concatenate([x[key] for x in values]) for key in values[0]}
        for name, values in parts.items()
    }


def table(found: Mapping[str, By]) -> Iterator[str]:
    """Means by model and rule, and paired differences of r from AttnLRP, in Markdown."""
    yield "| model | shares of Q, K, V | all | content | less AttnLRP, all | content | special |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for model, by_rule in found.items():
        for name, values in by_rule.items():
            less = {f"less {x}": values[x] - by_rule[ATTNLRP][x] for x in AGREEMENT}
            row = means(values | less)
            cells = [interval(key)(row) for key in (*AGREEMENT, *less, SPECIAL)]
            yield f"| {' | '.join([model, name, *cells])} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    options = arguments.parser(main.__doc__, dataset="embedded").parse_args(argv)
    texts = arguments.first_texts(options)
    found = {Path(name).name: measured(models.load(name), texts) for name in options.models}
    for line in table(found):
        print(line)


if __name__ == "__main__":
    main()

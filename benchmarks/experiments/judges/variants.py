"""``python -m benchmarks.experiments.judges.variants MODEL ...``: variants of mask relevance.

It prints r with Leave-One-Out on training texts, for each model, so that nobody who chooses among
the variants sees the texts on which they are reported.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.experiments import text
from benchmarks.experiments.columns import interval
from benchmarks.experiments.judges.budgets import agreement, sentences
from benchmarks.sources import data, models
from numeric import attribute

MASK = "mask-relevance"
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "AttnLRP": ("attnlrp", {}),
    "CP-LRP": ("cp-lrp", {}),
    "mask relevance": (MASK, {}),
    "without 1/(1 - A)": (MASK, {"slope": True}),
    "with row i = j": (MASK, {"own": True}),
    "deviations held": (MASK, {"deviations": "held"}),
    "gradient at half masks": (MASK, {"midpoint": 1}),
    "2 groups at half masks": (MASK, {"midpoint": 2}),
    "4 groups at half masks": (MASK, {"midpoint": 4}),
}


def _sum(x: Mapping[str, Tensor], first: str, second: str) -> Tensor:
    """Of maps whose sizes add up to 1."""
    return sum(x[name] / x[name].abs().sum() for name in (first, second))


SUMS: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    f"{first} + {second}": partial(_sum, first=first, second=second)
    for first in ("mask relevance", "gradient at half masks")
    for second in ("AttnLRP", "CP-LRP")
}


def maps(classifier: models.Classifier, texts: data.Texts) -> Iterator[dict[str, Tensor]]:
    """Of every text: "loo", what every variant gives its tokens, and which are "content"."""
    for shard in text.shards(classifier, texts):
        inputs, special = text.in_batch(classifier, texts, shard)
        loo = attribute(classifier.model, inputs, "loo")
        found = {"loo": loo.relevance, "content": ~special}
        for name, (method, options) in METHODS.items():
            found[name] = attribute(
                classifier.model, inputs, method, loo.target, **options
            ).relevance
        for n, real in enumerate(inputs["attention_mask"] == 1):
            own = {name: values[n, real] for name, values in found.items()}
            yield own | {name: total(own) for name, total in SUMS.items()}


def table(found: Mapping[str, Sequence[Mapping[str, Tensor]]]) -> Iterator[str]:
    """Mean r over all and over content tokens, by variant and model, in Markdown."""
    yield f"| variant | tokens | {' | '.join(found)} |"
    yield f"|---|---|{'--:|' * len(found)}"
    for name in (*METHODS, *SUMS):
        columns = [agreement([x[name] for x in texts], texts) for texts in found.values()]
        for tokens in ("all", "content"):
            cells = [interval(tokens)(column) for column in columns]
            yield f"| {name} | {tokens} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--dataset", choices=("sst2", "imdb"), default="sst2")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--examples", type=int, default=100)
    options = parser.parse_args(arguments)
    texts = data.load(options.dataset, data_dir=options.data_dir, training=True)
    chosen = sentences(texts, options.examples)
    found = {Path(name).name: list(maps(models.load(name), chosen)) for name in options.models}
    for line in table(found):
        print(line)


if __name__ == "__main__":
    main()

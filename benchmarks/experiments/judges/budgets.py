"""``python -m benchmarks.experiments.judges.budgets MODEL ...``: which tokens to leave out.

The first table compares orders in which tokens are left out, and what stands for the others, on
training sentences of SST-2; ``numeric.methods.budgeted_loo`` has what was chosen by it.  The second
table says, on development sentences, how often its errors are what it estimates.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.experiments import text
from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric import attribute
from numeric.evaluation.correlation import pearson
from numeric.inputs import prepare, read_tokens

WORDS, SEED = 8, 0  # the least words of a training phrase that is like a sentence; of their order
BUDGETS = (4, 8)
TOLERANCES = (0.2, 0.1, 0.05)  # logits
Parts = dict[str, Tensor]
"""Of one text: "loo" and "R" of its tokens, R by "heads" (layer, head, token), which tokens are
"content", and which one is "read"."""

ORDERS: dict[str, Callable[[Parts], Tensor]] = {
    "flow by head": lambda x: x["heads"].abs().sum(dim=(0, 1)),
    "flow by layer": lambda x: x["heads"].sum(dim=1).abs().sum(dim=0),
    "size of R": lambda x: x["R"].abs(),
    "what is read, size of R": lambda x: _first(x, x["R"].abs()),
    "what is read, flow by head": lambda x: _first(x, x["heads"].abs().sum(dim=(0, 1))),
}
"""Tokens with the largest values are left out."""


def _first(x, size):
    """The token that is read before all others."""
    return size.index_fill(0, x["read"], torch.inf)


def _rescaled(x: Parts, exact: Tensor) -> Tensor:
    known, guess = x["loo"][exact], x["R"][exact]
    return x["R"] * (known @ guess) / (guess @ guess)


FILLS: dict[str, Callable[[Parts, Tensor], Tensor]] = {
    "as it is": lambda x, exact: x["R"],
    "by least squares": _rescaled,
}
"""What stands for the tokens that are not left out."""


def parts(classifier: models.Classifier, texts: data.Texts) -> Iterator[Parts]:
    """Exact Leave-One-Out and mask relevance, text by text."""
    for shard in text.shards(classifier, texts):
        inputs, special = text.in_batch(classifier, texts, shard)
        loo = attribute(classifier.model, inputs, "loo")
        found = attribute(classifier.model, inputs, "mask-relevance", loo.target, heads=True)
        read = read_tokens(classifier.model, prepare(classifier.model, inputs))
        for n, real in enumerate(inputs["attention_mask"] == 1):
            yield {
                "loo": loo.relevance[n, real],
                "R": found.relevance[n, real],
                "heads": found.details["heads"][n, ..., real],
                "content": ~special[n, real],
                "read": read[n],
            }


def with_budget(x: Parts, order: str, fill: str, budget: int) -> Tensor:
    """The relevance that a budget buys."""
    exact = torch.zeros_like(x["content"])
    exact[ORDERS[order](x).argsort(descending=True, stable=True)[:budget]] = True
    return torch.where(exact, x["loo"], FILLS[fill](x, exact))


def choices(found: dict[str, list[Parts]]) -> Iterator[str]:
    """Mean r over all and over content tokens, by order, fill and budget, for each model."""
    yield f"| tokens left out | others | budget | tokens | {' | '.join(found)} |"
    yield f"|---|---|--:|---|{'--:|' * len(found)}"
    settings = [(None, None, 0)]
    settings += [(order, fill, k) for k in BUDGETS for order in ORDERS for fill in FILLS]
    for order, fill, budget in settings:
        columns = []
        for texts in found.values():
            maps = [with_budget(x, order, fill, budget) if order else x["R"] for x in texts]
            columns.append(agreement(maps, texts))
        for tokens in ("all", "content"):
            cells = [interval(tokens)(column) for column in columns]
            shown = [order or "none", fill or "as it is", str(budget), tokens, *cells]
            yield f"| {' | '.join(shown)} |"


def agreement(maps, texts):
    """Mean r of ``maps`` with "loo" of ``texts``, over all and over content tokens."""
    r = {"all": [], "content": []}
    for a, x in zip(maps, texts, strict=True):
        pair = [y.double().numpy()[None] for y in (a, x["loo"])]
        content = x["content"].numpy()[None]
        for tokens, keep in (("all", np.ones_like(content)), ("content", content)):
            r[tokens].append(pearson(*pair, keep)[0])
    return means({tokens: np.array(values) for tokens, values in r.items()})


def calibration(name: str, classifier: models.Classifier, texts: data.Texts) -> Iterator[str]:
    """By tolerance: passes and shares of tokens and texts, with intervals over texts."""
    found: dict[float | None, list[dict[str, Tensor]]] = {t: [] for t in (None, *TOLERANCES)}
    for shard in text.shards(classifier, texts):
        inputs, _ = text.in_batch(classifier, texts, shard)
        exact = attribute(classifier.model, inputs, "loo")
        for tolerance, seen in found.items():
            options = {"target": exact.target, "tolerance": tolerance}
            less = attribute(classifier.model, inputs, "budgeted-loo", **options)
            seen.append(_judged(less, exact.relevance, inputs["attention_mask"] == 1, tolerance))
    for tolerance, seen in found.items():
        row = means({key: torch.cat([x[key] for x in seen]).double().numpy() for key in seen[0]})
        shown = [name, str(tolerance), *(interval(key)(row) for key in seen[0])]
        yield f"| {' | '.join(shown)} |"


def _judged(found, exact, present, tolerance):
    """Of every text, in the order of ``HEAD``; NaN where all tokens were left out."""
    error, passes = found.details["error"], found.details["passes"]
    missed = (found.relevance - exact).abs()
    guessed = present & (found.details["by_token"] == 0)
    within = ((missed <= error) & guessed).sum(dim=1) / guessed.sum(dim=1)
    largest = missed.amax(dim=1)
    allowed = error.amax(dim=1) if tolerance is None else tolerance
    return {
        "passes": passes,
        "of all": passes / present.sum(dim=1),
        "within": within,
        "texts": largest <= allowed,
        "largest": largest,
    }


HEAD = (
    "| model | tolerance | tokens left out | of all | errors within their estimate "
    "| texts within the tolerance | largest error |\n|---|--:|--:|--:|--:|--:|--:|"
)


def sentences(texts: data.Texts, count: int) -> data.Texts:
    """Some training phrases of several words, in a random order."""
    long = [n for n, x in enumerate(texts.texts) if len(x.split()) >= WORDS]
    rng = np.random.default_rng(SEED)
    chosen = rng.permutation(long)[:count]
    part = {key: tuple(getattr(texts, key)[n] for n in chosen) for key in ("texts", "labels")}
    return data.Texts(**vars(texts) | part)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints both tables in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--examples", type=int, default=200)
    options = parser.parse_args(arguments)
    load = lambda **x: data.load("sst2", data_dir=options.data_dir, **x)
    chosen_on = sentences(load(training=True), options.examples)
    classifiers = {Path(name).name: models.load(name) for name in options.models}
    for line in choices({name: list(parts(x, chosen_on)) for name, x in classifiers.items()}):
        print(line, flush=True)
    print(f"\n{HEAD}")
    for name, classifier in classifiers.items():
        for line in calibration(name, classifier, load().first(options.examples)):
            print(line, flush=True)


if __name__ == "__main__":
    main()

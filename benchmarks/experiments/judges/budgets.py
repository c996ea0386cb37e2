"""``python -m benchmarks.experiments.judges.budgets MODEL ...``: which tokens to leave out.

The first table compares orders in which tokens are left out, and what stands for the others; the
second compares gradients at whole and at half masks, at equal numbers of passes.  Both are on
training texts.  ``numeric.methods.budgeted_loo`` has what was chosen by them.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.experiments import arguments, text
from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric import attribute
from numeric.evaluation.correlation import pearson
from numeric.inputs import prepare, read_tokens

WORDS, SEED = 8, 0  # the least words of a training phrase that is like a sentence; of their order
BUDGETS = (4, 8)
PASSES = (7, 9, 11)  # of which 4, 6 and 8 leave out a token, where the gradient is at whole masks
MIDPOINTS = (0, 1, 2)
CHOSEN = "what is read, flow by head", "as it is"
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


def parts(classifier: models.Classifier, texts: data.Texts) -> Iterator[list[Parts]]:
    """Exact Leave-One-Out and mask relevance, text by text, by each of ``MIDPOINTS``."""
    for _, inputs, special in text.batches(classifier, texts):
        loo = attribute(classifier.model, inputs, "loo")
        found = [
            attribute(
                classifier.model, inputs, "mask-relevance", loo.target, heads=True, midpoint=g
            )
            for g in MIDPOINTS
        ]
        read = read_tokens(classifier.model, prepare(classifier.model, inputs))
        for n, real in enumerate(inputs["attention_mask"] == 1):
            yield [
                {
                    "loo": loo.relevance[n, real],
                    "R": each.relevance[n, real],
                    "heads": each.details["heads"][n, ..., real],
                    "content": ~special[n, real],
                    "read": read[n],
                }
                for each in found
            ]


def with_budget(x: Parts, order: str, fill: str, budget: int) -> Tensor:
    """The relevance that a budget buys."""
    exact = torch.zeros_like(x["content"])
    exact[ORDERS[order](x).argsort(descending=True, stable=True)[:budget]] = True
    return torch.where(exact, x["loo"], FILLS[fill](x, exact))


def choices(found: dict[str, list[list[Parts]]]) -> Iterator[str]:
    """Mean r over all and over content tokens, by order, fill and budget, for each model."""
    yield f"| tokens left out | others | budget | tokens | {' | '.join(found)} |"
    yield f"|---|---|--:|---|{'--:|' * len(found)}"
    settings = [(None, None, 0)]
    settings += [(order, fill, k) for k in BUDGETS for order in ORDERS for fill in FILLS]
    for order, fill, budget in settings:
        columns = []
        for texts in found.values():
            own = [x[0] for x in texts]
            maps = [with_budget(x, order, fill, budget) if order else x["R"] for x in own]
            columns.append(agreement(maps, own))
        for tokens in ("all", "content"):
            cells = [interval(tokens)(column) for column in columns]
            shown = [order or "none", fill or "as it is", str(budget), tokens, *cells]
            yield f"| {' | '.join(shown)} |"


def bases(found: dict[str, list[list[Parts]]]) -> Iterator[str]:
    """Mean r by passes and by what the gradients of mask relevance are taken at."""
    yield f"| passes | midpoint | left out | tokens | {' | '.join(found)} |"
    yield f"|--:|--:|--:|---|{'--:|' * len(found)}"
    for passes, (n, midpoint) in itertools.product(PASSES, enumerate(MIDPOINTS)):
        budget = passes - max(3, 2 + 2 * midpoint)  # those of mask relevance, and one whole text
        columns = []
        for texts in found.values():
            own = [x[n] for x in texts]
            columns.append(agreement([with_budget(x, *CHOSEN, budget) for x in own], own))
        for tokens in ("all", "content"):
            cells = [interval(tokens)(column) for column in columns]
            shown = [str(passes), str(midpoint), str(budget), tokens, *cells]
            yield f"| {' | '.join(shown)} |"


def agreement(maps, texts):
    """Mean r of ``maps`` with "loo" of ``texts``, over all and over content tokens."""
    return means(correlations(maps, texts))


def correlations(maps, texts):
    """r of every text, over all and over content tokens."""
    r = {"all": [], "content": []}
    for a, x in zip(maps, texts, strict=True):
        pair = [y.double().numpy()[None] for y in (a, x["loo"])]
        content = x["content"].numpy()[None]
        for tokens, keep in (("all", np.ones_like(content)), ("content", content)):
            r[tokens].append(pearson(*pair, keep)[0])
    return {tokens: np.array(values) for tokens, values in r.items()}


def sentences(texts: data.Texts, count: int) -> data.Texts:
    """Some training phrases of several words, in a random order."""
    long = [n for n, x in enumerate(texts.texts) if len(x.split()) >= WORDS]
    rng = np.random.default_rng(SEED)
    chosen = rng.permutation(long)[:count]
    part = {key: tuple(getattr(texts, key)[n] for n in chosen) for key in ("texts", "labels")}
    return data.Texts(**vars(texts) | part)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints both tables in Markdown."""
    options = arguments.parser(main.__doc__, datasets=("sst2", "imdb"), examples=200).parse_args(
        argv
    )
    texts = data.load(options.dataset, data_dir=options.data_dir, training=True)
    chosen = sentences(texts, options.examples)
    found = {Path(name).name: list(parts(models.load(name), chosen)) for name in options.models}
    for line in (*choices(found), "", *bases(found)):
        print(line)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.experiments.judges.variants MODEL ...``: variants of mask relevance.

It prints r with Leave-One-Out of mask relevance as it is, what the others gain, and which of them
gain or lose on every model.  All texts are training texts, so that nobody who chooses among the
variants sees the texts on which they are reported.  A classifier is asked about sentences of SST-2,
one of ``--imdb`` about reviews, and a language model about the next word of prompts of the language
of the table of causes.  Weights of layers are learnt from other sentences, or from other prompts.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from torch import Tensor

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, GRADIENT_X_INPUT, Composite
from benchmarks.experiments import text
from benchmarks.experiments.causes.examples import DISTANCES, examples
from benchmarks.experiments.causes.language import TASKS
from benchmarks.experiments.columns import interval
from benchmarks.experiments.judges.budgets import correlations, sentences
from benchmarks.experiments.judges.learnt_weights import learnt, weighted
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric import Attribution, attribute
from numeric.methods import mask_relevance

MASK, BASE, HELD = "mask-relevance", "mask relevance", "deviations held"
HALVED, IN_HALVES = "gradient at half masks", "products of attention as in LRP"
LEARNT = {f"weights of layers, from {count} texts": count for count in (10, 40)}
"""How many texts teach weights of layers; none of these texts is judged."""
SEED = 3 * 10**6  # of the prompts; those of training and of every table are others
Maps = Mapping[str, Tensor]
"""Of one text: "loo", all variants and what is "content" by token, and "layers" (layer, token)."""

GRADIENTS: dict[str, Mapping[str, str]] = {
    "activations and gates as in LRP": {
        kinds.ACTIVATION: kinds.IDENTITY,
        kinds.PRODUCT: kinds.EQUAL_SPLIT,
    },
    IN_HALVES: dict.fromkeys((kinds.SCORES, kinds.READOUT), kinds.BILINEAR_EPSILON),
    "attention weights held": {kinds.SOFTMAX: kinds.CONSTANT, kinds.READOUT: kinds.VALUE_ONLY},
    "all rules of AttnLRP": ATTNLRP.rules,
    "all rules of CP-LRP": CP_LRP.rules,
}
"""Rules in the place of the gradient that reaches the outputs of attention."""

METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "AttnLRP": ("attnlrp", {}),
    "CP-LRP": ("cp-lrp", {}),
    BASE: (MASK, {"heads": True}),
    "without 1/(1 - A)": (MASK, {"slope": True}),
    "with row i = j": (MASK, {"own": True}),
    HELD: (MASK, {"deviations": "held"}),
    **{name: (MASK, {"deviations": name}) for name in GRADIENTS},
    HALVED: (MASK, {"midpoint": 1}),
    "gradient at masks of 1/4": (MASK, {"midpoint": 1, "kept": 0.25}),
    "gradient at masks of 3/4": (MASK, {"midpoint": 1, "kept": 0.75}),
    "half masks, products as in LRP": (MASK, {"midpoint": 1, "deviations": IN_HALVES}),
    "2 groups at half masks": (MASK, {"midpoint": 2}),
    "4 groups at half masks": (MASK, {"midpoint": 4}),
}
"""By variant: the method and its options; "kept" is what a lowered mask keeps."""


def _mixed(x: Maps, held: float) -> Tensor:
    return (1 - held) * x[BASE] + held * x[HELD]


def _sum(x: Maps, first: str, second: str) -> Tensor:
    """Of maps whose sizes add up to 1."""
    return sum(x[name] / x[name].abs().sum() for name in (first, second))


SUMS: dict[str, Callable[[Maps], Tensor]] = {
    "deviations held by 1/4": partial(_mixed, held=0.25),
    "deviations held by 1/2": partial(_mixed, held=0.5),
    **{
        f"{first} + {second}": partial(_sum, first=first, second=second)
        for first in (BASE, HALVED)
        for second in ("AttnLRP", "CP-LRP")
    },
}
NAMES = (*METHODS, *SUMS, *LEARNT)


def maps(classifier: models.Classifier, texts: data.Texts, names=tuple(METHODS)) -> list[Maps]:
    """Leave-One-Out and the methods of these names, of every text."""
    found: dict[int, Maps] = {}
    for shard, inputs, special in text.batches(classifier, texts):
        loo = attribute(classifier.model, inputs, "loo")
        values = {"loo": loo.relevance, "content": ~special}
        for name in names:
            own = explained(classifier.model, inputs, loo.target, *METHODS[name])
            values[name] = own.relevance
            if "heads" in own.details:
                values["layers"] = own.details["heads"].sum(dim=2)
        for n, real in enumerate(inputs["attention_mask"] == 1):
            found[shard[n]] = {name: of_all[n, ..., real] for name, of_all in values.items()}
    return [found[n] for n in sorted(found)]


def explained(model, inputs, target, method: str, options: Mapping[str, Any]) -> Attribution:
    """``attribute`` with the gradients and masks of ``METHODS``, which it has no options for."""
    gradients = {name: Composite(name, GRADIENT_X_INPUT.rules | x) for name, x in GRADIENTS.items()}
    kept = options.get("kept", mask_relevance.KEPT)
    others = {name: value for name, value in options.items() if name != "kept"}
    with (
        patch.dict(mask_relevance.GRADIENTS, gradients),
        patch.object(mask_relevance, "KEPT", kept),
    ):
        return attribute(model, inputs, method, target, **others)


def judged(classifier: models.Classifier, texts: data.Texts, teachers: data.Texts) -> list[Maps]:
    """All variants of ``texts``; weights of layers are learnt from the ``teachers``."""
    taught = maps(classifier, teachers, (BASE,))
    totals = dict(SUMS)
    for name, count in LEARNT.items():
        totals[name] = partial(weighted, weights=learnt(taught[:count]))
    return [x | {name: f(x) for name, f in totals.items()} for x in maps(classifier, texts)]


def _after(texts, count):
    part = {key: getattr(texts, key)[count:] for key in ("texts", "labels")}
    return data.Texts(**vars(texts) | part)


def prompts(count: int) -> data.Texts:
    """As many of each task and distance, but for one, in a random order."""
    cells = [(task, distance) for task in TASKS for distance in DISTANCES]
    each = -(-count // len(cells))
    drawn = [" ".join(x.words) for cell in cells for x in examples(*cell, each, seed=SEED)]
    chosen = np.random.default_rng(SEED).permutation(len(drawn))[:count]
    return data.unlabelled("prompts", [drawn[n] for n in chosen])


def table(found: Mapping[str, Sequence[Maps]]) -> Iterator[str]:
    """r of mask relevance by model, what every variant gains, and who gains on all, in Markdown."""
    of_model = {
        model: {name: correlations([x[name] for x in texts], texts) for name in NAMES}
        for model, texts in found.items()
    }
    for tokens in ("all", "content"):
        base = {model: r[BASE][tokens] for model, r in of_model.items()}
        rows = {
            name: [means({"r": r[name][tokens] - base[model]}) for model, r in of_model.items()]
            for name in NAMES
        }
        yield f"| {tokens} tokens | {' | '.join(found)} |"
        yield f"|---|{'--:|' * len(found)}"
        yield f"| {BASE} | {' | '.join(interval('r')(means({'r': r})) for r in base.values())} |"
        sizes = [means({"size": np.array([*map(_size, texts)])}) for texts in found.values()]
        if tokens == "all":
            yield f"| its size, in that of LOO | {' | '.join(map(interval('size', 2), sizes))} |"
        for name in NAMES:
            if name != BASE:
                yield f"| {name} | {' | '.join(map(_gain, rows[name]))} |"
        yield ""
        for said, holds in SAID.items():
            names = [name for name, row in rows.items() if all(map(holds, row))]
            yield f"{said}: {', '.join(names) or 'none'}."
        yield ""


SAID: dict[str, Callable[[Mapping[str, float]], bool]] = {
    "Gain on every model": lambda gain: gain["r low"] > 0,
    "Lose on every model": lambda gain: gain["r high"] < 0,
}
"""By interval."""


def _size(x):
    """The sum of absolute values of mask relevance, in that of Leave-One-Out."""
    return float(x[BASE].abs().sum() / x["loo"].abs().sum())


def _gain(row):
    ends = (f"{row[f'r {end}']:+z.3f}".replace("0.", ".", 1) for end in ("low", "high"))
    return f"{row['r']:+z.3f} [{', '.join(ends)}]"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints all in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--imdb", nargs="+", default=[], metavar="MODEL")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--reviews", type=int, default=12, help="examples of IMDB")
    options = parser.parse_args(arguments)
    load = lambda name: data.load(name, data_dir=options.data_dir, training=True)
    count, most = options.examples, max(LEARNT.values())
    found = {}
    asked = [(name, False) for name in options.models] + [(name, True) for name in options.imdb]
    for name, reviews in asked:
        classifier = models.load(name)
        classes = classifier.explains == "class"
        every = sentences(load("sst2"), count + most) if classes else prompts(count + most)
        texts = sentences(load("imdb"), options.reviews) if reviews else every.first(count)
        label = Path(name).name + ", reviews" * reviews
        found[label] = judged(classifier, texts, _after(every, count))
    for line in table(found):
        print(line)


if __name__ == "__main__":
    main()

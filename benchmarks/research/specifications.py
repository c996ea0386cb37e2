"""Ranks specifications by their distance from the shape of the paper's Figure 2.

``specifications.toml`` declares every specification; all are printed, nearest first.
"""

import tomllib
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from axioms import kinds
from axioms.composites import Composite, bypass_softmax
from benchmarks.experiments import text
from benchmarks.experiments.rows import MASK, WITHIN
from benchmarks.running.threads import one_thread
from benchmarks.sources import data, models
from numeric import attribute, sweep
from numeric.evaluation.correlation import normalise, pearson
from numeric.methods.amplification import AmplifiedRelevance

DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MIXES = DECLARED["mixes"]
RULES = list(product(*DECLARED["rules"].values()))
SHARES, REMOVALS = DECLARED["read"]["share"], DECLARED["compared"]["removal"]


def composites(depth: int) -> list[Composite]:
    """Returns the composites of all rules and mixes, in this order."""
    found = []
    for (softmax, linear, norm), mix in product(RULES, MIXES.values()):
        mixed = bypass_softmax([n - 1 for n in mix["layers"]], WITHIN[softmax])
        rules = {kinds.LINEAR: linear, kinds.LAYER_NORM: norm}
        layers = {n: rules | dict(mixed.layers.get(n, {})) for n in range(depth)}
        found.append(replace(mixed, layers=layers))
    return found


def maps(classifier: models.Classifier, texts, shard) -> dict[str, np.ndarray]:
    """Returns maps by their place (rules and mixes, removals) and target: (..., text, token)."""
    inputs, special = text.in_batch(classifier, texts, shard)
    inputs = dict(inputs)
    model, present = classifier.model, inputs["attention_mask"].numpy() == 1
    gold = torch.tensor([texts.labels[n] for n in shard])
    ids = {MASK: classifier.tokenizer.mask_token_id}
    found = {"present": present, "content": present & ~special.numpy()}
    for target, label in (("predicted", None), ("gold", gold)):
        for share in SHARES:
            mixed = sweep(
                model, inputs, composites(len(MIXES["all"]["layers"])), label, share=share
            )
            found[target, share] = mixed.relevance.numpy()
        for removal in REMOVALS:
            options = {"removal": ids.get(removal, removal)}
            alone = attribute(model, inputs, "loo", label, **options)
            found[target, removal] = alone.relevance.numpy()
    return found


def agreement(found: Mapping, share: str, target: str, removal: str, tokens: str, form: str):
    """Returns r with Leave-One-Out, (composite, text)."""
    keep = found["present" if tokens == "all" else "content"]
    loo, every = found[target, removal], found[target, share]
    if form != "raw":
        loo, every = normalise(loo, keep), [normalise(one, keep) for one in every]
    return np.array([pearson(one, loo, keep) for one in every])


@one_thread()
def measured(classifier: models.Classifier, texts) -> Iterator[tuple[float, tuple, np.ndarray]]:
    """Yields (distance from the paper's shape, specification, r at every mix)."""
    choices = list(product(*DECLARED["read"].values(), *DECLARED["compared"].values()))
    by_choice: dict[tuple, list] = {choice: [] for choice in choices}
    texts = text.read(classifier, texts)
    for shard in text.shards(classifier, texts):
        found = maps(classifier, texts, shard)
        for choice, parts in by_choice.items():
            parts.append(agreement(found, *choice))
    paper = np.array([mix["paper"] for mix in MIXES.values()])
    for choice, parts in by_choice.items():
        r = np.nanmean(np.concatenate(parts, axis=1), axis=1).reshape(len(RULES), len(MIXES))
        for rules, values in zip(RULES, r, strict=True):
            gaps = values / values[-1] - paper / paper[-1]
            yield float(np.sqrt((gaps**2).mean())), (*rules, *choice), values


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--dataset", default="sst2", help="sst2 or imdb")
    parser.add_argument("--data-dir", type=Path, help="folder of the data set; otherwise the Hub")
    parser.add_argument("--examples", type=int)
    given = parser.parse_args()
    chosen = data.load(given.dataset, data_dir=given.data_dir).first(given.examples)
    loaded = models.load(given.model)
    loaded.model.double()
    with warnings.catch_warnings():  # some of these rules amplify
        warnings.simplefilter("ignore", AmplifiedRelevance)
        every = sorted(measured(loaded, chosen), key=lambda one: (np.isnan(one[0]), one[0]))
    print(f"{len(every)} specifications, {len(chosen.texts)} texts; mixes: {', '.join(MIXES)}")
    for distance, names, values in every:
        print(f"{distance:.3f} | {', '.join(names)} | {' '.join(f'{r:z.2f}' for r in values)}")

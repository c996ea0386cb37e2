"""Ranks specifications by their distance from the shape of the paper's Figure 2.

``specifications.toml`` declares every specification; all are printed, nearest first, with r at
every mix and its 95 % bootstrap interval over texts.
"""

import copy
import tomllib
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from lrp_axioms import attribute, propagation, sweep
from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import Composite, bypass_softmax
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.rows import MASK, WITHIN
from lrp_axioms.benchmarks.running.threads import one_thread
from lrp_axioms.benchmarks.sources import data, models
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, normalise, pearson
from lrp_axioms.numeric.methods.amplification import AmplifiedRelevance
from lrp_axioms.numeric.methods.lrp import SHARES

DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MIXES = DECLARED.pop("mixes")
ZERO = "zero embedding"  # as a removal: the id whose word embedding is zero


def mixes(depth: int) -> dict[str, Sequence[int]]:
    """Returns layers (from 1) by mix: as declared, or every first and last ones."""
    if depth == len(MIXES["all"]["layers"]):
        return {name: mix["layers"] for name, mix in MIXES.items()}
    every = range(1, depth + 1)
    first = {f"first {n}": every[:n] for n in every[:-1]}
    return {"none": []} | first | {f"last {n}": every[-n:] for n in every[:-1]} | {"all": every}


def composites(rules: Mapping[str, Sequence[str]], depth: int) -> list[Composite]:
    """Returns the composites of all rules and mixes, in this order."""
    found = []
    for (softmax, linear, norm, readout), mix in product(
        product(*rules.values()), mixes(depth).values()
    ):
        mixed = bypass_softmax([n - 1 for n in mix], WITHIN[softmax])
        bypass = {n: {**mixed.layers[n], kinds.READOUT: readout} for n in mixed.layers}
        own = {kinds.LINEAR: linear, kinds.LAYER_NORM: norm}
        found.append(replace(mixed, layers={n: own | bypass.get(n, {}) for n in range(depth)}))
    return found


def with_zero(classifier: models.Classifier, texts) -> tuple[models.Classifier, int]:
    """Returns a copy with one word embedding of zero, and its id, which none of the texts has."""
    words = classifier.tokenizer
    taken = {n for each in texts.tokens for n in each["input_ids"]} | {*words.all_special_ids}
    free = max({*range(len(words))} - taken)
    model = copy.deepcopy(classifier.model)
    model.get_input_embeddings().weight.data[free] = 0
    return replace(classifier, model=model), free


def relevance(model, inputs, mixed: Sequence[Composite], label, share: str) -> np.ndarray:
    """Returns relevance by composite, (composite, text, token), at one place."""
    if share in SHARES:
        return sweep(model, inputs, mixed, label, share=share).relevance.numpy()
    return np.array([at_first_layer(model, inputs, each, label) for each in mixed])


def at_first_layer(model, inputs, composite: Composite, label) -> np.ndarray:
    """Returns relevance where the first layer begins, (text, token)."""
    with propagation(model, composite):
        output = model(**inputs, output_hidden_states=True)
        logits, x = output.logits, output.hidden_states[0]
        chosen = logits.argmax(dim=1) if label is None else label
        (gradient,) = torch.autograd.grad(logits.gather(1, chosen[:, None]).sum(), x)
    return (x * gradient).sum(dim=-1).detach().numpy()


def maps(classifier: models.Classifier, family, texts, shard, zero: int) -> dict:
    """Returns maps by target and place (rules and mixes, or removals): (..., text, token)."""
    inputs, special = text.in_batch(classifier, texts, shard)
    inputs = dict(inputs)
    model, present = classifier.model, inputs["attention_mask"].numpy() == 1
    gold = [texts.labels[n] for n in shard]
    ids = {MASK: classifier.tokenizer.mask_token_id, ZERO: zero}
    mixed = composites(family["rules"], model.config.num_hidden_layers)
    found = {"present": present, "content": present & ~special.numpy()}
    for target in family["read"]["target"]:
        label = None if target == "predicted" else torch.tensor(gold)
        for share in family["read"]["share"]:
            found[target, share] = relevance(model, inputs, mixed, label, share)
        for removal in family["compared"]["removal"]:
            options = {"removal": ids.get(removal, removal), "dtype": "float32"}  # half the time
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
def measured(classifier: models.Classifier, texts, family) -> dict[tuple, np.ndarray]:
    """Returns r by specification, (mix, text)."""
    choices = list(product(*family["read"].values(), *family["compared"].values()))
    by_choice: dict[tuple, list] = {choice: [] for choice in choices}
    texts = text.read(classifier, texts)
    classifier, zero = with_zero(classifier, texts)
    for shard in text.shards(classifier, texts):
        found = maps(classifier, family, texts, shard, zero)
        for choice, parts in by_choice.items():
            parts.append(agreement(found, *choice))
    rules = list(product(*family["rules"].values()))
    return {
        (*rule, *choice): r
        for choice, parts in by_choice.items()
        for rule, r in zip(rules, np.split(np.concatenate(parts, axis=1), len(rules)), strict=True)
    }


def distance(r: np.ndarray, paper: str) -> float:
    """Returns the root mean square gap from the paper's r, both as ratios to CP-LRP's; or NaN."""
    if len(r) != len(MIXES):
        return np.nan
    of_paper = np.array([mix[paper] for mix in MIXES.values()])
    gaps = r / r[-1] - of_paper / of_paper[-1]
    return float(np.sqrt((gaps**2).mean()))


def parsed(parser: ArgumentParser) -> tuple[Namespace, models.Classifier, data.Texts]:
    """Returns the arguments, and the model in float64 and the texts that they name."""
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--dataset", default="sst2", help="sst2 or imdb")
    parser.add_argument("--data-dir", type=Path, help="folder of the data set; otherwise the Hub")
    parser.add_argument("--examples", type=int)
    parser.add_argument("--training", action="store_true", help="read the training texts")
    given = parser.parse_args()
    texts = data.load(given.dataset, data_dir=given.data_dir, training=given.training)
    classifier = models.load(given.model)
    classifier.model.double()
    return given, classifier, texts.first(given.examples)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--family", choices=DECLARED, default="first")
    given, loaded, chosen = parsed(parser)
    with warnings.catch_warnings():  # some of these rules amplify
        warnings.simplefilter("ignore", AmplifiedRelevance)
        every = measured(loaded, chosen, DECLARED[given.family])
    means = {names: np.nanmean(r, axis=1) for names, r in every.items()}
    far = {names: distance(r, chosen.config) for names, r in means.items()}
    order = sorted(every, key=lambda names: (np.isnan(far[names]), far[names]))
    columns = ", ".join(mixes(loaded.model.config.num_hidden_layers))
    print(f"{len(every)} specifications, {len(chosen.texts)} texts; mixes: {columns}")
    for names in order:
        ends = [bootstrap_mean(r, seed=0)[:3] for r in every[names]]
        shown = " | ".join(f"{r:z.3f} [{low:z.3f}, {high:z.3f}]" for r, low, high in ends)
        print(f"{far[names]:.3f} | {', '.join(names)} | {shown}")

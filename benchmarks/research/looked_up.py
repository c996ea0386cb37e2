"""``python -m benchmarks.research.looked_up --data-dir DIR``: Table 1 with looked-up pixels.

``looked_up.toml`` declares every specification; all are printed, with means over the seeds.
"""

import copy
import itertools
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.experiments.table1 import methods
from benchmarks.experiments.table1.images import Images, load
from benchmarks.experiments.table1.pixel_attention import (
    GRADIENT,
    PixelAttention,
    Rules,
    Specification,
    relevance,
)
from benchmarks.running.threads import one_thread
from numeric.evaluation.correlation import flipped, normalise, pearson

DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
T_95 = {5: 2.776, 4: 3.182, 3: 4.303, 2: 12.706}
"""Number of seeds -> half the width of a 95 % interval of Student's t, in standard errors."""


class LookedUp(PixelAttention):
    """Linear attention over pixels (example, token), int64 from 0 to 255, that each have a word."""

    def __init__(
        self, *, scale: str, pooling: str, bias: bool, blank: str = "learned", tokens: int = 196
    ) -> None:
        shared = {"embedding": "shared", "embedding_bias": False, "input": "unit"}
        shared |= {"positions": "learned", "qkv_bias": False, "scale": "width"}
        super().__init__(Specification(pooling=pooling, **shared), tokens=tokens)
        del self.direction
        width = self.position.shape[1]
        self.words = nn.Embedding(256, width, padding_idx=0 if blank == "zero" else None)
        self.classifier = nn.Linear(width, 10, bias=bias)
        if scale == "none":
            self.key_factor = tokens

    def forward(self, pixels: Tensor) -> Tensor:
        """Computes logits (example, class) from sums over tokens, in a tenth of the time."""
        x = self.words(pixels) + self.position
        pooled = {"mean": x.mean(dim=1), "sum": x.sum(dim=1), "last": x[:, -1]}
        query = self.query(pooled[self.specification.pooling])[:, None]
        products = self.key.weight @ (x.mT @ x) @ self.value.weight.mT
        return self.classifier((query @ products)[:, 0] * (self.key_factor / x.shape[1]))

    def embed(self, words: Tensor, *, rule=GRADIENT) -> Tensor:
        """Adds positions to words (example, token, channel)."""
        return rule.linear(words + self.position)

    def folded(self) -> "LookedUp":
        """Returns the network whose blank pixel has word 0: its word is part of all positions."""
        other, blank = copy.deepcopy(self), self.words.weight[0].clone()
        other.words.weight -= blank
        other.position += blank
        return other


@torch.no_grad()
def leave_one_out(model: LookedUp, x: Tensor, other: Tensor, target: Tensor) -> Tensor:
    """Returns the logit less the logit with one embedding replaced: (example, token).

    x: (example, token, channel); other: (token, channel), replacements.  A token is one term of
    the pooled query and of the sum over keys and values, so no other token is computed again.
    """
    read = model.classifier.weight[target]
    old, new = (
        (model.query(y), model.key(y), (model.value(y) * read[:, None]).sum(dim=-1, keepdim=True))
        for y in (x, other.expand_as(x))
    )
    weight = torch.full((x.shape[1], 1), 1.0, dtype=x.dtype)
    if model.specification.pooling == "mean":
        weight /= x.shape[1]
    if model.specification.pooling == "last":
        weight[:-1] = 0
    query, key = (weight * old[0]).sum(dim=1, keepdim=True), (old[1] * old[2]).sum(1, keepdim=True)
    changed = query + weight * (new[0] - old[0]), key + new[1] * new[2] - old[1] * old[2]
    drop = (query * key).sum(dim=-1) - (changed[0] * changed[1]).sum(dim=-1)
    return drop * (model.key_factor / x.shape[1])


def maps(model: LookedUp, pixels: Tensor, mean: Tensor, analysis: dict) -> dict[tuple, np.ndarray]:
    """Returns all maps (example, token), in logits, by explainer, level and start or order.

    mean: (256,), the share of each intensity among the pixels of training.
    """
    words, target = model.words.weight[pixels], model(pixels).argmax(dim=1)
    x, average, blank = model.embed(words), mean @ model.words.weight, model.words.weight[0]
    position, nothing = model.position, torch.zeros_like(model.position)
    starts = {
        "word": (blank + position, position, average + position),
        "sum": (blank + position, nothing, average + position.mean(dim=0) + nothing),
        "folded": (blank + position, blank + position, average + position),
    }
    found = {}
    for level, of_level in starts.items():
        for name, start in zip(analysis["baseline"], of_level, strict=True):
            found["LOO", level, name] = leave_one_out(model, x, start, target)
            read = lambda y: model.read(y, factorization="kv_first")
            found["IG", level, name] = methods.integrated_gradients(
                read, x, target, baseline=start
            ).sum(dim=-1)
    rule, folded = Rules(eps=analysis["epsilon"]), model.folded()
    for side, order in methods.SIDES.items():
        options = {"factorization": order, "rule": rule}
        both = relevance(model, words, target, **options)
        found["AttnLRP", "word", side] = both["pixel"].sum(dim=-1)
        found["AttnLRP", "sum", side] = both["embedding"]
        above = relevance(folded, words - blank, target, **options)["pixel"]
        found["AttnLRP", "folded", side] = above.sum(dim=-1)
    found["logit", "", ""] = model(pixels).amax(dim=1, keepdim=True)
    return {key: value.numpy() for key, value in found.items()}


def measured(images: Images, network: dict, declared: dict) -> dict[tuple, tuple]:
    """Trains and analyses a network.

    Returns the accuracy, the share of images whose map has a negative sum, and the agreement of
    every pair of maps of one level that Table 1 compares.
    """
    training, analysis = dict(declared["training"]), declared["analysis"]
    pixels = {name: (part * 255).round().long() for name, part in images.pixels.items()}
    count, network = training.pop("images"), dict(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(network.pop("seed"))
        model = LookedUp(**network)
        train = pixels["train"][:count], images.labels["train"][:count]
        *_, model = methods.fit(model, *train, **training)
    accuracy = methods.accuracy(model, pixels["test"], images.labels["test"])
    model = model.double().requires_grad_(requires_grad=False)
    mean = torch.bincount(train[0].flatten(), minlength=256) / train[0].numel()
    parts = [
        maps(model, part, mean.double(), analysis)
        for part in pixels["test"][: analysis["images"]].split(25)
    ]
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    result = {("accuracy",): (accuracy,)}
    result |= {("negative", *key): ((a.sum(axis=1) < 0).mean(),) for key, a in found.items()}
    for a, b in itertools.permutations(found, 2):
        orders = (a[0], b[0], *a[2:], *b[2:]) == ("AttnLRP", "AttnLRP", *methods.SIDES)
        if a[1] == b[1] and ((a[0] == "LOO" and b[0] in ("IG", "AttnLRP")) or orders):
            result[f"{b[0]}, {a[0]}", *a[1:], b[2]] = agreement(found[a], found[b])
    return result


def agreement(a: np.ndarray, b: np.ndarray) -> tuple[float, ...]:
    """Returns mean r, the share whose sums differ in sign, r of sums to one, and undefined r."""
    every = np.ones(a.shape, dtype=bool)
    raw, one = pearson(a, b, every), pearson(normalise(a, every), normalise(b, every), every)
    return np.nanmean(raw), np.nanmean(flipped(raw, one)), np.nanmean(one), np.isnan(one).sum()


@one_thread()
def sweep(images: Images, declared: dict = DECLARED) -> Iterator[tuple]:
    """Yields network, quantity, and its values by seed, (seed, number)."""
    *choices, seeds = declared["network"].values()
    networks = [
        dict(zip(declared["network"], v, strict=False)) for v in itertools.product(*choices)
    ]
    for network in (*declared["ablation"]["networks"], *networks):
        name = ", ".join(f"{key}={value}" for key, value in network.items())
        by_seed = [measured(images, network | {"seed": seed}, declared) for seed in seeds]
        for key in by_seed[0]:
            yield name, key, np.array([found[key] for found in by_seed])


def main() -> None:
    """Prints a line per network and quantity: means over seeds, 95 % t intervals and ranges."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of mnist.npz; otherwise the Hub")
    print("network | quantity | r or share | flips | r, sum to one | undefined")
    for network, key, values in sweep(load(data_dir=parser.parse_args().data_dir)):
        half = T_95[len(values)] * values.std(axis=0, ddof=1) / len(values) ** 0.5
        columns = zip(values.mean(0), half, values.min(0), values.max(0), strict=True)
        cells = ["{:z.3f} ± {:.3f} ({:z.3f} to {:z.3f})".format(*column) for column in columns]
        print(" | ".join([network, ", ".join(filter(None, key)), *cells]), flush=True)


if __name__ == "__main__":
    main()

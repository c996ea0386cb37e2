"""``python -m benchmarks.research.looked_up --data-dir DIR``: Table 1 with looked-up pixels.

``looked_up.toml`` declares every specification; all are printed, in a quarter of an hour.
"""

import itertools
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from lrp_axioms.benchmarks.experiments.table1 import methods, mnist, pixel_attention
from lrp_axioms.benchmarks.running.threads import one_thread
from lrp_axioms.numeric.evaluation.correlation import flipped, pearson

DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
MAIN = mnist.declared().models["main", 0]
PIXELS, WIDTH = 196, 32


class LookedUp(pixel_attention.PixelAttention):
    """Linear attention over pixels (example, token), int64 from 0 to 255, that each have a word."""

    def __init__(self, *, scale: str, pooling: str, bias: bool, blank: str = "learned") -> None:
        super().__init__(replace(MAIN, scale="width", pooling=pooling), tokens=PIXELS, width=WIDTH)
        del self.direction
        self.words = nn.Embedding(256, WIDTH, padding_idx=0 if blank == "zero" else None)
        self.classifier = nn.Linear(WIDTH, 10, bias=bias)
        self.scale = 1 if scale == "none" else WIDTH**-0.5
        self.key_factor = PIXELS * self.scale
        self.pool = partial(pixel_attention.POOLING[pooling], rule=lambda o: o)

    def forward(self, pixels: Tensor) -> Tensor:
        """Computes logits (example, class) from sums over tokens, in a tenth of the time."""
        x = self.words(pixels) + self.position
        products = self.key.weight @ (x.mT @ x) @ self.value.weight.mT
        return self.classifier((self.query(self.pool(x))[:, None] @ products)[:, 0] * self.scale)

    def embed(self, words: Tensor, *, rule=pixel_attention.GRADIENT) -> Tensor:
        """Adds positions to words (example, token, channel)."""
        return rule.linear(words + self.position)


@torch.no_grad()
def leave_one_out(model: LookedUp, x: Tensor, start: Tensor, target: Tensor) -> Tensor:
    """Returns the logit less the logit with one embedding of ``x`` replaced by ``start``.

    A token is a term of the pooled query and of the sum over keys: no other is computed again.
    """
    read = model.classifier.weight[target][:, None]
    old, new = (
        (model.query(y), model.key(y) * (model.value(y) * read).sum(dim=-1, keepdim=True))
        for y in (x, start.expand_as(x))
    )
    query, key = model.pool(old[0])[:, None], old[1].sum(dim=1, keepdim=True)
    weight = model.pool(torch.eye(PIXELS, dtype=x.dtype)[..., None])
    changed = (query + weight * (new[0] - old[0])) * (key + new[1] - old[1])
    return (query * key - changed).sum(dim=-1) * model.scale


def maps(model: LookedUp, pixels: Tensor, mean: Tensor) -> dict[tuple, np.ndarray]:
    """Returns all maps (example, token), in logits; mean: (256,), shares of intensities."""
    analysis, words, position = DECLARED["analysis"], model.words.weight, model.position
    x, target, found = model.embed(words[pixels]), model(pixels).argmax(dim=1), {}
    blank, average, nothing = words[0] + position, mean @ words, torch.zeros_like(position)
    average_sum = nothing + average + position.mean(dim=0)
    of_word, of_sum = (blank, position, average + position), (blank, nothing, average_sum)
    names = itertools.product(("word", "sum"), analysis["start"])
    read = partial(model.read, factorization="kv_first")
    for name, start in zip(names, of_word + of_sum, strict=True):
        found["LOO", *name] = leave_one_out(model, x, start, target)
        gradients = methods.integrated_gradients(read, x, target, baseline=start)
        found["IG", *name] = gradients.sum(dim=-1)
    explain = partial(pixel_attention.relevance, model, words[pixels], target)
    for side, order in methods.SIDES.items():
        both = explain(factorization=order, rule=pixel_attention.Rules(eps=analysis["epsilon"]))
        found["AttnLRP", "word", side] = both["pixel"].sum(dim=-1)
        found["AttnLRP", "sum", side] = both["embedding"]
    return {key: value.numpy() for key, value in found.items()}


def measured(images: mnist.Images, *, seed: int, **network) -> dict[tuple, tuple]:
    """Trains a network; returns its accuracy, shares of negative sums, and agreement of pairs."""
    options = dict(DECLARED["training"])
    count = options.pop("images")
    pixels = {name: (part * 255).round().long() for name, part in images.pixels.items()}
    train = pixels["train"][:count], images.labels["train"][:count]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        *_, model = methods.fit(LookedUp(**network), *train, **options)
    result = {("accuracy",): (methods.accuracy(model, pixels["test"], images.labels["test"]),)}
    model = model.double().requires_grad_(requires_grad=False)
    mean = torch.bincount(train[0].flatten(), minlength=256).double() / train[0].numel()
    chosen = pixels["test"][: DECLARED["analysis"]["images"]]
    parts = [maps(model, part, mean) for part in chosen.split(25)]
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    result |= {("negative", *key): ((a.sum(axis=1) < 0).mean(),) for key, a in found.items()}
    for a, b in itertools.permutations(found, 2):
        orders = (a[0], b[0], a[2], b[2]) == ("AttnLRP", "AttnLRP", *methods.SIDES)
        if a[1] == b[1] and (orders or (a[0] == "LOO" and b[0] != "LOO")):
            result[f"{b[0]}, {a[0]}", *a[1:], b[2]] = _agreement(found[a], found[b])
    return result


def _agreement(a, b):
    every = np.ones(a.shape, dtype=bool)
    scaled = [[scale(x, every) for x in (a, b)] for scale in methods.MAPS.values()]
    raw, one = (pearson(*both, every) for both in scaled)
    return tuple(map(np.nanmean, (raw, flipped(raw, one), one)))


@one_thread()
def sweep(images: mnist.Images) -> Iterator[str]:
    """Yields a line per network and quantity: means over seeds, 95 % t intervals and ranges."""
    *choices, seeds = DECLARED["network"].values()
    every = itertools.product(*choices)
    networks = [dict(zip(DECLARED["network"], values, strict=False)) for values in every]
    for network in (*DECLARED["ablation"], *networks):
        by_seed = [measured(images, seed=seed, **network) for seed in seeds]
        for key in by_seed[0]:
            values = np.array([found[key] for found in by_seed])
            half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(values)
            columns = zip(values.mean(0), half, values.min(0), values.max(0), strict=True)
            cells = ["{:z.3f} ± {:.3f} ({:z.3f} to {:z.3f})".format(*each) for each in columns]
            yield " | ".join([*(f"{k}={v}" for k, v in network.items()), ", ".join(key), *cells])


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder of mnist.npz; otherwise the Hub")
    for line in sweep(mnist.load(data_dir=parser.parse_args().data_dir)):
        print(line, flush=True)

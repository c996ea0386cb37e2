"""Six sentences and the embedded classifier: rows measured on them, and the same one by one."""

import functools
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from benchmarks.experiments import rows, text
from benchmarks.experiments.maps import Measured, measured
from benchmarks.sources import data, models
from numeric import attribute
from numeric.models import digests

PHRASES = (
    "a fine film .",
    "not a bad evening , all in all",
    "dull",
    "the singer forgot half of the words and nobody minded",
    "i would rather have stayed at home",
    "warm and funny",
)
LABELS = (1, 1, 0, 1, 0, 1)
METHODS = {
    "LOO": "loo",
    "IG": "integrated-gradients",
    "Rollout": "attention-rollout",
    "AttnLRP": "attnlrp",
    "CP-LRP": "cp-lrp",
}
"""As the paper's Table 2 calls them, in its order."""
OPTIONS = {"integrated-gradients": {"steps": 16, "tolerance": 0.02}}
"""Options of Table 2's rows on SST."""
TEXTS = data.Texts("six", PHRASES, LABELS, "invented", "SST", 1)


def close(got, want, *, tolerance=1e-9):
    assert got == pytest.approx(want, abs=tolerance)


@functools.cache
def classifier() -> models.Classifier:
    """The embedded one in float64."""
    loaded = models.load()
    return replace(loaded, model=loaded.model.double(), sha256=digests.of_model(loaded.model))


def measure(names, output) -> Measured:
    """Rows of ``configs`` on the six sentences, in float64, in groups of at most four."""
    whole = text.SHARD
    try:
        text.SHARD = 4, 4096, 4096  # two groups, both of them with padding
        found = [replace(rows.load(name), dtype="float64") for name in names]
        return measured([text.run(row, classifier(), TEXTS, output=output) for row in found])
    finally:
        text.SHARD = whole


@functools.cache
def sentences() -> "list[ByHand]":
    return [ByHand(phrase) for phrase in PHRASES]


class ByHand:
    """One sentence: its logits under any mask or other ids, one forward pass at a time."""

    def __init__(self, sentence):
        self.model = classifier().model
        self.inputs = classifier().tokenizer([sentence], return_tensors="pt").data
        self.ids = self.inputs["input_ids"][0].tolist()
        self.count = len(self.ids)
        self.everything = set(range(self.count))
        self.seen = {}
        self.target = int(self.logits(self.everything).argmax())
        self.known = {"loo": self.loo(lambda n: self.logits(self.everything - {n}))}

    @torch.no_grad()
    def logits(self, kept):
        """With only the ``kept`` places in the attention mask; each set of them runs once."""
        kept = frozenset(kept)
        if kept not in self.seen:
            mask = torch.tensor([[int(n in kept) for n in range(self.count)]])
            self.seen[kept] = self.model(**self.inputs | {"attention_mask": mask}).logits[0]
        return self.seen[kept]

    @torch.no_grad()
    def logits_of(self, ids):
        """The logits of other token ids."""
        return self.model(input_ids=torch.tensor([ids])).logits[0]

    def logit(self, kept):
        return float(self.logits(kept)[self.target])

    def loo(self, without, *, contrast=False):
        """Relevance of every token from the logits ``without(n)``."""
        value = lambda x: float(x[self.target] - (x[1 - self.target] if contrast else 0))
        whole = value(self.logits(self.everything))
        return [whole - value(without(n)) for n in range(self.count)]

    def relevance(self, method):
        """The relevance by a method's name or a Composite; a known map is returned as it is."""
        if isinstance(method, list):
            return method
        key = str(method)
        if key not in self.known:
            a = attribute(self.model, self.inputs, method, self.target, **OPTIONS.get(key, {}))
            self.known[key] = a.relevance[0].tolist()
        return self.known[key]

    def r(self, method, reference="loo", *, kept=slice(None), normalised=False):
        """Pearson's r; ``kept`` is slice(1, -1) for content tokens."""
        a, b = (self.relevance(one)[kept] for one in (method, reference))
        if len(a) < 2:
            return math.nan
        r = np.corrcoef(a, b)[0, 1]
        return -r if normalised and (sum(a) < 0) != (sum(b) < 0) else r

    def tau(self, method, *, kept=slice(None)):
        """Kendall's tau-b, pair by pair."""
        a, b = self.relevance(method)[kept], self.relevance("loo")[kept]
        pairs = [
            (np.sign(a[m] - a[n]), np.sign(b[m] - b[n])) for m, n in combinations(range(len(a)), 2)
        ]
        if not pairs:
            return math.nan
        untied = math.prod(sum(pair[side] != 0 for pair in pairs) for side in (0, 1))
        return sum(x * y for x, y in pairs) / math.sqrt(untied)

    def curve(self, method, *, most_first):
        """Logits while tokens are removed one by one, the last one left in."""
        a = self.relevance(method)
        order = sorted(range(self.count), key=lambda n: -a[n] if most_first else a[n])
        return [self.logit(set(order[step:])) for step in range(self.count)]


CONTENT = slice(1, -1)


def mean(values) -> float:
    """The mean of the defined values."""
    return np.nanmean(list(values))

"""``python -m benchmarks.research.stabilisers`` measures how far a stabiliser moves r.

It compares r with Leave-One-Out of maps that sum to one, with ``EPSILON`` and in its limit, at all
mixes of Figure 2, and counts denominators near 0: elsewhere a sign of epsilon hardly matters.
"""

import warnings
from argparse import ArgumentParser
from collections import Counter

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.experiments import text
from benchmarks.research.specifications import DECLARED, composites, mixes, parsed
from benchmarks.running.threads import one_thread
from numeric import attribute, sweep
from numeric.evaluation.correlation import normalise, pearson
from numeric.methods.amplification import AmplifiedRelevance

EPSILON, NEAR = 1e-6, 1e-5
RULES = DECLARED["few"]["rules"] | {"readout": ["value-only"]}
OUTPUTS = {"addmm": "linear maps", "bmm": "products", "add": "sums", "_softmax": "softmax logits"}


class Denominators(TorchDispatchMode):
    """Counts all denominators, and the ones below ``NEAR``, by the operation that they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.every, self.near = Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in OUTPUTS:
            size = (args[0] if name == "_softmax" else found).abs()
            self.every[name] += size.numel()
            self.near[name] += int((size < NEAR).sum())
        return found


def both(model, inputs) -> tuple[np.ndarray, np.ndarray]:
    """Returns r in the limit and with ``EPSILON``, (rules and mixes, text) each."""
    keep = inputs["attention_mask"].numpy() == 1
    loo = normalise(attribute(model, inputs, "loo").relevance, keep)
    mixed = composites(RULES, model.config.num_hidden_layers)
    limit = sweep(model, inputs, mixed).relevance
    stable = [attribute(model, inputs, each, epsilon=EPSILON).relevance for each in mixed]
    of_each = lambda maps: np.array([pearson(normalise(x, keep), loo, keep) for x in maps])
    return of_each(limit), of_each(stable)


@one_thread()
def main() -> None:
    _, classifier, texts = parsed(ArgumentParser(description=__doc__))
    model, counts, found = classifier.model, Denominators(), []
    model.set_attn_implementation("eager")
    for n in range(len(texts.texts)):
        inputs = dict(text.in_batch(classifier, texts, [n])[0])
        found.append(both(model, inputs))
        with counts, torch.no_grad():
            model(**inputs)
    limit, stable = np.concatenate(found, axis=2)
    names = [
        f"{rule}, {mix}"
        for rule in RULES["softmax"]
        for mix in mixes(len(model.bert.encoder.layer))
    ]
    for name, before, after in zip(names, limit, stable, strict=True):
        print(
            f"{name}: r {before.mean():.4f}, with {EPSILON} {after.mean():.4f}; "
            f"one text by {abs(after - before).max():.1e} at most"
        )
    for name, every in counts.every.items():
        print(f"{OUTPUTS[name]}: {counts.near[name] / every:.2e} of {every} below {NEAR}")


if __name__ == "__main__":
    with warnings.catch_warnings():  # some of these rules amplify
        warnings.simplefilter("ignore", AmplifiedRelevance)
        main()

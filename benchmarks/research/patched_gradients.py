"""``python -m benchmarks.research.patched_gradients`` runs Integrated Gradients on LRP's gradients.

Autograd under LRP's rules gives relevance divided by its input in the place of a gradient.  On the
path that scales word embeddings from zero, and leaves positions as they are, the map is the mean of
relevance (of words) divided by the scale.  On a path that scales the whole sum of embeddings it is
LRP's own map, because the LayerNorm after it undoes the scale.
"""

import copy
import warnings
from argparse import ArgumentParser
from collections.abc import Sequence

import numpy as np
from numpy.polynomial.legendre import leggauss

from lrp_axioms import attribute, sweep
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.research.specifications import parsed
from lrp_axioms.benchmarks.running.threads import one_thread
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, normalise, pearson
from lrp_axioms.numeric.methods.amplification import AmplifiedRelevance

STEPS = 32
METHODS = ("attnlrp", "cp-lrp")


def along_path(model, inputs, methods: Sequence, target, steps: int = STEPS) -> np.ndarray:
    """Returns maps of Integrated Gradients on the methods' gradients, (method, text, token)."""
    total = 0
    for node, weight in zip(*leggauss(steps), strict=True):
        scale = (node + 1) / 2
        scaled = copy.deepcopy(model)
        scaled.get_input_embeddings().weight.data.mul_(scale)
        found = sweep(scaled, inputs, methods, target, share="word")
        total += weight / 2 / scale * found.relevance.numpy()
    return total


def agreement(model, inputs) -> np.ndarray:
    """Returns r with Leave-One-Out by map, raw and with sum one, (map and form, text)."""
    keep = inputs["attention_mask"].numpy() == 1
    loo = attribute(model, inputs, "loo")
    plain = attribute(model, inputs, "integrated-gradients", loo.target, steps=STEPS).relevance
    every = [plain.numpy(), *along_path(model, inputs, METHODS, loo.target)]
    every += [*sweep(model, inputs, METHODS, loo.target).relevance.numpy()]
    ones = normalise(loo.relevance, keep)
    pairs = [
        (pearson(x, loo.relevance, keep), pearson(normalise(x, keep), ones, keep)) for x in every
    ]
    return np.array(pairs).reshape(2 * len(every), -1)


@one_thread()
def main() -> None:
    _, classifier, texts = parsed(ArgumentParser(description=__doc__))
    batches = [
        text.in_batch(classifier, texts, shard)[0] for shard in text.shards(classifier, texts)
    ]
    r = np.concatenate([agreement(classifier.model, dict(x)) for x in batches], axis=1)
    names = ["IG", *(f"IG on {x}" for x in METHODS), *METHODS]
    for name, forms in zip(names, np.split(r, len(names)), strict=True):
        raw, one = (bootstrap_mean(x, seed=0) for x in forms)
        print(f"{name}: raw {raw}, sum to one {one}")


if __name__ == "__main__":
    with warnings.catch_warnings():  # some of these rules amplify
        warnings.simplefilter("ignore", AmplifiedRelevance)
        main()

"""Chooses how many epochs the networks of Table 1 on digits train, by training images alone."""

from collections.abc import Mapping, Sequence

import torch

from lrp_axioms.benchmarks.experiments.table1.digits import GOAL, accuracy, fit
from lrp_axioms.benchmarks.running.threads import one_thread

CANDIDATES = (25, 40, 60, 100)


@one_thread()
def validate(*, seed: int, candidates: Sequence[int] = CANDIDATES) -> dict[int, float]:
    """Returns accuracy on "validation" by epochs on "fit": no test image is looked at."""
    with torch.random.fork_rng(devices=[]):
        models = fit("fit", seed=seed, epochs=max(candidates))
        return {
            epoch: accuracy(model, split="validation")
            for epoch, model in enumerate(models, start=1)
            if epoch in candidates
        }


def choose(found: Mapping[int, Mapping[int, float]], *, goal: float = GOAL) -> int:
    """Returns the smallest number of epochs that brings every seed to the goal.

    found: accuracy on "validation" by seed and number of epochs.  Raises ValueError if none does.
    """
    candidates = sorted(set.intersection(*(set(by_epochs) for by_epochs in found.values())))
    for epochs in candidates:
        if all(by_epochs[epochs] >= goal for by_epochs in found.values()):
            return epochs
    raise ValueError(
        f"no number of epochs among {candidates} reaches {goal} for every seed: {dict(found)}"
    )

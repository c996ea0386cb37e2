"""One network of the sweep on MNIST: all its maps, and r of every pair that Table 1 may mean."""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from lrp_axioms.benchmarks.experiments.table1 import methods
from lrp_axioms.benchmarks.experiments.table1.pixel_attention import (
    PixelAttention,
    Rules,
    relevance,
)
from lrp_axioms.numeric.evaluation.correlation import pearson

ORDERS = tuple(methods.SIDES.values())
INVARIANCE = 1e-10
"""LOO and IG of both orders may differ by this much of the map's largest value, in float64."""

SAME = ", difference of the orders"


def analyse(
    model: PixelAttention,
    pixels: Tensor,
    axes: dict,
    *,
    ink: np.ndarray,
    mean: Tensor,
    batch: int = 20,
) -> dict[str, np.ndarray]:
    """Computes r of every analysis, (example,), and the orders' differences in LOO and IG.

    pixels: (example, token), input of the network; ink: (example, token), whether a pixel is ink;
    mean: (token,), the training mean; axes: the table "analysis" of the configuration.
    Raises ArithmeticError if LOO or IG depend on the order.
    """
    logits = model(pixels)
    target = logits.argmax(dim=1)
    parts = [
        _maps(model, x, t, mean=mean, axes=axes)
        for x, t in zip(pixels.split(batch), target.split(batch), strict=True)
    ]
    maps = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    forward = axes["forward"]
    again = partial(model, factorization="qk_first")
    few = methods.leave_one_out(again, pixels[:forward], target[:forward]).numpy()
    apart = {"LOO": difference("LOO", maps["LOO"][:forward], few)}
    for baseline in axes["baseline"]:
        pair = (maps["IG", order, baseline] for order in ORDERS)
        apart[f"IG {baseline}"] = difference(f"IG {baseline}", *pair)

    columns = {"target": target.numpy(), "logit": logits.amax(dim=1).numpy()}
    for name, values in apart.items():
        columns[name + SAME] = np.full(len(pixels), np.nan)
        columns[name + SAME][: len(values)] = values
    keeps = {"all": np.ones_like(ink), "ink": ink}
    for settings in analyses(axes):
        keep, rescale = keeps[settings["pixels"]], methods.MAPS[settings["maps"]]
        a, b = (rescale(maps[key], keep) for key in _compared(settings))
        columns[column(settings)] = pearson(a, b, keep)
    return columns


def _maps(model, pixels, target, *, mean, axes):
    """Returns key -> maps of some images, (example, token), in logits."""
    maps = {"LOO": methods.leave_one_out(model, pixels, target)}
    embedding = model.embed(pixels)
    for order in ORDERS:
        network = partial(model, factorization=order)
        behind = partial(model.read, factorization=order)
        baselines = {"zero image": torch.zeros_like(mean), "mean image": mean}
        for name, start in baselines.items():
            found = methods.integrated_gradients(network, pixels, target, baseline=start)
            maps["IG", order, name] = found
        of_channels = methods.integrated_gradients(behind, embedding, target)
        maps["IG", order, "zero embedding"] = of_channels.sum(dim=-1)
        for bias in axes["bias"]:
            rule = Rules(eps=axes["epsilon"], bias=bias)
            found = relevance(model, pixels, target, factorization=order, rule=rule)
            maps |= {("AttnLRP", order, bias, level): found[level] for level in axes["level"]}
    return {key: value.numpy() for key, value in maps.items()}


def difference(name, left, right):
    """Returns the largest difference of two maps in units of the largest value, per image."""
    found = abs(left - right).max(axis=1) / abs(left).max(axis=1)
    if not (found <= INVARIANCE).all():
        raise ArithmeticError(
            f"{name} of image {int(found.argmax())} differs by {found.max():.1e} of its largest "
            f"value between {' and '.join(ORDERS)}, which compute one function"
        )
    return found


def analyses(axes: dict) -> Iterator[dict[str, str]]:
    """Yields every analysis as a dict of its settings, with the pair that it compares."""
    pairs = ("AttnLRP L vs R", *(f"AttnLRP {order} vs LOO" for order in ORDERS))
    both = {"maps": axes["maps"], "pixels": axes["pixels"]}
    lrp = {"pair": pairs, "level": axes["level"], "bias": axes["bias"]} | both
    gradients = {"pair": ("IG vs LOO",), "baseline": axes["baseline"]} | both
    for kind in (lrp, gradients):
        for values in itertools.product(*kind.values()):
            yield dict(zip(kind, values, strict=True))


def column(settings: dict) -> str:
    return ", ".join(settings.values())


def _compared(settings):
    """Returns the keys of the two maps of an analysis."""
    if settings["pair"] == "IG vs LOO":
        return ("IG", ORDERS[0], settings["baseline"]), "LOO"
    keys = [("AttnLRP", order, settings["bias"], settings["level"]) for order in ORDERS]
    if settings["pair"] == "AttnLRP L vs R":
        return keys
    return keys[ORDERS.index(settings["pair"].split()[1])], "LOO"

"""Training, Leave-One-Out and Integrated Gradients for Table 1, on any images.

L is ``qk_first`` and R is ``kv_first``, as in §3.1; §4.3 swaps the words, and Table 1 does not
say which it means, so the paper's two AttnLRP values may belong to the other column.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from lrp_axioms.numeric.evaluation.correlation import normalise

SIDES = {"L": "qk_first", "R": "kv_first"}
MAPS = {"raw": lambda a, keep: a, "sum to one": normalise}

Logits = Callable[[Tensor], Tensor]
"""Inputs (example, ...) -> logits (example, class)."""


def fit(
    model,
    pixels: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch: int,
    learning_rate: float,
    logits: Logits | None = None,
):
    """Trains by Adam and cross-entropy (Appendix B.1.1); yields the model after every epoch.

    The order of the images comes from the global random state.  ``logits``: a faster function with
    the logits of ``model``.
    """
    logits = logits or model
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for chosen in torch.randperm(len(pixels)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits(pixels[chosen]), labels[chosen]).backward()
            optimizer.step()
        yield model


@torch.no_grad()
def accuracy(model: Logits, pixels: Tensor, labels: Tensor, *, batch: int = 500) -> float:
    """Returns the share of correctly classified images."""
    found = torch.cat([model(part).argmax(dim=1) for part in pixels.split(batch)])
    return float((found == labels).double().mean())


@torch.no_grad()
def leave_one_out(model: Logits, pixels: Tensor, target: Tensor) -> Tensor:
    """Returns the target's logit less the logit with one pixel at 0 (§4.1): (example, token)."""
    result = torch.zeros_like(pixels)
    for row, x, c in zip(result, pixels, target, strict=True):
        (there,) = x.nonzero(as_tuple=True)  # removing a pixel at 0 changes nothing
        without = x.repeat(len(there), 1)
        without[torch.arange(len(there)), there] = 0
        row[there] = model(x[None])[0, c] - model(without)[:, c]
    return result


def integrated_gradients(
    model: Logits, inputs: Tensor, target: Tensor, *, baseline: Tensor | float = 0.0
) -> Tensor:
    """Computes exact Integrated Gradients from ``baseline`` to ``inputs`` (Appendix A), in logits.

    The logit is a polynomial of degree 3 along the path, its gradient one of degree 2, and two
    Gauss-Legendre nodes integrate up to degree 3.
    Raises ArithmeticError if the map does not sum to the difference of the logits.
    """
    start = torch.zeros_like(inputs) + baseline
    nodes, weights = np.polynomial.legendre.leggauss(2)
    paths = [start + (inputs - start) * (t + 1) / 2 for t in nodes]
    mean = sum(w / 2 * _gradient(model, x, target) for w, x in zip(weights, paths, strict=True))
    result = (inputs - start) * mean
    with torch.no_grad():
        ends = [model(x).gather(1, target[:, None])[:, 0] for x in (inputs, start)]
    gap = (result.flatten(1).sum(dim=1) - (ends[0] - ends[1])).abs()
    if not (gap <= 1e-9 * (1 + ends[0].abs() + ends[1].abs())).all():
        raise ArithmeticError(
            f"integrated gradients of image {int(gap.argmax())} miss the logit by "
            f"{float(gap.max()):.1e}: the logit is not cubic in the pixels; use more nodes"
        )
    return result


def _gradient(model, inputs, target):
    inputs = inputs.detach().requires_grad_()
    logit = model(inputs).gather(1, target[:, None]).sum()
    return torch.autograd.grad(logit, inputs)[0]

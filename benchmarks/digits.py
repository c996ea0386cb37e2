"""Table 1 on handwritten digits that come with scikit-learn: no download, seconds on one core.

Specification, fixed before any correlation was computed, except the number of epochs (EPOCHS):
- One token per pixel, in [0, 1]; an attribution is one number per pixel.  AttnLRP is pixel times
  cotangent, so the learned positions absorb a share.
- LOO: a pixel set to 0.  IG: from the blank image.  Both explain the predicted class's logit.
- L is ``qk_first`` and R is ``kv_first``, as in §3.1; §4.3 swaps the words, and Table 1 does not
  say which it means, so the paper's two AttnLRP values may belong to the other column.
- Maps raw, and divided by their sum as in §4.1 ("sum to one").
- All pixels as in the paper, and ink alone (pixel > 0): a blank pixel is 0 in every map, so
  those pairs of zeros correlate by construction.
The paper has 14×14 MNIST and does not describe its embedding; here it is 8×8 and learned.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from numeric.evaluation.correlation import bootstrap_mean, normalise, pearson
from numeric.fast.linear_attention import LinearAttention, cotangent

PAPER = {
    "LOO": {"L vs R": 1.0000, "L vs LOO": 1.0000, "R vs LOO": 1.0000},
    "IG": {"L vs R": 1.0000, "L vs LOO": -0.3707, "R vs LOO": -0.3707},
    "AttnLRP": {"L vs R": 0.7865, "L vs LOO": 0.0730, "R vs LOO": -0.0698},
}
"""Table 1 of the paper."""

SIDES = {"L": "qk_first", "R": "kv_first"}
EPOCHS = 40
"""Raised from 25 because seed 2 reached only 75 % on the test images, less than the paper's 85 %.

That was decided on the images that Table 1 reports, after the correlations at 25 epochs had been
seen: AttnLRP L-R 0.948 raw and 0.717 sum to one, L-LOO 0.912 and 0.573, R-LOO 0.955 and 0.814.
"""
BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Mean Pearson r of one explainer and one pair of maps, beside the paper's number."""

    explainer: str  # a row of PAPER
    pair: str  # a column of PAPER
    maps: str  # "raw" or "sum to one"
    pixels: str  # "all" or "ink"
    mean: float
    low: float  # 95 % bootstrap interval over test images
    high: float
    undefined: int  # images without a value
    flipped: int  # images where exactly one of the two sums is negative: sum to one turns r around
    paper: float


@dataclass(frozen=True, kw_only=True)
class Table1:
    """All cells, and what they were made of: one row per test image."""

    cells: list[Cell]
    examples: dict[str, np.ndarray]  # (example,): labels, logits, and every r and sum
    maps: dict[str, np.ndarray]  # (example, token), in logits: "IG L", "AttnLRP R", ...
    accuracy: float  # on the whole test split
    seconds: float  # training and explaining


@cache
def images() -> dict[str, tuple[Tensor, Tensor]]:
    """Pixels (example, token) in [0, 1], float64, and labels, by split: 1437 train, 360 test."""
    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(pixels / 16, labels, test_size=360, stratify=labels, random_state=0)
    train_x, test_x, train_y, test_y = map(torch.from_numpy, parts)
    return {"train": (train_x, train_y), "test": (test_x, test_y)}


def train(*, seed: int, epochs: int = EPOCHS, learning_rate: float = 1e-3) -> LinearAttention:
    """A float64 classifier trained by Adam and cross-entropy (Appendix B.1.1), frozen.

    Equal arguments give equal weights; the global random state is left as it was.
    """
    pixels, labels = images()["train"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LinearAttention(tokens=pixels.shape[1]).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        for _ in range(epochs):
            for batch in torch.randperm(len(pixels)).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(pixels[batch]), labels[batch]).backward()
                optimizer.step()
    return model.requires_grad_(requires_grad=False)


def accuracy(model: LinearAttention, *, split: str = "test") -> float:
    """Share of correctly classified images of one split."""
    pixels, labels = images()[split]
    return float((model(pixels).argmax(dim=1) == labels).double().mean())


@torch.no_grad()
def leave_one_out(model, pixels: Tensor, target: Tensor, *, factorization: str) -> Tensor:
    """Logit of the target minus the same with one pixel at 0 (§4.1): (example, token)."""
    keep = 1 - torch.eye(pixels.shape[1], dtype=pixels.dtype)
    return torch.stack(
        [
            model(x[None], factorization=factorization)[0, c]
            - model(x * keep, factorization=factorization)[:, c]
            for x, c in zip(pixels, target, strict=True)
        ]
    )


def integrated_gradients(model, pixels: Tensor, target: Tensor, *, factorization: str) -> Tensor:
    """Integrated Gradients from the blank image (Appendix A), exact: (example, token).

    The logit is a polynomial of degree 3 along the path, its gradient one of degree 2, and two
    Gauss-Legendre nodes integrate up to degree 3.
    Raises ArithmeticError if the map does not sum to the difference of the logits.
    """
    nodes, weights = np.polynomial.legendre.leggauss(2)
    gradients = [
        cotangent(model, pixels * (t + 1) / 2, target, factorization=factorization, eps=None)
        for t in nodes
    ]
    result = pixels * sum(w / 2 * g for w, g in zip(weights, gradients, strict=True))
    with torch.no_grad():
        logits = [model(x, factorization=factorization) for x in (pixels, torch.zeros_like(pixels))]
    full, blank = (z.gather(1, target[:, None])[:, 0] for z in logits)
    gap = (result.sum(dim=1) - (full - blank)).abs()
    if not (gap <= 1e-9 * (1 + full.abs() + blank.abs())).all():
        raise ArithmeticError(
            f"integrated gradients of image {int(gap.argmax())} miss the logit by "
            f"{float(gap.max()):.1e}: the logit is not cubic in the pixels; use more nodes"
        )
    return result


def explain(model, pixels: Tensor, target: Tensor, *, eps: float) -> dict[str, np.ndarray]:
    """All maps of Table 1 by name, such as "AttnLRP L": (example, token), in logits."""
    return {
        f"{explainer} {side}": attribution.numpy()
        for side, factorization in SIDES.items()
        for explainer, attribution in {
            "LOO": leave_one_out(model, pixels, target, factorization=factorization),
            "IG": integrated_gradients(model, pixels, target, factorization=factorization),
            "AttnLRP": pixels
            * cotangent(model, pixels, target, factorization=factorization, eps=eps),
        }.items()
    }


@contextmanager
def one_thread():
    """Products this small run slower on several threads, and far slower on busy processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def table1(
    *, seed: int = 0, epochs: int = EPOCHS, eps: float = 1e-6, count: int | None = None
) -> Table1:
    """Table 1 on the first ``count`` test images (None: all 360), with per-image values.

    ``seed`` fixes the training and the bootstrap.  Raises ArithmeticError if IG is not complete.
    """
    start = time.perf_counter()
    model = train(seed=seed, epochs=epochs)
    pixels, labels = (part[:count] for part in images()["test"])
    logits = model(pixels)
    target = logits.argmax(dim=1)
    maps = explain(model, pixels, target, eps=eps)

    examples = {"label": labels.numpy(), "target": target.numpy()}
    examples["logit"] = logits.amax(dim=1).numpy()
    examples |= {f"{name} sum": attribution.sum(axis=1) for name, attribution in maps.items()}
    keeps = {"all": np.ones(pixels.shape, dtype=bool), "ink": (pixels > 0).numpy()}
    scales = {"raw": lambda a, keep: a, "sum to one": normalise}
    cells = []
    for explainer, row in PAPER.items():
        for pair, paper in row.items():
            a, b = _pair(maps, explainer, pair)
            flipped = int(((a.sum(axis=1) < 0) ^ (b.sum(axis=1) < 0)).sum())
            for scale, rescale in scales.items():
                for region, keep in keeps.items():
                    r = pearson(rescale(a, keep), rescale(b, keep), keep)
                    examples[f"{explainer} {pair} {scale} {region}"] = r
                    where = {"explainer": explainer, "pair": pair, "maps": scale, "pixels": region}
                    interval = bootstrap_mean(r, seed=seed)._asdict()
                    cells.append(Cell(**where, **interval, flipped=flipped, paper=paper))
    seconds = time.perf_counter() - start
    return Table1(
        cells=cells, examples=examples, maps=maps, accuracy=accuracy(model), seconds=seconds
    )


def _pair(maps, explainer, pair):
    """The two maps of a column: "L vs LOO" compares with the LOO of the same factorization."""
    left, right = pair.split(" vs ")
    other = f"LOO {left}" if right == "LOO" else f"{explainer} {right}"
    return maps[f"{explainer} {left}"], maps[other]

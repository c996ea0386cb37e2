"""Table 1 on handwritten digits that come with scikit-learn: no download, seconds on one core.

Specification:
- One token per pixel, in [0, 1]; an attribution is one number per pixel.  AttnLRP is pixel times
  cotangent, so the learned positions absorb a share.
- LOO: a pixel set to 0.  IG: from the blank image.  Both explain the predicted class's logit.
- L is ``qk_first`` and R is ``kv_first`` (`methods`).
- Maps raw, and divided by their sum as in §4.1 ("sum to one").
- All pixels as in the paper, and ink alone (pixel > 0): a blank pixel is 0 in every map, so
  blank pixels correlate by construction.
The paper has 14×14 MNIST and does not describe its embedding; here it is 8×8 and learned.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from lrp_axioms.benchmarks.experiments.maps import SEED, means
from lrp_axioms.benchmarks.experiments.record import Experiment, interval, number, percent, value
from lrp_axioms.benchmarks.experiments.result import Result, joined, undefined
from lrp_axioms.benchmarks.experiments.table1 import methods
from lrp_axioms.benchmarks.experiments.table1.methods import SIDES
from lrp_axioms.benchmarks.experiments.table1.pixel_attention import (
    PixelAttention,
    Rules,
    Specification,
    relevance,
)
from lrp_axioms.benchmarks.running.timing import one_thread
from lrp_axioms.benchmarks.running.workers import Each, Track, collected, in_turn, untracked
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, flipped, pearson

PAPER = {
    "LOO": {"L vs R": 1.0000, "L vs LOO": 1.0000, "R vs LOO": 1.0000},
    "IG": {"L vs R": 1.0000, "L vs LOO": -0.3707, "R vs LOO": -0.3707},
    "AttnLRP": {"L vs R": 0.7865, "L vs LOO": 0.0730, "R vs LOO": -0.0698},
}
"""Table 1 of the paper."""

NETWORK = Specification(
    embedding="shared", embedding_bias=False, positions="learned", qkv_bias=False, scale="tokens",
    pooling="mean", input="unit",
)  # fmt: skip
GOAL = 0.85  # the accuracy that the paper reports (§4.3)
EPOCHS = 40
"""The least of 25, 40, 60 and 100 with accuracy >= GOAL on held-out images for seeds 0, 1 and 2.

A fifth of the training images is held out to decide it (`benchmarks/research/epochs.py` of commit
652c5fb9); the test images have no part in it.  Accuracies (seeds 0, 1, 2) are 0.934, 0.895 and
0.561 after 25 epochs, 0.948, 0.937 and 0.868 after 40, 0.944, 0.941 and 0.934 after 60, and 0.944,
0.951 and 0.948 after 100.  The networks of the table are then trained on all training images.
"""
BATCH = WIDTH = 32
SEEDS, EPS = (0, 1, 2), 1e-6


@dataclass(frozen=True, kw_only=True)
class Network:
    """Results of one network: values per test image, and its accuracy on the whole split."""

    examples: dict[str, np.ndarray]  # (example,): labels, logits, and every r and sum
    maps: dict[str, np.ndarray]  # (example, token), in logits: "IG L", "AttnLRP R", ...
    accuracy: float


@cache
def images() -> dict[str, tuple[Tensor, Tensor]]:
    """Returns float64 pixels (example, token) in [0, 1] and labels: 1437 "train", 360 "test"."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    how = {"test_size": 360, "stratify": labels, "random_state": 0}
    x, x_test, y, y_test = map(torch.from_numpy, train_test_split(pixels / 16, labels, **how))
    return {"train": (x, y), "test": (x_test, y_test)}


def train(*, seed: int, epochs: int = EPOCHS, learning_rate: float = 1e-3) -> PixelAttention:
    """Trains a float64 classifier by Adam and cross-entropy (Appendix B.1.1), and freezes it.

    Equal arguments give equal weights; the global random state is left as it was.
    """
    options = {"epochs": epochs, "batch": BATCH, "learning_rate": learning_rate}
    pixels, labels = images()["train"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        direction = torch.randn(1, WIDTH)  # as large as positions
        torch.manual_seed(seed)
        model = PixelAttention(NETWORK, tokens=pixels.shape[1], width=WIDTH)
        model.direction.data = direction
        model.double()
        options["logits"] = partial(from_sums, model)
        *_, model = methods.fit(model, pixels, labels, **options)
    return model.requires_grad_(requires_grad=False)


def from_sums(model: PixelAttention, pixels: Tensor) -> Tensor:
    """Computes ``model(pixels)`` in a third of its time: training explains nothing.

    A query, key or value is the pixel times one vector plus a vector of its place, and the readout
    is averaged over places; so only products of weights run over places and channels.
    """
    maps = model.query, model.key, model.value
    (q, q_at), (k, k_at), (v, v_at) = ((w(model.direction[0]), w(model.position)) for w in maps)
    places, square = pixels.shape[1], (pixels**2).mean(dim=1, keepdim=True)
    query = pixels.mean(dim=1, keepdim=True) * q + q_at.mean(dim=0)
    keys, values = pixels @ k_at / places, pixels @ v_at / places
    readout = (query @ k)[:, None] * (square * v + values) + query @ (k_at.mT @ v_at / places)
    return model.classifier(readout + (query * keys).sum(dim=1, keepdim=True) * v)


def explain(model, pixels: Tensor, target: Tensor) -> dict[str, np.ndarray]:
    """Returns all maps of Table 1 by name, such as "AttnLRP L": (example, token), in logits."""
    maps = {}
    for side, factorization in SIDES.items():
        network = partial(model, factorization=factorization)
        maps[f"LOO {side}"] = methods.leave_one_out(network, pixels, target)
        maps[f"IG {side}"] = methods.integrated_gradients(network, pixels, target)
        lrp = relevance(model, pixels, target, factorization=factorization, rule=Rules(eps=EPS))
        maps[f"AttnLRP {side}"] = lrp["pixel"]
    return {name: attribution.numpy() for name, attribution in maps.items()}


@one_thread()
def measured(seed: int = 0, *, epochs: int = EPOCHS, count: int | None = None) -> Network:
    """Measures a network on the first ``count`` test images (None: 360); ``seed``: of training.

    Raises ArithmeticError if IG is not complete.
    """
    model = train(seed=seed, epochs=epochs)
    pixels, labels = (part[:count] for part in images()["test"])
    logits = model(pixels)
    target = logits.argmax(dim=1)
    maps = explain(model, pixels, target)
    examples = {"label": labels.numpy(), "target": target.numpy()}
    examples["logit"] = logits.amax(dim=1).numpy()
    examples |= {f"{name} sum": attribution.sum(axis=1) for name, attribution in maps.items()}
    keeps = {"all": np.ones(pixels.shape, dtype=bool), "ink": (pixels > 0).numpy()}
    pairs = [(explainer, pair) for explainer, row in PAPER.items() for pair in row]
    for (explainer, pair), scale, region in itertools.product(pairs, methods.MAPS, keeps):
        rescale, keep = methods.MAPS[scale], keeps[region]
        a, b = (rescale(each, keep) for each in _pair(maps, explainer, pair))
        examples[f"{explainer} {pair} {scale} {region}"] = pearson(a, b, keep)
    return Network(
        examples=examples, maps=maps, accuracy=methods.accuracy(model, *images()["test"])
    )


def _pair(maps, explainer, pair):
    """Returns the two maps of a column; "L vs LOO" takes the LOO of factorization L."""
    left, right = pair.split(" vs ")
    other = f"LOO {left}" if right == "LOO" else f"{explainer} {right}"
    return maps[f"{explainer} {left}"], maps[other]


def table1(
    *,
    seeds: Sequence[int] = SEEDS,
    epochs: int = EPOCHS,
    count: int | None = None,
    each: Each = in_turn,
    track: Track = untracked,
) -> Result:
    """Table 1 on the embedded digits: one linear-attention network per seed, two factorizations."""
    network = partial(measured, epochs=epochs, count=count)
    runs = collected(network, seeds, each=each, track=track, description="digits")
    examples = joined(
        {"seed": [seed] * len(run.examples["label"])}
        | {key: values.tolist() for key, values in run.examples.items()}
        for seed, run in runs.items()
    )
    rows = [
        _row(runs, examples, explainer, pair, paper)
        for explainer, row in PAPER.items()
        for pair, paper in row.items()
    ]
    accuracy = {seed: round(run.accuracy, 3) for seed, run in runs.items()}
    return Result(
        name="table1",
        table="table1",
        title="Table 1: one function, two factorizations, on handwritten digits",
        text=(
            "Linear attention without softmax on 8×8 digits, evaluated as (QKᵀ)V (L, qk_first) or "
            "Q(KᵀV) (R, kv_first) with the same weights: mean Pearson's r between pixel maps "
            f"over {len(examples['seed']) // len(runs)} test images of each of "
            f"{len(runs)} trained networks (accuracy {', '.join(map(str, accuracy.values()))}), "
            "with 95 % bootstrap intervals over images, given these networks. "
            "The paper's numbers are from 14×14 MNIST and a network whose details it leaves open. "
            "The number of epochs follows from the accuracy on held-out training images "
            f"(at least {GOAL} for every seed, benchmarks/experiments/table1/digits.py)."
        ),
        settings={"seeds": [*runs], "epochs": epochs, "epsilon": EPS, "accuracy": accuracy},
        rows=rows,
        examples=examples,
        notes=(*_notes(rows), *undefined(rows)),
    )


def _notes(rows):
    """Compares the numbers with the paper's table, in words."""
    r = {f"{row['explainer']} {row['pair']}": row["r raw"] for row in rows}
    same = [name for name in ("LOO", "IG", "AttnLRP") if r[f"{name} L vs R"] > 1 - 1e-9]
    differ = [name for name in ("LOO", "IG", "AttnLRP") if name not in same]
    yield (
        f"The same map for both factorizations: {', '.join(same) or 'none'}; different maps: "
        f"{', '.join(differ) or 'none'} (in the paper: LOO, IG; AttnLRP)."
    )
    far = [row for row in rows if abs(row["r sum to one"] - row["paper r"]) > 0.5]
    if far:
        cells = [f"{row['explainer']} {row['pair']} ({row['paper r']})" for row in far]
        yield f"More than 0.5 away from the paper, sum to one: {', '.join(cells)}."


def _row(runs, examples, explainer, pair, paper):
    key = f"{explainer} {pair}"
    row = {"explainer": explainer, "pair": pair, "paper r": paper}
    # All networks see the same images: the mean over networks is one example.
    of_image = lambda x: np.ma.masked_invalid(np.reshape(x, (len(runs), -1))).mean(axis=0)
    r = {f"r {maps}": examples[f"{key} {maps} all"] for maps in methods.MAPS}
    values = r | {"flips": flipped(*r.values())}
    row |= means({name: of_image(x).filled(np.nan) for name, x in values.items()})
    seeds = [run.examples[f"{key} raw all"] for run in runs.values()]
    per_seed = [bootstrap_mean(values, seed=SEED).mean for values in seeds]
    return row | {"range": f"{min(per_seed):.2f}–{max(per_seed):.2f}"}


def figure(result):
    """Draws r of each pair of maps as points, raw and normalised, with the paper's numbers."""
    from lrp_axioms.benchmarks.experiments import drawing

    figure = drawing.empty(7, 3)
    axes = figure.subplots()
    names = [f"{row['explainer']}\n{row['pair']}" for row in result.rows]
    x = np.arange(len(names))
    for offset, maps, marker in ((-0.15, "raw", "o"), (0.15, "sum to one", "s")):
        mean, errors = drawing.interval(result.rows, f"r {maps}")
        style = {"color": "0.2", "mfc": "0.2" if maps == "raw" else "white"}
        axes.errorbar(x + offset, mean, yerr=errors, fmt=marker, label=f"measured, {maps}", **style)
    axes.plot(x, [row["paper r"] for row in result.rows], "x", color="tab:red", label="paper")
    axes.set_xticks(x, names, fontsize=7)
    axes.set_ylabel("Pearson's r (mean, 95 % interval)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    return drawing.with_legend(figure)


EXPERIMENT = Experiment(
    name="table1",
    run=lambda request: table1(each=request.each, track=request.track),
    columns=[
        ("maps compared", lambda row: f"{row['explainer']} {row['pair'].replace(' vs ', '–')}"),
        ("r, raw", interval("r raw", ends=3)),
        ("over seeds", value("range")),
        ("flips", percent("flips")),
        ("r, sum\nto one", interval("r sum to one", ends=3)),
        ("paper", number("paper r", 4)),
    ],
    shortest=lambda row: row["explainer"] != "LOO",  # which is 1 everywhere
    figure=figure,
)

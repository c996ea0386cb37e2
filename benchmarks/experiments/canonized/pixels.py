"""``python -m benchmarks.experiments.canonized.pixels``: merged linear attention on Table 1's task.

It prints r with Leave-One-Out of both factorizations by AttnLRP, of the merged product, and of
Integrated Gradients, on test images, for the networks of ``table1`` (the digits) or the main ones
of its sweep on MNIST.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.experiments.columns import interval
from benchmarks.experiments.maps import means
from benchmarks.experiments.table1 import digits, experiment, methods, mnist
from benchmarks.experiments.table1.methods import Logits
from benchmarks.running.threads import one_thread
from numeric.evaluation.correlation import pearson
from numeric.fast import rules

OPERANDS = ("query", "key", "value")
SHARES = {
    "AttnLRP, qk_first": (1 / 4, 1 / 4, 1 / 2),
    "AttnLRP, kv_first": (1 / 2, 1 / 4, 1 / 4),
    "merged": (1 / 3, 1 / 3, 1 / 3),
    "queries alone": (1, 0, 0),
    "keys alone": (0, 1, 0),
    "values alone": (0, 0, 1),
}
"""Of Q, K and V, as epsilon -> 0 (theorems 8 and 9)."""


def paths(model: nn.Module, logits: Logits, pixels: Tensor, target: Tensor) -> list[Tensor]:
    """Gradient x pixel through Q, through K and through V alone, (example, token) each, in logits.

    Every path from a pixel to a logit passes one of them once, so that any shares of the block are
    a weighted sum of the three.  ``logits`` must call the projections of ``model``.
    """
    found = []
    for chosen in OPERANDS:
        x = pixels.detach().requires_grad_()
        with ExitStack() as hooks:
            for name in OPERANDS:
                hook = partial(_scaled, share=name == chosen)
                hooks.enter_context(getattr(model, name).register_forward_hook(hook))
            logit = logits(x).gather(1, target[:, None]).sum()
        found.append(pixels * torch.autograd.grad(logit, x)[0])
    return found


def _scaled(_module, _given, out, *, share):
    return rules.scale(out, share)


def by_shares(
    model: nn.Module, logits: Logits, pixels: Tensor, target: Tensor
) -> dict[str, Tensor]:
    """Relevance by each of ``SHARES``, (example, token), in logits."""
    each = torch.stack(paths(model, logits, pixels, target))
    return {name: torch.tensordot(each.new_tensor(x), each, 1) for name, x in SHARES.items()}


def correlations(
    model: nn.Module, logits: Logits, pixels: Tensor, ink: Tensor
) -> dict[str, dict[str, np.ndarray]]:
    """By method, r with Leave-One-Out over all pixels and over those with ink, (example,)."""
    with torch.no_grad():
        target = logits(pixels).argmax(dim=1)
    maps = by_shares(model, logits, pixels, target)
    maps["Integrated Gradients"] = methods.integrated_gradients(logits, pixels, target)
    loo = methods.leave_one_out(logits, pixels, target)
    keeps = {"all": np.ones(ink.shape, dtype=bool), "ink": ink.numpy()}
    return {
        name: {pixels: pearson(found, loo, keep) for pixels, keep in keeps.items()}
        for name, found in maps.items()
    }


def of_digits() -> Iterator[dict[str, dict[str, np.ndarray]]]:
    """Networks of `table1`, and all test images."""
    pixels, _ = digits.images()["test"]
    for seed in experiment.SEEDS:
        model = digits.train(seed=seed)
        yield correlations(model, model, pixels, pixels > 0)


def of_mnist(data_dir: Path | None) -> Iterator[dict[str, dict[str, np.ndarray]]]:
    """Main networks of `table1-mnist`, and its test images."""
    images, grid = mnist.load(data_dir=data_dir), mnist.declared()
    count = grid.analysis["images"]
    for key in grid.models:
        if key[0] == "main":
            model, _, _, test = mnist.trained(grid, key, images)
            logits = partial(logits_of, model)
            yield correlations(model, logits, test[:count], images.pixels["test"][:count] > 0)


def logits_of(model, pixels):
    """Those of the modules, one by one."""
    return model.read(model.embed(pixels), factorization="qk_first")


def table(name: str, networks: Sequence[dict[str, dict[str, np.ndarray]]]) -> Iterator[str]:
    """Mean r over the images of all networks, in Markdown."""
    for method in networks[0]:
        together = {
            pixels: np.concatenate([of_one[method][pixels] for of_one in networks])
            for pixels in ("all", "ink")
        }
        cells = [interval(pixels, ends=3)(means(together)) for pixels in together]
        yield f"| {' | '.join([name, method, *cells])} |"


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    """Trains the networks and prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dataset", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--data-dir", type=Path, help="of mnist.npz; by default it is downloaded")
    options = parser.parse_args(arguments)
    networks = of_digits() if options.dataset == "digits" else of_mnist(options.data_dir)
    print("| images | method | all pixels | ink |\n|---|---|--:|--:|")
    for line in table(options.dataset, list(networks)):
        print(line)


if __name__ == "__main__":
    main()

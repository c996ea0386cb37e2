"""Trials on any torch module: positions of named tensors give way to a number."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.evaluation.trial import Map, Trial, maps_of, rounding
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.methods.tensor_runs import check_alone, checked, odd_arguments, open_run
from lrp_axioms.numeric.models.checks import guarded_run


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorTrial(Trial):
    """Measures positions of tensors, side by side as in ``Attribution.relevance``.

    run: returns numbers (batch,) of copies that keep (batch, position) alone
    values: bytes of the tensors of each example, which choose its random numbers
    """

    run: Callable[[np.ndarray], np.ndarray]
    values: list[bytes]

    def numbers(self, example: Tensor, keep: Tensor) -> Tensor:
        """Runs one copy of every example at a time."""
        found = torch.zeros(len(example), dtype=torch.float64)
        places = [(example == n).nonzero()[:, 0] for n in range(len(self.values))]
        for turn in range(max(map(len, places))):
            now = [int(x[min(turn, len(x) - 1)]) for x in places]
            found[now] = torch.from_numpy(self.run(keep[now].numpy()))
        return found

    def chance(self, row: int, number: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, zlib.crc32(self.values[row])])


def open_trial(
    module: nn.Module,
    inputs: Any,
    relevance: Map | Mapping[str, Map],
    *,
    of: str | Iterable[str],
    read: Callable[[Any], Tensor],
    axes: int | tuple[int, ...] = (),
    baseline: float = 0.0,
    **settings: int,
) -> TensorTrial:
    """Runs a module whole; its tensors, number and axes are as for ``attribute``."""
    baseline = builtin(baseline)
    said = [*odd_arguments(of, read, axes)]
    if type(baseline) not in (int, float) or not isfinite(baseline):
        said.append(f"baseline={baseline!r}: pass a finite number")
    if said:
        raise ValueError("\n".join(said))

    def call(**change: Any) -> tuple[dict[str, Tensor], Tensor]:
        with outside(), torch.inference_mode(mode=False), torch.no_grad():
            run = open_run(module, inputs, of, **change)
            with guarded_run(module, run):
                found = read(run.call(run.model))
            leaves = checked(run, found, axes)
            if not change:
                check_alone(module, run.given, read, found)
        return leaves, found.detach()

    leaves, number = call()
    single = {name: _without(x, axes) for name, x in leaves.items()}
    sizes = [prod(shape[1:]) for shape in single.values()]
    present = np.ones((len(number), sum(sizes)), dtype=bool)

    def run(keep: np.ndarray) -> np.ndarray:
        parts = np.split(keep, np.cumsum(sizes)[:-1], axis=1)
        kept = {
            name: torch.from_numpy(part.reshape(shape)).to(leaves[name].device)
            for (name, shape), part in zip(single.items(), parts, strict=True)
        }
        _, found = call(change=lambda name, x: x.where(kept[name], baseline))
        return np.asarray(found.cpu().double().numpy(force=True))

    rows = zip(*(x.cpu().double().numpy(force=True) for x in leaves.values()), strict=True)
    return TensorTrial(
        maps=maps_of(relevance, present),
        present=present,
        logit=number.cpu().double(),
        rounding=rounding(number, number.abs()),
        run=run,
        values=[b"".join(x.tobytes() for x in row) for row in rows],
        **settings,
    )


def _without(x: Tensor, axes: int | tuple[int, ...]) -> list[int]:
    """Returns the shape of ``x`` with one entry on each of ``axes``."""
    given = axes if isinstance(axes, tuple) else (axes,)
    at = [n % x.ndim for n in given]
    return [1 if n in at else size for n, size in enumerate(x.shape)]

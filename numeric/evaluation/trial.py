"""The inputs that all measures of one batch share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine.blocks import outside
from lrp_axioms.numeric.evaluation.perturbation import Curve, curves, finite
from lrp_axioms.numeric.methods.masking import masked_logits
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Readout

Map = Tensor | ArrayLike
"""Relevance of every token of a batch, (batch, token), from any source."""
Measured = dict[str, dict[str, np.ndarray]]
"""One value per example, by map and by name of a measure."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial(ABC):
    """The inputs of all measures of one batch, and its numbers without some positions.

    maps: name -> (batch, position), 0 at padding   present: (batch, position)
    logit: (batch,) the explained number   rounding: (batch,) differences that say nothing
    """

    maps: dict[str, np.ndarray]
    present: np.ndarray
    logit: Tensor
    rounding: np.ndarray
    top: int
    subsets: int
    seed: int

    @abstractmethod
    def numbers(self, example: Tensor, keep: Tensor) -> Tensor:
        """Returns the numbers of copies of ``example``, (copy,), that see (copy, position) alone.

        On the CPU, as the maps are, because some devices have no float64.
        """

    @abstractmethod
    def chance(self, row: int, number: int = 0) -> np.random.Generator:
        """Returns random numbers that depend on the example and the seed alone."""

    @property
    def seen(self) -> np.ndarray:
        """The positions of a copy that loses none: (batch, position)."""
        return self.present

    def logits(self, keep: np.ndarray) -> np.ndarray:
        """Returns numbers of copies that see ``keep``, (batch, copy, position), alone."""
        size, copies, _ = keep.shape
        example = torch.arange(size).repeat_interleave(copies)
        found = finite(self.numbers(example, torch.from_numpy(keep).flatten(0, 1)))
        return found.numpy().astype(np.float64).reshape(size, copies)

    def without_each(self) -> np.ndarray:
        """Returns how much each position takes away with it: (batch, position).

        It is 0 at a position that is alone, without which there is nothing to attend to.
        """
        here, several = self.present, self.seen.sum(axis=1, keepdims=True) > 1
        places = (here & several).nonzero()
        found = np.zeros(here.shape)
        if places[0].size:
            keep = here[places[0]]
            keep[np.arange(len(keep)), places[1]] = False
            example, logit = torch.from_numpy(places[0]), self.logit.cpu()
            found[places] = logit[example] - finite(self.numbers(example, torch.from_numpy(keep)))
        return found

    def curves(self) -> list[list[Curve]]:
        """Returns the curves of each map, most relevant first and least relevant first."""
        maps = [torch.from_numpy(x) for x in self.maps.values()]
        return curves(torch.from_numpy(self.present), maps, self.numbers)


@dataclass(frozen=True, eq=False, kw_only=True)
class TextTrial(Trial):
    """Measures tokens, which the attention mask hides.

    readout: where the target is read   fixed: (batch, token) True at tokens that no copy loses
    """

    model: PreTrainedModel
    batch: Batch
    readout: Readout
    samples: int
    memory: int | str
    fixed: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        return np.asarray(self.present | self.fixed)

    def numbers(self, example: Tensor, keep: Tensor) -> Tensor:
        keep = keep | torch.from_numpy(self.fixed)[example]
        example, keep = example.to(self.batch.device), keep.to(self.batch.device)
        run = partial(masked_logits, batch_size=128, memory=self.memory)
        with outside():  # copies run without the rules of an enclosing block
            return run(self.model, self.batch, example, keep, self.readout)[:, 0].cpu()

    def chance(self, row: int, number: int = 0) -> np.random.Generator:
        ids = self.batch.ids[row][self.batch.attention_mask[row] == 1]
        return np.random.default_rng([self.seed, number, *ids.tolist()])


def rounding(number: Tensor, size: Tensor) -> np.ndarray:
    """Returns differences of a number, made of logits of ``size``, that are rounding: (batch,)."""
    found = 16 * torch.finfo(number.dtype).eps * size.detach()
    return np.asarray(found.cpu().double().numpy())


def check_fixed(fixed: Any, present: np.ndarray) -> np.ndarray:
    """Returns the tokens that are never removed, (batch, token): no padding."""
    if fixed is None:
        return np.zeros_like(present)
    found: np.ndarray = fixed.numpy(force=True) if isinstance(fixed, Tensor) else table(fixed)
    if found.shape != present.shape or found.dtype != bool:
        raise ValueError(
            f"fixed is {found.dtype} of shape {found.shape}; pass True or False (batch, token), "
            f"here {present.shape}"
        )
    if rows := np.flatnonzero(~(present & ~found).any(axis=1)).tolist():
        raise ValueError(f"fixed leaves no token to remove in examples {rows}; leave one False")
    return np.asarray(found & present)


def table(x: Any) -> np.ndarray:
    """Converts to NumPy; rows of different lengths are no numbers."""
    if isinstance(x, Tensor):
        wide = x.detach() if x.is_complex() else x.detach().cpu().double()
        return np.asarray(wide.numpy(force=True))
    try:
        return np.asarray(x)
    except ValueError:
        return np.asarray(None)


def maps_of(relevance: Map | Mapping[str, Map], present: np.ndarray) -> dict[str, np.ndarray]:
    """Returns each map as (batch, token) float64, 0 at padding; raises one ValueError for all."""
    given: Mapping[str, Any] = (
        relevance if isinstance(relevance, Mapping) else {"relevance": relevance}
    )
    if not given:
        raise ValueError("relevance holds no maps; pass (batch, token), or several by name")
    found, problems = {}, []
    for name, x in given.items():
        values = table(x)
        if values.shape != present.shape or values.dtype.kind not in "biuf":
            problems.append(
                f"{name} is {values.dtype} of shape {values.shape}; pass numbers (batch, token), "
                f"here {present.shape}"
            )
            continue
        found[name] = np.where(present, values, 0).astype(np.float64)
        finite = np.isfinite(found[name]).all(axis=1)
        if rows := np.flatnonzero(~finite).tolist():
            problems.append(f"{name} is not finite in examples {rows}")
    if problems:
        raise ValueError("\n".join(problems))
    return found

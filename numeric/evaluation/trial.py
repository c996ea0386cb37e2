"""The inputs that all measures of one batch of texts share."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.masking import masked_logits
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout


@dataclass(frozen=True, eq=False)
class Trial:
    """The inputs of all measures of one batch.

    maps: name -> (batch, token), 0 at padding   present: (batch, token) True at the others
    target: as of ``attribute``   readout: where it is read   logit: (batch,) its value
    fixed: (batch, token) True at tokens that no copy loses
    """

    model: PreTrainedModel
    batch: Batch
    maps: dict[str, np.ndarray]
    target: Label | Target
    readout: Readout
    logit: Tensor
    fixed: np.ndarray
    top: int
    subsets: int
    samples: int
    seed: int
    memory: int | str

    @property
    def present(self) -> np.ndarray:
        return (self.batch.attention_mask == 1).numpy(force=True) & ~self.fixed

    def logits(self, keep: np.ndarray) -> np.ndarray:
        """Returns logits of copies that see ``keep`` (batch, copy, token) alone: (batch, copy)."""
        size, copies, _ = keep.shape
        device = self.batch.device
        example = torch.arange(size, device=device).repeat_interleave(copies)
        flat = torch.as_tensor(keep | self.fixed[:, None], device=device).flatten(0, 1)
        found = masked_logits(
            self.model, self.batch, example, flat, self.readout, batch_size=128, memory=self.memory
        )
        return found.numpy(force=True).astype(np.float64).reshape(size, copies)

    def chance(self, row: int, number: int = 0) -> np.random.Generator:
        """Returns random numbers that depend on the text and the seed alone."""
        ids = self.batch.ids[row][self.batch.attention_mask[row] == 1]
        return np.random.default_rng([self.seed, number, *ids.tolist()])


Measured = dict[str, dict[str, np.ndarray]]
"""One value per text, by map and by name of a measure."""

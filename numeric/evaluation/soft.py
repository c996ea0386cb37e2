"""Soft sufficiency and comprehensiveness: words kept entry by entry (Zhao and Aletras, 2023)."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrp_axioms.numeric.evaluation.trial import Measured, TextTrial
from lrp_axioms.numeric.methods import memory_budget
from lrp_axioms.numeric.methods.paths import Path, straight_path
from lrp_axioms.numeric.targets.chosen import Chosen, Rows, is_distribution

SOFT = ("soft sufficiency", "soft comprehensiveness")
OF_TEXTS = tuple(name + more for name in SOFT for more in ("", " gain"))
"""Measures that drop entries of word embeddings."""


def soft(trial: TextTrial) -> Measured:
    """Measures each map, and its values in random order, at the same draws."""
    with torch.no_grad():
        if not is_distribution(trial.model, trial.readout.head):
            undefined = np.full(len(trial.present), np.nan)
            return {name: dict.fromkeys(OF_TEXTS, undefined) for name in trial.maps}
        path, readout, rows = straight_path(trial.model, trial.batch, trial.readout)
        of = _log_probability(*readout.targets)
        present = _probability(of, rows)
        (nothing,) = _draw(trial, path, of, np.zeros((len(present), 1, path.end.shape[1]))).T
        gained = np.where(present > nothing, present - nothing, np.nan)[:, None]

        def measured(shares: np.ndarray) -> dict[str, np.ndarray]:
            stays = _draw(trial, path, of, shares) - nothing[:, None]
            goes = present[:, None] - _draw(trial, path, of, 1 - shares)
            constant = np.isnan(shares).any(axis=(1, 2))[:, None]  # constant maps have no scale
            of_each = np.where(constant, np.nan, gained)
            parts = stays.clip(0) / of_each, goes.clip(0) / of_each
            return dict(zip(SOFT, (x.clip(max=1).mean(axis=1) for x in parts), strict=True))

        found = {}
        for name, x in trial.maps.items():
            own, shuffled = map(measured, _shares(x, trial))
            found[name] = own | {f"{key} gain": own[key] - shuffled[key] for key in SOFT}
    return found


def _shares(x: np.ndarray, trial: TextTrial) -> tuple[np.ndarray, np.ndarray]:
    """Returns the map scaled to [0, 1], and its values in random order: (batch, sample, token)."""
    own = np.zeros((len(x), trial.samples, x.shape[1]))
    shuffled = np.zeros_like(own)
    for row, here in enumerate(trial.present):
        low, high = x[row, here].min(), x[row, here].max()
        values = (x[row, here] - low) / (high - low) if high > low else np.full(here.sum(), np.nan)
        own[row, :, here] = values[:, None]
        chance = trial.chance(row, trial.samples)  # a number that no sample has
        for sample in shuffled[row]:
            sample[here] = chance.permutation(values)
    return own, shuffled


def _draw(trial: TextTrial, path: Path, of: Chosen, shares: np.ndarray) -> np.ndarray:
    """Returns class probabilities with entries of words kept by ``shares``: (batch, sample)."""
    size, samples, _ = shares.shape
    found = np.empty(size * samples)
    row = torch.arange(size, device=trial.batch.device).repeat_interleave(samples)
    need = memory_budget.bytes_of_a_copy(
        trial.model, path.length, keys=path.length, kept=path.length
    )
    options: dict[str, Any] = {"batch_size": 128, "memory": trial.memory, "device": row.device}
    for texts in path.groups():
        copies = torch.isin(row, texts).nonzero()[:, 0]
        for part in memory_budget.chunks(path.length[row[copies]], need[row[copies]], **options):
            chosen = copies[part]
            masks = [_entries(trial, shares, path.end.shape[-1], n) for n in chosen.tolist()]
            alpha = torch.as_tensor(np.stack(masks), device=row.device)
            _, rows = path.run(row[chosen], alpha.to(path.end.dtype))
            found[chosen.numpy(force=True)] = _probability(of, rows, row[chosen])
    return found.reshape(size, samples)


def _entries(trial: TextTrial, shares: np.ndarray, channels: int, copy: int) -> np.ndarray:
    """Draws 1 for entries that a copy keeps, else 0: (token, channel); alike for all maps."""
    row, sample = divmod(copy, shares.shape[1])
    here = trial.present[row] | trial.fixed[row]  # draws are of the text, not of padding
    drawn = np.ones((len(here), channels), dtype=np.float32)
    drawn[here] = trial.chance(row, sample).random((here.sum(), channels), dtype=np.float32)
    kept: np.ndarray = trial.fixed[row][:, None] | (drawn < shares[row, sample][:, None])
    return kept


def _log_probability(chosen: Chosen) -> Chosen:
    """Makes the target log-probabilities; ValueError unless it only adds logits up."""
    if not (chosen.weight == 1).all():
        raise ValueError(
            "soft measures are of a probability, which a difference of targets does not have; "
            "leave them out of `measures`"
        )
    return replace(chosen, log=torch.ones_like(chosen.weight, dtype=torch.bool))


def _probability(of: Chosen, rows: Rows, example: Tensor | None = None) -> np.ndarray:
    probability: np.ndarray = of.of(rows, example).exp().numpy(force=True)
    return probability.astype(np.float64)

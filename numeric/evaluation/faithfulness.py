"""How faithful maps of relevance are to a model, whoever made them: ``evaluate``.

Every measure asks the model what happens without some tokens, which the attention mask hides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from torch import Tensor

from numeric.batches import Batch
from numeric.evaluation.correlation import kendall, pearson
from numeric.evaluation.perturbation import perturbation_curves
from numeric.inputs import prepare
from numeric.methods import memory_budget
from numeric.methods.integrated_gradients import straight_path
from numeric.methods.loo import leave_one_out
from numeric.methods.masking import masked_logits
from numeric.methods.shared import whole
from numeric.readout import Chosen, Readout, Rows
from numeric.spelling import did_you_mean


@dataclass(frozen=True, eq=False)
class Asked:
    """What all measures of one batch share.

    maps: name -> (batch, token), 0 at padding   present: (batch, token)
    target: as of ``attribute``   readout: where it is read   logit: (batch,) its value
    """

    model: torch.nn.Module
    batch: Batch
    maps: dict[str, np.ndarray]
    target: object
    readout: Readout
    logit: Tensor
    top: int
    subsets: int
    samples: int
    seed: int
    memory: int | str

    @property
    def present(self) -> np.ndarray:
        return (self.batch.attention_mask == 1).numpy(force=True)

    def without(self, keep: np.ndarray) -> np.ndarray:
        """Logits of copies that see ``keep`` (batch, copy, token) alone: (batch, copy)."""
        size, copies, _ = keep.shape
        device = self.batch.device
        example = torch.arange(size, device=device).repeat_interleave(copies)
        flat = torch.as_tensor(keep, device=device).flatten(0, 1)
        options = {"batch_size": 128, "memory": self.memory}
        found = masked_logits(self.model, self.batch, example, flat, self.readout, **options)
        return found.numpy(force=True).astype(np.float64).reshape(size, copies)

    def chance(self, row: int, number: int = 0) -> np.random.Generator:
        """Random numbers that depend on the text and the seed, and on nothing around the text."""
        ids = self.batch.input_ids[row][self.batch.attention_mask[row] == 1]
        return np.random.default_rng([self.seed, number, *ids.tolist()])


def evaluate(
    model,
    inputs: Mapping[str, Tensor],
    relevance: ArrayLike | Mapping[str, ArrayLike],
    *,
    target=None,
    measures: Sequence[str] | None = None,
    top: int = 3,
    subsets: int = 64,
    samples: int = 16,
    seed: int = 0,
    memory: int | str = memory_budget.AUTO,
) -> dict[str, dict[str, np.ndarray]]:
    """How faithful maps from any source are to a model: by map and measure, one value per text.

    ``relevance`` is a map (batch, token) in any unit, or several by name, which are then measured
    at the same removals.  ``inputs`` and ``target`` are those of ``attribute``, and values at
    padding are ignored.  ``measures`` are names in ``MEASURES``, by default all:

    "r", "tau": Pearson's r and Kendall's tau-b with Leave-One-Out
    "MoRF", "LeRF", "Δ": mean logit while tokens are removed, most or least relevant first, and
        LeRF - MoRF (§4.1)
    "top drop": by how much the logit falls without the ``top`` most relevant tokens
    "LDS": Spearman's rank correlation, over ``subsets`` random halves of the tokens, between the
        logit and the sum of relevance of the tokens that are there (linear datamodeling score)
    "soft sufficiency", "soft comprehensiveness": how much of the probability of the label stays,
        and goes, when each entry of a token's word embedding is kept with the token's relevance,
        scaled to [0, 1], as probability, or dropped with it (Zhao and Aletras, 2023): the mean
        over ``samples`` draws, 0 and 1 being that of words that are all 0 and of the text
    "soft ... gain": the same less its mean over maps that hold the same values in random order.
        Plain soft measures reward or punish a map for how many words it keeps, whichever
        these are; this difference does not.

    Logits for all but the soft measures.  NaN where a measure is undefined, as r is of a constant
    map, and soft measures are where words do not raise the probability.
    Raises ValueError for maps that do not fit, or are not finite, and for unknown measures.
    """
    batch = prepare(model, inputs, targets=[target])
    maps = _maps(relevance, (batch.attention_mask == 1).numpy(force=True))
    wanted = _wanted(measures)
    _check(top=top, subsets=subsets, samples=samples)
    with torch.inference_mode(mode=False), torch.autocast(batch.device.type, enabled=False):
        readout = Readout.of(model, batch, [target])
        with torch.no_grad():
            rows = whole(model, batch, readout).rows
            readout = readout.choose(rows)
            logit = readout.targets[0].of(rows)
        asked = Asked(
            model, batch, maps, target, readout, logit, top, subsets, samples, seed, memory
        )
        found: dict[str, dict[str, np.ndarray]] = {name: {} for name in maps}
        for measure in dict.fromkeys(MEASURES[name] for name in wanted):
            for name, values in measure(asked).items():
                found[name] |= {key: x for key, x in values.items() if key in wanted}
    return {name: {key: values[key] for key in wanted} for name, values in found.items()}


def _agreement(asked):
    """Pearson's r and Kendall's tau-b with Leave-One-Out."""
    (found,) = leave_one_out(asked.model, asked.batch, asked.readout, memory=asked.memory)
    loo, keep = found.relevance.numpy(force=True), asked.present
    return {
        name: {"r": pearson(x, loo, keep), "tau": kendall(x, loo, keep)}
        for name, x in asked.maps.items()
    }


def _curves(asked):
    relevances = [torch.as_tensor(x, device=asked.batch.device) for x in asked.maps.values()]
    curves = perturbation_curves(
        asked.model, asked.batch, relevances, asked.target, memory=asked.memory
    )
    means = [[curve.mean.numpy(force=True).astype(np.float64) for curve in pair] for pair in curves]
    return {
        name: {"MoRF": morf, "LeRF": lerf, "Δ": lerf - morf}
        for name, (morf, lerf) in zip(asked.maps, means, strict=True)
    }


def _top_drop(asked):
    """One token is always left, because attention over no token at all is not defined."""
    present = asked.present
    most = np.minimum(asked.top, present.sum(axis=1) - 1)[:, None]
    keeps = []
    for x in asked.maps.values():
        order = np.argsort(np.where(present, -x, np.inf), axis=1, kind="stable")
        keep = present.copy()
        np.put_along_axis(keep, order, np.arange(x.shape[1]) >= most, axis=1)
        keeps.append(keep & present)
    logit = asked.logit.numpy(force=True)[:, None]
    drops = logit - asked.without(np.stack(keeps, axis=1))
    return {name: {"top drop": drops[:, n]} for n, name in enumerate(asked.maps)}


def _datamodeling(asked):
    present = asked.present
    keep = np.repeat(present[:, None], asked.subsets, axis=1)
    for row, here in enumerate(present):
        places, chance = here.nonzero()[0], asked.chance(row)
        for subset in keep[row]:
            subset[chance.permutation(places)[(len(places) + 1) // 2 :]] = False
    logits = asked.without(keep)
    for row, drawn in enumerate(keep):  # one subset has one logit, or rounding would rank it
        _, first, copy = np.unique(drawn, axis=0, return_index=True, return_inverse=True)
        logits[row] = logits[row, first[copy.ravel()]]
    ranked = rankdata(logits, axis=1)
    everywhere = np.ones_like(ranked, dtype=bool)
    predicted = lambda x: rankdata(np.einsum("bt,bst->bs", x, keep).round(12), axis=1)
    return {
        name: {"LDS": pearson(predicted(x), ranked, everywhere)} for name, x in asked.maps.items()
    }


def _soft(asked):
    """Each map, and its values in random order, at the same draws."""
    with torch.no_grad():
        path, readout, rows = straight_path(asked.model, asked.batch, asked.readout)
        of = _log_probability(*readout.targets)
        present, nothing = _probability(of, rows), np.empty(len(asked.logit))
        for texts in path.groups():
            _, at_start = path.run(texts, torch.zeros_like(asked.logit[texts]))
            nothing[texts.numpy(force=True)] = _probability(of, at_start, texts)
        gained = np.where(present > nothing, present - nothing, np.nan)[:, None]

        def measured(shares):
            stays = _drawn(asked, path, of, shares) - nothing[:, None]
            goes = present[:, None] - _drawn(asked, path, of, 1 - shares)
            parts = stays.clip(0) / gained, goes.clip(0) / gained
            return dict(zip(SOFT, (x.clip(max=1).mean(axis=1) for x in parts), strict=True))

        found = {}
        for name, x in asked.maps.items():
            own, shuffled = map(measured, _shares(x, asked))
            found[name] = own | {f"{key} gain": own[key] - shuffled[key] for key in SOFT}
    return found


def _shares(x, asked):
    """The map scaled to [0, 1], and the same values in random order: (batch, sample, token)."""
    own = np.zeros((len(x), asked.samples, x.shape[1]))
    shuffled = np.zeros_like(own)
    for row, here in enumerate(asked.present):
        low, high = x[row, here].min(), x[row, here].max()
        values = (x[row, here] - low) / (high - low) if high > low else np.full(here.sum(), np.nan)
        own[row, :, here] = values[:, None]
        chance = asked.chance(row)
        for sample in shuffled[row]:
            sample[here] = chance.permutation(values)
    return own, shuffled


def _drawn(asked, path, of, shares):
    """Probability of the class where entries of words are kept by ``shares``: (batch, sample)."""
    size, samples, _ = shares.shape
    found = np.empty(size * samples)
    row = torch.arange(size, device=asked.batch.device).repeat_interleave(samples)
    need = memory_budget.bytes_of_a_copy(
        asked.model, path.length, keys=path.length, kept=path.length
    )
    options = {"batch_size": 128, "memory": asked.memory, "device": row.device}
    for texts in path.groups():
        copies = torch.isin(row, texts).nonzero()[:, 0]
        for part in memory_budget.chunks(path.length[row[copies]], need[row[copies]], **options):
            chosen = copies[part]
            masks = [_entries(asked, shares, path.end.shape[-1], n) for n in chosen.tolist()]
            alpha = torch.as_tensor(np.stack(masks), device=row.device)
            _, rows = path.run(row[chosen], alpha.to(path.end.dtype))
            found[chosen.numpy(force=True)] = _probability(of, rows, row[chosen])
    return found.reshape(size, samples)


def _entries(asked, shares, channels, copy):
    """1 for entries that a copy keeps, else 0: (token, channel); all maps meet the same chance."""
    row, sample = divmod(copy, shares.shape[1])
    drawn = asked.chance(row, sample).random((shares.shape[2], channels), dtype=np.float32)
    return drawn < shares[row, sample][:, None]


def _log_probability(chosen: Chosen) -> Chosen:
    """Of the labels instead of their logits; ValueError unless they are only added up."""
    if not (chosen.weight == 1).all():
        raise ValueError(
            "soft measures are of a probability, which a difference of targets does not have; "
            "leave them out of `measures`"
        )
    return replace(chosen, log=torch.ones_like(chosen.weight, dtype=torch.bool))


def _probability(of: Chosen, rows: Rows, example: Tensor | None = None) -> np.ndarray:
    return of.of(rows, example).exp().numpy(force=True).astype(np.float64)


SOFT = ("soft sufficiency", "soft comprehensiveness")
MEASURES: dict[str, Callable[[Asked], dict]] = {
    "r": _agreement,
    "tau": _agreement,
    "MoRF": _curves,
    "LeRF": _curves,
    "Δ": _curves,
    "top drop": _top_drop,
    "LDS": _datamodeling,
    **{name + more: _soft for name in SOFT for more in ("", " gain")},
}
"""By name: what computes it, by map, maybe with others."""
LOWER = {"MoRF"}
"""Measures of which less is better."""


def _wanted(measures):
    wanted = list(MEASURES if measures is None else measures)
    if unknown := [name for name in wanted if name not in MEASURES]:
        raise ValueError(
            f"unknown measure {', '.join(map(repr, unknown))}; the measures are "
            f"{', '.join(MEASURES)}{did_you_mean(unknown, MEASURES)}"
        )
    return wanted


def _check(**numbers):
    wrong = [f"{key}={x!r}" for key, x in numbers.items() if type(x) is not int or x < 1]
    if wrong:
        raise ValueError(f"{', '.join(wrong)}: pass a whole number, at least 1")


def _maps(relevance, present):
    """Each map as (batch, token) float64, 0 at padding; raises one ValueError for all."""
    given = relevance if isinstance(relevance, Mapping) else {"relevance": relevance}
    if not given:
        raise ValueError("relevance holds no maps; pass (batch, token), or several by name")
    found, problems = {}, []
    for name, x in given.items():
        x = x.detach().double().numpy(force=True) if isinstance(x, Tensor) else np.asarray(x)
        if x.shape != present.shape or not np.issubdtype(x.dtype, np.number):
            problems.append(
                f"{name} is {x.dtype} of shape {x.shape}; pass numbers (batch, token), here "
                f"{present.shape}"
            )
            continue
        found[name] = np.where(present, x, 0).astype(np.float64)
        if rows := (~np.isfinite(found[name])).any(axis=1).nonzero()[0].tolist():
            problems.append(f"{name} is not finite in examples {rows}")
    if problems:
        raise ValueError("\n".join(problems))
    return found

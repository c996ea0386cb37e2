"""Measures how faithful maps of relevance from any source are to a model: ``evaluate``.

Every measure runs the model without some tokens, which the attention mask hides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.evaluation.correlation import kendall, pearson
from lrp_axioms.numeric.evaluation.named_tensors import open_trial
from lrp_axioms.numeric.evaluation.soft import OF_TEXTS, soft
from lrp_axioms.numeric.evaluation.trial import (
    Map,
    Measured,
    TextTrial,
    Trial,
    check_fixed,
    maps_of,
    rounding,
)
from lrp_axioms.numeric.methods import memory_budget
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.models.checks import guarded_run
from lrp_axioms.numeric.models.inputs import prepare
from lrp_axioms.numeric.spelling import check_known
from lrp_axioms.numeric.targets import Label, Target
from lrp_axioms.numeric.targets.readout import Readout

MOST = 2**16  # limit of tokens, subsets and samples: each takes a copy of a text


def evaluate(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    relevance: Map | Mapping[str, Map],
    *,
    target: Label | Target = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    measures: Sequence[str] | None = None,
    top: int = 3,
    subsets: int = 64,
    samples: int = 16,
    seed: int = 0,
    memory: int | str = memory_budget.AUTO,
    fixed: Map | None = None,
    **named: Any,
) -> dict[str, dict[str, np.ndarray]]:
    """Measures the faithfulness of maps from any source: by map and measure, one value per text.

    ``relevance`` is a map (batch, token) in any unit, or several by name, which are then measured
    at the same removals.  ``inputs``, ``target`` and ``tokenizer`` are as in ``attribute``, and
    values at padding are ignored.  ``measures`` are names in ``MEASURES``, by default all:

    "r", "tau": Pearson's r and Kendall's tau-b with Leave-One-Out
    "MoRF", "LeRF", "Δ": mean logit while tokens are removed, most or least relevant first, and
        LeRF - MoRF (§4.1)
    "top drop": the drop of the logit without the ``top`` most relevant tokens
    "LDS": Spearman's rank correlation, over ``subsets`` random halves of the tokens, between the
        logit and the sum of relevance of the tokens that are there (linear datamodeling score)
    "explained": the share of the logit's variance that a map explains when ``subsets`` random
        quarters of the tokens are removed: the square of Pearson's r between the loss of the logit
        and the sum of the relevance removed, and 0 where r is negative
    "soft sufficiency", "soft comprehensiveness": how much of the probability of the label stays,
        and goes, when each entry of a token's word embedding is kept with the token's relevance,
        scaled to [0, 1], as probability, or dropped with it (Zhao and Aletras, 2023): the mean
        over ``samples`` draws; 0 stands for words that are all 0, and 1 for the text
    "soft ... gain": the soft measure less its mean over maps that hold the same values in random
        order.  Plain soft measures reward or punish a map for how many words it keeps, whichever
        these are; this difference does not.

    top, subsets, samples: the numbers of tokens, of random subsets and of draws in these measures

    Tokens where ``fixed``, (batch, token), is True are never removed, and their values are ignored:
    with a written answer fixed, and ``span`` of it as target, all measures are about its prompt.
    Any other torch module is measured with ``of``, ``read`` and ``axes``, as for ``attribute``, and
    a map (batch, position) of the named tensors: a position is removed by setting it to
    ``baseline``, a number (0).  Soft measures are of texts.
    Logits for all but the shares and correlations.  NaN where a measure is undefined: r, tau, LDS,
    "explained" and the soft measures of a constant map, all but the last also of a logit that no
    removal changes beyond rounding, and soft measures also where words do not raise the
    probability, or labels share no softmax.
    Raises ValueError for maps that do not fit, or are not finite, for unknown measures, for
    ``fixed`` without a token to remove, and for a logit that a removal makes infinite or NaN.
    """
    wanted = _check_measures(measures, [x for x in MEASURES if not named or x not in OF_TEXTS])
    seed, top, subsets, samples = map(builtin, (seed, top, subsets, samples))
    _check(seed, top=top, subsets=subsets, samples=samples)
    if named:
        if memory != memory_budget.AUTO or any(x is not None for x in (target, tokenizer, fixed)):
            raise ValueError("target, tokenizer, fixed and memory are of texts: leave them out")
        settings: dict[str, Any] = {"top": top, "subsets": subsets, "seed": seed}
        return _measured(open_trial(model, inputs, relevance, **settings, **named), wanted)
    batch = prepare(model, inputs, targets=[target]).of_text()
    if batch.input_ids is None:
        raise ValueError(
            "inputs has no input_ids: the measures remove tokens of a text; pass of=, read= and "
            "axes= to remove positions of other tensors"
        )
    if batch.decoder_input_ids is not None:
        raise ValueError("inputs has decoder_input_ids: the measures are of one text; leave it out")
    present = (batch.attention_mask == 1).numpy(force=True)
    kept = check_fixed(fixed, present)
    maps = maps_of(relevance, present & ~kept)
    with guarded_run(model, batch), torch.inference_mode(mode=False):
        readout = Readout.of(model, batch, [target], tokenizer=tokenizer)
        with torch.no_grad(), readout.one_draw(model, batch):
            rows = readout.run(model, batch.arguments())
            readout = readout.choose(rows)
            logit, size = readout.targets[0].of(rows), readout.targets[0].size(rows)
        trial = TextTrial(
            maps=maps, present=present & ~kept, logit=logit, top=top, subsets=subsets, seed=seed,
            model=model, batch=batch, readout=readout, samples=samples, memory=memory,
            fixed=kept, rounding=rounding(logit, size),
        )  # fmt: skip
        return _measured(trial, wanted)


def _measured(trial: Trial, wanted: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in trial.maps}
    for measure in dict.fromkeys(MEASURES[name] for name in wanted):
        for name, values in measure(trial).items():
            found[name] |= values
    return {name: {key: values[key] for key in wanted} for name, values in found.items()}


def _agreement(trial: Trial) -> Measured:
    """Computes Pearson's r and Kendall's tau-b with Leave-One-Out."""
    keep = trial.present
    loo = _settled(trial.without_each(), trial, keep=keep)
    return {
        name: {"r": pearson(x, loo, keep), "tau": kendall(x, loo, keep)}
        for name, x in trial.maps.items()
    }


def _curves(trial: Trial) -> Measured:
    means = [
        [curve.mean.numpy(force=True).astype(np.float64) for curve in pair]
        for pair in trial.curves()
    ]
    return {
        name: {"MoRF": morf, "LeRF": lerf, "Δ": lerf - morf}
        for name, (morf, lerf) in zip(trial.maps, means, strict=True)
    }


def _top_drop(trial: Trial) -> Measured:
    """Leaves one token in every text, because attention over no token at all is not defined."""
    present = trial.present
    most = np.minimum(trial.top, present.sum(axis=1) - 1)[:, None]
    keeps = []
    for x in trial.maps.values():
        order = np.argsort(np.where(present, -x, np.inf), axis=1, kind="stable")
        keep = present.copy()
        np.put_along_axis(keep, order, np.arange(x.shape[1]) >= most, axis=1)
        keeps.append(keep & present)
    logit = trial.logit.numpy(force=True)[:, None]
    drops = logit - trial.logits(np.stack(keeps, axis=1))
    return {name: {"top drop": drops[:, n]} for n, name in enumerate(trial.maps)}


def _datamodeling(trial: Trial) -> Measured:
    keep, logits = _at_random(trial, lambda count: count // 2)
    ranked = rankdata(logits, axis=1)
    everywhere = np.ones_like(ranked, dtype=bool)
    return {
        name: {"LDS": pearson(rankdata(_sums(x, keep), axis=1), ranked, everywhere)}
        for name, x in trial.maps.items()
    }


def _explained(trial: Trial) -> Measured:
    keep, logits = _at_random(trial, quarter)
    everywhere = np.ones_like(logits, dtype=bool)
    found = {x: pearson(_sums(m, keep), logits, everywhere) for x, m in trial.maps.items()}
    return {name: {"explained": np.maximum(r, 0) ** 2} for name, r in found.items()}


def _at_random(trial: Trial, size: Callable[[int], int]) -> tuple[np.ndarray, np.ndarray]:
    """Draws subsets that lose ``size`` of their tokens: (batch, subset, token), and their logits.

    One subset has one logit, however often it is drawn: else rounding would make a difference.
    """
    present = trial.present
    keep = np.repeat(present[:, None], trial.subsets, axis=1)
    for row, here in enumerate(present):
        places, chance = here.nonzero()[0], trial.chance(row)
        stay = len(places) - size(len(places))
        for subset in keep[row]:
            subset[chance.permutation(places)[stay:]] = False
    logits = trial.logits(keep)
    for row, drawn in enumerate(keep):
        _, first, copy = np.unique(drawn, axis=0, return_index=True, return_inverse=True)
        logits[row] = logits[row, first[copy.ravel()]]
    return keep, _settled(logits, trial)


def _settled(values: np.ndarray, trial: Trial, *, keep: np.ndarray | bool = True) -> np.ndarray:
    """Returns 0 in rows whose values, where ``keep``, differ by rounding of the logits alone."""
    high = values.max(axis=1, where=keep, initial=-np.inf)
    low = values.min(axis=1, where=keep, initial=np.inf)
    return np.where((high - low > trial.rounding)[:, None], values, 0)


def quarter(count: int) -> int:
    """Returns a quarter of the tokens, two or more, and never all of them."""
    return min(max(2, round(count / 4)), count - 1)


def _sums(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Adds up each subset's relevance, (batch, subset), in a unit of the map's own."""
    size = np.abs(x).max(axis=1, keepdims=True)
    sums = np.einsum("bt,bst->bs", np.divide(x, size, where=size > 0, out=0 * x), keep)
    return np.asarray(sums.round(12))


MEASURES: dict[str, Callable[[Any], Measured]] = {
    "r": _agreement,
    "tau": _agreement,
    "MoRF": _curves,
    "LeRF": _curves,
    "Δ": _curves,
    "top drop": _top_drop,
    "LDS": _datamodeling,
    "explained": _explained,
    **dict.fromkeys(OF_TEXTS, soft),
}
"""The function of each measure, by name; one function may compute several measures."""
LOWER = {"MoRF"}
"""Measures that are better when lower."""


def _check_measures(measures: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    named = [measures] if isinstance(measures, str) else measures
    wanted = list(known if named is None else named)
    check_known("measure", wanted, known)
    return wanted


def _check(seed: object, **numbers: object) -> None:
    wrong = ", ".join(
        f"{key}={x!r}" for key, x in numbers.items() if type(x) is not int or not 1 <= x <= MOST
    )
    problems = [f"{wrong}: pass a whole number, at least 1 and at most {MOST}"] if wrong else []
    if type(seed) is not int or seed < 0:
        problems.append(f"seed={seed!r}: pass a whole number, at least 0")
    if problems:
        raise ValueError("\n".join(problems))

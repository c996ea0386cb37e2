"""Shapley values of the tokens of a text: exact in short texts, else with standard errors."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.loo import losses
from lrp_axioms.numeric.methods.memory_budget import AUTO
from lrp_axioms.numeric.methods.windows import looks_back, windows
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.heads import CLASSES
from lrp_axioms.numeric.targets.readout import Found, Readout

MOST = 2**16  # forward passes per text
PER_PLAYER = 4  # forward passes; fewer tell little about errors


def shapley(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    samples: int = 4096,
    seed: int = 0,
    fixed: Tensor | None = None,
    batch_size: int = 128,
    memory: int | str = AUTO,
) -> Iterator[Found]:
    """Computes phi_i, the mean of f(S + i) - f(S) over all orders of players; S are before i.

    f(S) is the logit with the players S in view.  The attention mask hides the other players, as
    in ``leave_one_out``.  Every token is a player but the first of its text: [CLS] in an encoder,
    and <s> or a first word in a causal model.  The first token stays in view, because the row that
    is read must attend to something for every S; in an encoder with a decoder, this is the first
    token of both texts.  Tokens where ``fixed``, (batch, token), is True stay in view, too, such as
    [SEP].  Tokens that are no players have relevance 0.
    Relevance adds up to f(all players) - f(no player), and the residual is f(no player).
    A text takes 2^n - 1 forward passes and is exact if ``samples`` are as many; the default is
    enough for 12 players.  A longer text takes at most ``samples`` passes, for pairs of a subset
    and its complement: about equally many of each size, drawn by ``seed`` without replacement
    (Musco and Witter, 2024, arXiv 2410.01917).  A fit by Shapley's weights then estimates phi, and
    keeps the sum.  With all subsets this fit is phi (Lundberg and Lee, 2017, arXiv 1705.07874).
    ``details``: "baseline_logit" (batch,), which is f(no player), and "error" (batch, token), the
    standard error of each value by the residuals of the fit, 0 where phi is exact; both in logits.
    About 95 % of the values are within 2 standard errors.  "passes" (batch,) counts the passes.
    ``batch_size`` and ``memory`` are as in ``leave_one_out``.  All targets share the passes.
    Raises ValueError for bad options, for more players than ``samples`` can tell apart, for texts
    whose row that is read may see no first token (``_check_windows``), and as ``leave_one_out``.
    """
    _check(batch, samples, seed, fixed)
    _check_windows(model, batch)
    texts = losses(model, batch, readout, batch_size=batch_size, memory=memory)
    players = texts.words & ((batch.present == 1).cumsum(dim=1) > 1)
    players = players if fixed is None else players & ~fixed.to(players.device)
    _check_samples(players.sum(dim=1).tolist(), samples)
    found = texts.starts.new_zeros(2, *texts.starts.shape, players.shape[1])
    baseline, passes = texts.starts.clone(), players.sum(dim=1)
    for row, own in enumerate(players):
        subset, *drawn = _draw(int(own.sum()), samples, seed)
        hidden = np.concatenate([np.ones((1, subset.shape[1]), dtype=bool), subset, ~subset])
        part = own.new_zeros(len(hidden), len(own))
        part[:, own] = torch.from_numpy(hidden).to(own.device)
        lost = texts.without(torch.full_like(part[:, 0], row, dtype=torch.int64), part)
        values = _fit(lost.cpu().double().numpy(force=True), subset, *drawn)
        found[:, :, row, own] = torch.from_numpy(values).to(found)
        baseline[:, row] -= lost[0]
        passes[row] = len(lost)
    for n, each in enumerate(texts.readout.targets):
        details = {"baseline_logit": baseline[n], "error": found[1, n], "passes": passes}
        yield Found(found[0, n], each.target, texts.logits[n], details)


def _check(batch: Batch, samples: object, seed: object, fixed: Tensor | None) -> None:
    wrong = []
    if type(samples) is not int or not 1 <= samples <= MOST:
        wrong.append(f"samples={samples!r}: pass a whole number of forward passes, 1 to {MOST}")
    if type(seed) is not int or seed < 0:
        wrong.append(f"seed={seed!r}: pass a whole number, at least 0")
    given = getattr(fixed, "dtype", type(fixed).__name__), tuple(getattr(fixed, "shape", ()))
    if fixed is not None and given != (torch.bool, shape := tuple(batch.present.shape)):
        wrong.append("fixed is {} of shape {}".format(*given) + f"; pass torch.bool, here {shape}")
    if wrong:
        raise ValueError("\n".join(wrong))


def _check_windows(model: PreTrainedModel, batch: Batch) -> None:
    """Refuses rows behind a window; an encoder reads classes from its first or visible tokens."""
    tokens, sizes = batch.present.shape[1], windows(batch.facts)
    far = batch.facts.head != CLASSES or (sizes and looks_back(model, batch.facts))
    for name, size in sizes.items() if far else ():
        if size < tokens:
            raise ValueError(
                f"{name}={size}: rows of {tokens} tokens may have nothing left to attend to; "
                "shorten the texts, or pass method='loo'"
            )


def _check_samples(players: list[int], samples: int) -> None:
    needed = [min(2**n - 1, PER_PLAYER * n) for n in players]
    if short := [row for row, passes in enumerate(needed) if passes > samples]:
        raise ValueError(
            f"samples={samples}: examples {short} have up to {max(players)} tokens to hide; pass "
            f"at least {max(needed)}, or keep tokens in view with fixed"
        )


def _draw(players: int, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws pairs of a subset and its complement: as many of each size, or all if these are fewer.

    Returns subsets (pair, player), and by pair its share in the weight of its size, and its chance.
    """
    chance = np.random.default_rng(seed)
    twice = {size: 1 + (2 * size == players) for size in range(1, players // 2 + 1)}
    known = {size: math.comb(players, size) // twice[size] for size in twice}
    subsets, drawn, left = [np.zeros((0, players), dtype=bool)], [], (samples - 1) // 2
    for n, size in enumerate(sorted(known, key=known.__getitem__)):
        count = min(known[size], left // (len(known) - n))
        left -= count
        subsets.append(_subsets(players, size, count, chance))
        weight = 1 / (twice[size] * size * (players - size) * count)
        drawn += [(weight, count / known[size])] * count
    weights, chances = np.array(drawn).reshape(-1, 2).T
    return np.concatenate(subsets), weights, chances


def _subsets(players: int, size: int, count: int, chance: np.random.Generator) -> np.ndarray:
    """Draws subsets of a size without replacement, (count, player), no two of them complements."""
    found = np.zeros((0, players), dtype=bool)
    while len(found) < count:
        subsets = chance.random((count, players)).argsort(axis=1) < size
        subsets ^= ~subsets[:, :1] & (2 * size == players)
        found = np.unique(np.concatenate([found, subsets]), axis=0)
    return chance.permutation(found)[:count]


def _fit(lost: np.ndarray, subset: np.ndarray, *drawn: np.ndarray) -> np.ndarray:
    """Returns values and their standard errors, (2, target, player), by weighted least squares.

    lost: without all players, without each subset, and without its complement   drawn: by ``_draw``
    Half the difference of a pair is the sum of values by +1/2 inside the subset, and -1/2 outside.
    Values are equal shares of the whole, plus parts that add up to 0, as a pseudo-inverse gives
    them.  Squares of errors add up the effects of pairs on values, as if each pair were left out
    of the fit; where all pairs of a size are drawn, they have none.
    """
    whole, without, inside = np.split(lost, [1, 1 + len(subset)])
    weight, chance = (x[:, None] for x in drawn)
    shares = whole / max(subset.shape[1], 1)
    root, signs = np.sqrt(weight), subset - 0.5
    rest = root * ((without - inside) / 2 - signs.sum(axis=1, keepdims=True) * shares)
    signs = root * (signs - signs.sum(axis=1, keepdims=True) / max(subset.shape[1], 1))
    inverse = np.linalg.pinv(signs, rcond=1e-9)  # equal parts alone have no size
    parts = inverse @ rest
    alone = 1 - (signs * inverse.T).sum(axis=1, keepdims=True)
    missed = (rest - signs @ parts) / alone.clip(min=1e-6)
    error = np.sqrt(inverse**2 @ ((1 - chance) * missed**2))
    return np.stack([(shares + parts).T, error.T])

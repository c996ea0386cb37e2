"""Integrated Gradients over word embeddings (Sundararajan et al., 2017; paper, Appendix A)."""

import math
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.engine import packed
from lrp_axioms.numeric.engine.rules import wide
from lrp_axioms.numeric.methods import memory_budget
from lrp_axioms.numeric.methods.paths import Path, straight_path
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.chosen import Chosen
from lrp_axioms.numeric.targets.readout import Found, Readout

BASELINES = ("zero", "pad")
DOUBLINGS = 3  # of the number of nodes, at most
MOST = 1024  # nodes of the first quadrature, which takes a matrix of nodes x nodes


def integrated_gradients(
    model: PreTrainedModel,
    batch: Batch,
    readout: Readout,
    *,
    steps: int = 32,
    tolerance: float | None = None,
    baseline: str = "zero",
    batch_size: int = 128,
    memory: int | str = memory_budget.AUTO,
) -> Iterator[Found]:
    """Integrates the gradient from ``baseline`` to the word embeddings, times the difference.

    Position and type embeddings stay in place: on a path that scales the whole sum the
    LayerNorm after it would hold every gradient at zero.  LLaMA and T5 add nothing to words,
    and their RMSNorm does just that to a path from "zero": expect a gap.
    With ``decoder_input_ids`` the words of both texts leave the baseline together.
    ``baseline`` is "zero" or "pad" (the [PAD] embedding); ``steps`` are Gauss-Legendre nodes.
    Texts whose completeness gap is more than ``tolerance`` logits run again with twice as many
    nodes, at most ``DOUBLINGS`` times.
    Texts at all nodes run together, texts of like length without their padding, at most
    ``batch_size`` at a time and within ``memory``: bytes, or "auto" (``chunks``).  Models that
    ``families`` does not know run texts of one length at a time.
    Raises ValueError for bad options and for models that take no embeddings in place of ids, or
    give other logits with them.
    ``details``: ``baseline_logit`` and ``completeness_gap``, both (batch,), in logits.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r}: pass one of {', '.join(BASELINES)}")
    if type(steps) is not int or not 1 <= steps <= MOST:
        raise ValueError(
            f"steps={steps!r}: pass a whole number of quadrature nodes, at least 1 and at most "
            f"{MOST}"
        )
    if tolerance is not None and not (isinstance(tolerance, Real) and tolerance > 0):
        raise ValueError(f"tolerance={tolerance!r}: pass a number of logits above 0, or None")
    model = packed.unpack(model)
    with torch.no_grad():
        path, readout, rows = straight_path(model, batch, readout, baseline)
        targets = readout.targets
        logits = [each.of(rows) for each in targets]
        groups = path.groups()
        logit = torch.stack(logits)
        start, gap = torch.zeros_like(logit), torch.zeros_like(logit)
        for texts in groups:
            _, rows = path.run(texts, torch.zeros_like(logit[0, texts]))
            start[:, texts] = torch.stack([each.of(rows, texts) for each in targets]).to(
                start.dtype
            )
        relevance = wide(torch.zeros_like(path.end[..., 0])).repeat(len(targets), 1, 1)
        limits: dict[str, Any] = {
            "batch_size": batch_size,
            "memory": memory,
            "device": batch.device,
        }
        for nodes in (steps * 2**n for n in range(DOUBLINGS + 1)):
            for texts in groups:
                found = _integrate(path, texts, targets, nodes, **limits)
                relevance[:, texts] = found
                present = batch.present[texts]
                gap[:, texts] = (logit - start)[:, texts] - (found * present).sum(dim=2)
            far = (gap.abs() > (math.inf if tolerance is None else tolerance)).any(dim=0)
            groups = [left for texts in groups if len(left := texts[far[texts]])]
    for n, each in enumerate(targets):
        details = {"baseline_logit": start[n], "completeness_gap": gap[n]}
        yield Found(relevance[n], each.target, logit[n], details)


def _integrate(
    path: Path, texts: Tensor, targets: Sequence[Chosen], steps: int, **limits: Any
) -> Tensor:
    """Multiplies the path by the mean gradient, by channel, and sums: (target, text, token)."""
    totals = [wide(torch.zeros_like(path.end[texts])) for _ in targets]
    total = totals[0]
    nodes = torch.tensor(np.stack(leggauss(steps)), dtype=total.dtype, device=total.device)
    nodes, weights = ((x / 2).repeat(len(texts)) for x in (nodes[0] + 1, nodes[1]))
    row = torch.arange(len(texts), device=texts.device).repeat_interleave(steps)
    length = path.length

    def forward(text: Tensor, alpha: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.enable_grad():
            words, rows = path.run(text, alpha)
            return words, [each.of(rows, text).sum() for each in targets]

    longest = texts[length[texts].argmax()][None]
    kept = memory_budget.bytes_kept(path.model, lambda: forward(longest, nodes[:1]))
    need = memory_budget.bytes_with_gradients(
        path.model, length, kept=kept * length // length[longest]
    )
    limits["on_cpu"] = memory_budget.ON_CPU_WITH_GRADIENTS
    for chunk in memory_budget.chunks(length[texts][row], need[texts][row], **limits):
        at = texts[row[chunk]]
        words, logits = forward(at, nodes[chunk])
        for total, logit in zip(totals, logits, strict=True):
            (gradient,) = torch.autograd.grad(logit, words, retain_graph=logit is not logits[-1])
            given = weights[chunk, None, None] * gradient
            total[:, path.columns(at)].index_add_(0, row[chunk], given)
    difference = path.end[texts] - path.start
    return torch.stack([(difference * total).sum(dim=-1) for total in totals])

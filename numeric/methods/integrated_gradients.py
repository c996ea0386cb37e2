"""Integrated Gradients over word embeddings (Sundararajan et al., 2017; paper, Appendix A)."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from numeric.fast import families
from numeric.inputs import read_tokens
from numeric.methods import chunks
from numeric.methods.whole import reuse, whole

BASELINES = ("zero", "pad")


@dataclass(frozen=True, eq=False)
class Path:
    """From the baseline to the words of every text, straight; what else is put in stays."""

    start: Tensor  # (channel,)
    end: Tensor  # (batch, token, channel)
    rest: dict[str, Tensor]  # (batch, token) each

    def at(self, text, alpha, columns=slice(None)) -> tuple[Tensor, dict[str, Tensor]]:
        """Embeddings of ``text`` (copy,) at ``alpha`` (copy,), and what goes with them."""
        end = self.end[text, columns]
        words = (self.start + alpha[:, None, None] * (end - self.start)).to(end.dtype)
        return words, {key: x[text, columns] for key, x in self.rest.items()}


def integrated_gradients(
    model,
    batch,
    choose,
    *,
    steps: int = 32,
    baseline: str = "zero",
    batch_size: int = 128,
    memory: int | str = chunks.AUTO,
):
    """Gradient along the straight path from ``baseline`` to the word embeddings, x difference.

    Position and type embeddings stay in place: on a path that scales the whole sum the
    LayerNorm behind it would hold every gradient at zero.  Rotary decoders add nothing to words,
    and their RMSNorm does just that to a path from "zero": expect a gap.
    ``baseline`` is "zero" or "pad" (the [PAD] embedding); ``steps`` are Gauss-Legendre nodes.
    Texts at all nodes run together, those of like length without their padding, at most
    ``batch_size`` at a time and what ``memory`` holds: bytes, or "auto" (``chunks``).
    ``details``: ``baseline_logit`` and ``completeness_gap``, both (batch,), in logits.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r}: pass one of {', '.join(BASELINES)}")
    if type(steps) is not int or steps < 1:
        raise ValueError(f"steps={steps!r}: pass a whole number of quadrature nodes, at least 1")
    if batch.input_ids is None:
        raise ValueError(f"{type(model).__name__} has no words, along whose path to integrate")
    with torch.no_grad():
        kept = whole(model, batch)
        model = kept.model
        target, logit = choose(kept.logits)
        _check_reading(model, batch)
        path = _path(model, batch, baseline)
        everywhere = torch.arange(len(target), device=target.device)
        baseline_logit = _logits(model, *path.at(everywhere, torch.zeros_like(logit)))
        baseline_logit = baseline_logit.gather(1, target[:, None])[:, 0].to(logit.dtype)
        limits = {"batch_size": batch_size, "memory": memory, "device": target.device}
        last = kept.last if families.reads_one_token(model) else None
        kept = replace(kept, cache=None, last=last)
        reuse(kept, projections=False)
        total = _integral(model, batch, path, target, steps, **limits)
    relevance = ((path.end - path.start) * total).sum(dim=-1)
    gap = logit - baseline_logit - (relevance * batch.attention_mask).sum(dim=1)
    return relevance, target, logit, {"baseline_logit": baseline_logit, "completeness_gap": gap}


def _integral(model, batch, path, target, steps, **limits):
    """Mean gradient along the path: (batch, token, channel), in float32 or wider."""
    device, tokens = target.device, batch.input_ids.shape[1]
    wide = torch.promote_types(path.end.dtype, torch.float32)
    on_axis, weights = torch.tensor(np.stack(leggauss(steps)), dtype=wide, device=device)
    nodes, weights = ((x / 2).repeat(len(target)) for x in (on_axis + 1, weights))
    text = torch.arange(len(target), device=device).repeat_interleave(steps)
    length = _lengths(model, batch)
    causal = families.reads_last_token(model)
    columns = lambda n: slice(tokens - n, None) if causal else slice(n)

    def forward(text, alpha):
        words, rest = path.at(text, alpha, columns(int(length[text].max())))
        words.requires_grad_()
        with torch.enable_grad():
            logits = _logits(model, words, rest)
            return words, logits.gather(1, target[text, None]).sum()

    longest = length.argmax()[None]
    kept = chunks.bytes_kept(model, lambda: forward(longest, nodes[:1]))
    need = chunks.bytes_with_gradients(model, length, kept=kept * length // length.max())
    total = torch.zeros_like(path.end, dtype=wide)
    limits["on_cpu"] = chunks.ON_CPU_WITH_GRADIENTS
    for chunk in chunks.chunks(length[text], need[text], **limits):
        at = text[chunk]
        words, logit = forward(at, nodes[chunk])
        (gradient,) = torch.autograd.grad(logit, words)
        share = weights[chunk, None, None] * gradient
        total[:, columns(words.shape[1])].index_add_(0, at, share)
    return total


def _logits(model, words, rest):
    """Of decoders from the last column, as their stock code reads it where there are no ids."""
    if not families.reads_last_token(model):
        return model(inputs_embeds=words, **rest).logits
    hidden = model.base_model(inputs_embeds=words, use_cache=False, **rest).last_hidden_state
    return model.score(hidden[:, -1])


def _path(model, batch, baseline):
    words = model.get_input_embeddings()
    rest = batch.arguments()
    ids = rest.pop("input_ids")
    own = families.position_ids(model, ids)  # which the model counts by ids
    if own is not None:
        rest["position_ids"] = own
    elif families.reads_last_token(model):  # the first columns may be left out
        rest["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    end = words(ids).detach()
    zero = end.new_zeros(end.shape[-1])
    start = zero if baseline == "zero" else words.weight[_pad(model)].detach()
    return Path(start, end, rest)


def _lengths(model, batch):
    """Tokens of each text that run: all but the padding behind them, or before, of decoders."""
    present = batch.attention_mask == 1
    if not families.reads_one_token(model):
        return torch.full_like(batch.input_ids[:, 0], present.shape[1])
    behind = present if families.reads_last_token(model) else present.flip(1)
    return present.shape[1] - behind.to(torch.uint8).argmax(dim=1)


def _check_reading(model, batch):
    """Raises ValueError where a model that is given embeddings reads another token."""
    if families.reads_first_token(model):
        return
    last = batch.input_ids.shape[1] - 1
    others = (read_tokens(model, batch) != last).nonzero()[:, 0].tolist()
    if others:
        raise ValueError(
            f"examples {others} are padded on the right, where {type(model).__name__} reads its "
            "logits once embeddings take the place of ids; pad on the left "
            '(tokenizer.padding_side = "left")'
        )


def _pad(model):
    if model.config.pad_token_id is None:
        raise ValueError('baseline="pad": this model has no [PAD] token; pass baseline="zero"')
    return model.config.pad_token_id

"""Integrated Gradients over word embeddings (Sundararajan et al., 2017; paper, Appendix A)."""

import math
from dataclasses import dataclass, replace
from inspect import signature

import numpy as np
import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor, nn

from numeric.batches import DECODER, Batch, first_map
from numeric.fast import families, packed
from numeric.inputs import read_tokens
from numeric.methods import memory_budget
from numeric.methods.shared import reuse, whole
from numeric.readout import Found, Readout, Rows

BASELINES = ("zero", "pad")
DOUBLINGS = 3  # of the number of nodes, at most


@dataclass(frozen=True, eq=False)
class Path:
    """From the baseline to the words of every text, straight; what else is put in stays."""

    model: nn.Module
    reads: str | None  # the token that the head reads, of a known family
    start: Tensor  # (token, channel)
    end: Tensor  # (batch, token, channel)
    rest: dict[str, Tensor]  # (batch, token) each
    length: Tensor  # (batch,) tokens that run: all but the padding at one side
    readout: Readout
    source: int  # tokens that an encoder reads, before those of a decoder; 0 of one text

    def columns(self, text: Tensor) -> slice:
        """Those that the longest of ``text`` needs."""
        tokens, longest = self.end.shape[1], int(self.length[text].max())
        last = self.reads == families.LAST
        return slice(tokens - longest, None) if last else slice(longest)

    def inputs(self, text: Tensor, alpha: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Embeddings of ``text`` (copy,) at ``alpha``, and what goes with them.

        alpha: (copy,), or (copy, token, channel)
        """
        columns = self.columns(text)
        end = self.end[text, columns]
        alpha = alpha[:, None, None] if alpha.ndim == 1 else alpha[:, columns]
        start = self.start[columns]
        words = (start + alpha * (end - start)).to(end.dtype)
        return words, {key: x[text, columns] for key, x in self.rest.items()}

    def run(self, text: Tensor, alpha: Tensor) -> tuple[Tensor, Rows]:
        """Those embeddings, and what the head gives."""
        words, rest = self.inputs(text, alpha)
        words.requires_grad_(torch.is_grad_enabled())
        given = words.clone()  # which code in place may change
        return words, self.rows(text, given, rest)

    def rows(self, text: Tensor, words: Tensor, rest: dict[str, Tensor]) -> Rows:
        """Of known decoders from the last column, as their code reads it where there are no ids."""
        if self.reads == families.LAST:
            run = self.model.base_model
            hidden = run(inputs_embeds=words, use_cache=False, **rest).last_hidden_state
            return Rows(self.model.score(hidden[:, -1:]), None)
        return self.readout.run(self.model, self.texts(words) | rest, text)

    def texts(self, words: Tensor) -> dict[str, Tensor]:
        """The words of an encoder and those of a decoder, which lie one behind the other."""
        if not self.source:
            return {"inputs_embeds": words}
        read, written = words[:, : self.source], words[:, self.source :]
        return {"inputs_embeds": read, "decoder_inputs_embeds": written}

    def groups(self) -> list[Tensor]:
        """Texts that run together: all of a known model, which minds no padding."""
        if self.reads is not None:
            return [torch.arange(len(self.length), device=self.length.device)]
        return [(self.length == n).nonzero()[:, 0] for n in self.length.unique()]


def integrated_gradients(
    model,
    batch,
    readout,
    *,
    steps: int = 32,
    tolerance: float | None = None,
    baseline: str = "zero",
    batch_size: int = 128,
    memory: int | str = memory_budget.AUTO,
):
    """Gradient along the straight path from ``baseline`` to the word embeddings, x difference.

    Position and type embeddings stay in place: on a path that scales the whole sum the
    LayerNorm behind it would hold every gradient at zero.  LLaMA and T5 add nothing to words,
    and their RMSNorm does just that to a path from "zero": expect a gap.
    With ``decoder_input_ids`` the words of both texts leave the baseline together.
    ``baseline`` is "zero" or "pad" (the [PAD] embedding); ``steps`` are Gauss-Legendre nodes.
    Texts whose completeness gap is more than ``tolerance`` logits run again with twice as many
    nodes, at most ``DOUBLINGS`` times.
    Texts at all nodes run together, those of like length without their padding, at most
    ``batch_size`` at a time and what ``memory`` holds: bytes, or "auto" (``chunks``).  Models that
    ``families`` does not know run texts of one length at a time.
    Raises ValueError for bad options and for models that take no embeddings in place of ids, or
    give other logits with them.
    ``details``: ``baseline_logit`` and ``completeness_gap``, both (batch,), in logits.
    """
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r}: pass one of {', '.join(BASELINES)}")
    if type(steps) is not int or steps < 1:
        raise ValueError(f"steps={steps!r}: pass a whole number of quadrature nodes, at least 1")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance={tolerance!r}: pass a number of logits above 0, or None")
    model = packed.shown(model)
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
        relevance = _wide(torch.zeros_like(path.end[..., 0])).repeat(len(targets), 1, 1)
        limits = {"batch_size": batch_size, "memory": memory, "device": batch.device}
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


def _integrate(path, texts, targets, steps, **limits):
    """The path's length in every channel, times the mean gradient: (target, text, token)."""
    totals = [_wide(torch.zeros_like(path.end[texts])) for _ in targets]
    total = totals[0]
    nodes = torch.tensor(np.stack(leggauss(steps)), dtype=total.dtype, device=total.device)
    nodes, weights = ((x / 2).repeat(len(texts)) for x in (nodes[0] + 1, nodes[1]))
    row = torch.arange(len(texts), device=texts.device).repeat_interleave(steps)
    length = path.length

    def forward(text, alpha):
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


def straight_path(
    model, batch: Batch, readout: Readout, baseline: str = "zero"
) -> tuple[Path, Readout, Rows]:
    """The path from ``baseline`` to the words of a batch, and what the head gives at its end.

    The readout comes back with the predicted labels in place.
    Raises ValueError for models that take no embeddings in place of ids, or give other logits then.
    """
    _check_inputs(model, batch)
    kept = whole(model, batch, readout)
    readout = readout.choose(kept.rows)
    reuse(kept, projections=False)
    path = _path(kept, batch, baseline, readout)
    if kept.reads is None:
        path = _that_reads_alike(path, readout.targets, kept.rows)
    return path, readout, kept.rows


def _path(kept, batch, baseline, readout):
    model, reads = kept.model, kept.reads
    rest = batch.arguments()
    ids = rest.pop("input_ids")
    written = rest.pop(DECODER, None)
    own = families.position_ids(model, ids) if reads else None  # which the model counts by ids
    if own is not None:
        rest["position_ids"] = own
    elif reads == families.LAST:  # the first columns may be left out
        rest["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    two = written is not None
    tables = map(first_map, (model.get_encoder(), model.get_decoder()) if two else (model,))
    ends = [
        _ends(model, table, x, baseline) for table, x in zip(tables, (ids, written), strict=False)
    ]
    start, end = (torch.cat(x, dim=1) for x in zip(*ends, strict=True))
    present = batch.present == 1
    behind = present if reads == families.LAST else present.flip(1)
    length = present.shape[1] - behind.to(torch.uint8).argmax(dim=1)
    source = ids.shape[1] if two else 0
    return Path(model, reads, start[0], end, rest, length, readout, source)


def _ends(model, words, ids, baseline):
    """Where the path begins, (1, token, channel), and where it ends, (batch, token, channel)."""
    end = None if words is None else words(ids)
    if not isinstance(end, Tensor):
        raise ValueError(_without(model, f"its lookup of words gives a {type(end).__name__}"))
    pad = baseline == "pad"
    start = words(torch.full_like(ids[:1], _pad(model))) if pad else torch.zeros_like(end[:1])
    return start.detach(), end.detach()


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _check_inputs(model, batch):
    """Raises ValueError where no embeddings can be given, or a model then reads another token."""
    name = type(model).__name__
    if batch.input_ids is None:
        raise ValueError(f"{name} has no words, along whose path to integrate")
    if kernels := [path for path, m in model.named_modules() if _is_quantised(m)]:
        raise ValueError(
            f"quantised weights in {len(kernels)} modules, first {kernels[0]}: the kernels of some "
            'have no gradient to integrate, and say nothing; pass another method, such as "loo"'
        )
    if model.config.is_encoder_decoder and batch.decoder_input_ids is None:
        raise ValueError(_without(model, "it reads its text in an encoder and in a decoder"))
    if "inputs_embeds" not in signature(model.forward).parameters or first_map(model) is None:
        raise ValueError(
            _without(model, "it has no argument inputs_embeds, or nothing to put there")
        )
    if families.reads(model) != families.LAST:
        return
    last = batch.input_ids.shape[1] - 1
    others = (read_tokens(model, batch) != last).nonzero()[:, 0].tolist()
    if others:
        raise ValueError(
            f"examples {others} are padded on the right, where {name} reads its logits once "
            'embeddings take the place of ids; pad on the left (tokenizer.padding_side = "left")'
        )


def _is_quantised(module: nn.Module) -> bool:
    """Whether weights of a module are in few bits, of which torch.ao packs and torchao wraps."""
    own = module._parameters.values()
    packed = type(module).__module__.startswith("torch.ao.nn.quantized")
    return (packed and hasattr(module, "weight")) or any(
        x is not None and type(x).dequantize is not Tensor.dequantize for x in own
    )


def _that_reads_alike(path, targets, rows):
    """The path with padding or without, whichever gives the logits that ids do.

    Half of the digits must agree: other positions, or another row, change more than that.
    Raises ValueError if neither does.
    """
    logits = torch.cat([each.terms(rows) for each in targets], dim=1)
    unit = max(torch.finfo(dtype).eps for dtype in (logits.dtype, torch.float32))
    gaps = []
    for length in (torch.full_like(path.length, path.end.shape[1]), path.length):
        tried = replace(path, length=length)
        ends = torch.empty_like(logits)
        for texts in tried.groups():
            try:
                _, found = tried.run(texts, torch.ones_like(logits[texts, 0]))
                ends[texts] = torch.cat([each.terms(found, texts) for each in targets], dim=1)
            except (AttributeError, NotImplementedError, TypeError) as error:  # of its own code
                raise ValueError(_without(path.model, f"it ends in {error}")) from error
        gaps.append((ends - logits).abs().max().item())
        if gaps[-1] <= unit**0.5 * logits.abs().max().item():
            return tried
    raise ValueError(_without(path.model, f"its logits become others, by {min(gaps):.1e}"))


def _without(model, why):
    return (
        f"{type(model).__name__} cannot run on embeddings in place of ids, along whose path to "
        f'integrate: {why}; pass another method, such as "loo"'
    )


def _pad(model):
    if model.config.pad_token_id is None:
        raise ValueError('baseline="pad": this model has no [PAD] token; pass baseline="zero"')
    return model.config.pad_token_id

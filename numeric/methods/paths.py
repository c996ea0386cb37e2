"""Runs models along the straight path from a baseline to the word embeddings of a text."""

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.shared import OF_OTHER_CODE, Whole, reuse, whole
from lrp_axioms.numeric.models import families, heads
from lrp_axioms.numeric.models.batches import DECODER, Batch, first_map
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout


@dataclass(frozen=True, eq=False)
class Path:
    """A straight path from the baseline to the words of every text; all other inputs stay fixed."""

    model: PreTrainedModel
    reads: str | None  # the token that the head reads, of a known family
    start: Tensor  # (token, channel)
    end: Tensor  # (batch, token, channel)
    rest: dict[str, Tensor]  # (batch, token) each
    length: Tensor  # (batch,) tokens without padding on the left (LAST), or on the right
    read: Tensor | None  # (batch,) the column that is read, where ``reads`` is LAST
    readout: Readout
    source: int  # tokens of an encoder, before a decoder's; 0 for one text

    def columns(self, text: Tensor) -> slice:
        """Returns the columns that the longest of ``text`` needs."""
        tokens, longest = self.end.shape[1], int(self.length[text].max())
        last = self.reads == families.LAST
        return slice(tokens - longest, None) if last else slice(longest)

    def inputs(self, text: Tensor, alpha: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns embeddings of ``text`` (copy,) at ``alpha``, and the inputs beside them.

        alpha: (copy,), or (copy, token, channel)
        """
        columns = self.columns(text)
        end, start = self.end[text, columns], self.start[columns]
        alpha = alpha[:, None, None] if alpha.ndim == 1 else alpha[:, columns]
        words = (start + alpha * (end - start)).to(end.dtype)
        return words, {key: x[text, columns] for key, x in self.rest.items()}

    def run(self, text: Tensor, alpha: Tensor) -> tuple[Tensor, Rows]:
        """Returns these embeddings, and the head's output."""
        words, rest = self.inputs(text, alpha)
        words.requires_grad_(torch.is_grad_enabled())
        given = words.clone()  # code may change it in place
        return words, self.rows(text, given, rest)

    def rows(self, text: Tensor, words: Tensor, rest: dict[str, Tensor]) -> Rows:
        """Reads decoders as with ids: given `inputs_embeds`, Transformers reads the last column."""
        if self.read is not None:
            model: Any = self.model  # a known family, whose head is its score
            out = model.base_model(inputs_embeds=words, use_cache=False, **rest)
            column = self.read[text] - self.columns(text).start
            copy = torch.arange(len(text), device=text.device)
            return Rows(model.score(out.last_hidden_state[copy, column])[:, None], None)
        return self.readout.run(self.model, self.texts(words) | rest, text)

    def texts(self, words: Tensor) -> dict[str, Tensor]:
        """Splits the words of an encoder from the words of a decoder, which follow them."""
        if not self.source:
            return {"inputs_embeds": words}
        read, written = words[:, : self.source], words[:, self.source :]
        return {"inputs_embeds": read, "decoder_inputs_embeds": written}

    def groups(self) -> list[Tensor]:
        """Groups texts that run together: all of a known model, which minds no padding."""
        if self.reads is not None:
            return [torch.arange(len(self.length), device=self.length.device)]
        return self.by_length()

    def by_length(self) -> list[Tensor]:
        return [(self.length == n).nonzero()[:, 0] for n in self.length.unique()]


def straight_path(
    model: PreTrainedModel, batch: Batch, readout: Readout, baseline: str = "zero"
) -> tuple[Path, Readout, Rows]:
    """Returns the path from ``baseline`` to a batch's words, and the head's output at its end.

    The readout comes back with the predicted labels in place.
    Raises ValueError for models that take no embeddings in place of ids, or give other logits then.
    """
    _check_inputs(model, batch)
    kept = whole(model, batch, readout)
    readout = readout.choose(kept.rows)
    if kept.reads is not None:
        reuse(kept, projections=False)
        try:
            path = _matching_path(_path(kept, batch, baseline, readout), readout, kept.rows)
            return path, readout, kept.rows
        except OF_OTHER_CODE:  # the model itself runs below, and raises it again
            kept = Whole(model, kept.rows)
    path = _matching_path(_path(kept, batch, baseline, readout), readout, kept.rows)
    return path, readout, kept.rows


def _path(kept: Whole, batch: Batch, baseline: str, readout: Readout) -> Path:
    model, reads = kept.model, kept.reads
    rest = batch.arguments()
    ids = rest.pop("input_ids")
    written = rest.pop(DECODER, None)
    own = batch.position_ids if reads else None  # the model counts them by ids
    if own is not None:
        rest["position_ids"] = own
    elif reads == families.LAST:  # the first columns may be left out
        rest["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    texts = [(model, ids)]
    if written is not None:
        texts = [(model.get_encoder(), ids), (model.get_decoder(), written)]
    ends = [_ends(model, first_map(part), x, baseline) for part, x in texts]
    start, end = (torch.cat(x, dim=1) for x in zip(*ends, strict=True))
    present = batch.present == 1
    behind = present if reads == families.LAST else present.flip(1)
    length = present.shape[1] - behind.to(torch.uint8).argmax(dim=1)
    source = 0 if written is None else ids.shape[1]
    read = batch.read if reads == families.LAST else None
    return Path(model, reads, start[0], end, rest, length, read, readout, source)


def _ends(
    model: PreTrainedModel, words: nn.Module | None, ids: Tensor, baseline: str
) -> tuple[Tensor, Tensor]:
    """Returns the path's start, (1, token, channel), and its end, (batch, token, channel)."""
    end = None if words is None else words(ids)
    if words is None or not isinstance(end, Tensor):
        raise ValueError(_refusal(model, f"its lookup of words gives a {type(end).__name__}"))
    pad = baseline == "pad"
    start = words(torch.full_like(ids[:1], _pad(model))) if pad else torch.zeros_like(end[:1])
    return start.detach(), end.detach()


def _check_inputs(model: PreTrainedModel, batch: Batch) -> None:
    """Raises ValueError where no embeddings can be given."""
    name = type(model).__name__
    if batch.input_ids is None:
        raise ValueError(f"{name} has no words, along whose path to integrate")
    if kernels := [path for path, m in model.named_modules() if _is_quantised(m)]:
        raise ValueError(
            f"quantised weights in {len(kernels)} modules, first {kernels[0]}: the kernels of some "
            'have no gradient to integrate, and say nothing; pass another method, such as "loo"'
        )
    if batch.facts.two and batch.decoder_input_ids is None:
        raise ValueError(_refusal(model, "it reads its text in an encoder and in a decoder"))
    if not _takes_embeddings(model) or first_map(model) is None:
        raise ValueError(
            _refusal(model, "it has no argument inputs_embeds, or nothing to put there")
        )


def _takes_embeddings(model: PreTrainedModel) -> bool:
    """Decides whether ``forward`` has an argument ``inputs_embeds``, or passes any keyword on."""
    parameters = signature(model.forward).parameters.values()
    return any(x.name == "inputs_embeds" or x.kind is x.VAR_KEYWORD for x in parameters)


def _is_quantised(module: nn.Module) -> bool:
    """Decides whether weights are in few bits: torch.ao packs them, and torchao wraps them."""
    own = module._parameters.values()
    packed = type(module).__module__.startswith("torch.ao.nn.quantized")
    return (packed and hasattr(module, "weight")) or any(
        x is not None and type(x).dequantize is not Tensor.dequantize for x in own
    )


def _matching_path(path: Path, readout: Readout, rows: Rows) -> Path:
    """Returns the path, with padding or without, whose end has the logits of the ids.

    They agree up to rounding: other positions, or another row, change more.
    Raises ValueError if neither does.
    """
    targets = readout.targets
    logits = torch.cat([each.terms(rows) for each in targets], dim=1)
    gaps = []
    padded = [torch.full_like(path.length, path.end.shape[1])] if path.reads is None else []
    for length in (*padded, path.length):
        tried = replace(path, length=length)
        distances = []
        # A known family must give equal logits alone and beside longer texts.
        for texts in [*tried.groups(), *(tried.by_length() if path.reads else ())]:
            try:
                _, found = tried.run(texts, torch.ones_like(logits[texts, 0]))
            except OF_OTHER_CODE as error:
                raise ValueError(_refusal(path.model, f"it ends in {error}")) from error
            ends = torch.cat([each.terms(found, texts) for each in targets], dim=1)
            distances.append((ends - logits[texts]).abs().max())
        gaps.append(torch.stack(distances).max().item())  # a NaN counts as a large gap
        if gaps[-1] <= heads.rounding(path.model, logits):
            return tried
    raise ValueError(_refusal(path.model, f"its logits become others, by {min(gaps):.1e}"))


def _refusal(model: nn.Module, why: str) -> str:
    return (
        f"{type(model).__name__} cannot run on embeddings in place of ids, along whose path to "
        f'integrate: {why}; pass another method, such as "loo"'
    )


def _pad(model: PreTrainedModel) -> int:
    pad = facts_of(model).padding_id
    if pad is None:
        raise ValueError('baseline="pad": this model has no [PAD] token; pass baseline="zero"')
    return pad

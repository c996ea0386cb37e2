"""Computes logits of many copies of a batch with tokens removed, without waste."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods import memory_budget, prefix
from lrp_axioms.numeric.methods.removals import (
    check,
    check_effect,
    check_something_is_left,
    replacement,
)
from lrp_axioms.numeric.methods.shared import (
    OF_OTHER_CODE,
    Copies,
    Whole,
    Witness,
    first_keys,
    reuse,
    whole,
)
from lrp_axioms.numeric.models import families, heads
from lrp_axioms.numeric.models.batches import DECODER, DECODER_MASK, Batch
from lrp_axioms.numeric.models.facts import ModelFacts
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout


def masked_logits(
    model: PreTrainedModel,
    batch: Batch,
    example: Tensor,
    keep: Tensor,
    readout: Readout,
    *,
    batch_size: int,
    removal: str | int = "attention-mask",
    memory: int | str = memory_budget.AUTO,
    kept: Whole | None = None,
) -> Tensor:
    """Returns the targets' logits of copies n: ``example[n]`` with ``keep[n]`` alone.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy, target) logits
    ``removal``: "attention-mask" (§4.1) hides tokens as keys; "deletion" also moves later tokens
    up; a token id replaces them, and everything stays in view.
    Models that ``families`` does not know cannot delete, and run each copy whole, except that
    copies for causal language models begin where they differ (``prefix.shorten``).  In an encoder
    with a decoder the mask hides tokens where the encoder attends to them, and, where it is given
    ``decoder_input_ids``, these from the decoder; ``keep`` then has the columns of both texts.
    In known models it is exact, but cheaper than it looks.  A masked token has attention weight
    exactly 0, so it is left out of the forward pass, with the others at their own positions.  Only
    the token whose row the classifier reads stays as a query even when removed, and is never
    deleted.  Encoders
    project queries, keys and values of the first layer once per text, and run the last one
    after its attention for one row; decoders keep everything before the first removed token.
    Copies of like length run together, at most ``batch_size`` of them and within ``memory``:
    bytes, or "auto" (``chunks``).  ``kept`` is ``whole(model, batch)``, if that is known.
    The witness of ``kept`` runs with them; if its logits differ from its logits when run whole,
    every copy runs whole.
    Logits come in float32 or wider.
    Raises ValueError for a bad option, a target that is no class, copies that leave nothing
    to attend to, deletion from an unknown model, and flash_attention_2.
    """
    check(model, batch.facts, removal)
    if keep.shape[1] != batch.present.shape[1]:
        raise ValueError(
            f"inputs has decoder_input_ids: {keep.shape[1]} tokens are asked for, and both texts "
            f"have {batch.present.shape[1]}; pass one text"
        )
    with torch.no_grad():
        kept = kept or whole(model, batch, readout)
        readout = readout.choose(kept.rows)
    of_copies = batch, example, keep, removal
    limits: dict[str, Any] = {"batch_size": batch_size, "memory": memory, "device": keep.device}
    plan = (_plan if kept.reads else _plan_whole)(model, *of_copies)
    if kept.witness is not None:
        found = _prove(model, batch, plan, readout, kept, kept.witness, removal=removal, **limits)
        if found is not None:
            return found
        kept = Whole(model, kept.rows)
        plan = _plan_whole(model, *of_copies)
    return _logits(model, batch, plan, readout, kept, removal=removal, **limits)


def _prove(
    model: PreTrainedModel,
    batch: Batch,
    plan: Copies,
    readout: Readout,
    kept: Whole,
    witness: Witness,
    **options: Any,
) -> Tensor | None:
    """Returns logits by a family's shortcuts, or None if the witness's differ when it runs whole.

    Half of the digits must agree.
    """
    mask = "attention-mask"
    own = _plan(model, batch, witness.example, witness.keep, mask)
    both = {key: torch.cat([x, own[key]]) for key, x in plan.items()}
    try:
        *_, last = found = _logits(model, batch, both, readout, kept, **options)
    except OF_OTHER_CODE:  # the copies run whole next, and raise it again
        return None
    want = torch.cat([each.of(witness.rows, witness.example) for each in readout.targets])
    logits = witness.rows.logits
    unit = max(torch.finfo(logits.dtype).eps, torch.finfo(torch.float32).eps)
    agree = (last - want).abs().max() <= unit**0.5 * logits.abs().max()
    return found[:-1] if agree else None


def _logits(
    model: PreTrainedModel,
    batch: Batch,
    plan: Copies,
    readout: Readout,
    kept: Whole,
    *,
    removal: str | int,
    **limits: Any,
) -> Tensor:
    """Returns the logits of every copy of ``plan``: (copy, target)."""
    reads, example = kept.reads, plan["example"]
    wide = torch.promote_types(model.dtype, torch.float32)
    shape = len(example), len(readout.targets)
    logits = torch.empty(shape, dtype=wide, device=example.device)
    # The user's own model may keep results of hooks, which no gradient could pass afterwards.
    with torch.no_grad() if reads is None else torch.inference_mode():
        of_text = [each.terms(kept.rows) for each in readout.targets]
        at = reuse(kept, projections=removal == "attention-mask")
        cache = prefix.shorten(model, batch, plan, readout, kept) if reads is None else None
        for chunk in _parts(model, reads, plan, readout, **limits):
            part = {key: x[chunk] for key, x in plan.items()}
            where = part["example"]
            if reads == families.FIRST:
                out = Rows(_run_encoder(kept, batch, part, at)[:, None], None)
            elif reads == families.LAST:
                out = Rows(_run_decoder(kept, batch, part)[:, None], None)
            elif cache is not None:
                out = prefix.run(model, batch, cache, part, readout.columns(where))
            else:
                out = _run_whole(kept, batch, part, readout)
            for n, each in enumerate(readout.targets):
                before = each.row[where] < part["first"][:, None]
                terms = torch.where(before, of_text[n][where], each.terms(out, where))
                logits[chunk, n] = terms.sum(dim=1).to(wide)
            del out  # otherwise it would wait for the next chunk
        if reads is None and removal == "attention-mask":
            check_effect(model, batch, plan, readout, kept, logits)
    return logits


def _parts(
    model: PreTrainedModel, reads: str | None, plan: Copies, readout: Readout, **limits: Any
) -> Iterator[Tensor]:
    """Yields copies that run together: all of them end at one column if their ends matter."""
    lengths, start = plan["runs"], plan["start"]
    cached = start + lengths if reads is None else start
    rows = len(readout.columns()) if heads.keeps_rows(model, readout.head) else None
    least = prefix.least(limits["device"]) if reads is None else 1
    need = memory_budget.bytes_of_a_copy(
        model, lengths, keys=start + lengths, kept=cached, rows=rows
    )
    for end in plan["end"].unique().flip(0):
        own = (plan["end"] == end).nonzero()[:, 0]
        for part in memory_budget.chunks(lengths[own], need[own], least=least, **limits):
            yield own[part]


def _plan(
    model: PreTrainedModel, batch: Batch, example: Tensor, keep: Tensor, removal: str | int
) -> Copies:
    """Plans each copy's run, as tensors of (copy, token) or (copy,).

    query: tokens that run   seen: tokens they attend to   ids, positions: of the tokens
    runs: how many tokens run, up to ``end``
    start: tokens before it are the whole text's, and their keys and values known
    first: rows before it have the whole text's logits
    """
    tokens = batch.ids.shape[1]
    columns = torch.arange(tokens, device=keep.device)
    read = batch.known_read[example]
    causal = batch.facts.reads == families.LAST
    present = (batch.attention_mask == 1)[example]
    seen, ids = keep & present, batch.ids[example]
    changed = present & ~keep
    if isinstance(removal, int):
        seen, ids = present, torch.where(changed, removal, ids)
    query, start = seen.clone(), torch.zeros_like(read)
    if causal:
        seen = seen & (columns <= read[:, None])
        check_something_is_left(seen, example)
        query &= columns <= read[:, None]
        if _has_window(batch.facts, tokens):  # counts columns: only deleted ones go
            query = columns <= read[:, None] if removal != "deletion" else query
        else:
            start = torch.where(changed, columns, tokens).amin(dim=1).minimum(read)
            query &= columns >= start[:, None]
    query = query.scatter(1, read[:, None], True)  # noqa: FBT003
    known = batch.position_ids
    positions = columns.expand(len(ids), -1) if known is None else known[example]
    if removal == "deletion":
        positions = positions - (changed & (columns != read[:, None])).cumsum(dim=1)
    none = torch.zeros_like(example)
    return {
        "example": example, "query": query, "seen": seen, "ids": ids, "start": start,
        "positions": positions.clamp(min=0), "runs": query.sum(dim=1), "first": none, "end": none,
    }  # fmt: skip


def _plan_whole(
    model: PreTrainedModel, batch: Batch, example: Tensor, keep: Tensor, removal: str | int
) -> Copies:
    """Plans copies for an unknown model: all columns run, as in the text."""
    present = (batch.present == 1)[example]
    changed = present & ~keep
    seen, ids = present, torch.cat(batch.texts, dim=1)[example]
    if removal == "attention-mask":
        seen = keep & present
        source = batch.attention_mask.shape[1]
        check_something_is_left(seen[:, :source] if source else seen, example)
    else:
        ids = torch.where(changed, replacement(model, batch, removal), ids)
    none = torch.zeros_like(example)
    tokens = none + keep.shape[1]
    return {
        "example": example, "changed": changed, "seen": seen, "ids": ids, "start": none,
        "first": none, "runs": tokens, "end": tokens,
    }  # fmt: skip


def _run_whole(kept: Whole, batch: Batch, part: Copies, readout: Readout) -> Rows:
    where, seen = part["example"], part["seen"].to(batch.attention_mask.dtype)
    inputs = batch.copies(where)
    source = batch.attention_mask.shape[1]
    if batch.input_ids is not None:
        inputs |= {"input_ids": part["ids"][:, :source], "attention_mask": seen[:, :source]}
    if batch.decoder_input_ids is not None:
        inputs |= {DECODER: part["ids"][:, source:], DECODER_MASK: seen[:, source:]}
    return readout.run(kept.model, inputs, where)


def _run_encoder(
    kept: Whole, batch: Batch, part: Copies, at: Callable[[Tensor, Tensor], None]
) -> Tensor:
    """Runs queries first, so that the row that is read is column 0; ``at`` is of ``reuse``."""
    width = int(part["runs"].max())
    front = (~part["query"]).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    inputs = {}
    if batch.token_type_ids is not None:
        inputs["token_type_ids"] = batch.token_type_ids[part["example"]].gather(1, front)
    at(part["example"], front)
    logits: Tensor = kept.model(
        input_ids=part["ids"].gather(1, front),
        attention_mask=part["seen"].gather(1, front).to(batch.attention_mask.dtype),
        position_ids=part["positions"].gather(1, front),
        **inputs,
    ).logits
    return logits


def _run_decoder(kept: Whole, batch: Batch, part: Copies) -> Tensor:
    """Runs queries last, after the cache, so that the row that is read is the last column."""
    model: Any = kept.model  # a known family, whose head is its score
    width = int(part["runs"].max())
    back = part["query"].to(torch.uint8).argsort(dim=1, stable=True)[:, -width:]
    known = int(part["start"].max())
    before = torch.arange(known, device=back.device) < part["start"][:, None]
    runs = part["seen"].gather(1, back) & part["query"].gather(1, back)
    mask = torch.cat([part["seen"][:, :known] & before, runs], dim=1)
    hidden = model.base_model(
        input_ids=part["ids"].gather(1, back),
        attention_mask=mask.to(batch.attention_mask.dtype),
        position_ids=part["positions"].gather(1, back),
        past_key_values=first_keys(kept.cache, part["example"], known),
        use_cache=False,
    ).last_hidden_state
    logits: Tensor = model.score(hidden[:, -1])
    return logits


def _has_window(facts: ModelFacts, tokens: int) -> bool:
    """Decides whether attention has a window of columns, which leaving some out would narrow."""
    window = getattr(facts.text, "sliding_window", None)
    return window is not None and window < 2 * tokens

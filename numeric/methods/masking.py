"""Logits of many copies of a batch with tokens removed, without waste."""

import torch
from torch import Tensor

from numeric import heads
from numeric.batches import DECODER, DECODER_MASK, PIXELS, Batch
from numeric.fast import families
from numeric.inputs import mask_problems, read_tokens
from numeric.methods import memory_budget, prefix
from numeric.methods.shared import Whole, first_keys, reads_of_stock, reuse, whole
from numeric.readout import Readout, Rows

REMOVALS = ("attention-mask", "deletion")
"""How tokens are removed; a token id instead puts that token, such as [MASK], in their place."""


def masked_logits(
    model,
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
    """What is read of copy n of ``example[n]``, from which all but ``keep[n]`` is removed.

    example: (copy,) index into the batch   keep: (copy, token) bool   -> (copy, target) logits
    ``removal``: "attention-mask" (§4.1) hides tokens as keys; "deletion" also moves what follows
    them up; a token id replaces them, and everything stays in view.
    Models that ``families`` does not know cannot delete, and run each copy whole, except that
    copies for causal language models begin where they differ (``prefix.shortened``).  Of an encoder
    with a decoder the mask hides tokens where the encoder attends to them, and, where it is given
    ``decoder_input_ids``, these from the decoder; ``keep`` then has the columns of both texts.
    Of the others it is exact, but cheaper than it looks.  A masked token has attention weight
    exactly 0, so it is left out of the forward pass, with the others at their own positions.  Only
    the token whose row the classifier reads stays as a query even when removed, and is never
    deleted.  Encoders
    project queries, keys and values of the first layer once per text, and run the last one
    behind its attention for one row; decoders keep what comes before the first removed token.
    Copies of like length run together, at most ``batch_size`` of them and what ``memory`` holds:
    bytes, or "auto" (``chunks``).  ``kept`` is ``whole(model, batch)``, if that is known.
    Logits come in float32 or wider.
    Raises ValueError for a bad option, a target that is no class, copies that leave nothing
    to attend to, deletion from an unknown model, and flash_attention_2.
    """
    check(model, removal)
    if keep.shape[1] != batch.present.shape[1]:
        raise ValueError(
            f"inputs has decoder_input_ids: {keep.shape[1]} tokens are asked for, and both texts "
            f"have {batch.present.shape[1]}; pass one text"
        )
    reads = kept.reads if kept else reads_of_stock(model)
    plan = PLANS[reads](model, batch, example, keep, removal)
    wide = torch.promote_types(model.dtype, torch.float32)
    shape = len(example), len(readout.targets)
    logits = torch.empty(shape, dtype=wide, device=keep.device)
    limits = {"batch_size": batch_size, "memory": memory, "device": keep.device}
    # The user's own model may keep what hooks make, which no gradient could pass afterwards.
    with torch.no_grad() if reads is None else torch.inference_mode():
        kept = kept or whole(model, batch, readout)
        readout = readout.choose(kept.rows)
        of_text = [each.terms(kept.rows) for each in readout.targets]
        at = reuse(kept, projections=removal == "attention-mask")
        cache = prefix.shortened(model, batch, plan, readout) if reads is None else None
        for chunk in _parts(model, reads, plan, readout, **limits):
            part = {key: x[chunk] for key, x in plan.items()}
            where = part["example"]
            if reads is not None:
                out = Rows(RUNS[reads](kept, batch, part, at)[:, None], None)
            elif cache is not None:
                out = prefix.run(model, batch, cache, part, readout.columns(where))
            else:
                out = _run_whole(kept, batch, part, readout)
            for n, each in enumerate(readout.targets):
                before = each.row[where] < part["first"][:, None]
                terms = torch.where(before, of_text[n][where], each.terms(out, where))
                logits[chunk, n] = terms.sum(dim=1).to(wide)
            del out  # or it would wait for the next chunk
        if reads is None and removal == "attention-mask":
            _check_effect(model, batch, plan, readout, kept, logits)
    return logits


def _parts(model, reads, plan, readout, **limits):
    """Copies that run together: all of them end at one column if their ends matter."""
    lengths, start = plan["runs"], plan["start"]
    cached = start + lengths if reads is None else start
    rows = len(readout.columns()) if heads.keeps_rows(model) else None
    least = prefix.least(limits["device"]) if reads is None else 1
    need = memory_budget.bytes_of_a_copy(
        model, lengths, keys=start + lengths, kept=cached, rows=rows
    )
    for end in plan["end"].unique().flip(0):
        own = (plan["end"] == end).nonzero()[:, 0]
        for part in memory_budget.chunks(lengths[own], need[own], least=least, **limits):
            yield own[part]


def _plan(model, batch, example, keep, removal):
    """What each copy runs, as tensors of (copy, token) or (copy,).

    query: tokens that run   seen: those attended to   ids, positions: what and where they are
    runs: how many tokens run, up to ``end``
    start: tokens before it are those of the whole text, and their keys and values known
    first: so are the logits of rows before it
    """
    tokens = batch.input_ids.shape[1]
    columns = torch.arange(tokens, device=keep.device)
    read = read_tokens(model, batch)[example]
    causal = families.reads(model) == families.LAST
    replaced = isinstance(removal, int)
    present = (batch.attention_mask == 1)[example]
    seen = present if replaced else keep & present
    ids = batch.input_ids[example]
    changed = present & ~keep
    if replaced:
        ids = torch.where(changed, removal, ids)
    query, start = seen.clone(), torch.zeros_like(read)
    if causal:
        seen = seen & (columns <= read[:, None])
        _something_is_left(seen, example)
        query &= columns <= read[:, None]
        if _in_place(model, tokens):
            query = columns <= read[:, None]
        else:
            start = torch.where(changed, columns, tokens).amin(dim=1).minimum(read)
            query &= columns >= start[:, None]
    query = query.scatter(1, read[:, None], True)  # noqa: FBT003
    positions = families.position_ids(model, batch.input_ids)
    positions = columns.expand(len(ids), -1) if positions is None else positions[example]
    if removal == "deletion":
        positions = positions - (changed & (columns != read[:, None])).cumsum(dim=1)
    none = torch.zeros_like(example)
    return {
        "example": example, "query": query, "seen": seen, "ids": ids, "start": start,
        "positions": positions.clamp(min=0), "runs": query.sum(dim=1), "first": none, "end": none,
    }  # fmt: skip


def _plan_whole(model, batch, example, keep, removal):
    """The same of a model of which nothing is known: all columns run, as they do of the text."""
    present = (batch.present == 1)[example]
    changed = present & ~keep
    seen, ids = present, torch.cat(batch.texts, dim=1)[example]
    if removal == "attention-mask":
        seen = keep & present
        source = batch.attention_mask.shape[1]
        _something_is_left(seen[:, :source] if source else seen, example)
    else:
        _check_replacement(model, batch, removal)
        ids = torch.where(changed, removal, ids)
    none = torch.zeros_like(example)
    tokens = none + keep.shape[1]
    return {
        "example": example, "changed": changed, "seen": seen, "ids": ids, "start": none,
        "first": none, "runs": tokens, "end": tokens,
    }  # fmt: skip


def _check_effect(model, batch, plan, readout, kept, logits):
    """Raises ValueError where no copy differs from its text, or from one of two, beyond rounding.

    Of what a decoder has written only what comes before some row can change it.
    """
    source, columns = batch.attention_mask.shape[1], plan["changed"].shape[1]
    row = readout.rows.amax(dim=1)[plan["example"]]
    changed = plan["changed"][:, :source].any(dim=1)
    before = torch.arange(columns - source, device=row.device) <= row[:, None]
    written = (plan["changed"][:, source:] & before).any(dim=1) & ~changed
    by_text = lambda each: torch.stack(each, dim=1).to(logits.dtype)[plan["example"]]
    whole = by_text([each.of(kept.rows) for each in readout.targets])
    size = by_text([each.size(kept.rows) for each in readout.targets])
    unit = torch.finfo(kept.rows.logits.dtype).eps
    unit = 16 * unit if unit < 1e-6 else 0  # of half precision one unit may be a real change
    same = (logits - whole).abs() <= unit * size
    for mask, fewer in (("attention_mask", changed), (DECODER_MASK, written)):
        if fewer.any() and same[fewer].all():
            raise ValueError(
                f"{mask} changes no logit of this {type(model).__name__}, which drops it; pass the "
                "id of a token to put in place, removal=tokenizer.mask_token_id"
            )


def _check_replacement(model, batch, removal):
    """Raises ValueError where removal may move the row that is read, or what stands there."""
    name = type(model).__name__
    by_column = families.is_causal(model) or batch.decoder_input_ids is not None
    if removal == "deletion":
        raise ValueError(
            f'removal="deletion": it is not known of a {name} which token its logits are read '
            'from, and how it counts positions; pass removal="attention-mask" or a token id'
        )
    if by_column:
        return
    if model.config.is_encoder_decoder or removal == model.config.get_text_config().pad_token_id:
        what = "the end of text" if model.config.is_encoder_decoder else "padding"
        raise ValueError(
            f"removal={removal}: a {name} may find the row of its logits by the id of {what}, and "
            'would then read another; pass removal="attention-mask"'
        )


def _run_whole(kept, batch, part, readout):
    where, seen = part["example"], part["seen"].to(batch.attention_mask.dtype)
    inputs = {key: x[where] for key, x in batch.arguments().items()}
    source = batch.attention_mask.shape[1]
    if batch.input_ids is not None:
        inputs |= {"input_ids": part["ids"][:, :source], "attention_mask": seen[:, :source]}
    if batch.decoder_input_ids is not None:
        inputs |= {DECODER: part["ids"][:, source:], DECODER_MASK: seen[:, source:]}
    return readout.run(kept.model, inputs, where)


def _run_encoder(kept, batch, part, at):
    """Queries come first, so that the row that is read is column 0."""
    width = int(part["runs"].max())
    front = (~part["query"]).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    inputs = {}
    if batch.token_type_ids is not None:
        inputs["token_type_ids"] = batch.token_type_ids[part["example"]].gather(1, front)
    at(part["example"], front)
    return kept.model(
        input_ids=part["ids"].gather(1, front),
        attention_mask=part["seen"].gather(1, front).to(batch.attention_mask.dtype),
        position_ids=part["positions"].gather(1, front),
        **inputs,
    ).logits


def _run_decoder(kept, batch, part, _at):
    """Queries come last, behind the cache, so that the row that is read is the last column."""
    width = int(part["runs"].max())
    back = part["query"].to(torch.uint8).argsort(dim=1, stable=True)[:, -width:]
    known = int(part["start"].max())
    before = torch.arange(known, device=back.device) < part["start"][:, None]
    runs = part["seen"].gather(1, back) & part["query"].gather(1, back)
    mask = torch.cat([part["seen"][:, :known] & before, runs], dim=1)
    hidden = kept.model.base_model(
        input_ids=part["ids"].gather(1, back),
        attention_mask=mask.to(batch.attention_mask.dtype),
        position_ids=part["positions"].gather(1, back),
        past_key_values=first_keys(kept.cache, part["example"], known),
        use_cache=False,
    ).last_hidden_state
    return kept.model.score(hidden[:, -1])


PLANS = {families.FIRST: _plan, families.LAST: _plan, None: _plan_whole}
RUNS = {families.FIRST: _run_encoder, families.LAST: _run_decoder}
"""By the token that is read, as far as ``families`` knows."""


def _in_place(model, tokens):
    """Whether attention reaches over a window of columns, which leaving out would narrow."""
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    return window is not None and window < 2 * tokens


def _something_is_left(seen, example):
    empty = example[~seen.any(dim=1)].unique().tolist()
    if empty:
        raise ValueError(
            f"nothing is left to attend to, up to the token that is read, in examples {empty}: "
            "leave these texts out of the batch"
        )


def check(model, removal) -> None:
    """Raises ValueError for an unknown way to remove tokens, and for attention that has another."""
    if getattr(model, "main_input_name", "") == PIXELS:
        raise ValueError(
            f"model is a {type(model).__name__}: tokens can be left out of texts, with a "
            "model such as BertForSequenceClassification"
        )
    size = getattr(model.config.get_text_config(), "vocab_size", 0)
    token = isinstance(removal, int) and not isinstance(removal, bool) and 0 <= removal < size
    if not token and removal not in REMOVALS:
        raise ValueError(
            f"removal={removal!r}: pass one of {', '.join(REMOVALS)}, or the id of a token to put "
            f"in place, such as tokenizer.mask_token_id (0 to {size - 1})"
        )
    kernel = str(model.config.get_text_config()._attn_implementation)
    if not token and "flash" in kernel:  # also of the names of kernels from the Hub
        raise ValueError(
            f"attention {kernel!r} leaves masked tokens out as queries too, and with them the row "
            'that the model reads; call model.set_attn_implementation("sdpa")'
        )
    for problem in () if token else mask_problems(model):
        raise ValueError(problem)

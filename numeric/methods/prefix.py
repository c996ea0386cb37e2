"""Shares everything before a change among copies of a text, in a causal language model."""

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from lrp_axioms.numeric.methods.shared import OF_OTHER_CODE, Copies, Whole, first_keys
from lrp_axioms.numeric.models import heads
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.models.identity import is_stock
from lrp_axioms.numeric.targets.chosen import Rows
from lrp_axioms.numeric.targets.readout import Readout

ON_CPU, ELSEWHERE = 128, 8192
"""Tokens at a time; fewer take hardly less time: measured on CPUs, assumed for GPUs."""


def least(device: torch.device) -> int:
    """Returns the least tokens of copies that run together, and the tokens to save to gain."""
    return ON_CPU if device.type == "cpu" else ELSEWHERE


def shorten(
    model: PreTrainedModel, batch: Batch, plan: Copies, readout: Readout, kept: Whole
) -> DynamicCache | None:
    """Leaves everything out of ``plan`` that copies of a causal model share with their texts.

    plan: by copy, as of ``masking``.  "start" becomes the first column that differs, or the last
    row that is read if that comes before, and "end" the column behind that row; "first" is the
    first column that differs; rows before it are the text's own.
    Returns the keys and values before these columns.  None leaves ``plan`` as it is: for
    models that cannot go on behind them (``of_text``), and where copies are too few to gain by it.
    ``kept`` remembers it for later copies, and the tokens that earlier copies could have left out.
    Raises ValueError where a row that is read would have no column left to attend to.
    """
    # The text of an image, or of an encoder and a decoder, is not the whole input.
    if readout.head != heads.NEXT or batch.decoder_input_ids is not None or batch.mixed:
        return None
    where, changed, tokens = plan["example"], plan["changed"], plan["changed"].shape[1]
    blind = _first_column(plan["seen"]) > readout.rows.amin(dim=1)[where]
    first, read = _first_column(changed), readout.rows.amax(dim=1)[where]
    runs = read + 1 - first.minimum(read)
    # The text itself runs for it, and two copies: both whole, and one from its middle on.
    price = 3.5 * batch.attention_mask.numel() + least(batch.device)
    kept.spared.append(spare := int((tokens - runs).sum()))
    pays = spare > least(batch.device) if kept.behind else sum(kept.spared) > price
    known = pays or blind.any()
    if known and not kept.behind:
        kept.behind.append(of_text(model, batch, readout))
    cache = kept.behind[0] if known else None
    if blind.any() and (
        cache is not None or any(getattr(x, "is_causal", False) for x in model.modules())
    ):
        raise ValueError(
            "nothing is left to attend to, up to the first row that is read, in examples "
            f"{where[blind].unique().tolist()}: explain later tokens, such as span(2, end)"
        )
    if cache is None:
        return None
    plan |= {"first": first, "start": first.minimum(read), "runs": runs, "end": read + 1}
    return cache


def _first_column(x: Tensor) -> Tensor:
    """Returns each row's first column that is not 0, or the number of columns."""
    return torch.where(x.any(dim=1), x.to(torch.uint8).argmax(dim=1), x.shape[1])


def of_text(model: PreTrainedModel, batch: Batch, readout: Readout) -> DynamicCache | None:
    """Returns keys and values of every token of ``batch`` for copies to continue from, or None.

    No table says which models can.  The batch runs with a cache of keys and values alone; then
    copies of every text, one without the token in its middle and one without the last, run both
    whole and behind that cache.  Half of the digits must agree: a token that sees later ones,
    another state than keys and values, or other positions change more than that.  Positions can
    differ in one text alone, because some models count them by the padding before them.
    """
    # Tokens that begin a chunk see themselves alone, and nothing if left out.  Stock attention then
    # reads all columns of a copy, and a shorter copy has fewer.
    chunked = "chunked_attention" in (getattr(batch.facts.text, "layer_types", None) or ())
    if chunked or not is_stock(model):
        return None
    cache = DynamicCache()
    try:
        readout.run(model, batch.arguments() | {"past_key_values": cache, "use_cache": True})
        if not cache.layers or not all(_has_all(x, batch) for x in cache.layers):
            return None
        texts = range(len(batch.ids))
        return cache if all(_can_continue(model, batch, readout, cache, n) for n in texts) else None
    except OF_OTHER_CODE:
        return None


def run(
    model: PreTrainedModel, batch: Batch, cache: DynamicCache, part: Copies, rows: Tensor
) -> Rows:
    """Returns the head's output for copies from the first ``start`` on, at ``rows`` from there.

    part: "example", "start" and "end", (copy,), and "ids" and "seen", (copy, token)
    """
    where, start, end = part["example"], int(part["start"].min()), int(part["end"].max())
    inputs = {
        "input_ids": part["ids"][:, start:end],
        "attention_mask": part["seen"][:, :end].to(batch.attention_mask.dtype),
        "past_key_values": first_keys(cache, where, start),
        "use_cache": True,
    }
    if batch.token_type_ids is not None:
        inputs["token_type_ids"] = batch.token_type_ids[where, start:end]
    rows = rows[rows >= start]
    return Rows(heads.run(model, inputs, rows - start, of=heads.NEXT), rows)


def _has_all(layer: object, batch: Batch) -> bool:
    keys = layer.keys if type(layer) is DynamicLayer else None
    return keys is not None and keys.shape[2] == batch.ids.shape[1]


def _can_continue(
    model: PreTrainedModel, batch: Batch, readout: Readout, cache: DynamicCache, number: int
) -> bool:
    """Decides whether copies without a middle token, or the last, agree both ways."""
    where = torch.tensor([number], device=batch.device)
    end = readout.rows[where].amax(dim=1) + 1
    before = (batch.attention_mask[number, :end] == 1).nonzero()[:, 0]
    if len(before) < 2:
        return False

    def agrees(token: Tensor) -> bool:
        """Decides whether a copy without one token agrees both ways."""
        seen = batch.attention_mask[where] == 1
        seen[0, token] = False
        rows = torch.cat([token, readout.columns(where)]).unique()
        part = {"example": where, "ids": batch.ids[where], "seen": seen}
        whole = {"start": 0 * token, "end": 0 * token + seen.shape[1]}
        found = run(model, batch, cache, part | {"start": token, "end": end}, rows).logits
        wanted = run(model, batch, cache, part | whole, rows).logits[:, -found.shape[1] :]
        unit = max(torch.finfo(wanted.dtype).eps, torch.finfo(torch.float32).eps)
        return bool((found - wanted).abs().max() <= unit**0.5 * wanted.abs().max())

    return agrees(before[len(before) // 2 :][:1]) and agrees(before[-1:])

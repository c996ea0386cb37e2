"""Ways to remove tokens from a text, and their refusals: each raises ValueError."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.shared import Copies, Whole
from lrp_axioms.numeric.models.batches import DECODER_MASK, PIXELS, Batch, takes_images
from lrp_axioms.numeric.models.checks import mask_problems
from lrp_axioms.numeric.models.facts import ModelFacts
from lrp_axioms.numeric.targets.readout import Readout

REMOVALS = ("attention-mask", "deletion")
"""Ways to remove tokens; a token id instead puts that token, such as [MASK], in their place."""


def check_something_is_left(seen: Tensor, example: Tensor) -> None:
    """Raises ValueError that lists the examples of copies that see nothing."""
    empty = example[~seen.any(dim=1)].unique().tolist()
    if empty:
        raise ValueError(
            f"nothing is left to attend to, up to the token that is read, in examples {empty}: "
            "leave these texts out of the batch"
        )


def check(model: PreTrainedModel, facts: ModelFacts, removal: str | int) -> None:
    """Raises ValueError for an unknown way to remove tokens, and for attention that has another."""
    if getattr(model, "main_input_name", "") == PIXELS and not takes_images(model):
        raise ValueError(
            f"model is a {type(model).__name__}: tokens can be left out of texts, with a "
            "model such as BertForSequenceClassification"
        )
    size = min(facts.words, facts.written_words)
    token = isinstance(removal, int) and not isinstance(removal, bool) and 0 <= removal < size
    if not token and removal not in REMOVALS:
        raise ValueError(
            f"removal={removal!r}: pass one of {', '.join(REMOVALS)}, or the id of a token to put "
            f"in place, such as tokenizer.mask_token_id (0 to {size - 1})"
        )
    if not token and "flash" in facts.attention:  # also in the names of kernels from the Hub
        raise ValueError(
            f"attention {facts.attention!r} drops the rows of masked tokens, also the row that "
            'the model reads; call model.set_attn_implementation("sdpa")'
        )
    for problem in () if token else mask_problems(facts):
        raise ValueError(problem)


def check_effect(
    model: PreTrainedModel,
    batch: Batch,
    plan: Copies,
    readout: Readout,
    kept: Whole,
    logits: Tensor,
) -> None:
    """Raises ValueError where no copy differs from its text, or from one of two, beyond rounding.

    A token of a causal model, or of a decoder, can change only its own row and later rows.
    """
    source, columns = batch.attention_mask.shape[1], plan["changed"].shape[1]
    row = readout.rows.amax(dim=1)[plan["example"]]
    before = torch.arange(columns, device=row.device) <= row[:, None]
    decoder = batch.decoder_input_ids is not None
    own = plan["changed"][:, :source]
    own = own & before[:, :source] if batch.facts.is_causal and not decoder else own
    changed = own.any(dim=1)
    written = (plan["changed"][:, source:] & before[:, : columns - source]).any(dim=1) & ~changed

    def of_copies(each: list[Tensor]) -> Tensor:
        return torch.stack(each, dim=1).to(logits.dtype)[plan["example"]]

    whole = of_copies([each.of(kept.rows) for each in readout.targets])
    size = of_copies([each.size(kept.rows) for each in readout.targets])
    unit = torch.finfo(kept.rows.logits.dtype).eps
    unit = 16 * unit if unit < 1e-6 else 0  # in half precision one unit may be a real change
    same = (logits - whole).abs() <= unit * size
    for mask, fewer in (("attention_mask", changed), (DECODER_MASK, written)):
        if not fewer.any() or not same[fewer].all():
            continue
        if not _has_effect(model, batch, readout, kept, unit, mask):
            raise ValueError(
                f"{mask} changes no logit of this {type(model).__name__}, which drops it; pass the "
                "id of a token to put in place, removal=tokenizer.mask_token_id"
            )


def _has_effect(
    model: PreTrainedModel, batch: Batch, readout: Readout, kept: Whole, unit: float, mask: str
) -> bool:
    """Decides whether hiding every second token changes a logit; a few hidden ones may not."""
    ids = batch.decoder_input_ids
    present = batch.attention_mask if ids is None or mask != DECODER_MASK else torch.ones_like(ids)
    hidden = {mask: present * (present.cumsum(dim=1) % 2)}
    rows = readout.run(model, batch.arguments() | hidden)
    return any(
        bool(((each.of(rows) - each.of(kept.rows)).abs() > unit * each.size(kept.rows)).any())
        for each in readout.targets
    )


def replacement(model: PreTrainedModel, batch: Batch, removal: str | int) -> int:
    """Returns the token to put in place.

    Raises ValueError where removal may move the row that is read, or change the token there.
    """
    name = type(model).__name__
    by_column = batch.facts.is_causal or batch.decoder_input_ids is not None
    if not isinstance(removal, int):
        raise ValueError(
            f'removal="{removal}": it is not known of a {name} which token its logits are read '
            'from, and how it counts positions; pass removal="attention-mask" or a token id'
        )
    if by_column:
        return removal
    facts = batch.facts
    if facts.two or removal == facts.padding_id:
        what = "the end of text" if facts.two else "padding"
        raise ValueError(
            f"removal={removal}: a {name} may find the row of its logits by the id of {what}, and "
            'would then read another; pass removal="attention-mask"'
        )
    return removal

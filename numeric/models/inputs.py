"""Checks the inputs that a user passes in, once, before anything runs."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.models import batches, families, heads
from lrp_axioms.numeric.models.batches import DECODER, KEYS, PIXELS, Batch, make_batch
from lrp_axioms.numeric.models.checks import mask_problems, model_problems
from lrp_axioms.numeric.models.facts import ModelFacts, Modules, facts_of, modules_of, reads_end
from lrp_axioms.numeric.models.identity import is_stock
from lrp_axioms.numeric.targets import problems as target_problems
from lrp_axioms.numeric.warning import warn_caller


def prepare(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    targets: Sequence[object] = (),
    modules: Modules | None = None,
) -> Batch:
    """Makes a Batch of ``inputs``, or raises one ValueError that lists all problems.

    Refuses a model in train mode, missing or unknown keys, wrong shapes, ids outside the
    vocabulary, more tokens than the model has positions, examples without tokens, a mask over
    the token that the model reads, and ``targets`` that are none for any model.  ``modules`` are
    the model's, if ``check_model`` has listed them.
    """
    modules = modules_of(model) if modules is None else modules
    structure = STRUCTURE.get(getattr(model, "main_input_name", ""), _structure_problems)
    if isinstance(inputs, Mapping) and "input_ids" in inputs and isinstance(model, PreTrainedModel):
        structure = _structure_problems if batches.takes_images(model) else structure
    problems = [*model_problems(model, modules), *structure(model, inputs)]
    if not problems:
        batch = make_batch(model, inputs, facts_of(model, [module for _, module in modules]))
        problems = [] if batch.input_ids is None else list(_value_problems(model, batch))
        problems += _written_problems(model, batch)
        problems += batches.pixel_problems(batch)
        problems += target_problems(targets, len(batch.attention_mask))
    if problems:
        raise ValueError("\n".join(problems))
    if batch.input_ids is not None:
        _warn_of_padding(model, batch)
    return batch


def _warn_of_padding(model: PreTrainedModel, batch: Batch) -> None:
    """Warns where padding moves a text to other positions, or where the head may read padding.

    The model's own logits are explained, which then differ from the logits of the text alone.
    """
    behind = (batch.attention_mask[:, -1] != 1).nonzero()[:, 0].tolist()
    if behind and reads_end(model):
        warn_caller(
            f"{type(model).__name__} reads the last column, which attention_mask hides in examples "
            f"{behind}; pad on the left, or pass one text at a time"
        )
    elif others := _others_behind(model, batch, behind):
        warn_caller(
            f"attention_mask hides ids other than pad_token_id={batch.facts.padding_id} behind "
            f"examples {others}; {type(model).__name__} may read one as the last token, and its "
            "logits are explained; pad with the id of model.config, or pass one text at a time"
        )
    moved = (batch.attention_mask[:, 0] != 1).nonzero()[:, 0].tolist()
    if moved and batch.facts.counts_columns:
        warn_caller(
            f"attention_mask hides the first column of examples {moved}, as padding on the left "
            f"does, and {type(model).__name__} numbers positions from that column on: its logits, "
            "which are explained, are not those of the text alone; pad on the right "
            '(tokenizer.padding_side = "right"), or pass one text at a time'
        )


def check_ids(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> None:
    """Raises ValueError for too many ids, and for ids outside the vocabulary of ``model``."""
    ids = inputs.get("input_ids")
    if ids is not None and (problems := [*_text_problems(ids, facts_of(model))]):
        raise ValueError("\n".join(problems))


def _structure_problems(model: PreTrainedModel, inputs: Mapping[str, object]) -> Iterator[str]:
    if not isinstance(inputs, Mapping):
        yield (
            f"inputs is a {type(inputs).__name__}; pass the tokenizer's batch, such as "
            'tokenizer(["a fine film"], padding=True, return_tensors="pt")'
        )
        return
    keys: tuple[str, ...] = (*KEYS, DECODER) if _has_decoder(model) else KEYS
    if inputs.get(PIXELS) is not None and batches.takes_images(model):
        keys = batches.named_with_images(model)
    unknown = [key for key, x in inputs.items() if key not in keys and x is not None]
    if unknown:
        yield f"inputs has {', '.join(map(repr, unknown))}; it may have {', '.join(keys)}"
    ids = inputs.get("input_ids")
    if ids is None:
        yield "inputs has no input_ids; pass the tokenizer's batch"
    for key, value in inputs.items():
        if key in keys and value is not None:
            yield from _tensor_problems(key, value, ids)


def _has_decoder(model: PreTrainedModel) -> bool:
    """Decides whether a model reads one text, and takes another that its decoder has written."""
    # The type of the model is not checked yet, so that ``facts_of`` may fail.
    two = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return bool(two) and DECODER in signature(model.forward).parameters


def _tensor_problems(key: str, value: object, ids: object) -> Iterator[str]:
    if isinstance(ids, Tensor) and (ids.is_nested or not ids.ndim):
        ids = None  # a problem of its own; it has no shape to compare with
    if key not in (*KEYS, DECODER):
        if not isinstance(value, Tensor) or not value.ndim or not len(value):
            yield f'{key} is no tensor of an image; call the processor with return_tensors="pt"'
        elif problem := batches.odd_tensor(key, value):
            yield problem
        elif key == PIXELS and not value.is_floating_point():
            yield f"{key} has dtype {value.dtype}; pass what the model's processor returns"
    elif not isinstance(value, Tensor):
        yield f'{key} is a {type(value).__name__}; call the tokenizer with return_tensors="pt"'
    elif problem := batches.odd_tensor(key, value):
        yield problem
    elif key != "attention_mask" and value.dtype not in (torch.int64, torch.int32):
        yield f"{key} has dtype {value.dtype}; pass int64"
    elif value.ndim != 2:
        yield f"{key} has shape {tuple(value.shape)}; it must be (batch, token)"
    elif key == DECODER and isinstance(ids, Tensor) and value.shape[0] != ids.shape[0]:
        yield f"{key} has {len(value)} examples, and input_ids {len(ids)}"
    elif key != DECODER and isinstance(ids, Tensor) and value.shape != ids.shape:
        yield f"{key} has shape {tuple(value.shape)} but input_ids {tuple(ids.shape)}"


def _value_problems(model: PreTrainedModel, batch: Batch) -> Iterator[str]:
    facts = batch.facts
    yield from _text_problems(batch.ids, facts)
    pixels = batch.pixel_values is not None
    yield from batches.placeholder_problems(model, batch.ids, pixels=pixels)
    if batch.token_type_ids is not None and facts.token_types is None:
        yield f"{type(model).__name__} has no token types; leave token_type_ids out of the inputs"
    elif batch.token_type_ids is not None and facts.token_types:  # DeBERTa with 0 ignores them
        yield from _range_problems("token type", batch.token_type_ids, facts.token_types)
    odd = batch.attention_mask[(batch.attention_mask != 0) & (batch.attention_mask != 1)]
    if len(odd):
        yield f"attention_mask has the value {odd[0].item()}; it must be 0 or 1"
    absent = batch.attention_mask != 1
    if absent.any():
        yield from mask_problems(facts)
    empty = absent.all(dim=1).nonzero()[:, 0].tolist()
    if empty:
        yield f"empty text: no token in examples {empty}; leave them out of the batch"
    if not len(batch.ids):
        yield "empty batch: input_ids has no examples; pass at least one text"
    if facts.reads == families.LAST and batch.ids.shape[1]:
        yield from _last_token_problems(batch, empty)
    headless = [row for row in range(len(absent)) if row not in empty and absent[row, 0]]
    if headless and facts.reads == families.FIRST and not is_stock(model):
        warn_caller(
            f"first token masked out in examples {headless}, and a stock {type(model).__name__} "
            "reads its logits there; pad on the right, unless your changes read another token"
        )
    elif headless and facts.reads == families.FIRST:
        yield (
            f"first token masked out in examples {headless}, although the model reads its logits "
            'there; pad on the right (tokenizer.padding_side = "right")'
        )


def _others_behind(model: PreTrainedModel, batch: Batch, rows: list[int]) -> list[int]:
    """Lists rows of decoders with another id than padding's behind the last token."""
    facts = batch.facts
    decodes = model.config.model_type in families.DECODERS and not facts.two
    if not (rows and decodes) or facts.head != heads.CLASSES or facts.reads == families.LAST:
        return []
    pad = -1 if facts.padding_id is None else facts.padding_id
    last = batches.last_column(batch.attention_mask)
    return [row for row in rows if (batch.ids[row, last[row] + 1 :] != pad).any()]


def _text_problems(ids: Tensor, facts: ModelFacts) -> Iterator[str]:
    tokens = ids.shape[1]
    if tokens > facts.positions:
        yield (
            f"text of {tokens} tokens is longer than the model's {facts.positions} positions; "
            "split or shorten it, or call attribute with tokenizer(text, truncation=True)"
        )
    yield from _range_problems("token id", ids, facts.words)


def _written_problems(model: PreTrainedModel, batch: Batch) -> Iterator[str]:
    """Yields problems of the text that a decoder has written so far."""
    written, facts = batch.decoder_input_ids, batch.facts
    if written is None:
        if _has_decoder(model) and model.can_generate() and facts.head == heads.CLASSES:
            yield (
                f"a {type(model).__name__} reads one text and writes another: pass {DECODER}, what "
                "it has written so far, or call lrp_axioms.explain_generation"
            )
        return
    yield from _range_problems("token id", written, facts.written_words)
    pad = -1 if facts.padding_id is None else facts.padding_id
    last = 1 + (pad == getattr(facts.text, "eos_token_id", None))  # a text may end with one
    padded = ((written[:, 1:][:, -last:] == pad).sum(dim=1) == last).nonzero()[:, 0].tolist()
    if padded and len(written) > 1:
        yield (
            f"{DECODER} ends with pad_token_id={pad} in examples {padded}, which the decoder reads "
            "as written text; pass texts of one length, or one example at a time"
        )
    most = facts.written_at_most
    if not 0 < written.shape[1] <= most:
        yield f"{DECODER} has {written.shape[1]} tokens; pass 1, with which it starts, to {most}"


STRUCTURE = {PIXELS: batches.image_problems, batches.SOUND: batches.sound_problems}
"""By the main input of a model, where that is no text."""


def _last_token_problems(batch: Batch, empty: list[int]) -> Iterator[str]:
    pad = batch.facts.padding_id
    if pad is None and len(batch.ids) > 1:
        yield (
            f"batch of {len(batch.ids)} texts, but the config has pad_token_id=None, by "
            "which the model finds the last token of each; set model.config.pad_token_id to the "
            "tokenizer's, or pass one text at a time"
        )
        return
    read = batch.attention_mask.gather(1, batch.known_read[:, None])[:, 0]
    hidden = [row for row in (read != 1).nonzero()[:, 0].tolist() if row not in empty]
    if hidden:
        yield (
            f"examples {hidden}: the model reads the last token whose id is not pad_token_id="
            f"{pad}, and attention_mask hides it; pad with that id"
        )


def _range_problems(name: str, ids: Tensor, size: int) -> Iterator[str]:
    wrong = ((ids < 0) | (ids >= size)).nonzero().tolist()
    if wrong:
        example, token = wrong[0]
        yield (
            f"{name} out of range at {len(wrong)} places, first {ids[example, token].item()} at "
            f"example {example}, token {token}; the model has 0 to {size - 1}: is this the "
            "model's own tokenizer?"
        )

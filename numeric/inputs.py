"""What a user passes in, checked once, before anything runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

KEYS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Batch:
    """A tokenizer's batch on the model's device; every tensor is (batch, token)."""

    input_ids: Tensor
    attention_mask: Tensor  # 1 at tokens, 0 at padding
    token_type_ids: Tensor

    def arguments(self) -> dict[str, Tensor]:
        return vars(self).copy()

    def rows(self, index, *, tokens: int | None = None) -> "Batch":
        """The examples ``index`` (with repeats), cut after their first ``tokens`` columns."""
        return Batch(*(x[index, :tokens] for x in vars(self).values()))


def prepare(model: nn.Module, inputs: Mapping[str, Tensor]) -> Batch:
    """``inputs`` as a Batch, or one ValueError that lists everything that is wrong.

    Refuses a model in train mode, missing or unknown keys, wrong shapes, ids outside the
    vocabulary, more tokens than the model has positions, and examples without tokens.
    """
    problems = list(_structure_problems(model, inputs))
    if not problems:
        batch = _to_batch(model, inputs)
        problems = list(_value_problems(model, batch))
    if problems:
        raise ValueError("\n".join(problems))
    return batch


def _to_batch(model, inputs):
    ids = inputs["input_ids"]
    filled = {"attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    filled |= {key: value for key, value in inputs.items() if value is not None}
    return Batch(*(filled[key].to(model.device) for key in KEYS))


def _structure_problems(model, inputs):
    if not isinstance(model, PreTrainedModel):
        yield f"model is a {type(model).__name__}; pass a Transformers sequence classifier"
        return
    training = [path or "(root)" for path, m in model.named_modules() if m.training]
    if training:
        yield (
            f"train mode: {len(training)} modules, first {training[0]}: dropout would make "
            "relevance random; call model.eval() first"
        )
    if not isinstance(inputs, Mapping):
        yield (
            f"inputs is a {type(inputs).__name__}; pass the tokenizer's batch, such as "
            'tokenizer(["a fine film"], padding=True, return_tensors="pt")'
        )
        return
    unknown = [key for key in inputs if key not in KEYS]
    if unknown:
        yield f"inputs has {', '.join(map(repr, unknown))}; it may have {', '.join(KEYS)}"
    ids = inputs.get("input_ids")
    if ids is None:
        yield "inputs has no input_ids; pass the tokenizer's batch"
    for key, value in inputs.items():
        if key in KEYS and value is not None:
            yield from _tensor_problems(key, value, ids)


def _tensor_problems(key, value, ids):
    if not isinstance(value, Tensor):
        yield f'{key} is a {type(value).__name__}; call the tokenizer with return_tensors="pt"'
    elif value.is_floating_point() and key != "attention_mask":
        yield f"{key} has dtype {value.dtype}; pass integers"
    elif value.ndim != 2:
        yield f"{key} has shape {tuple(value.shape)}; it must be (batch, token)"
    elif isinstance(ids, Tensor) and value.shape != ids.shape:
        yield f"{key} has shape {tuple(value.shape)} but input_ids {tuple(ids.shape)}"


def _value_problems(model, batch):
    limit = partial(getattr, model.config)
    tokens, positions = batch.input_ids.shape[1], limit("max_position_embeddings", 1 << 62)
    if tokens > positions:
        yield (
            f"text of {tokens} tokens is longer than the model's {positions} positions; pass "
            "truncation=True to the tokenizer, or split the text"
        )
    yield from _range_problems("token id", batch.input_ids, limit("vocab_size", 1 << 62))
    yield from _range_problems("token type", batch.token_type_ids, limit("type_vocab_size", 1))
    odd = batch.attention_mask[(batch.attention_mask != 0) & (batch.attention_mask != 1)]
    if len(odd):
        yield f"attention_mask has the value {odd[0].item()}; it must be 0 or 1"
    empty = (batch.attention_mask != 1).all(dim=1).nonzero()[:, 0].tolist()
    if empty or not len(batch.input_ids):
        yield f"empty text: no token in example {empty or 'list'}; leave it out of the batch"


def _range_problems(name, ids, size):
    wrong = ((ids < 0) | (ids >= size)).nonzero().tolist()
    if wrong:
        example, token = wrong[0]
        yield (
            f"{name} out of range at {len(wrong)} places, first {ids[example, token].item()} at "
            f"example {example}, token {token}; the model has 0 to {size - 1}: is this the "
            "model's own tokenizer?"
        )


def choose(logits: Tensor, target) -> tuple[Tensor, Tensor]:
    """The explained class and its logit, (batch,) each; ``target`` as in ``attribute``.

    Raises ValueError for non-finite logits and for classes that the model does not have.
    """
    if logits.ndim != 2:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}; only sequence classifiers, with logits "
            "(batch, class), can be explained"
        )
    broken = (~logits.isfinite()).any(dim=1).nonzero()[:, 0].tolist()
    if broken:
        raise ValueError(
            f"non-finite logits in examples {broken}: {logits[broken[0]].tolist()}; check the "
            "weights, or load the model in float32"
        )
    size, classes = logits.shape
    if target is None:
        chosen = logits.detach().argmax(dim=1)
    else:
        chosen = _as_classes(target, size, classes).to(logits.device)
    return chosen, logits.gather(1, chosen[:, None])[:, 0]


def _as_classes(target, size, classes):
    chosen = torch.as_tensor(target)
    if chosen.is_floating_point() or chosen.dtype == torch.bool or chosen.ndim > 1:
        raise ValueError(f"target={target!r}: pass None, an int, or one int per example")
    if chosen.ndim == 1 and len(chosen) != size:
        raise ValueError(f"target has {len(chosen)} entries for {size} examples")
    wrong = chosen[(chosen < 0) | (chosen >= classes)].tolist() if chosen.ndim else []
    if chosen.ndim == 0 and not 0 <= chosen < classes:
        wrong = [chosen.item()]
    if wrong:
        raise ValueError(f"target {wrong} out of range; the model has classes 0 to {classes - 1}")
    return chosen.long().expand(size)

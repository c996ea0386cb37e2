"""Reads the head of a model: one row of logits per text, or one per token."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from inspect import signature

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.utils.generic import ModelOutput

from lrp_axioms.numeric.models import families

CLASSES, NEXT, MASKED, TAGS, ANSWER = "classes", "next token", "masked token", "tags", "answer"

TABLES = {
    MASKED: (modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, "ForMaskedLM"),
    TAGS: (modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES, "ForTokenClassification"),
    ANSWER: (modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES, "ForQuestionAnswering"),
}
"""By kind of head the table of Transformers that lists its classes, and their names' ending."""

PIXELS = "pixel_values"
ENDS = {"start": 0, "end": 1}
"""Rows of a head that finds an answer: one for its first token, and one for its last."""


INSTEAD = (
    "attribute() explains classifiers of texts, tokens and images, question answering and language "
    "models; for another number, call attribute(model, inputs, of=NAMES, read=FUNCTION)"
)


class NoLogits(ValueError):
    """A model gives nothing that can be explained."""


def kind(cls: type) -> str:
    """Returns the kind of head of a class that is no causal language model, by name or base."""
    return _named(frozenset(base.__name__ for base in cls.__mro__))


def kind_of(classes: Iterable[str]) -> str:
    """Returns the kind of head of a model whose class has one of these names."""
    names = frozenset(classes)
    return NEXT if names & families.CAUSAL else _named(names)


@lru_cache(maxsize=256)
def _named(names: frozenset[str]) -> str:
    for found, (table, ending) in TABLES.items():
        if not names.isdisjoint(table.values()) or any(x.endswith(ending) for x in names):
            return found
    return CLASSES


def run(model: nn.Module, inputs: Mapping[str, object], rows: Tensor | None, *, of: str) -> Tensor:
    """Runs a forward pass and reads its logits, of ``rows`` alone where every token has a row.

    Language models that can leave out the other rows do so, unless an image may have put rows
    of its own before them.
    """
    if keeps_rows(model, of) and PIXELS not in inputs:
        return read(model, model(**inputs, logits_to_keep=rows), of=of)
    logits = read(model, model(**inputs), of=of)
    text = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    if rows is not None and isinstance(text, Tensor) and PIXELS in inputs:
        _check_rows(model, logits, text)
    return logits if rows is None else logits[:, rows]


def _check_rows(model: nn.Module, logits: Tensor, text: Tensor) -> None:
    if logits.shape[1] != text.shape[1]:
        raise NoLogits(
            f"{type(model).__name__} gives {logits.shape[1]} rows of logits for {text.shape[1]} "
            "tokens, so that the row of a token is not known; explain a model whose image takes "
            "the place of placeholders in the text"
        )


def keeps_rows(model: nn.Module, head: str) -> bool:
    """Decides whether a language model computes the logits of given rows alone."""
    return head == NEXT and "logits_to_keep" in signature(model.forward).parameters


def read(model: nn.Module, output: ModelOutput, *, of: str) -> Tensor:
    """Returns the logits of a kind of head: (batch, row, class), or (batch, class) of one row.

    The rows of an answer are its ends, and its classes the tokens of the text.
    Raises NoLogits for a model that gives other logits, or none.
    """
    if of == ANSWER:
        return torch.stack([_of(model, output, f"{end}_logits", 2) for end in ENDS], dim=1)
    trains = any(base.__name__.endswith("ForPreTraining") for base in type(model).__mro__)
    if of == CLASSES and trains and "logits" in output:
        raise NoLogits(f"{type(model).__name__} gives a logit to every token; {INSTEAD}")
    return _of(model, output, "logits", 2 if of == CLASSES else 3)


def rounding(model: PreTrainedModel, logits: Tensor) -> float:
    """Returns the difference between logits that rounding explains: half of the model's digits."""
    unit = max(torch.finfo(dtype).eps for dtype in (model.dtype, logits.dtype, torch.float32))
    return float(unit**0.5 * logits.abs().max())


def _of(model: nn.Module, output: ModelOutput, name: str, axes: int) -> Tensor:
    found = getattr(output, name, None)
    if isinstance(found, Tensor) and found.ndim == axes:
        return found
    gives = f"{name} of shape {tuple(found.shape)}" if isinstance(found, Tensor) else "no " + name
    raise NoLogits(f"{type(model).__name__} gives {', '.join(output)}, and {gives}; {INSTEAD}")

"""A small random model of any architecture, and inputs for it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests.census.images import image_with_text
from tests.census.sizes import END, MARK, PAD, SIZE, tiny

TASKS = {
    "sequence classification": transformers.AutoModelForSequenceClassification,
    "token classification": transformers.AutoModelForTokenClassification,
    "question answering": transformers.AutoModelForQuestionAnswering,
    "masked language modelling": transformers.AutoModelForMaskedLM,
    "causal language modelling": transformers.AutoModelForCausalLM,
    "image classification": transformers.AutoModelForImageClassification,
    "images and text": transformers.AutoModelForImageTextToText,
}
CLASSES, TAGS, ANSWERS, MASKED, CAUSAL, IMAGES, MIXED = TASKS
NAMED = {
    "dual encoders": transformers.AutoModelForZeroShotImageClassification,
    "classification of sounds": transformers.AutoModelForAudioClassification,
}
"""Tasks of models that are explained at named tensors."""
DUAL, SOUNDS = NAMED

UNFIT = {
    "bros": "reads the boxes of words",
    "gemma4_assistant": "reads the keys of another model",
    "gemma4_unified_assistant": "reads the keys of another model",
    "lxmert": "reads images and texts",
    "mra": "has an attention of zeros without its CUDA kernel",
    "musicgen": "is a decoder of sounds inside another model",
    "musicgen_melody": "is a decoder of sounds inside another model",
    "pp_lcnet": "gives no logits",
    "shieldgemma2": "reads images and texts",
    "siglip2": "reads images cut into patches",
}
"""Why an architecture that Transformers counts to a task cannot be given the task's inputs."""


class Unfit(Exception):
    """An architecture that cannot be run as its task is."""


def architectures(task: str) -> list[str]:
    """The types of model that Transformers has for a task."""
    return list((TASKS | NAMED)[task]._model_mapping._model_mapping)


def build(model_type: str, task: str) -> nn.Module:
    """A model of one architecture in float64 and eval mode, with nothing zero and no two alike.

    Raises Unfit, or whatever its configuration or its class does.
    """
    if model_type in UNFIT and task != MIXED:
        raise Unfit(UNFIT[model_type])
    config = _for_task(tiny(model_type), task)
    torch.manual_seed(0)
    # Experts one by one: their grouped products have no float64.
    kind = (TASKS | NAMED)[task]
    model = kind.from_config(config, experts_implementation="eager").double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        for name, moving in model.named_buffers():
            if re.search(r"running_(mean|var)", name):
                moving += 0.2 * torch.rand_like(moving)
    return model


def _for_task(config, task):
    for part in (config, config.get_text_config(decoder=True)):
        if getattr(part, "pad_token_id", None) is None:
            part.pad_token_id = PAD
    cls = (TASKS | NAMED)[task]._model_mapping[type(config)]
    if isinstance(cls, tuple):  # the first is the plain one
        config.architectures = [cls[0].__name__]
    if "classification" in task:
        config.num_labels = 3
    if task == CAUSAL and hasattr(config, "is_decoder"):
        config.is_decoder = True
    if task == CAUSAL and hasattr(config, "causal"):
        config.causal = True
    return config


def inputs(model: nn.Module, task: str) -> dict[str, Tensor]:
    """Two texts of 8 and 6 tokens, padded on the right, or two images, or one with a text."""
    if task == MIXED:
        return image_with_text(model)
    drawn = torch.Generator().manual_seed(1)
    if task == IMAGES and model.main_input_name != "input_ids":
        return {"pixel_values": torch.randn(2, 3, SIZE, SIZE, dtype=torch.float64, generator=drawn)}
    ids = torch.randint(10, 50, (2, 8), generator=drawn)
    ids[0, -1] = ids[1, 5] = END
    if task == ANSWERS:
        ids[0, [1, 3, 4]] = ids[1, [1, 2, 3]] = torch.tensor([MARK, END, END])
    mask = torch.ones_like(ids)
    ids[1, 6:] = mask[1, 6:] = PAD
    return {"input_ids": ids, "attention_mask": mask}


def with_inputs(model_type: str, task: str = CLASSES) -> tuple[nn.Module, dict[str, Tensor]]:
    """The model of ``build`` and the batch of ``inputs`` for it."""
    model = build(model_type, task)
    return model, inputs(model, task)


@contextmanager
def float64() -> Iterator[None]:
    """Keeps models' casts to float32 in float64, so that rounding hides no error.

    Several run in float64 in no other way.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Doubled():
            yield
    finally:
        torch.set_default_dtype(before)


class _Doubled(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        wide = lambda x: torch.float64 if x is torch.float32 else x
        func = Tensor.double if func is Tensor.float else func
        return func(*map(wide, args), **{key: wide(x) for key, x in (kwargs or {}).items()})

"""Takes the visible state of a model, a folder and the libraries, and compares messages."""

import re

import pytest
import torch
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import _get_current_function_mode_stack
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from numeric import attribute
from numeric.models.patches import OF_TRANSFORMERS


def state(model):
    return model.state_dict().values()


def snapshot(model):
    """All that the modules of a model hold, its config, and the flags and values of tensors."""
    held = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            held[path, name] = value
            if isinstance(value, dict):  # parameters, buffers, children, every kind of hook
                held |= {(path, name, key): entry for key, entry in value.items()}
    config = {key: repr(value) for key, value in vars(model.config).items()}
    flags = [
        (p.requires_grad, p.grad is None, p.is_inference() or p._version)
        for p in model.parameters()
    ]
    tensors = (x.detach().clone(memory_format=torch.contiguous_format) for x in state(model))
    values = [x.flatten().view(torch.uint8) for x in tensors]  # in bytes NaN equals itself
    return held, config, flags, values


def assert_same(before, after):
    held, config, flags, values = before
    held_after, config_after, flags_after, values_after = after
    assert list(held) == list(held_after)
    assert [key for key in held if held[key] is not held_after[key]] == []
    assert config == config_after
    assert flags == flags_after
    assert all(torch.equal(x, y) for x, y in zip(values, values_after, strict=True))


def registries():
    """The visible state that libraries keep for all models of a process or a thread."""
    of_modules = {
        name: dict(value)
        for name, value in vars(torch.nn.modules.module).items()
        if name.startswith("_global") and isinstance(value, dict)
    }
    return {
        "attention": dict(ALL_ATTENTION_FUNCTIONS),
        "masks": dict(ALL_MASK_ATTENTION_FUNCTIONS),
        "hooks of modules": of_modules,
        "modes": list(_get_current_function_mode_stack()),
        "saved": torch._C._autograd._top_saved_tensors_default_hooks(False),  # noqa: FBT003
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default": torch.get_default_dtype(),
        "functions": {name: getattr(functional, name) for name in dir(functional)},
        "of tensors": {name: getattr(torch.Tensor, name) for name in vars(torch.Tensor)},
    }


def watch(module, look):
    """Calls ``look(output)`` when ``module`` runs, or a twin with its weights; a ``with`` block."""
    places = lambda other: [x.data_ptr() for x in other.parameters()]

    def hook(other, _arguments, output):
        if type(other) is type(module) and places(other) == places(module):
            look(output)

    hook.__module__ = OF_TRANSFORMERS[0]  # a hook of a user would turn off all shortcuts
    return register_module_forward_hook(hook)


def failing(model):
    """The last layer of a tiny BERT fails in mid-forward; a ``with`` block."""

    def fail(_):
        raise ArithmeticError("in mid-forward")

    return watch(model.bert.encoder.layer[1].output, fail)


def refused(error, model, batch, method="attnlrp", call=attribute, **options):
    """The message of the one error; the model must be as it was."""
    before = snapshot(model)
    with pytest.raises(error) as caught:
        call(model, batch, method, **options)
    assert_same(before, snapshot(model))
    assert type(caught.value) is error
    return str(caught.value)


NOTHING = "returns nothing that relevance reaches by these rules"


def listed(model, batch, method, at):
    """The modules without relevance that one error lists, each with its reason."""
    first, *lines, last = refused(ValueError, model, batch, method, at=at).splitlines()
    assert first == "no relevance can be read at these modules:"
    assert last == "leave them out"
    return dict(line.split(maxsplit=1) for line in lines)


def contains(message, *parts):
    for part in parts:
        assert part in message, message


def said(message, promised):
    """Holds each line of a message to its promise; "..." stands for any words."""
    patterns = [".*".join(map(re.escape, line.split("..."))) for line in promised.splitlines()]
    assert len(patterns) == len(message.splitlines()), message
    for pattern, line in zip(patterns, message.splitlines(), strict=True):
        assert re.search(pattern, line), f"{pattern}\n{message}"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def every_file(folder):
    """The bytes of all files below a folder, by their places in it."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}

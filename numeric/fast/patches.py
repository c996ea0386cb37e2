"""Reversible changes to module instances: each returns the function that undoes it."""

import copy
from contextlib import ExitStack, contextmanager

from torch import nn

_ACTIVE: set[int] = set()
"""Identities of the modules inside an open scope, which keeps them alive."""


def set_attribute(module: nn.Module, name: str, value):
    """Sets an instance attribute; the undo restores the instance dictionary exactly."""
    missing = object()
    before = module.__dict__.get(name, missing)
    module.__dict__[name] = value

    def undo():
        if before is missing:
            del module.__dict__[name]
        else:
            module.__dict__[name] = before

    return undo


def change_output(module: nn.Module, change):
    """``change`` may also only look: what returns None leaves the output as it is."""
    return module.register_forward_hook(lambda _m, _i, output: change(output)).remove


def change_input(module: nn.Module, change):
    return module.register_forward_pre_hook(lambda _m, args: (change(args[0]), *args[1:])).remove


def set_attention(module: nn.Module, name: str):
    """One attention module under another implementation; its own config is left as it is."""
    config = copy.copy(module.config)
    config._attn_implementation = name
    return set_attribute(module, "config", config)


@contextmanager
def attention_implementation(model: nn.Module, name: str):
    """``model`` with another attention implementation, its own config object left as it is.

    Setting it on the config, the official way, would switch every model that shares the config.
    """
    copies: dict[int, object] = {}
    with ExitStack() as undo:
        for module in model.modules():
            config = module.__dict__.get("config")
            if hasattr(config, "_attn_implementation"):
                switched = copies.setdefault(id(config), copy.copy(config))
                switched._attn_implementation = name
                undo.callback(set_attribute(module, "config", switched))
        yield


@contextmanager
def exclusive(model: nn.Module):
    """Refuses a second scope on any module of ``model`` while this one is open."""
    modules = list(model.modules())
    ids = {id(module) for module in modules}
    if not _ACTIVE.isdisjoint(ids):
        raise RuntimeError(
            f"{type(model).__name__} already has propagation rules applied; leave the first "
            "scope before entering a second one"
        )
    _ACTIVE.update(ids)
    try:
        yield
    finally:
        _ACTIVE.difference_update(ids)


@contextmanager
def frozen(model: nn.Module):
    """Parameters need no gradient here, and without one the graph keeps fewer activations."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(requires_grad=True)

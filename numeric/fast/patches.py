"""Reversible changes to module instances: each returns the function that undoes it."""

import copy
from collections.abc import Iterable
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


def set_attention(module: nn.Module, name: str, configs: dict[int, object]):
    """One module under another attention implementation, its own config object left as it is.

    Setting it on the config, the official way, would switch every model that shares the config.
    ``configs`` keeps those switched to ``name`` by the identity of their originals.
    """
    own = module.config
    if id(own) not in configs:
        configs[id(own)] = copy.copy(own)
        configs[id(own)]._attn_implementation = {"": name}  # a name alone reaches configs within
    return set_attribute(module, "config", configs[id(own)])


@contextmanager
def attention_implementation(modules: Iterable[nn.Module], name: str):
    """All of ``modules`` under another attention implementation, for as long as the block lasts."""
    configs: dict[int, object] = {}
    with ExitStack() as undo:
        for module in modules:
            if hasattr(module.__dict__.get("config"), "_attn_implementation"):
                undo.callback(set_attention(module, name, configs))
        yield


@contextmanager
def exclusive(modules: Iterable[nn.Module]):
    """Refuses a second scope on any of a model's ``modules``, root first, while this is open."""
    modules = list(modules)
    ids = {id(module) for module in modules}
    if not _ACTIVE.isdisjoint(ids):
        raise RuntimeError(
            f"{type(modules[0]).__name__} already has propagation rules applied; leave the first "
            "scope before entering a second one"
        )
    _ACTIVE.update(ids)
    try:
        yield
    finally:
        _ACTIVE.difference_update(ids)


@contextmanager
def frozen(modules: Iterable[nn.Module]):
    """Parameters need no gradient here, and without one the graph keeps fewer activations."""
    trainable = [x for x in own_parameters(modules) if x.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(requires_grad=True)


def own_parameters(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Of all modules of a root what its ``parameters()`` gives, much faster; some several times."""
    return [x for module in modules for x in module._parameters.values() if x is not None]

"""Hooks and options are put on a twin of a model, so that the model itself is never changed."""

import copy
from collections.abc import Iterable
from functools import cache

from torch import nn

OWN = ("_buffers", "_forward_hooks", "_forward_pre_hooks")
"""Tables of a module, beside parameters and children, of which a twin has its own."""


def twin(model: nn.Module) -> nn.Module:
    """A model with modules of its own and the tensors of ``model``, whose parameters are frozen.

    Whoever runs ``model`` meanwhile, in another thread or in a hook, runs the stock model, and
    whatever breaks off leaves nothing behind.  Parameters need no gradient here, and without one
    the graph keeps fewer activations.
    """
    twins: dict[nn.Module, nn.Module] = {}
    frozen = cache(_frozen)  # parameters that modules share stay one
    for module in model.modules():
        twins[module] = object.__new__(type(module))
        held = vars(twins[module])
        held.update(vars(module))
        for name in OWN:
            held[name] = held[name].copy()
        parameters = module._parameters.items()
        held["_parameters"] = {name: frozen(x) for name, x in parameters}
    for module, other in twins.items():
        children = module._modules.items()
        vars(other)["_modules"] = {name: twins.get(child) for name, child in children}
    return twins[model]


def _frozen(parameter):
    trains = parameter is not None and parameter.requires_grad
    return nn.Parameter(parameter, requires_grad=False) if trains else parameter


def set_attribute(module: nn.Module, name: str, value) -> None:
    vars(module)[name] = value


def change_output(module: nn.Module, change) -> None:
    """``change`` may also only look: what returns None leaves the output as it is."""
    module.register_forward_hook(lambda _m, _i, output: change(output))


def change_input(module: nn.Module, change) -> None:
    module.register_forward_pre_hook(lambda _m, args: (change(args[0]), *args[1:]))


def set_option(module: nn.Module, option: str, value, configs: dict[int, object]) -> None:
    """One module under another value of an option, its config object left as it is.

    Setting it on the config, the official way, would change every model that shares the config.
    ``configs`` keeps the changed copies by the identity of their originals.
    """
    own = module.config
    if id(own) not in configs:
        configs[id(own)] = copy.copy(own)
        setattr(configs[id(own)], option, value)
    vars(module)["config"] = configs[id(own)]


def set_everywhere(modules: Iterable[nn.Module], option: str, value) -> None:
    """All of ``modules`` whose config has the option under another value of it."""
    configs: dict[int, object] = {}
    for module in modules:
        if hasattr(vars(module).get("config"), option):
            set_option(module, option, value, configs)


def attention_implementation(modules: Iterable[nn.Module], name: str) -> None:
    set_everywhere(modules, "_attn_implementation", {"": name})


def own_parameters(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Of all modules of a root what its ``parameters()`` gives, much faster; some several times."""
    return [x for module in modules for x in module._parameters.values() if x is not None]

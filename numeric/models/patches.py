"""Puts hooks and options on a twin of a model, so that the model itself is never changed."""

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar, cast

from torch import nn
from torch.utils.hooks import RemovableHandle

OWN = ("_buffers", "_forward_hooks", "_forward_pre_hooks")
"""Tables of a module that a twin has of its own, beside parameters and children."""
FUNCTIONS = (FunctionType, BuiltinFunctionType)
OF_TRANSFORMERS = ("transformers.utils.output_capturing", "transformers.modeling_utils")
"""Modules of hooks that stock models keep, such as after ``output_attentions=True``."""

Model = TypeVar("Model", bound=nn.Module)


def twin(model: Model) -> Model:
    """Returns a copy with its own modules and the tensors of ``model``; parameters are frozen.

    Whoever runs ``model`` meanwhile, in another thread or in a hook, runs the stock model, and
    whatever breaks off leaves nothing behind.  Parameters need no gradient here, and without one
    the graph keeps fewer activations.
    A forward in place of a module's own goes along if it is a method or a ``partial``.
    Raises ValueError where it is another function or object, or a method or ``partial`` of one,
    which may hold the modules of ``model`` itself.
    """
    functions = [
        path or "(root)"
        for path, module in model.named_modules()
        if module._modules and _may_hold(vars(module).get("forward"))
    ]
    if functions:
        raise ValueError(
            f"replaced forward of {len(functions)} modules, {', '.join(functions)}: a copy of the "
            "modules has to run, and such code may hold the originals; put a method of a module "
            "there (types.MethodType), or restore the forward of the class (del module.forward)"
        )
    twins: dict[nn.Module, nn.Module] = {}
    frozen = cache(_freeze)  # parameters that modules share stay one
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
        vars(other)["_modules"] = {
            name: None if x is None else twins.get(x) for name, x in children
        }
        if "forward" in vars(module):
            vars(other).update({name: _move_to_twin(x, twins) for name, x in vars(other).items()})
    return cast(Model, twins[model])


def _may_hold(forward: Any) -> bool:
    """Decides whether a replaced forward may hold modules of the original."""
    is_partial = isinstance(forward, partial)
    while isinstance(forward, partial):
        forward = forward.func
    if isinstance(forward, MethodType):
        return not isinstance(forward.__self__, nn.Module)
    return forward is not None and not (is_partial and isinstance(forward, FUNCTIONS))


def _move_to_twin(x: Any, twins: Mapping[nn.Module, nn.Module]) -> Any:
    """Moves a method of a module, or a partial call with one, to the module's twin."""
    if isinstance(x, nn.Module):
        return twins.get(x, x)
    if isinstance(x, MethodType):
        return MethodType(x.__func__, _move_to_twin(x.__self__, twins))
    if isinstance(x, partial):
        named = {name: _move_to_twin(y, twins) for name, y in x.keywords.items()}
        new = partial(
            _move_to_twin(x.func, twins), *(_move_to_twin(y, twins) for y in x.args), **named
        )
        vars(new).update(vars(x))  # forward's signature is read from these
        return new
    return x


def _freeze(parameter: nn.Parameter | None) -> nn.Parameter | None:
    if parameter is None or not parameter.requires_grad:
        return parameter
    return nn.Parameter(parameter, requires_grad=False)


def is_of_transformers(hook: object) -> bool:
    return getattr(hook, "__module__", "") in OF_TRANSFORMERS


def is_altered(model: nn.Module) -> bool:
    """Decides whether a hook or a replaced forward may change a model's results."""
    return any(
        "forward" in vars(module)
        or any(
            not is_of_transformers(hook)
            for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
        )
        for module in model.modules()
    )


def change_output(module: nn.Module, change: Callable[[Any], Any]) -> RemovableHandle:
    """Hooks ``change`` to the output; where it returns None the output stays as it is."""
    return module.register_forward_hook(lambda _m, _i, output: change(output))


def change_input(module: nn.Module, change: Callable[[Any], Any]) -> RemovableHandle:
    """Hooks ``change`` to the first argument."""
    return module.register_forward_pre_hook(lambda _m, args: (change(args[0]), *args[1:]))


def set_everywhere(modules: Iterable[nn.Module], option: str, value: object) -> None:
    """Sets an option of all ``modules`` whose config has it; their config objects stay as they are.

    Setting it on a config, the official way, would change every model that shares the config.
    """
    copies: dict[int, Any] = {}  # by the identity of their originals
    for module in modules:
        own = vars(module).get("config")
        if hasattr(own, option):
            if id(own) not in copies:
                copies[id(own)] = copy.copy(own)
                setattr(copies[id(own)], option, value)
            vars(module)["config"] = copies[id(own)]


def attention_implementation(modules: Iterable[nn.Module], name: str) -> None:
    set_everywhere(modules, "_attn_implementation", {"": name})


def own_parameters(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    """Lists all parameters of a root, much faster than ``parameters()``; shared ones repeat."""
    return [x for module in modules for x in module._parameters.values() if x is not None]

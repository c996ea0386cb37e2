"""Decides whether a model equals a new model of its class and config, and runs library code."""

import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial, partialmethod
from types import FunctionType, MethodType
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from transformers import PreTrainedModel, masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from numeric.stock.patches import is_of_transformers

Code = tuple[type, bytes]
LIBRARIES = tuple(os.path.dirname(str(x.__file__)) + os.sep for x in (torch, transformers))
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
OWN = {"training", "gradient_checkpointing", "generation_config"}
"""Public attributes of a module without an effect on a forward pass in eval mode."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TABLES = ("_parameters", "_buffers", "_modules")


def is_stock(model: PreTrainedModel) -> bool:
    """Whether ``model`` has the modules and attributes of ``type(model)(model.config)`` and runs no
    code but code of PyTorch and Transformers.

    Ignores the values of weights, and looks at the model on every call.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    everywhere = [getattr(torch_module, f"_global{table}") for table in HOOKS]
    hooks = [
        hook for table in everywhere for hook in table.values() if not is_of_transformers(hook)
    ]
    if not all(_is_of_a_library(file) for hook in hooks for file in _files(hook)):
        return False
    held = (getattr(x, "config", None) for x in modules.values())
    attention = {str(getattr(config, "_attn_implementation", None)) for config in held}
    classes = {type(x) for x in modules.values()}
    return _runs_code_of_libraries(classes, attention) and _is_as_made(model, modules)


def code_of_stock(model: PreTrainedModel) -> Code | None:
    """The class and config of a stock model, which determine its code; None of other models."""
    return (type(model), pickle.dumps(model.config)) if is_stock(model) else None


def _is_as_made(model: PreTrainedModel, modules: Mapping[str, nn.Module]) -> bool:
    cls: Any = type(model)  # mypy does not accept it as a key of a cache
    try:
        made = _made(cls, pickle.dumps(model.config))
    except Exception:  # a changed config may make no model
        return False
    stock = dict(made.named_modules(remove_duplicate=False))
    configs = model.config, made.config
    return modules.keys() == stock.keys() and all(
        type(x) is type(stock[path]) and _reads_alike(x, stock[path], configs)
        for path, x in modules.items()
    )


@lru_cache(maxsize=4)  # class and config determine the result
def _made(cls: Callable[..., PreTrainedModel], config: bytes) -> PreTrainedModel:
    """Makes a model without weights; ``cls`` must be library code."""
    with torch.device("meta"):
        return cls(pickle.loads(config))


def _reads_alike(module: nn.Module, stock: nn.Module, configs: tuple[object, object]) -> bool:
    """Whether library code that reads ``module`` finds the attributes of ``stock``.

    An attribute that only ``module`` has counts if it hides an attribute of the class.
    """
    held, known = vars(module), vars(stock)
    for table in TABLES:
        if {name: x is None for name, x in held[table].items()} != {
            name: x is None for name, x in known[table].items()
        }:
            return False
    if any(not is_of_transformers(x) for table in HOOKS for x in held[table].values()):
        return False
    public = {x for x in {*held, *known} - OWN if not x.startswith("_")}
    read = [x for x in public if x in known or hasattr(type(module), x)]
    if any(x.startswith("_") and callable(held[x]) and hasattr(type(module), x) for x in held):
        return False
    if not all(x in held and x in known for x in read):
        return False
    if any(x is not None and not _is_numbered(x) for x in module._buffers.values()):
        return False
    pairs = [(held[x], known[x]) for x in read]
    return all(x is configs[0] if y is configs[1] else _are_alike(x, y) for x, y in pairs)


def _is_numbered(buffer: Tensor) -> bool:
    """Whether integers in a buffer are all 0 or 0, 1, 2, ..., as in stock positions and types.

    No other table says where a token stands; those of other numbers are like weights.
    """
    if buffer.dtype != torch.int64 or buffer.device.type == "meta":
        return True
    columns = torch.arange(buffer.shape[-1] if buffer.ndim else 1, device=buffer.device)
    return not buffer.any() or bool((buffer == columns).all())


def _are_alike(x: object, y: object) -> bool:
    if isinstance(x, Tensor) or isinstance(y, Tensor):  # in place of a number
        return False
    if isinstance(x, partial) and isinstance(y, partial):
        return (x.func, x.args, x.keywords) == (y.func, y.args, y.keywords)
    return bool(x == y)


def _runs_code_of_libraries(classes: set[type], attention: set[str]) -> bool:
    """Whether every function of ``classes``, their bases and their files is from a library.

    A function of a patched class, a replaced function in a modelling file, and attention registered
    under the name of stock attention are not.
    """
    every = {base for cls in classes for base in cls.__mro__ if issubclass(base, nn.Module)}
    names = {cls.__module__ for cls in every}
    files = [sys.modules[name] for name in names if name.startswith("transformers.models.")]
    tables = [*map(vars, (*every, *files, nn.functional, masking_utils))]
    for registered in (ALL_ATTENTION_FUNCTIONS, masking_utils.ALL_MASK_ATTENTION_FUNCTIONS):
        tables.append({name: x for name, x in registered.items() if name in attention})
    return all(name.startswith(("torch.", "transformers.")) for name in names) and all(
        _is_of_a_library(name) for table in tables for x in table.values() for name in _files(x)
    )


def _files(x: object) -> Iterator[str]:
    """The files of the code that a call of ``x`` runs: decorators and decorated functions."""
    while x is not None:
        if isinstance(x, FunctionType):
            yield x.__code__.co_filename
            x = getattr(x, "__wrapped__", None)
        elif isinstance(x, (staticmethod, classmethod, MethodType)):
            x = x.__func__
        elif isinstance(x, (partial, partialmethod)):
            x = x.func
        elif isinstance(x, property):
            x = x.fget
        else:
            file = getattr(sys.modules.get(type(x).__module__), "__file__", None)
            if callable(x) and not isinstance(x, type) and type(x).__module__ != "builtins":
                yield file or ""
            return


def _is_of_a_library(file: str) -> bool:
    return file.startswith(LIBRARIES) or os.path.dirname(file) == STANDARD_LIBRARY

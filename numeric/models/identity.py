"""Decides whether a model equals a new model of its class and config, and runs library code."""

import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from transformers import PreTrainedConfig, PreTrainedModel, masking_utils
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import GeneralInterface

from lrp_axioms.numeric.models.patches import is_of_transformers

Code = tuple[type, bytes]
PACKAGES = ("torch", "transformers", "huggingface_hub", "safetensors", "tqdm", "accelerate")
"""Transformers imports functions of each, and of the last where it is installed."""
LIBRARIES = (
    *(os.path.dirname(str(x.origin)) + os.sep for x in map(find_spec, PACKAGES) if x is not None),
    str(find_spec("typing_extensions").origin),  # type: ignore[union-attr]
)
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
PLAIN = {
    *(type(None), bool, int, float, str, tuple, list, dict, set, frozenset, torch.dtype),
    *(BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ModuleType),
    *(GetSetDescriptorType, MethodWrapperType, ClassMethodDescriptorType, type),
}
"""Types of values that run no code of Python."""
OWN = {"training", "gradient_checkpointing", "generation_config"}
"""Public attributes of a module without an effect on a forward pass in eval mode."""
REGISTERED = ALL_ATTENTION_FUNCTIONS, masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
TABLES = ("_parameters", "_buffers", "_modules")


def is_stock(model: PreTrainedModel) -> bool:
    """Decides whether ``model`` has the modules and attributes of ``type(model)(model.config)`` and
    runs no code but code of PyTorch and Transformers.

    Ignores the values of weights, and looks at the model on every call.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    everywhere = [getattr(torch_module, f"_global{table}") for table in HOOKS]
    hooks = [
        hook for table in everywhere for hook in table.values() if not is_of_transformers(hook)
    ]
    if not _are_of_libraries(hooks):
        return False
    held = (getattr(x, "config", None) for x in modules.values())
    attention = {str(getattr(config, "_attn_implementation", None)) for config in held}
    classes = {type(x) for x in modules.values()}
    return _runs_code_of_libraries(classes, attention) and _is_as_made(model, modules)


def added_attributes(model: PreTrainedModel) -> Iterator[Any]:
    """Yields the values of attributes that a stock ``model`` has and a new model lacks."""
    cls: Any = type(model)
    stock = dict(_make(cls, pickle.dumps(model.config)).named_modules(remove_duplicate=False))
    for path, module in model.named_modules(remove_duplicate=False):
        known = vars(stock[path])
        yield from (x for name, x in vars(module).items() if name not in known)


def code_of_stock(model: PreTrainedModel) -> Code | None:
    """Returns class and config of a stock model, which determine its code; None for others."""
    return (type(model), pickle.dumps(model.config)) if is_stock(model) else None


def _is_as_made(model: PreTrainedModel, modules: Mapping[str, nn.Module]) -> bool:
    cls: Any = type(model)  # mypy does not accept it as a key of a cache
    try:
        made = _make(cls, pickle.dumps(model.config))
    except Exception:  # a changed config may make no model
        return False
    stock = dict(made.named_modules(remove_duplicate=False))
    configs = model.config, made.config
    return [*modules] == [*stock] and all(  # a list of layers runs them in this order
        type(x) is type(stock[path]) and _reads_alike(x, stock[path], configs)
        for path, x in modules.items()
    )


@lru_cache(maxsize=4)  # class and config determine the result
def _make(cls: Callable[..., PreTrainedModel], config: bytes) -> PreTrainedModel:
    """Makes a model without weights; ``cls`` must be library code."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # some draw on meta, too
        return cls(pickle.loads(config))


def _reads_alike(module: nn.Module, stock: nn.Module, configs: tuple[object, object]) -> bool:
    """Decides whether library code that reads ``module`` finds the attributes of ``stock``.

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
    buffers = module._buffers.items()
    if any(x is not None and not _is_numbered(name, x) for name, x in buffers):
        return False
    pairs = [(held[x], known[x]) for x in read]
    return all(x is configs[0] if y is configs[1] else _are_alike(x, y) for x, y in pairs)


def _is_numbered(name: str, buffer: Tensor) -> bool:
    """Decides whether integers in a buffer are 0, 1, 2, ..., as in stock positions, or 0 elsewhere.

    No other table says where a token stands; other numbers are like weights.
    """
    if buffer.is_floating_point() or buffer.is_complex() or buffer.device.type == "meta":
        return True
    if buffer.dtype == torch.bool:  # masks
        return False
    columns = torch.arange(buffer.shape[-1] if buffer.ndim else 1, device=buffer.device)
    return bool((buffer == columns).all()) or ("position" not in name and not buffer.any())


def _are_alike(x: object, y: object) -> bool:
    if isinstance(x, Tensor) or isinstance(y, Tensor):  # in place of a number
        return False
    if isinstance(x, partial) and isinstance(y, partial):
        return (x.func, x.args, x.keywords) == (y.func, y.args, y.keywords)
    if isinstance(x, PreTrainedConfig) and isinstance(y, PreTrainedConfig):  # equal by some fields
        one, other = vars(x), vars(y)
        return one.keys() == other.keys() and all(_are_alike(one[key], other[key]) for key in one)
    try:
        return bool(x == y)
    except Exception:  # configs of layers that differ refuse to be compared
        return pickle.dumps(x) == pickle.dumps(y)


def _runs_code_of_libraries(classes: set[type], attention: set[str]) -> bool:
    """Decides whether every function that ``classes`` may call is from a library.

    A function of a patched class, a replaced function, and attention registered under the name of
    stock attention are not from a library.
    """
    tables = tables_of(classes)
    if tables is None:
        return False
    registered = [{name: x for name, x in t.items() if name in attention} for t in REGISTERED]
    return _are_of_libraries(x for table in (*tables, *registered) for x in table.values())


def tables_of(classes: set[type]) -> list[Mapping[str, Any]] | None:
    """Lists the tables of all functions that ``classes`` may call, without registered attention.

    They are functions of the classes and their bases, of their files, of files that these
    import from, and of torch.  Returns None for a class outside of PyTorch and Transformers.
    """
    every = {base for cls in classes for base in cls.__mro__ if issubclass(base, nn.Module)}
    files = {cls.__module__ for cls in every}
    if not all(name.startswith(("torch.", "transformers.")) for name in files):
        return None
    tables: list[Mapping[str, Any]] = [
        *map(vars, (*every, nn.functional, torch, Tensor, torch._C.TensorBase))
    ]
    files = {name for name in files if name.startswith("transformers.models.")}
    functions = [x for table in REGISTERED for x in table.values() if isinstance(x, FunctionType)]
    files |= {x.__module__ for x in functions if x.__module__.startswith("transformers.")}
    files |= {name for file in files for name in _imported_files(file)}
    tables += map(vars, {x for name in files for x in _classes(name) if x.__module__ in files})
    files |= {name for file in files for name in _imported_files(file)}
    found = [vars(sys.modules[name]) for name in files]
    return [*tables, *found, *_registered(x for table in found for x in table.values())]


def _registered(values: Iterable[object]) -> list[Mapping[str, Any]]:
    """Lists tables of further registered functions, such as experts and own attention."""
    found = {id(x): x for x in values if isinstance(x, GeneralInterface)}
    others = [x for x in found.values() if all(x is not known for known in REGISTERED)]
    return [table for x in others for table in (x._local_mapping, x._global_mapping)]


def _are_of_libraries(values: Iterable[object]) -> bool:
    rest = [x for x in values if type(x) not in PLAIN]
    plain = [x for x in rest if type(x) is FunctionType and not x.__dict__]  # most of them
    files = {x.__code__.co_filename for x in plain}
    others = {id(x): x for x in rest if type(x) is not FunctionType or x.__dict__}
    files |= {file for x in others.values() for file in _files(x)}
    return all(map(_is_of_a_library, files))


def _classes(file: str) -> list[type]:
    """Lists classes that a file of Transformers names, such as caches, without data classes."""
    named = [x for x in vars(sys.modules[file]).values() if isinstance(x, type)]
    return [x for x in named if x.__module__.startswith("transformers.") and not is_dataclass(x)]


def _imported_files(file: str) -> set[str]:
    """Names the files of Transformers that a file imports functions and classes from."""
    named = (getattr(x, "__module__", None) for x in vars(sys.modules[file]).values())
    return {
        x
        for x in named
        if isinstance(x, str) and x.startswith("transformers.") and x in sys.modules
    }


def _files(x: object) -> Iterator[str]:
    """Yields files of the code that a call of ``x`` runs: decorators and decorated functions."""
    while x is not None:
        if isinstance(x, FunctionType):
            yield x.__code__.co_filename
        elif isinstance(x, torch.jit.ScriptFunction):
            known = x.qualified_name.startswith(("__torch__.torch.", "__torch__.transformers."))
            yield LIBRARIES[0] if known else ""
        elif isinstance(x, (type, ModuleType)) or not (callable(x) or hasattr(type(x), "__get__")):
            return
        elif type(x).__module__ != "builtins":
            yield getattr(sys.modules.get(type(x).__module__), "__file__", None) or ""
        inner = (getattr(x, name, None) for name in ("__wrapped__", "__func__", "func", "fget"))
        x = next((y for y in inner if y is not None), None)


def _is_of_a_library(file: str) -> bool:
    standard = file.startswith(("<frozen ", STANDARD_LIBRARY)) and "site-packages" not in file
    return standard or file.startswith(LIBRARIES)

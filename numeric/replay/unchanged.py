"""Decides whether a stock model, its code or the settings of torch have changed since a call.

Tables of modules, weights, hooks, settings and functions are compared with copies: every entry must
be the object that it was, or an equal number or text.  Values of weights may change, because a tape
reads them anew.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.activations import ACT2FN

from lrp_axioms.numeric.models.facts import modules_of
from lrp_axioms.numeric.models.identity import (
    REGISTERED,
    added_attributes,
    is_stock,
    tables_of,
)

OWN = (
    "lrp_axioms.numeric.engine.",
    "lrp_axioms.numeric.methods.lrp",
    "lrp_axioms.numeric.models.",
    "lrp_axioms.numeric.targets.",
    "lrp_axioms.axioms.composites",
    "lrp_axioms.axioms.kinds",
)
"""Files of this package whose functions decide on operations."""
DATA = (
    *(bool, int, float, str, torch.dtype, torch.device, Tensor),
    *(PreTrainedConfig, PreTrainedTokenizerBase),
)
"""Types whose values hold no reference to a model."""
SINGLE = (PreTrainedConfig, Tensor)  # unlike ones may be equal
LOADING = "transformers.core_model_loading"  # a loaded model keeps the record of renamed weights
CACHES = ("CALLS", "_AT_ZERO", "__builtins__")
"""Their tables that change from call to call, and change no answer."""


class Snapshot:
    """Everything that the operations of a model's call depend on, beside its inputs."""

    def __init__(self, model: nn.Module) -> None:
        modules = [module for _, module in modules_of(model)]
        self.inner = modules[1:]  # a snapshot must not keep the model itself
        tables = [t for m in modules for t in (m._parameters, m._buffers)]
        self.weights: list[Tensor] = [x for t in tables for x in t.values() if x is not None]
        self.tables: list[Any] = []
        self.copies: list[Any] = []
        self.empty: list[Any] = []
        self.single: list[tuple[Any, Any]] = []
        self.known: set[int] = set()
        self._add(map(vars, modules), inside=True)
        own = [vars(sys.modules[x]) for x in sorted(sys.modules) if x.startswith(OWN)]
        self._add(own, inside=True)
        classes = {x for table in own for x in table.values() if isinstance(x, type)}
        self._add(vars(x) for x in classes if x.__module__.startswith(OWN))
        self._add(tables_of({type(m) for m in modules}) or ())
        self._add(_of_all_models())
        copies = [x for x in self.copies if isinstance(x, dict)]
        self.functions = [x for t in copies for x in t.values() if type(x) is FunctionType]
        self.rest = self._rest(model)

    @classmethod
    def of(cls, model: PreTrainedModel) -> "Snapshot | None":
        """Returns a snapshot of a stock model (``is_stock``), and None of any other.

        Returns None, too, if an added attribute may refer to the model and so keep it alive.
        """
        try:
            return cls(model) if is_stock(model) and _is_plain([*added_attributes(model)]) else None
        except Exception:  # an attribute of a user cannot be copied
            return None

    def is_current(self, model: nn.Module) -> bool:
        """Decides whether nothing of the ``model`` that this is of has changed."""
        try:
            same: bool = self.tables == self.copies and self.rest == self._rest(model)
            return same and not any(self.empty)
        except Exception:  # values that cannot be compared are not the ones of the copy
            return False

    def _rest(self, model: nn.Module) -> list[Any]:
        """Lists classes, code, settings, and where weights are stored; buffers by gradient too."""
        stored = [
            (x.data_ptr(), x.shape, x.stride(), x.dtype, x.requires_grad and type(x) is Tensor)
            for x in self.weights
        ]
        modules = [module for _, module in modules_of(model)]  # in the order of a list of layers
        code = [x.__code__ for x in self.functions]
        defaults = [y for x in self.functions for y in (x.__defaults__, x.__kwdefaults__)]
        single = [id(table.get(name)) for table, name in self.single]
        same = [*map(id, modules)], [*map(type, modules)], single
        return [*same, code, defaults, settings(), stored]

    def _add(self, tables: Iterable[Any], *, inside: bool = False) -> None:
        """Adds tables that are not yet there; ``inside``: with all tables that these hold."""
        for table in tables:
            if id(table) in self.known:
                continue
            self.known.add(id(table))
            if not table:
                self.empty.append(table)
                continue
            kind: Any = next((x for x in (list, set) if isinstance(table, x)), dict)
            # A subclass may be made of other arguments, or give other values.
            copy = kind(dict.items(table) if isinstance(table, dict) else table)
            self.tables.append(table)
            self.copies.append(copy)
            named = copy.items() if isinstance(copy, dict) else ()
            self.single += [(table, n) for n, x in named if isinstance(x, SINGLE)]
            if inside:
                self._add(_inner(copy), inside=True)


def _is_plain(x: Any) -> bool:
    """Decides whether ``x`` is data alone."""
    if isinstance(x, dict):
        return _is_plain([*x.keys(), *x.values()])
    if isinstance(x, list | tuple | set | frozenset):
        return all(map(_is_plain, x))
    return x is None or isinstance(x, DATA) or type(x).__module__ == LOADING


def _inner(table: Any) -> Iterator[Any]:
    named = table.items() if isinstance(table, dict) else enumerate(table)
    for name, x in named:
        if isinstance(x, PreTrainedConfig):
            yield vars(x)
        elif isinstance(x, dict | list | set) and name not in CACHES:
            yield x


def _of_all_models() -> Iterator[Any]:
    """Yields tables of hooks of all modules, of registered attention, and of activations."""
    yield ACT2FN  # that some models read in every call
    named = ((name, x) for name, x in vars(torch_module).items() if name.startswith("_global_"))
    yield from (x for _, x in named if isinstance(x, dict))  # beside a flag that only they use
    for registered in REGISTERED:
        yield from (registered._local_mapping, registered._global_mapping)


def settings() -> tuple[Any, ...]:
    """Returns the settings of torch, and of the environment, that choose operations."""
    cuda = torch.backends.cuda
    return (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.fp16_bf16_reduction_math_sdp_allowed(),
        tuple(torch._C._get_sdp_priority_order()),
        torch.backends.mkldnn.enabled,
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_autocast_enabled("cuda"),  # which code may ask for on a CPU, too
        os.environ.get("TRANSFORMERS_SDPA_FORCE_GQA"),  # which attention reads in every call
    )


def is_watched() -> bool:
    """Decides whether code around this call may see or change operations of this thread."""
    return bool(
        torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._autograd._top_saved_tensors_default_hooks(False)  # noqa: FBT003
        or not torch._C._autograd._saved_tensors_hooks_is_enabled()
        or torch._C._functorch.maybe_current_level() is not None
        or torch.is_anomaly_enabled()
    )

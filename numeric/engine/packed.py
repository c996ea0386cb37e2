"""Shows the products of modules whose code is hidden from torch.

Most are linear layers of other libraries.  Weights of torchao and quanto need nothing here: they
are tensors that know the numbers they stand for, given to a function that torch shows.
"""

import copy
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lrp_axioms.numeric.engine import rules
from lrp_axioms.numeric.models import patches
from lrp_axioms.numeric.models.patches import Model

BLOOM = "transformers.models.bloom.modeling_bloom"
LIBRARIES = {"bitsandbytes", "hqq"}


def _four_bits(module: Any) -> Tensor:
    from bitsandbytes import functional as bnb

    data, state = module.weight.data, module.weight.quant_state
    if getattr(state, "packing_format_for_cpu", False):  # after a pass without gradients
        state = copy.copy(state)
        state.original_nested = False  # its scales are numbers now, and stay numbers
        data, state = bnb._convert_weight_packed_for_cpu_inverse(data, state)
        state.absmax = state.absmax.T.flatten().float()
    weight: Tensor = bnb.dequantize_4bit(data, state)
    return weight


def _eight_bits(module: Any) -> Tensor:
    from transformers.integrations.bitsandbytes import dequantize_bnb_weight

    weight: Tensor = dequantize_bnb_weight(module.weight, module.state)
    return weight


WEIGHTS: dict[str, Callable[[Any], Tensor]] = {
    "bitsandbytes.nn.modules.Linear4bit": _four_bits,
    "bitsandbytes.nn.modules.Linear8bitLt": _eight_bits,
    "hqq.core.quantize.HQQLinear": lambda module: module.dequantize(),
}
"""By class of such a library: the weight in full, (output, input)."""
FUNCTIONS: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    f"{BLOOM}.BloomGelu": lambda: sys.modules[BLOOM].bloom_gelu_forward
}
"""By class of modules with a gradient of their own: their function, made of torch's."""


@cache
def _names(classes: tuple[type, ...]) -> list[str]:
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in classes]


def _look_up(table: Mapping[str, Any], module: nn.Module) -> Any:
    """Looks the class of a module, or a base of it, up in a table; None if it has neither."""
    return next((table[name] for name in _names(type(module).__mro__) if name in table), None)


def modules(model: nn.Module) -> list[str]:
    """Lists the paths of modules whose product torch does not show."""
    loaded = any(name in sys.modules for name in LIBRARIES)
    return _paths(model, WEIGHTS) if loaded else []


def _functions(model: nn.Module) -> list[str]:
    """Lists the paths of modules whose function torch does not show; only Bloom has some."""
    own = any(cls.__module__ == BLOOM for cls in type(model).__mro__)
    return _paths(model, FUNCTIONS) if own else []


def _paths(model: nn.Module, table: Mapping[str, Any]) -> list[str]:
    return [path for path, module in model.named_modules() if _look_up(table, module)]


class Packed(Tensor):
    """The weight of such a module; ``functional.linear`` by it calls the module's own code."""

    module: nn.Module
    run: Callable[[Tensor], Tensor]

    @staticmethod
    def of(module: nn.Module, forward: Callable[[Tensor], Tensor]) -> "Packed":
        weight: Packed = Tensor._make_subclass(Packed, torch.empty(0))
        weight.module, weight.run = module, forward
        return weight

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is functional.linear:
            x, weight, _ = args
            with torch.no_grad():
                z = weight.run(x)
            return rules.quantised(z, x, weight)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def dequantize(self) -> Tensor:
        read = _look_up(WEIGHTS, self.module)
        if read is None:
            raise LookupError(
                f"no weight of a {type(self.module).__name__} can be read; see WEIGHTS"
            )
        weight: Tensor = read(self.module)
        return weight


def check(model: nn.Module) -> None:
    """Raises ValueError for a model with such modules, which is to run by its own code."""
    if paths := modules(model):
        kind = type(model.get_submodule(paths[0])).__name__
        raise ValueError(
            f"{len(paths)} modules, first {paths[0]} ({kind}), hide their products: call "
            "attribute(), which shows them, or model.dequantize().eval() first"
        )


def unpack(model: Model) -> Model:
    """Returns ``model``, or a twin that calls functions of torch in place of such modules.

    The twin computes the model's numbers, rounding included.
    """
    linear, functions = modules(model), _functions(model)
    if not linear and not functions:
        return model
    twin = patches.twin(model)
    for path in linear:
        module = twin.get_submodule(path)
        weight = Packed.of(module, module.forward)
        vars(module)["forward"] = partial(_linear, weight, module)
    for path in functions:
        module = twin.get_submodule(path)
        vars(module)["forward"] = _look_up(FUNCTIONS, module)()
    return twin


def _linear(weight: Packed, module: Any, x: Tensor) -> Tensor:
    bias = module.bias
    return functional.linear(x, weight, bias if bias is None else bias.detach())

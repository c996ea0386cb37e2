"""Linear layers of other libraries, whose kernels torch does not show, and what their weights are.

Weights of torchao and quanto need nothing here: they are tensors that say themselves what they
stand for, given to a function that torch shows.
"""

import copy
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from numeric.fast import patches, rules
from numeric.fast.patches import Model

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


@cache
def reader(classes: tuple[type, ...]) -> Callable[[Any], Tensor] | None:
    """How to read the weights of a class of modules, by itself and its bases; None if torch can."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in classes)
    return next((WEIGHTS[name] for name in names if name in WEIGHTS), None)


def modules(model: nn.Module) -> list[str]:
    """The paths of all modules whose product torch does not show."""
    if LIBRARIES.isdisjoint(sys.modules):
        return []
    return [path for path, module in model.named_modules() if reader(type(module).__mro__)]


class Packed(Tensor):
    """The weight of such a module: ``functional.linear`` by it is what the module computes."""

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
        read = reader(type(self.module).__mro__)
        if read is None:
            raise LookupError(
                f"no weight of a {type(self.module).__name__} can be read; see WEIGHTS"
            )
        return read(self.module)


def check(model: nn.Module) -> None:
    """Raises ValueError for a model with such modules, which is to run by its own code."""
    if paths := modules(model):
        kind = type(model.get_submodule(paths[0])).__name__
        raise ValueError(
            f"{len(paths)} modules, first {paths[0]} ({kind}), hide their products: call "
            "attribute(), which shows them, or model.dequantize().eval() first"
        )


def shown(model: Model) -> Model:
    """``model``, or if it has such modules a twin that calls ``functional.linear`` in their place.

    What it computes is the same, rounding included.
    """
    if not (paths := modules(model)):
        return model
    twin = patches.twin(model)
    for path in paths:
        module = twin.get_submodule(path)
        weight = Packed.of(module, module.forward)
        patches.set_attribute(module, "forward", partial(_linear, weight, module))
    return twin


def _linear(weight: Packed, module: Any, x: Tensor) -> Tensor:
    bias = module.bias
    return functional.linear(x, weight, bias if bias is None else bias.detach())

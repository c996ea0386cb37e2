"""Linear layers of other libraries, whose kernels torch does not show, and what their weights are.

Weights of torchao and quanto need nothing here: they are tensors that say themselves what they
stand for, given to a function that torch shows.
"""

import copy
import sys
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from numeric.fast import patches, rules

LIBRARIES = {"bitsandbytes", "hqq"}


def _four_bits(module):
    from bitsandbytes import functional as bnb

    data, state = module.weight.data, module.weight.quant_state
    if getattr(state, "packing_format_for_cpu", False):  # after a pass without gradients
        state = copy.copy(state)
        state.original_nested = False  # its scales are numbers now, and stay numbers
        data, state = bnb._convert_weight_packed_for_cpu_inverse(data, state)
        state.absmax = state.absmax.T.flatten().float()
    return bnb.dequantize_4bit(data, state)


def _eight_bits(module):
    from transformers.integrations.bitsandbytes import dequantize_bnb_weight

    return dequantize_bnb_weight(module.weight, module.state)


WEIGHTS = {
    "bitsandbytes.nn.modules.Linear4bit": _four_bits,
    "bitsandbytes.nn.modules.Linear8bitLt": _eight_bits,
    "hqq.core.quantize.HQQLinear": lambda module: module.dequantize(),
}
"""By class: the weight in full, (output, input)."""


@cache
def reader(cls: type):
    """How to read the weights of a class of modules; None where torch shows what it computes."""
    names = (f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__)
    return next((WEIGHTS[name] for name in names if name in WEIGHTS), None)


def modules(model: nn.Module) -> list[str]:
    """The paths of all modules whose product torch does not show."""
    if LIBRARIES.isdisjoint(sys.modules):
        return []
    return [path for path, module in model.named_modules() if reader(type(module))]


class Packed(Tensor):
    """The weight of such a module: ``functional.linear`` by it is what the module computes."""

    @staticmethod
    def of(module: nn.Module, forward) -> Tensor:
        weight = Tensor._make_subclass(Packed, torch.empty(0))
        weight.module, weight.run = module, forward
        return weight

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is functional.linear:
            x, weight, _ = args
            with torch.no_grad():
                z = weight.run(x)
            return rules.quantised(z, x, weight)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def dequantize(self) -> Tensor:
        return reader(type(self.module))(self.module)


def check(model: nn.Module) -> None:
    """Raises ValueError for a model with such modules, which is to run by its own code."""
    if paths := modules(model):
        kind = type(model.get_submodule(paths[0])).__name__
        raise ValueError(
            f"{len(paths)} modules, first {paths[0]} ({kind}), hide their products: call "
            "attribute(), which shows them, or model.dequantize().eval() first"
        )


def shown(model: nn.Module) -> nn.Module:
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


def _linear(weight, module, x):
    bias = module.bias
    return functional.linear(x, weight, bias if bias is None else bias.detach())

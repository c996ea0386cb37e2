"""LayerNorm as one operation, and other norms spelled out so that their parts are looked up."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine.blocks import Again
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.marks import carries
from lrp_axioms.numeric.engine.refusals import BY_THE_INPUT, OF_THE_BATCH
from lrp_axioms.numeric.engine.rulebook import Rulebook, by_rule

ARGUMENTS = ("input", "normalized_shape", "weight", "bias", "eps")
OF_BATCHES = (
    "input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"
)  # fmt: skip
BUILT_IN = (
    "input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"
)  # fmt: skip
"""The order of ``torch.batch_norm``; ``functional.batch_norm`` has ``OF_BATCHES``."""


def layer_norm(engine: Rulebook, use: Use) -> Tensor:
    given = dict(zip(ARGUMENTS, use.args, strict=False)) | use.kwargs
    shape, norm_eps = tuple(given["normalized_shape"]), given.get("eps", 1e-5)
    f, weight, bias = functional.layer_norm, given.get("weight"), given.get("bias")
    if carries(weight) or carries(bias):
        with Again():  # a product and a sum of activations
            y = f(given["input"], shape, eps=norm_eps)
            y = y if weight is None else y * weight
            return y if bias is None else y + bias
    x = engine.settle(given["input"])
    weight, bias = (_constant(y, x) for y in (weight, bias))
    return by_rule(engine, kinds.LAYER_NORM, f, x, shape, weight, bias, norm_eps)


def batch_norm(engine: Rulebook, use: Use) -> Tensor:
    """Applies the rule of linear maps: with running statistics, it is one for each channel.

    It is computed as one, because PyTorch 2.13 gets the gradient of its own function wrong: on a
    CPU, for a batch of one whose cotangent is not contiguous.
    """
    names = BUILT_IN if use.func is torch.batch_norm else OF_BATCHES
    given = dict(zip(names, use.args, strict=False)) | use.kwargs
    if given.get("training"):
        engine.refuse(OF_THE_BATCH, use.name)
    if any(carries(x) for name, x in given.items() if name != "input"):
        engine.refuse(BY_THE_INPUT, use.name)
    x, mean, variance = engine.settle(given["input"]), given["running_mean"], given["running_var"]
    along = (-1, *[1] * (x.ndim - 2))
    scale = torch.rsqrt(variance + given.get("eps", 1e-5))
    weight, bias = (_constant(given.get(key), x) for key in ("weight", "bias"))
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    scale, shift = scale.reshape(along), shift.reshape(along)
    return engine.apply(kinds.LINEAR, x * scale + shift, shift)


def _constant(x: Tensor | None, beside: Tensor) -> Tensor | None:
    """Returns ``x`` without a gradient, and in float64 if the activation beside it is."""
    if x is None or x.dtype == beside.dtype:
        return x if x is None else x.detach()
    return x.detach().to(torch.promote_types(x.dtype, beside.dtype))


def spelled_rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    axes, x = tuple(range(-len(normalized_shape), 0)), _in_float(input)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * torch.rsqrt(x.pow(2).mean(axes, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if x is input else y.to(input.dtype)


def _in_float(x: Tensor) -> Tensor:
    """Widens half precision, as the kernels of torch do: squares above 65,504 have no float16."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def spelled_normalize(
    x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Tensor:
    length: Tensor = x.norm(p, dim, keepdim=True)
    return x / length.clamp_min(eps)


def spelled_group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    grouped = _in_float(input).reshape(len(input), num_groups, -1)
    centred = grouped - grouped.mean(-1, keepdim=True)
    y = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    y, along = y.reshape(input.shape), (-1, *[1] * (input.ndim - 2))
    y = y if weight is None else y * weight.reshape(along)
    y = y if bias is None else y + bias.reshape(along)
    return y if y.dtype == input.dtype else y.to(input.dtype)


def spelled_instance_norm(
    x: Tensor,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **given: Any,
) -> Tensor:
    eps = given.get("eps", 1e-5)
    if given.get("use_input_stats", True):
        return spelled_group_norm(x, x.shape[1], weight, bias, eps)
    mean, variance = given.get("running_mean", mean), given.get("running_var", variance)
    y: Tensor = functional.batch_norm(x, mean, variance, weight, bias, eps=eps)
    return y

"""Functions of torch that are made of others; rules act on the others."""

from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.numeric.engine import norms
from lrp_axioms.numeric.engine.blocks import Again
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.marks import Function
from lrp_axioms.numeric.engine.rulebook import Rulebook


def _cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    shape = torch.broadcast_shapes(x1.shape, x2.shape)
    a, b = (norms.spelled_normalize(x.expand(shape), dim=dim, eps=eps) for x in (x1, x2))
    return (a * b).sum(dim)


def _and_mean(
    deviation: Callable[..., Tensor], input: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    first = deviation(input, *args, **kwargs)
    dim = kwargs.get("dim", args[0] if args else None)
    along = None if isinstance(dim, bool) else dim  # where it is a switch for the unbiased form
    return first, input.mean(along, keepdim=first.ndim == input.ndim)


SPELLED: dict[str, Function] = {
    "rms_norm": norms.spelled_rms_norm,
    "normalize": norms.spelled_normalize,
    "group_norm": norms.spelled_group_norm,
    "instance_norm": norms.spelled_instance_norm,
    # Arguments have torch's names, as code may pass them by name.
    "glu": lambda input, dim=-1: (lambda a, b: a * b.sigmoid())(*input.chunk(2, dim)),
    "addcmul": lambda input, tensor1, tensor2, *, value=1: input + value * (tensor1 * tensor2),
    "addcdiv": lambda input, tensor1, tensor2, *, value=1: input + value * (tensor1 / tensor2),
    "lerp": lambda input, end, weight: input * (1 - weight) + end * weight,
    "cosine_similarity": _cosine_similarity,
    "var_mean": partial(_and_mean, torch.var),
    "std_mean": partial(_and_mean, torch.std),
    "neg": lambda input: input * -1,
    "negative": lambda input: input * -1,
}
ASKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def inside(engine: Rulebook, use: Use) -> Any:
    with Again():
        return (SPELLED.get(use.name) or _entered(use.func))(*use.args, **use.kwargs)


@cache
def _entered(func: Any) -> Function:
    """Returns torch's ``func`` without its query for overrides, which would lead back here."""
    answers = dict.fromkeys(ASKS, lambda *_: False)
    entered = FunctionType(
        func.__code__, {**func.__globals__, **answers}, func.__name__, func.__defaults__
    )
    entered.__kwdefaults__ = func.__kwdefaults__
    return entered

"""A torch function, run on arguments whose rules have acted."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from axioms import kinds
from numeric.fast.marks import (
    PLAIN,
    Args,
    Function,
    Kwargs,
    Tensors,
    carries,
    exchanged,
    is_parameter,
    mark,
)

if TYPE_CHECKING:
    from numeric.fast.propagation import Propagation


def run(
    engine: "Propagation", func: Function, args: Args, kwargs: Kwargs, kind: str = kinds.BILINEAR
) -> Any:
    """``func`` of arguments that are settled, and parameters whose gradients nobody asks for."""
    ready = [x if type(x) in PLAIN else _ready(engine, x, kind) for x in args]
    if not kwargs:
        return func(*ready)
    return func(*ready, **{key: _ready(engine, x, kind) for key, x in kwargs.items()})


def _ready(engine: "Propagation", x: Any, kind: str) -> Any:
    if isinstance(x, Tensor):
        if x.requires_grad and is_parameter(x):
            return x.detach()
        return x if mark(x) is None else engine.settle(x, kind)
    if type(x) in (list, tuple):
        return type(x)(_ready(engine, y, kind) for y in x)
    return x


def run_in_one_format(
    engine: "Propagation",
    func: Function,
    args: Args,
    kwargs: Kwargs,
    carrying: Tensors,
    kind: str = kinds.BILINEAR,
) -> Any:
    """``run`` of what takes one format: beside activations in float64 constants are widened."""
    if carrying[0].dtype == torch.float64:
        args = [_widened(x) for x in args]
        kwargs = {key: _widened(x) for key, x in kwargs.items()}
    return run(engine, func, args, kwargs, kind)


def _widened(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(_widened, x))
    narrowed = type(x) is Tensor and x.dtype == torch.float32 and not carries(x)
    return x.detach().double() if narrowed else x


def without(
    fixed: set[int], args: Args, kwargs: Kwargs, carrying: list[Tensor]
) -> tuple[Args, Kwargs, list[Tensor]]:
    """The arguments with the tensors that ``fixed`` has by identity held, and what still carries.

    The recurrence of a state space model is linear where what it selects by is held (theorem 72).
    """
    held = {id(x): x.detach() for x in carrying if id(x) in fixed}
    named = exchanged(tuple(kwargs.values()), held)
    carrying = [x for x in carrying if id(x) not in held]
    return exchanged(args, held), dict(zip(kwargs, named, strict=True)), carrying

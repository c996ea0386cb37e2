"""Runs torch functions on arguments whose rules have acted."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.marks import (
    PLAIN,
    Args,
    Kwargs,
    carries,
    exchanged,
    is_parameter,
    mark,
)
from lrp_axioms.numeric.engine.rulebook import Rulebook


def run(engine: Rulebook, use: Use, kind: str = kinds.BILINEAR) -> Any:
    """Calls a function on settled arguments, and on parameters without their gradient."""
    _, func, args, kwargs, _ = use
    ready = [x if type(x) in PLAIN else _settle_argument(engine, x, kind) for x in args]
    if not kwargs:
        return func(*ready)
    return func(*ready, **{key: _settle_argument(engine, x, kind) for key, x in kwargs.items()})


def _settle_argument(engine: Rulebook, x: Any, kind: str) -> Any:
    if isinstance(x, Tensor):
        if x.requires_grad and is_parameter(x):
            return x.detach()
        return x if mark(x) is None else engine.settle(x, kind)
    if type(x) in (list, tuple):
        return type(x)(_settle_argument(engine, y, kind) for y in x)
    return x


def run_in_one_format(engine: Rulebook, use: Use) -> Any:
    """Runs a function that takes one format: beside float64 activations constants are widened."""
    if use.carrying[0].dtype == torch.float64:
        named = {key: _widen(x) for key, x in use.kwargs.items()}
        use = use._replace(args=[_widen(x) for x in use.args], kwargs=named)
    return run(engine, use)


def _widen(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(_widen, x))
    narrowed = type(x) is Tensor and x.dtype == torch.float32 and not carries(x)
    return x.detach().double() if narrowed else x


def replaced(
    new: Mapping[int, Tensor], args: Args, kwargs: Kwargs, carrying: Sequence[Tensor]
) -> tuple[Args, Kwargs, list[Tensor]]:
    """Replaces arguments by ``new``, which is by identity; lists the arguments that still carry."""
    named = exchanged(tuple(kwargs.values()), new)
    still = [y for x in carrying if (y := new.get(id(x), x)).requires_grad]
    return exchanged(args, new), dict(zip(kwargs, named, strict=True)), still

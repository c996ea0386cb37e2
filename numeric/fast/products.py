"""What happens at linear maps, and at products of matrices."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from axioms import kinds
from numeric.fast import refusals, rules
from numeric.fast.gradients import tensors
from numeric.fast.marks import (
    PRODUCT,
    WEIGHTS,
    Args,
    Function,
    Kwargs,
    Tensors,
    Weights,
    carries,
    mark,
    marked,
)
from numeric.fast.settled import run, run_in_one_format

if TYPE_CHECKING:
    from numeric.fast.propagation import Propagation


def linear(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Tensor:
    if len(carrying) > 1 or carrying[0] is not (args[0] if args else kwargs.get("input")):
        engine.refuse(refusals.BY_THE_INPUT, name)
    z = run_in_one_format(engine, func, args, kwargs, carrying)
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    weight = args[1] if len(args) > 1 else kwargs["weight"]
    if name == "linear" and type(weight).dequantize is not Tensor.dequantize:
        z = rules.quantised(z, engine.settle(carrying[0]), weight)
    if bias is not None and name.startswith("conv"):
        bias = bias.reshape(-1, *[1] * (z.ndim - 2))
    return engine.apply(kinds.LINEAR, z, bias)


def packed_linear(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Tensor:
    """A linear layer of torch.ao, which packs weights and bias for a kernel without gradient."""
    weight, bias = args[1].unpack()
    z = run(engine, func, args, kwargs)
    z = rules.quantised(z, engine.settle(carrying[0]), weight)
    return engine.apply(kinds.LINEAR, z, bias)


def solve(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Tensor:
    """The solution for the second argument, in which it is linear if the matrix is fixed."""
    right = args[1] if len(args) > 1 else kwargs["B"]
    if engine.mixed and (len(carrying) > 1 or carrying[0] is not right):
        engine.refuse(refusals.BY_THE_INPUT, name)
    return engine.apply(kinds.LINEAR, run_in_one_format(engine, func, args, kwargs, carrying))


def matmul(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Tensor:
    added = None
    if name in ("addmm", "baddbmm"):
        added, *factors = (*args, *(kwargs[x] for x in kwargs if x in ADDED))
        if carries(added) or len(carrying) > 1:
            return _added_product(engine, added, *factors, kwargs=kwargs)
    weights = any(mark(x) == WEIGHTS for x in tensors(args))
    if len(carrying) == 1 and not weights:
        z = run_in_one_format(engine, func, args, kwargs, carrying)
        return engine.apply(kinds.LINEAR, z, added)
    if len(carrying) > 2:
        engine.refuse(refusals.OF_SEVERAL, name, len(carrying))
    if not weights:
        return marked(run(engine, func, args, kwargs), PRODUCT)
    rule = engine.rule(kinds.READOUT)
    if rule == kinds.VALUE_ONLY:
        cut: Callable[[Any], Any] = lambda x: x.detach() if mark(x) == WEIGHTS else x
        args = [[cut(y) for y in x] if type(x) is list else cut(x) for x in args]
    z = run_in_one_format(engine, func, args, kwargs, carrying)
    z = engine.apply(kinds.READOUT, z, rule=rule)
    for what in map(mark, tensors(args)):
        if type(what) is Weights:
            what.readouts.append(get_gradient_edge(z))
    return z


ADDED = ("input", "mat1", "batch1", "mat2", "batch2")


def _added_product(
    engine: "Propagation", a: Tensor, b: Tensor, c: Tensor, *, kwargs: Kwargs
) -> Tensor:
    """beta * a + alpha * b @ c by its own operations; a constant ``a`` is a mask or a bias."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    with engine.again():
        product = torch.matmul(b, c)
        product = product if alpha == 1 else product * alpha
        if beta == 0:
            return product
        return (a if beta == 1 else a * beta) + product

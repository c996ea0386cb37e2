"""Handles linear maps and products of matrices."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import refusals, rules
from lrp_axioms.numeric.engine.blocks import Again
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.gradients import tensors
from lrp_axioms.numeric.engine.marks import PRODUCT, WEIGHTS, Kwargs, Weights, carries, mark, marked
from lrp_axioms.numeric.engine.rulebook import Rulebook
from lrp_axioms.numeric.engine.settled import run, run_in_one_format


def linear(engine: Rulebook, use: Use) -> Tensor:
    x = use.args[0] if use.args else use.kwargs.get("input")
    if len(use.carrying) > 1 or use.carrying[0] is not x:
        engine.refuse(refusals.BY_THE_INPUT, use.name)
    z = run_in_one_format(engine, use)
    bias = use.args[2] if len(use.args) > 2 else use.kwargs.get("bias")
    weight = use.args[1] if len(use.args) > 1 else use.kwargs["weight"]
    if use.name == "linear" and type(weight).dequantize is not Tensor.dequantize:
        z = rules.quantised(z, engine.settle(use.carrying[0]), weight)
    if bias is not None and use.name.startswith("conv"):
        bias = bias.reshape(-1, *[1] * (weight.ndim - 2))
    return engine.apply(kinds.LINEAR, z, bias)


def packed_linear(engine: Rulebook, use: Use) -> Tensor:
    """Handles a linear layer of torch.ao, whose kernel has packed weights and no gradient."""
    weight, bias = use.args[1].unpack()
    z = run(engine, use)
    z = rules.quantised(z, engine.settle(use.carrying[0]), weight)
    return engine.apply(kinds.LINEAR, z, bias)


def solve(engine: Rulebook, use: Use) -> Tensor:
    """Handles a solution of a linear system, which is linear in its second argument."""
    right = use.args[1] if len(use.args) > 1 else use.kwargs["B"]
    if len(use.carrying) > 1 or use.carrying[0] is not right:
        engine.refuse(refusals.BY_A_MATRIX, use.name)
    return engine.apply(kinds.LINEAR, run_in_one_format(engine, use))


def matmul(engine: Rulebook, use: Use) -> Tensor:
    added = None
    if use.name in ("addmm", "baddbmm"):
        added, *factors = use.args
        if carries(added) or len(use.carrying) > 1:
            return _added_product(engine, added, *factors, kwargs=use.kwargs)
        beta = use.kwargs.get("beta", 1)
        added = (added if beta == 1 else beta * added) if beta else None
    weights = any(mark(x) == WEIGHTS for x in tensors(use.args))
    if len(use.carrying) == 1 and not weights:
        z = run_in_one_format(engine, use)
        return engine.apply(kinds.LINEAR, z, added)
    if len(use.carrying) > 2:
        engine.refuse(refusals.OF_SEVERAL, use.name, len(use.carrying))
    if not weights:
        return marked(run(engine, use), PRODUCT)
    rule = engine.rule(kinds.READOUT)
    if rule == kinds.VALUE_ONLY:
        cut: Callable[[Any], Any] = lambda x: x.detach() if mark(x) == WEIGHTS else x
        args = [[cut(y) for y in x] if type(x) is list else cut(x) for x in use.args]
        use = use._replace(args=args)
    z = run_in_one_format(engine, use)
    z = engine.apply(kinds.READOUT, z, rule=rule)
    for what in map(mark, tensors(use.args)):
        if type(what) is Weights:
            what.readouts.append(get_gradient_edge(z))
    return z


def _added_product(engine: Rulebook, a: Tensor, b: Tensor, c: Tensor, *, kwargs: Kwargs) -> Tensor:
    """Computes beta * a + alpha * b @ c step by step; a constant ``a`` is a mask or a bias."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)
    with Again():
        product = torch.matmul(b, c)
        product = product if alpha == 1 else product * alpha
        if beta == 0:
            return product
        return (a if beta == 1 else a * beta) + product

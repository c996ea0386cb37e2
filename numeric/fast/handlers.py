"""What happens at each torch function that an activation reaches, by its role."""

from collections.abc import Callable
from operator import truediv
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from axioms import kinds
from numeric import operations as does
from numeric.fast import attention, norms, products, refusals
from numeric.fast.attended import Explicit
from numeric.fast.composite_functions import inside
from numeric.fast.marks import (
    COSINE,
    HELD,
    PRODUCT,
    SINE,
    WEIGHTS,
    Args,
    Chain,
    Function,
    Kwargs,
    Summed,
    Tensors,
    Weights,
    carries,
    chained,
    cuts,
    is_curved,
    is_number,
    mark,
    marked,
    root_of,
)
from numeric.fast.settled import run

if TYPE_CHECKING:
    from numeric.fast.propagation import Propagation

Handler = Callable[["Propagation", str, Function, Args, Kwargs, Tensors], Any]
"""(engine, name, func, args, kwargs, carrying) -> output; relevance reaches what is carrying."""

MASKED = -1e3  # what is added to scores and lies below hides them: exp(-1e3) is 0 in float64
KEPT = (WEIGHTS, PRODUCT)  # marks that a tensor keeps when its entries are moved or scaled


def move(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    what = mark(carrying[0])
    into_another = (name == "setitem" or name[-1] == "_") and args[0] is not carrying[0]
    if what not in KEPT or len(carrying) > 1 or into_another:
        return run(engine, func, args, kwargs)
    out = func(*args, **kwargs)
    for part in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(part, Tensor):
            marked(part, what)
    return out


def dropout(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    on = kwargs.get("training") or kwargs.get("train") or True in args[2:3]
    if on and (kwargs.get("p") or args[1:2] not in ((), (0,))):
        engine.refuse(refusals.RANDOM, name)
    return move(engine, name, func, args, kwargs, carrying) if carrying else None


def _cast(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    x = carrying[0]
    wanted = [y for y in (*args[1:], *kwargs.values()) if isinstance(y, torch.dtype)]
    narrows = name in ("float", "half", "bfloat16") or any(y.is_floating_point for y in wanted)
    if x.dtype == torch.float64 and narrows:
        return x  # who computes in float64 wants its digits, though stock norms drop them
    what = mark(x)
    if type(what) is Chain:
        return chained(func, args, kwargs, what.root, curved=what.curved)
    return move(engine, name, func, args, kwargs, carrying)


def _sum(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    x = carrying[0]
    out = run(engine, func, args, _in_own_dtype(kwargs, x))
    return marked(out, Summed(mark(x))) if engine.asks and is_curved(x) else out


def _in_own_dtype(kwargs: Kwargs, x: Tensor) -> Kwargs:
    """The same for sums and softmax that would narrow float64."""
    drops = kwargs.get("dtype") is not None and x.dtype == torch.float64
    return {key: y for key, y in kwargs.items() if key != "dtype"} if drops else kwargs


def _add(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    if len(carrying) == 1:
        (x,) = carrying
        other = args[1] if args[0] is x else args[0]
        if is_number(other) and mark(x) not in KEPT:
            return chained(func, args, kwargs, root_of(x), curved=is_curved(x))
        alone = is_number(other) or other.numel() == 1  # a norm adds one number, attention a mask
        z = run(engine, func, args, kwargs, kinds.BILINEAR if alone else kinds.SCORES)
        if not z.requires_grad:  # scores that were cut off
            return marked(z, WEIGHTS)
        hides = engine.eps and is_mask(-other if name in ("sub", "subtract") else other)
        return z if hides or is_number(other) else engine.apply(kinds.ADD, z, other)
    bends = any(is_curved(x) or any(cut.chain.curved for cut in cuts(x)) for x in carrying)
    if bends and (root := _one_root(carrying)) is not None:
        return chained(func, args, kwargs, root, curved=True)
    return engine.apply(kinds.ADD, run(engine, func, args, kwargs))


def is_mask(x: Tensor | float) -> bool:
    """Whether ``x`` hides scores or adds nothing to them, as in a text that needs no padding."""
    return isinstance(x, Tensor) and bool(((x == 0) | (x < MASKED)).all())


def _one_root(carrying: Tensors) -> Tensor | None:
    """The tensor of which all are functions, entry by entry, if there is one."""
    root = root_of(carrying[0])
    if all(root_of(x) is root and mark(x) not in KEPT for x in carrying):
        return root
    roots = {id(root_of(x)) for x in carrying}
    for cut in (cut for x in carrying for cut in cuts(x) if id(cut.chain.root) in roots):
        cut.met()
    return None


def _multiply(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    if len(carrying) > 1:
        if (root := _one_root(carrying)) is not None:
            return chained(func, args, kwargs, root, curved=True)
        return engine.apply(kinds.PRODUCT, run(engine, func, args, kwargs))
    (x,) = carrying
    other = args[1] if args[0] is x else args[0]
    if is_number(other):
        return _scaled(func, args, kwargs, x)
    if engine.turns and mark(other) in (COSINE, SINE):
        engine.turned.note(engine, engine.settle(x), mark(other))
        return engine.apply(kinds.PRODUCT, run(engine, func, args, kwargs))
    z = run(engine, func, args, kwargs)
    return z if mark(other) == HELD else engine.apply(kinds.LINEAR, z)


def _scaled(func: Function, args: Args, kwargs: Kwargs, x: Tensor) -> Tensor:
    if (what := mark(x)) in KEPT:
        return marked(func(*args, **kwargs), what)
    return chained(func, args, kwargs, root_of(x), curved=is_curved(x))


def _divide(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    if name in ("rdiv", "rtruediv"):  # which take the divisor first
        func, args = truediv, args[1::-1]
    a, b = args[:2]
    if not carries(b) and mark(b) != WEIGHTS:
        return _multiply(engine, name, func, args, kwargs, carrying)
    of_one = carries(a) and root_of(a) is root_of(b)
    if (is_curved(b) and of_one) or (is_number(a) and _bends(b)):
        return chained(func, args, kwargs, root_of(b), curved=True)
    if engine.rule(kinds.RMS_NORM) == kinds.GRADIENT:
        return run(engine, func, args, kwargs)
    held = engine.settle(b).detach()  # whatever divides is held, as the deviation in a norm is
    engine.hold(b)
    if carries(a):
        return func(engine.settle(a), held, *args[2:], **kwargs)
    return marked(func(a.detach() if isinstance(a, Tensor) else a, held), HELD)


def _function(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    x = carrying[0]
    power = -1 if name == "reciprocal" else args[-1] if name in POWERS else None
    if is_number(power) and power == -1:
        return _divide(engine, name, truediv, (1, x), {}, carrying)
    if is_number(power) and power in HALVES and not _bends(x):
        return _deviation(engine, name, func, args, kwargs, carrying)
    if len(carrying) > 1 and _one_root(carrying) is None:
        engine.refuse(refusals.OF_SEVERAL, name, len(carrying))
    if mark(x) in KEPT:
        settled = engine.settle(x)
        args = [settled if y is x else y for y in args]
        x = settled
    root = root_of(x)
    if not all(is_number(y) or y is root or root_of(y) is root for y in args):
        args = [y if is_number(y) or root_of(y) is root else y.detach() for y in args]
    out = chained(func, args, kwargs, root, curved=True)
    mark(out).floor = name in FLOORS and not is_curved(x)
    return out


SQUARES = {("mul", "x", "x"), ("pow", "x", 2), ("square", "x"), ("__pow__", "x", 2)}


FLOORS = ("clamp", "clip", "clamp_min")
ROOTS, POWERS, HALVES = ("sqrt", "rsqrt"), ("pow", "float_power"), (0.5, -0.5)


def _bends(x: Tensor) -> bool:
    """Whether ``x`` is a function such as softplus; a variance with a floor is a variance."""
    return is_curved(x) and not mark(x).floor


def _deviation(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Any:
    if name in ROOTS and _bends(carrying[0]):
        return _function(engine, name, func, args, kwargs, carrying)
    out = run(engine, func, args, kwargs)
    if engine.rule(kinds.RMS_NORM) == kinds.GRADIENT:
        return out
    engine.hold(carrying[0])
    return marked(out.detach(), HELD)


def _softmax(
    engine: "Propagation", name: str, func: Function, args: Args, kwargs: Kwargs, carrying: Tensors
) -> Tensor:
    kwargs = _in_own_dtype(kwargs, carrying[0])
    if engine.damping is not None:
        args, kwargs = _lowered(engine, *args, **kwargs)
    z = run(engine, func, args, kwargs, kinds.SCORES)
    out = engine.apply(kinds.SOFTMAX, z)
    if engine.attended is None:
        return marked(out, WEIGHTS)
    seen = Explicit.of(out, args, kwargs, engine.places.describe())
    engine.attended.append(seen)
    return marked(out, Weights.of(seen.readouts))


def _lowered(
    engine: "Propagation", input: Tensor, *args: Any, **kwargs: Any
) -> tuple[Args, Kwargs]:
    """The arguments of a softmax over ``input`` with the scores that its damping leaves."""
    added = engine.lowered(input.shape[-1])
    if added is None:
        return (input, *args), kwargs
    z = engine.settle(input, kinds.SCORES)
    by_text = z.reshape(len(added), -1, *z.shape[-2:])
    return ((by_text + added[:, None].to(z.dtype)).reshape(z.shape), *args), kwargs


BY_ROLE: dict[str | None, Handler] = {
    does.MOVE: move,
    does.DROPOUT: dropout,
    does.CAST: _cast,
    does.SUM: _sum,
    does.ADD: _add,
    does.SUBTRACT: _add,
    does.MULTIPLY: _multiply,
    does.DIVIDE: _divide,
    does.LINEAR: products.linear,
    does.PACKED_LINEAR: products.packed_linear,
    does.MATMUL: products.matmul,
    does.SOLVE: products.solve,
    does.FUNCTION: _function,
    does.DEVIATION: _deviation,
    does.SOFTMAX: _softmax,
    does.LAYER_NORM: norms.layer_norm,
    does.BATCH_NORM: norms.batch_norm,
    does.ATTENTION: attention.attention,
    does.COMPOSITE: inside,
}
"""By role: what happens.  A function of another role, or of none, is refused."""

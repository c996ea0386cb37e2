"""Handles each torch function that an activation reaches, by its role."""

from functools import partial
from operator import truediv
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import attention, norms, products, refusals
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.calls import Use, call_of
from lrp_axioms.numeric.engine.chains import common_root, cuts, extend_chain, root_of, roots
from lrp_axioms.numeric.engine.composite_functions import inside
from lrp_axioms.numeric.engine.marks import (
    HELD,
    PRODUCT,
    WEIGHTS,
    Chain,
    Summed,
    Tensors,
    carries,
    is_curved,
    is_like_number,
    is_number,
    mark,
    marked,
)
from lrp_axioms.numeric.engine.rulebook import Handler, Rulebook, by_rule
from lrp_axioms.numeric.engine.settled import run

EXTREMA = ("max", "maximum", "min", "minimum")
COPIES = ("clone", "contiguous")
KEPT = (WEIGHTS, PRODUCT)  # marks that a tensor keeps when its entries are moved or scaled


def move(engine: Rulebook, use: Use) -> Any:
    what = mark(use.carrying[0])
    if use.name in EXTREMA and len(use.args) == 2 and len(use.carrying) == 1:
        other = use.other(use.carrying[0])
        if isinstance(other, Tensor) and is_like_number(other, use.carrying[0]):
            return _function(engine, use)  # a clamp whose limit is a tensor
    if use.name in COPIES and type(what) is Chain:
        return _copy(engine, use)
    into_another = use.call.fills and use.args[0] is not use.carrying[0]
    if what not in KEPT or len(use.carrying) > 1 or into_another:
        return run(engine, use)
    out = use.func(*use.args, **use.kwargs)
    for part in out if isinstance(out, (tuple, list)) else (out,):
        if isinstance(part, Tensor) and part.requires_grad == use.carrying[0].requires_grad:
            marked(part, what)  # not indices of a top-k, nor constants shaped like an activation
    return out


def dropout(engine: Rulebook, use: Use) -> Any:
    on = use.kwargs.get("training") or use.kwargs.get("train") or True in use.args[2:3]
    if on and (use.kwargs.get("p") or use.args[1:2] not in ((), (0,))):
        engine.refuse(refusals.RANDOM, use.name)
    if use.carrying and use.name == "native_dropout":  # it gives a mask, too
        return move(engine, use)
    return use.carrying[0] if use.carrying else None


def _cast(engine: Rulebook, use: Use) -> Any:
    x = use.carrying[0]
    wanted = [y for y in (*use.args[1:], *use.kwargs.values()) if isinstance(y, torch.dtype)]
    narrows = use.name in ("float", "half", "bfloat16") or any(y.is_floating_point for y in wanted)
    if x.dtype == torch.float64 and narrows:
        return x  # float64 is kept for its digits, though stock norms drop them
    out = _copy(engine, use) if type(mark(x)) is Chain else move(engine, use)
    if x is use.args[0] and isinstance(out, Tensor) and _ends(x, out):
        engine.refuse("a cast to integers")
    return out


def _ends(x: Tensor, out: Tensor) -> bool:
    """Whether a cast to whole numbers cuts an activation; truth values come of comparisons."""
    floats = out.is_floating_point() or out.is_complex()
    return x.requires_grad and not floats and out.dtype != torch.bool


def _copy(engine: Rulebook, use: Use) -> Any:
    """Copies entries, as a step of the function that gave them."""
    x = use.carrying[0]
    what, out = mark(x), use.func(*use.args, **use.kwargs)
    if out is x or not out.requires_grad:
        return out
    if out.is_complex():  # no rule acts on complex numbers
        return run(engine, use)
    out = out.detach() if what.curved else out
    new: Chain = mark(out := extend_chain(use, root_of(x), curved=what.curved, out=out))
    new.places, new.floor, new.exponential = what.places, what.floor, what.exponential
    return out


OF_FIXED_PLACES = ("grid_sample", "trapz")
"""Sums of their first argument, at places that the second one says."""


def _sum(engine: Rulebook, use: Use) -> Any:
    x = use.carrying[0]
    if use.name in OF_FIXED_PLACES and (len(use.carrying) > 1 or use.args[0] is not x):
        engine.refuse(refusals.BY_THE_INPUT, use.name)
    out = run(engine, in_own_dtype(use))
    return marked(out, Summed(mark(x))) if is_curved(x) else out


def in_own_dtype(use: Use) -> Use:
    """Drops the dtype of a sum or softmax that would narrow float64."""
    if use.kwargs.get("dtype") is None or use.carrying[0].dtype != torch.float64:
        return use
    return use._replace(kwargs={key: y for key, y in use.kwargs.items() if key != "dtype"})


def _add(engine: Rulebook, use: Use) -> Any:
    if len(use.carrying) == 1:
        (x,) = use.carrying
        other = use.other(x)
        waits = mark(x) not in KEPT and is_like_number(other, x)
        if waits and (is_number(other) or is_curved(x)):
            return extend_chain(use, root_of(x), curved=is_curved(x))
        # Attention adds a mask, by query and key; a norm adds one number, and a layer its bias.
        is_mask = not is_number(other) and other.numel() > 1 and other.ndim > 1
        z = run(engine, use, kinds.SCORES if is_mask else kinds.BILINEAR)
        if not z.requires_grad:  # scores that were cut off
            return marked(z, WEIGHTS)
        if not is_number(other):
            term = -other if use.name in ("sub", "subtract") else other
            z = engine.apply(kinds.ADD, z, term)
        return _mark_step(use, x, z) if waits else z
    bends = any(is_curved(x) or any(cut.chain.curved for cut in cuts(x)) for x in use.carrying)
    if bends and (root := _one_root(use.carrying)) is not None:
        return extend_chain(use, root, curved=True)
    return engine.apply(kinds.ADD, run(engine, use))


def _mark_step(use: Use, x: Tensor, z: Tensor) -> Tensor:
    """Marks ``z``, unchanged, as a linear function of ``x`` that can meet ``x`` in a function."""
    return extend_chain(use, root_of(x), curved=False, out=z)


def _one_root(carrying: Tensors) -> Tensor | None:
    """Returns the tensor that all operands are elementwise functions of, or None."""
    root = common_root(carrying)
    if root is not None and all(mark(x) not in KEPT for x in carrying):
        return root
    known = {id(each) for x in carrying for each in roots(x)}
    for cut in (cut for x in carrying for cut in cuts(x) if id(cut.chain.root) in known):
        cut.met()
    return None


def multiply(engine: Rulebook, use: Use) -> Any:
    if len(use.carrying) > 1:
        if (root := _one_root(use.carrying)) is not None:
            return extend_chain(use, root, curved=True)
        return engine.apply(kinds.PRODUCT, run(engine, use))
    (x,) = use.carrying
    other = use.other(x)
    waits = is_like_number(other, x)
    if is_number(other) or (waits and is_curved(x)):
        return _scale(use, x)
    z = run(engine, use)
    if mark(other) == HELD:
        return z
    z = engine.apply(kinds.LINEAR, z)
    return _mark_step(use, x, z) if waits and mark(x) not in KEPT else z


def _scale(use: Use, x: Tensor) -> Tensor:
    if (what := mark(x)) in KEPT:
        return marked(use.func(*use.args, **use.kwargs), what)
    return extend_chain(use, root_of(x), curved=is_curved(x))


def _divide(engine: Rulebook, use: Use) -> Any:
    if use.name in ("rdiv", "rtruediv"):  # these take the divisor first
        use = use._replace(func=truediv, args=use.args[1::-1])
    a, b = use.args[:2]
    if use.kwargs.get("rounding_mode"):  # a function of the dividend; its gradient is 0
        if carries(b) or not is_like_number(b, a):
            engine.refuse(f"{use.name} with rounding_mode")
        return _function(engine, use)
    if not carries(b) and mark(b) != WEIGHTS:
        return multiply(engine, use)
    root = common_root((a, b)) if carries(a) else None
    if is_curved(b) and root is not None:
        return extend_chain(use, root, curved=True)
    if _bends(b) and is_like_number(a, b):
        return extend_chain(use, root_of(b), curved=True)
    if engine.rule(kinds.RMS_NORM) == kinds.GRADIENT:
        return run(engine, use)
    held = engine.settle(b).detach()  # every divisor is held, like the deviation in a norm
    engine.hold(b)
    if carries(a):
        return use.func(engine.settle(a), held, *use.args[2:], **use.kwargs)
    return marked(use.func(a.detach() if isinstance(a, Tensor) else a, held), HELD)


def _function(engine: Rulebook, use: Use) -> Any:
    x = use.carrying[0]
    power: Any = -1 if use.name == "reciprocal" else use.args[1] if use.name in POWERS else None
    if _is_only(power, -1):
        use = Use(call_of(truediv), truediv, (power**0, x), {}, use.carrying)
        return _divide(engine, use)
    if _is_only(power, *HALVES) and not _bends(x):
        return _deviation(engine, use)
    root = root_of(x) if len(use.carrying) == 1 else _one_root(use.carrying)
    if root is None:
        engine.refuse(refusals.OF_SEVERAL, use.name, len(use.carrying))
        root = root_of(x)
    if mark(x) in KEPT:
        root = engine.settle(x)
        use = use._replace(args=[root if y is x else y for y in use.args])
    out = extend_chain(use, root, curved=True)
    mark(out).floor = use.name in FLOORS and not is_curved(x)
    return out


FLOORS = ("clamp", "clip", "clamp_min")
ROOTS, POWERS, HALVES = ("sqrt", "rsqrt"), ("pow", "float_power"), (0.5, -0.5)


def _is_only(power: Any, *numbers: float) -> bool:
    """Decides whether an exponent is fixed and one of ``numbers`` at every entry."""
    if not isinstance(power, Tensor):
        return power in numbers
    return not carries(power) and any(bool((power == n).all()) for n in numbers)


def _bends(x: Tensor) -> bool:
    """Decides whether ``x`` is a function such as softplus; a variance with a floor is none."""
    return is_curved(x) and not mark(x).floor


def _deviation(engine: Rulebook, use: Use) -> Any:
    if use.name in ROOTS and _bends(use.carrying[0]):
        return _function(engine, use)
    out = run(engine, use)
    if engine.rule(kinds.RMS_NORM) == kinds.GRADIENT:
        return out
    engine.hold(use.carrying[0])
    return marked(out.detach(), HELD)


def softmax(engine: Rulebook, use: Use) -> Tensor:
    use = in_own_dtype(use)
    ruled = use._replace(func=partial(by_rule, engine, kinds.SOFTMAX, use.func))
    return marked(run(engine, ruled, kinds.SCORES), WEIGHTS)


BY_ROLE: dict[str | None, Handler] = {
    does.MOVE: move,
    does.DROPOUT: dropout,
    does.CAST: _cast,
    does.SUM: _sum,
    does.ADD: _add,
    does.SUBTRACT: _add,
    does.MULTIPLY: multiply,
    does.DIVIDE: _divide,
    does.LINEAR: products.linear,
    does.PACKED_LINEAR: products.packed_linear,
    does.MATMUL: products.matmul,
    does.SOLVE: products.solve,
    does.FUNCTION: _function,
    does.DEVIATION: _deviation,
    does.SOFTMAX: softmax,
    does.LAYER_NORM: norms.layer_norm,
    does.BATCH_NORM: norms.batch_norm,
    does.ATTENTION: attention.attention,
    does.COMPOSITE: inside,
}
"""By role: the handler.  A function of another role, or of none, is refused."""

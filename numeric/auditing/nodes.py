"""Makes a node of a torch function: an operation of NumPy, or a map that torch computes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.graph import MOVE, Node, Origin
from lrp_axioms.numeric.auditing.draft import ORIGIN, POSITION, TYPE, Draft, Running
from lrp_axioms.numeric.auditing.functions import call, composed, counts, fixed_leaf, mapped
from lrp_axioms.numeric.auditing.maps import Map
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.at_output import cancels, is_mask
from lrp_axioms.numeric.engine.marks import PRODUCT, TOKEN_TYPE, WEIGHTS, is_number, mark, reached
from lrp_axioms.numeric.engine.norms import ARGUMENTS

Builder = Callable[[Draft, Running], Node]
"""(draft, running) -> the node of the running function's output."""

FEW_BITS = "by weights in few bits, whose rounding is no linear map;"
MATRICES = ("matmul", "rmatmul", "mm", "bmm")


def node(draft: Draft, running: Running) -> Node:
    """Makes the node of one output."""
    row, _ = running.operands()
    out: Tensor = running.out
    carrying = [draft.node_of(x) for x in row if reached((x,))]
    role, pending = running.call.role, [x for x in carrying if "pending" in x.attributes]
    if role == does.CAST and not out.is_complex():
        return carrying[0]
    if mark(out) == PRODUCT and role == does.MATMUL:
        scale = 1.0 if running.call.name in MATRICES else None
        return mapped(draft, running, op=kinds.BILINEAR, pending=True, scale=scale)
    if pending or out.is_complex():
        return composed(draft, running, pending)
    if role == does.PACKED_LINEAR:
        draft.refuse(f"{running.call.name} {FEW_BITS}")
    return (KINDS.get(running.kind) or ROLES.get(role, _move))(draft, running)


def product(draft: Draft, found: Node, kind: str) -> Node:
    """Makes the node of a product of two activations, of the kind that its user decides."""
    scale = found.attributes["scale"]
    about = {key: x for key, x in found.attributes.items() if key not in ("pending", "scale")}
    args = found.args
    if scale is not None and kind == kinds.SCORES:
        del about["map"]
        about["scale"] = scale
        args = args[0], _transpose(draft, args[1])
    elif scale == 1.0:
        del about["map"]
    del about["layer"]
    where = found.origin or Origin(), about.pop("depth")
    return draft.make(kind, args, about.pop("shape"), where, **about)


def _transpose(draft: Draft, x: Node) -> Node:
    shape = x.attributes["shape"]
    return draft.make(MOVE, (x,), (*shape[:-2], shape[-1], shape[-2]), map=Map(lambda x: x.mT))


def _linear(draft: Draft, running: Running) -> Node:
    name, row, args = running.call.name, running.operands()[0], running.args
    if running.call.role in (does.MULTIPLY, does.DIVIDE):
        return _entrywise(draft, running)
    if any(isinstance(x, Tensor) and type(x).dequantize is not Tensor.dequantize for x in row):
        draft.refuse(f"{name} {FEW_BITS}")
    weights = None
    if name == "linear":
        x, weight, *bias = row[:3]
        weights = x, weight.mT, bias[0] if bias else None
    elif name == "addmm" and len(args) == 3 and not running.kwargs:
        weights = row[1], row[2], row[0]
    elif name in MATRICES and row[1].ndim == 2:
        weights = row[0], row[1], None
    if weights is None or weights[0].ndim < 2 or not reached(weights[:1]):
        floats = [x for x in row if isinstance(x, Tensor) and x.is_floating_point()]
        biased = len(floats) > 2  # beside an input and weights
        return mapped(draft, running, op=kinds.LINEAR, bias=biased)
    x, *fixed = weights
    fixed = [draft.parameter(w) for w in fixed if w is not None]
    return draft.make(kinds.LINEAR, (draft.node_of(x), *fixed), running.out.shape)


def _entrywise(draft: Draft, running: Running, **attributes: Any) -> Node:
    """Scales each entry by a number of its own, or all by one."""
    row, _ = running.operands()
    a, b = row[:2]
    x, factor = (a, b) if reached((a,)) else (b, a)
    if running.call.role == does.DIVIDE:
        factor = 1 / (factor.double() if isinstance(factor, Tensor) else factor)
    args = draft.node_of(x), draft.parameter(factor)
    return draft.make(kinds.LINEAR, args, running.out.shape, entrywise=True, **attributes)


def _scaling(draft: Draft, running: Running) -> Node:
    """Divides by a held number, such as the deviation of a norm, or by a constant."""
    a, b = running.operands()[0][:2]
    if is_number(b if reached((a,)) else a):
        return _entrywise(draft, running, exact=True)
    if not (reached((a,)) and reached((b,))):
        return mapped(draft, running, op=kinds.RMS_NORM, exact=True)
    held = replace(running, args=(a, b.detach(), *running.args[2:]), settled={})
    return mapped(draft, held, op=kinds.RMS_NORM, exact=True)


def _add(draft: Draft, running: Running) -> Node:
    (row, _), out = running.operands(), running.out
    terms, signs = row[:2], [1, 1]
    if running.call.role == does.SUBTRACT:
        signs[running.call.name != "rsub"] = -1
    signs[1] *= running.kwargs.get("alpha", 1)
    pairs = list(zip(terms, signs, strict=True))
    fixed = [sign * x for x, sign in pairs if not reached((x,))]
    hides = not running.rising and any(map(is_mask, fixed))
    of = [_term(draft, running, *pair) for pair in pairs]
    if not reached((terms[0],)):
        of.reverse()
    by_rule = running.kind or (running.rising and not any(map(is_number, terms)))
    exact = hides or not by_rule
    mask: dict[str, Any] = (
        {"mask": True} if hides and all((x == 0).any(dim=-1).all() for x in fixed) else {}
    )
    found = draft.make(kinds.ADD, of, out.shape, exact=exact, **mask)
    nothing = out.detach() == 0
    if not running.kind or not any(cancels(x, out) for x in fixed) or not nothing.any():
        return found
    # NumPy's rounding may differ; the terms would then share relevance of an output that is 0.
    kept = Map(lambda x: torch.where(nothing, 0, x))
    return draft.make(MOVE, (found,), out.shape, map=kept)


def _term(draft: Draft, running: Running, x: Any, sign: float) -> Node:
    if not reached((x,)):
        fixed = x if sign == 1 else sign * x
        if not running.rising or is_number(x):
            return draft.parameter(fixed)
        role = TYPE if mark(x) == TOKEN_TYPE else POSITION
        origin, _ = getattr(x, ORIGIN, (None, None))
        name = origin.module if origin else draft.names.get(x.data_ptr(), "")
        return draft.leaf(fixed, role, name=name, origin=origin)
    found = draft.node_of(x)
    if sign == 1:
        return found
    factor = draft.parameter(float(sign))
    return draft.make(kinds.LINEAR, (found, factor), x.shape, entrywise=True, exact=True)


def _readout(draft: Draft, running: Running) -> Node:
    """Makes a readout of values, the second operand, by weights, the first one."""
    row, _ = running.operands()
    native = running.call.name in MATRICES and all(reached((x,)) for x in row[:2])
    if native and mark(row[0]) == WEIGHTS:
        return draft.make(kinds.READOUT, map(draft.node_of, row[:2]), running.out.shape)
    found = mapped(draft, running, op=kinds.READOUT)
    carrying = [x for x in row if reached((x,))]
    if len(carrying) == 1 or mark(carrying[0]) == WEIGHTS:
        return found
    function = found.attributes["map"].function
    swapped = Map(lambda weights, values: function(values, weights))
    return replace(found, args=found.args[::-1], attributes={**found.attributes, "map": swapped})


def _product(draft: Draft, running: Running) -> Node:
    factors = running.operands()[0][:2]
    return draft.make(kinds.PRODUCT, map(draft.node_of, factors), running.out.shape)


def _softmax(draft: Draft, running: Running) -> Node:
    given = dict(zip(("input", "dim"), running.args, strict=False)) | running.kwargs
    x = given["input"]
    found = draft.node_of(running.settled.get(id(x), x))
    axis = given.get("dim")
    if axis is None:  # torch chooses it, with a warning
        axis = 0 if x.ndim in (0, 1, 3) else 1
    return draft.make(kinds.SOFTMAX, (found,), running.out.shape, axis=axis)


def _layer_norm(draft: Draft, running: Running) -> Node:
    given = dict(zip(ARGUMENTS, running.args, strict=False)) | running.kwargs
    x, shape = given["input"], tuple(given["normalized_shape"])
    weight = x.new_ones(shape) if given.get("weight") is None else given["weight"]
    bias = x.new_zeros(shape) if given.get("bias") is None else given["bias"]
    norm_eps, out = given.get("eps", 1e-5), running.out
    flat = out.flatten(-len(shape))
    of = draft.node_of(running.settled.get(id(x), x))
    if len(shape) > 1:
        of = draft.make(MOVE, (of,), flat.shape, map=Map(lambda x: x.flatten(-len(shape))))
    args = of, draft.parameter(weight.flatten()), draft.parameter(bias.flatten())
    about: dict[str, Any] = {"norm_eps": norm_eps, "bias": given.get("bias") is not None}
    found = draft.make(kinds.LAYER_NORM, args, flat.shape, **about)
    if len(shape) == 1:
        return found
    return draft.make(MOVE, (found,), out.shape, map=Map(lambda y: y.unflatten(-1, shape)))


def _move(draft: Draft, running: Running) -> Node:
    name, out = running.call.name.rstrip("_"), running.out
    if name == "index_put" and (running.kwargs.get("accumulate") or running.args[3:] == (True,)):
        return _sum(draft, running)
    function, of = call(draft, running, learned=True)
    chooses = name.startswith(CHOICES)
    if name in FILLS:
        nothing = [out.new_full(x.attributes["shape"], torch.nan) for x in of]
        put = ~function(*nothing).isnan()
        numbers = torch.where(put, out.detach(), 0)
        if counts(numbers):
            filled: Callable[..., Tensor] = lambda *xs: torch.where(put, xs[-1], function(*xs[:-1]))
            of = [*of, fixed_leaf(draft, running, numbers)]
            return draft.make(MOVE, of, out.shape, map=Map(filled))
    return draft.make(MOVE, of, out.shape, map=Map(function), chooses=chooses)


CHOICES = (
    "adaptive_max", "amax", "amin", "boolean_dispatch", "gather", "kthvalue", "masked_fill", "max",
    "median", "min", "sort", "topk", "where",
)  # fmt: skip
"""Names, or their beginnings, of moves that may choose by value: no map is folded through them."""
FILLS = {
    "constant_pad_nd", "copy", "fill", "index_copy", "index_fill", "index_put", "masked_fill",
    "masked_scatter", "pad", "scatter", "setitem", "where",
}  # fmt: skip
"""These put numbers among the moved entries; relevance ends there as in any fixed tensor."""


def _sum(draft: Draft, running: Running) -> Node:
    return mapped(draft, running, op=kinds.LINEAR, exact=True)


KINDS: dict[str | None, Builder] = {
    kinds.LINEAR: _linear,
    kinds.ADD: _add,
    kinds.READOUT: _readout,
    kinds.PRODUCT: _product,
    kinds.SOFTMAX: _softmax,
}
"""By kind of operation, for functions at whose output a rule acts."""

ROLES: dict[str | None, Builder] = {
    does.MOVE: _move,
    does.SUM: _sum,
    does.ADD: _add,
    does.SUBTRACT: _add,
    does.MULTIPLY: _scaling,
    does.DIVIDE: _scaling,
    does.LAYER_NORM: _layer_norm,
}
"""By role, of functions at whose output no rule acts."""

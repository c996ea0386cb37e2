"""What a torch function is as a node: an operation of NumPy, or a map that torch computes."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from axioms import kinds
from axioms.graph import MOVE, Node, Origin
from numeric.auditing.functions import (
    POSITION,
    TYPE,
    call,
    composed,
    counts,
    fixed_leaf,
    mapped,
    taken_of,
)
from numeric.auditing.maps import Map
from numeric.engine import operations as does
from numeric.engine.at_output import cancels
from numeric.engine.handlers import is_mask
from numeric.engine.marks import PRODUCT, TOKEN_TYPE, WEIGHTS, is_number, mark, reached
from numeric.engine.norms import ARGUMENTS

if TYPE_CHECKING:
    from numeric.auditing.recorder import Recorder, Running

Builder = Callable[["Recorder", "Running", Tensor, int | None], Node]
"""(recorder, running, out, index) -> Node; ``index`` is which of several outputs."""

ORIGIN = "_lrp_axioms_origin"  # the attribute of a tensor that says where it was computed
MATRICES = ("matmul", "rmatmul", "mm", "bmm")


def node(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    """The node of one output."""
    row, _ = running.operands()
    carrying = [rec.node_of(x) for x in row if reached((x,))]
    role, pending = running.call.role, [x for x in carrying if "pending" in x.attributes]
    if role == does.CAST and not out.is_complex():
        return carrying[0]
    if mark(out) == PRODUCT and role == does.MATMUL:
        scale = 1.0 if running.call.name in MATRICES else None
        return mapped(rec, running, out, index, op=kinds.BILINEAR, pending=True, scale=scale)
    if pending or out.is_complex():
        return composed(rec, running, out, index, pending)
    if role == does.PACKED_LINEAR:
        rec.refuse(f"{running.call.name} by weights in few bits, whose rounding is no linear map;")
    return (KINDS.get(running.kind) or ROLES.get(role, _move))(rec, running, out, index)


def product(rec: "Recorder", found: Node, kind: str) -> Node:
    """A product of two activations as what its user takes it for."""
    scale = found.attributes["scale"]
    about = {key: x for key, x in found.attributes.items() if key not in ("pending", "scale")}
    args = found.args
    if scale is not None and kind == kinds.SCORES:
        del about["map"]
        about["scale"] = scale
        args = args[0], _transposed(rec, args[1])
    elif scale == 1.0:
        del about["map"]
    where = found.origin or Origin(), about.pop("layer")
    return rec.make(kind, args, about.pop("shape"), where, **about)


def _transposed(rec: "Recorder", x: Node) -> Node:
    shape = x.attributes["shape"]
    return rec.make(MOVE, (x,), (*shape[:-2], shape[-1], shape[-2]), map=Map(lambda x: x.mT))


def _linear(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    name, row, args = running.call.name, running.operands()[0], running.args
    if running.call.role in (does.MULTIPLY, does.DIVIDE):
        return _entrywise(rec, running, out, index)
    if any(isinstance(x, Tensor) and type(x).dequantize is not Tensor.dequantize for x in row):
        rec.refuse(f"{name} by weights in few bits, whose rounding is no linear map;")
    weights = None
    if name == "linear":
        x, weight, *bias = row[:3]
        weights = x, weight.mT, bias[0] if bias else None
    elif name == "addmm" and len(args) == 3 and not running.kwargs:
        weights = row[1], row[2], row[0]
    elif name in MATRICES and row[1].ndim == 2:
        weights = row[0], row[1], None
    if weights is None or weights[0].ndim < 2 or not reached(weights[:1]):
        return mapped(rec, running, out, index, op=kinds.LINEAR)
    x, *fixed = weights
    fixed = [rec.parameter(w) for w in fixed if w is not None]
    return rec.make(kinds.LINEAR, (rec.node_of(x), *fixed), out.shape)


def _entrywise(
    rec: "Recorder", running: "Running", out: Tensor, index: int | None, **attributes: Any
) -> Node:
    """A scaling of each entry by a number of its own, or of all by one."""
    row, _ = running.operands()
    a, b = row[:2]
    x, factor = (a, b) if reached((a,)) else (b, a)
    if running.call.role == does.DIVIDE:
        factor = 1 / (factor.double() if isinstance(factor, Tensor) else factor)
    args = rec.node_of(x), rec.parameter(factor)
    return rec.make(kinds.LINEAR, args, out.shape, entrywise=True, **attributes)


def _scaling(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    """A division by what is held, such as the deviation of a norm, or by a number."""
    a, b = running.operands()[0][:2]
    if is_number(b if reached((a,)) else a):
        return _entrywise(rec, running, out, index, exact=True)
    if not (reached((a,)) and reached((b,))):
        return mapped(rec, running, out, index, op=kinds.RMS_NORM, exact=True)
    held = replace(running, args=(a, b.detach(), *running.args[2:]), settled={})
    return mapped(rec, held, out, index, op=kinds.RMS_NORM, exact=True)


def _add(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    row, _ = running.operands()
    terms = [_Term(x) for x in row[:2]]
    if running.call.role == does.SUBTRACT:
        terms[running.call.name != "rsub"].sign = -1
    terms[1].sign *= running.kwargs.get("alpha", 1)
    fixed = [x.sign * x.x for x in terms if not reached((x.x,))]
    hides = not running.rising and any(map(is_mask, fixed))
    of = [_term(rec, running, term) for term in terms]
    if not reached((terms[0].x,)):
        of.reverse()
    by_rule = running.kind or (running.rising and not any(is_number(term.x) for term in terms))
    exact = hides or not by_rule
    found = rec.make(kinds.ADD, of, out.shape, exact=exact)
    nothing = out.detach() == 0
    if not running.kind or not any(cancels(x, out) for x in fixed) or not nothing.any():
        return found
    # NumPy's rounding may differ, by which the terms would share what there is none of.
    kept = Map(lambda x: torch.where(nothing, 0, x))
    return rec.make(MOVE, (found,), out.shape, map=kept)


class _Term:
    def __init__(self, x: Any) -> None:
        self.x, self.sign = x, 1


def _term(rec: "Recorder", running: "Running", term: _Term) -> Node:
    x, sign = term.x, term.sign
    if not reached((x,)):
        fixed = x if sign == 1 else sign * x
        if not running.rising or is_number(x):
            return rec.parameter(fixed)
        role = TYPE if mark(x) == TOKEN_TYPE else POSITION
        origin, _ = getattr(x, ORIGIN, (None, None))
        name = origin.module if origin else rec.names.get(x.data_ptr(), "")
        return rec.leaf(fixed, role, name=name, origin=origin)
    found = rec.node_of(x)
    if sign == 1:
        return found
    factor = rec.parameter(float(sign))
    return rec.make(kinds.LINEAR, (found, factor), x.shape, entrywise=True, exact=True)


def _readout(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    """A readout of values, the second operand, by weights, the first one."""
    row, _ = running.operands()
    native = running.call.name in MATRICES and all(reached((x,)) for x in row[:2])
    if native and mark(row[0]) == WEIGHTS:
        return rec.make(kinds.READOUT, map(rec.node_of, row[:2]), out.shape)
    found = mapped(rec, running, out, index, op=kinds.READOUT)
    carrying = [x for x in row if reached((x,))]
    if len(carrying) == 1 or mark(carrying[0]) == WEIGHTS:
        return found
    function = found.attributes["map"].function
    swapped = Map(lambda weights, values: function(values, weights))
    return replace(found, args=found.args[::-1], attributes={**found.attributes, "map": swapped})


def _product(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    return rec.make(kinds.PRODUCT, map(rec.node_of, running.operands()[0][:2]), out.shape)


def _softmax(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    given = dict(zip(("input", "dim"), running.args, strict=False)) | running.kwargs
    x = given["input"]
    found = rec.node_of(running.settled.get(id(x), x))
    return rec.make(kinds.SOFTMAX, (found,), out.shape, axis=given["dim"])


def _layer_norm(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    given = dict(zip(ARGUMENTS, running.args, strict=False)) | running.kwargs
    x, shape = given["input"], tuple(given["normalized_shape"])
    weight = x.new_ones(shape) if given.get("weight") is None else given["weight"]
    bias = x.new_zeros(shape) if given.get("bias") is None else given["bias"]
    norm_eps, flat = given.get("eps", 1e-5), out.flatten(-len(shape))
    of = rec.node_of(running.settled.get(id(x), x))
    if len(shape) > 1:
        of = rec.make(MOVE, (of,), flat.shape, map=Map(lambda x: x.flatten(-len(shape))))
    args = of, rec.parameter(weight.flatten()), rec.parameter(bias.flatten())
    found = rec.make(kinds.LAYER_NORM, args, flat.shape, norm_eps=norm_eps)
    if len(shape) == 1:
        return found
    return rec.make(MOVE, (found,), out.shape, map=Map(lambda y: y.unflatten(-1, shape)))


def _move(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    name = running.call.name.rstrip("_")
    if name == "index_put" and (running.kwargs.get("accumulate") or running.args[3:] == (True,)):
        return _sum(rec, running, out, index)
    row, nesting, taken, of = taken_of(rec, running, learned=True)
    function = call(rec, running, index, taken, row, nesting)
    if name in FILLS:
        nothing = [out.new_full(x.attributes["shape"], torch.nan) for x in of]
        put = ~function(*nothing).isnan()
        numbers = torch.where(put, out.detach(), 0)
        if counts(numbers):
            filled: Callable[..., Tensor] = lambda *xs: torch.where(put, xs[-1], function(*xs[:-1]))
            of = [*of, fixed_leaf(rec, running, numbers)]
            return rec.make(MOVE, of, out.shape, map=Map(filled))
    return rec.make(MOVE, of, out.shape, map=Map(function))


FILLS = ("constant_pad_nd", "fill", "index_fill", "masked_fill", "pad", "setitem", "where")
"""These put numbers beside what they move, in which relevance ends as in any fixed tensor."""


def _sum(rec: "Recorder", running: "Running", out: Tensor, index: int | None) -> Node:
    return mapped(rec, running, out, index, op=kinds.LINEAR, exact=True)


KINDS: dict[str | None, Builder] = {
    kinds.LINEAR: _linear,
    kinds.ADD: _add,
    kinds.READOUT: _readout,
    kinds.PRODUCT: _product,
    kinds.SOFTMAX: _softmax,
}
"""By the kind of operation at whose output a rule acts."""

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

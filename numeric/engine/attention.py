"""The rules of fused attention: factors for Q, K and V, or scores that a stabiliser can reach.

In the limit Eqs. 3 to 5 divide what reaches Q and K by 4 and what reaches V by 2, and value-only
attention gives all to V.  As only these cotangents change, the model keeps its kernel.  A finite
epsilon acts on the scores, and spells attention out.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from axioms import kinds
from numeric.engine import rules, value_only
from numeric.engine.attended import Fused
from numeric.engine.calls import Use
from numeric.engine.marks import Function, Kwargs, carries
from numeric.engine.refusals import RANDOM

if TYPE_CHECKING:
    from numeric.engine.engine import Propagation

KINDS = (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
TO_SCORES = {
    kinds.BILINEAR_EPSILON: 0.5,
    kinds.CONSTANT: 0.0,
    kinds.VALUE_ONLY: 0.0,
    kinds.TAYLOR: 1.0,
    kinds.GRADIENT: 1.0,
}
"""By rule: the part of a plain cotangent that goes on towards Q and K."""
TO_VALUE = {kinds.BILINEAR_EPSILON: 0.5, kinds.VALUE_ONLY: 1.0, kinds.GRADIENT: 1.0}
"""By rule of the readout: the part that goes on towards V."""


def shares(scores: str, softmax: str, readout: str) -> tuple[float, float, float]:
    """The factors that these rules put on the cotangents of Q, K and V."""
    through = TO_SCORES[scores] * TO_SCORES[softmax] * TO_SCORES[readout]
    return through, through, TO_VALUE[readout]


def attention(engine: "Propagation", use: Use) -> Tensor:
    """query, key, value: (..., head, token, channel) -> (..., head, token, channel)"""
    given = dict(zip(ARGUMENTS, use.args, strict=False)) | use.kwargs
    query, key, value = (engine.settle(given.pop(x)) for x in ARGUMENTS[:3])
    mask = given.pop("attn_mask", None)
    biased = mask is not None and carries(mask)
    if given.get("dropout_p"):
        engine.refuse(RANDOM, "dropout_p of attention")
    if mask is not None and not biased:
        narrow = query.dtype == torch.float64 and mask.is_floating_point()
        mask = mask.detach().double() if narrow else mask.detach()
    fixed = not all(map(carries, (query, key, value)))  # products by it are linear maps
    odd = engine.attended is not None and query.ndim != 4
    if engine.spells or biased or fixed or odd:
        with engine.again():
            return _spelled_out(query, key, value, mask, **given)
    if engine.damping is not None:
        mask, given = _damped(engine, query, key, mask, given)
    factors = shares(*map(engine.rule, KINDS))
    out = _by_factors(factors, use.func, query, key, value, attn_mask=mask, **given)
    if engine.attended is not None:
        q, k, v = (x.detach() for x in (query, key, value))
        place = engine.places.describe()
        engine.attended.append(Fused(get_gradient_edge(out), q, k, v, mask, given, place))
    return out


def _damped(
    engine: "Propagation", query: Tensor, key: Tensor, mask: Tensor | None, given: Kwargs
) -> tuple[Tensor | None, Kwargs]:
    """Mask and other arguments that lower the scores of this call."""
    added = engine.lowered(key.shape[2])
    if added is None:
        return mask, given
    added = added[:, None].to(query.dtype)
    if given.get("is_causal"):
        mask = torch.ones(added.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        added = added.where(mask, torch.finfo(added.dtype).min)
    elif mask is not None:
        added = added + mask
    return added, given | {"is_causal": False}


def _by_factors(
    factors: tuple[float, float, float],
    func: Function,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    **given: Any,
) -> Tensor:
    call: value_only.Run = lambda q, k, v: func(q, k, v, **given)
    if factors == (1, 1, 1):
        return call(query, key, value)
    if all(factors):
        return call(*rules.scale_each((query, key, value), factors))
    value = rules.scale(value, factors[2])
    if value_only.knows(query, key, causal=given.get("is_causal")):
        scaling, mask = given.get("scale") or query.shape[-1] ** -0.5, given["attn_mask"]
        return value_only.read_out(call, query.detach(), key.detach(), value, mask, scaling)
    return call(query.detach(), key.detach(), value)


def _spelled_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The same by its operations, each of which is looked up."""
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(groups, dim=-3) for x in (key, value))
    scores = torch.matmul(query, key.mT) * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = seen if mask is None else mask & seen
    if mask is None or mask.dtype != torch.bool:
        scores = scores if mask is None else scores + mask
        return torch.matmul(torch.softmax(scores, dim=-1), value)
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)  # of rows that see nothing
    return torch.matmul(weights, value)

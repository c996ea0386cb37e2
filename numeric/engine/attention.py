"""Rules of fused attention: factors for Q, K and V, or scores with a stabiliser.

In the limit Eqs. 3 to 5 divide the cotangents of Q and K by 4 and the cotangent of V by 2, and
value-only attention gives all to V.  As only these cotangents change, the model keeps its kernel.
A finite epsilon acts on the scores, and spells attention out.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import rules, value_only
from lrp_axioms.numeric.engine.at_output import RULES
from lrp_axioms.numeric.engine.blocks import Again
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.marks import Function, Kwargs, carries
from lrp_axioms.numeric.engine.refusals import RANDOM
from lrp_axioms.numeric.engine.rulebook import Rulebook

KINDS = (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def are_factors(chosen: Mapping[str, str]) -> bool:
    """Decides whether these rules by kind leave attention fused."""
    known = [RULES[x] for x in chosen.items() if x[0] in KINDS and x in RULES]
    return all(rule.to_scores is not None for rule in known)


def shares(scores: str, softmax: str, readout: str) -> tuple[float, float, float]:
    """The factors that these rules put on the cotangents of Q, K and V.

    Raises ValueError for a rule that is none.
    """
    found = [RULES[x] for x in zip(KINDS, (scores, softmax, readout), strict=True)]
    through = 1.0
    for rule in found:
        if rule.to_scores is None:
            raise ValueError(
                f"{rule.kind} by {rule.name!r} is no factor on what reaches Q, K and V; call "
                "attribute() for each composite"
            )
        through *= rule.to_scores
    return through, through, found[-1].to_value


class Operands(NamedTuple):
    """A call of fused attention, whose operands are (..., head, token, channel).

    fuses: whether its rules are factors, because relevance comes to Q, K and V, and to them alone
    """

    func: Function
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    given: Kwargs
    fuses: bool


def operands(engine: Rulebook, use: Use) -> Operands:
    given = dict(zip(ARGUMENTS, use.args, strict=False)) | use.kwargs
    query, key, value = (engine.settle(given.pop(x)) for x in ARGUMENTS[:3])
    mask = given.pop("attn_mask", None)
    biased = mask is not None and carries(mask)
    if given.get("dropout_p"):
        engine.refuse(RANDOM, "dropout_p of attention")
    if mask is not None and not biased:
        narrow = query.dtype == torch.float64 and mask.is_floating_point()
        mask = mask.detach().double() if narrow else mask.detach()
    varies = all(map(carries, (query, key, value)))  # products by a fixed tensor are linear maps
    return Operands(use.func, query, key, value, mask, given, varies and not biased)


def attention(engine: Rulebook, use: Use) -> Tensor:
    """Keeps attention fused where its rules are factors."""
    found = operands(engine, use)
    return apply_factors(engine, found) if found.fuses else spell_out(found)


def unfuse(engine: Rulebook, use: Use) -> Tensor:
    """Spells attention out, so that rules act inside of it."""
    return spell_out(operands(engine, use))


def apply_factors(engine: Rulebook, found: Operands) -> Tensor:
    func, query, key, value, mask, given, _ = found
    factors = shares(*map(engine.rule, KINDS))
    call: value_only.Run = lambda q, k, v: func(q, k, v, attn_mask=mask, **given)
    if factors == (1, 1, 1):
        return call(query, key, value)
    if all(factors):
        return call(*rules.scale_each((query, key, value), factors))
    value = rules.scale(value, factors[2])
    if value_only.knows(query, key, causal=given.get("is_causal")):
        scaling = given.get("scale") or query.shape[-1] ** -0.5
        return value_only.ReadOut.apply(call, query.detach(), key.detach(), value, mask, scaling)
    return call(query.detach(), key.detach(), value)


def spell_out(found: Operands) -> Tensor:
    """Computes attention by its operations, so that each is looked up."""
    with Again():
        return _spell_out(found.query, found.key, found.value, found.mask, **found.given)


def _spell_out(
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
    weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0)  # rows that see nothing
    return torch.matmul(weights, value)

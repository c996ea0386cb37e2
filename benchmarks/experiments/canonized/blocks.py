"""Softmax attention as one operation of three operands, O = softmax(Q K'/sqrt d) V.

With c = R_O / O, an operand x of the block gets x times (the gradient of <O, c> with respect to x)
times its share.  That of V adds up to its share of R_O; those of Q and K each add up to theirs of
what Eq. 5 hands through the softmax, which is not R_O.  The rules of all other operations are those
of AttnLRP.  Whichever way products inside the block are bracketed, the explanation is the same.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from axioms import kinds
from axioms.composites import ATTNLRP, Composite
from numeric import Attribution, attribute
from numeric.fast import rules

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
BlockRule = Callable[[Attend, Tensor, Tensor, Tensor], Tensor]
"""(attention, Q, K, V) -> its output, whose gradient is that of the rule."""

INSIDE = (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)
BLOCKS = Composite("attention blocks", ATTNLRP.rules | dict.fromkeys(INSIDE, kinds.GRADIENT))
"""AttnLRP, with the plain gradient inside attention, where a rule of the block acts instead."""
NODES = 8  # of Gauss and Legendre; on the embedded model within 1e-4 of 48 nodes


def shared(query: float, key: float, value: float) -> BlockRule:
    """Fixed shares of the operands.

    (1/4, 1/4, 1/2) is AttnLRP, the equal splits of two nested products; (0, 0, 1) is CP-LRP; thirds
    are what merged linear attention gets (theorem 9).
    """

    def rule(attend: Attend, *operands: Tensor) -> Tensor:
        each = zip(operands, (query, key, value), strict=True)
        return attend(*(rules.scale(x, share) for x, share in each))

    return rule


def integrated(nodes: int = NODES) -> BlockRule:
    """Integrated Gradients of the block from Q = K = V = 0, which conserve R_O.

    Of linear attention they are thirds (theorem 4); here no softmax is linearised at one point.
    """
    path = _path(nodes)

    def rule(attend: Attend, *operands: Tensor) -> Tensor:
        # Attention at t times its operands has t times the gradient there.
        slopes = sum((w / t * attend(*(x * t for x in operands)) for t, w in path), torch.zeros(()))
        return attend(*operands).detach() + (slopes - slopes.detach())

    return rule


def softmax_along_path(nodes: int = NODES) -> BlockRule:
    """AttnLRP, with the mean slope of the softmax between equal weights and its own (theorem 62).

    A softmax over n keys then absorbs R_i / (n A_i) of weight i, what equal weights would have
    given, where Eq. 5 absorbs its Taylor term.
    """
    path = _path(nodes)

    def rule(attend: Attend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k = (rules.scale(x, 1 / 4) for x in (query, key))
        held = value.detach()
        slopes = sum((w / t * attend(q * t, k, held) for t, w in path), torch.zeros(()))
        read = attend(query.detach(), key.detach(), rules.scale(value, 1 / 2))
        return read + (slopes - slopes.detach())

    return rule


def _path(nodes: int) -> list[tuple[float, float]]:
    """Points between 0 and 1 and their weights, which add up to 1."""
    at, weights = np.polynomial.legendre.leggauss(nodes)
    return [((t + 1) / 2, w / 2) for t, w in zip(at.tolist(), weights.tolist(), strict=True)]


class Blocks(TorchFunctionMode):
    """A block in which ``act`` stands in for fused attention; it counts how often it did."""

    def __init__(self, act: BlockRule) -> None:
        super().__init__()
        self.act, self.calls = act, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        self.calls += 1
        query, key, value, *others = args
        return self.act(lambda *x: func(*x, *others, **(kwargs or {})), query, key, value)


def explained(
    model: PreTrainedModel, inputs: Any, rule: BlockRule, target: Any = None
) -> Attribution:
    """AttnLRP with ``rule`` at every attention block, in logits.

    Raises ValueError for a model whose attention is not fused.
    """
    with Blocks(rule) as blocks:
        found = attribute(model, inputs, BLOCKS, target)
    if not blocks.calls:
        raise ValueError(
            f"{type(model).__name__} calls no fused attention, which these rules act on; load it "
            "with attn_implementation='sdpa'"
        )
    return found

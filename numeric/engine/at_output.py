"""Every rule of ``axioms.kinds`` as one record: how it acts on the output of an operation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrp_axioms.axioms import kinds
from lrp_axioms.numeric.engine import rules
from lrp_axioms.numeric.engine.marks import WEIGHTS, marked

MASKED = -1e3  # terms below this hide scores: exp(-1e3) is 0 in float64
AtOutput = Callable[[Tensor, float, Tensor | None], Tensor]
"""(output, stabiliser, bias) -> the output, with the rule in place of its gradient."""
Compute = Callable[..., Tensor]
"""(function, its arguments) -> the output of the function, before the rule acts there."""


def cancels(fixed: Tensor | float, z: Tensor) -> bool:
    """Decides whether the term ``fixed`` of the sum ``z`` may be computed to cancel another one."""
    return isinstance(fixed, Tensor) and fixed.shape == z.shape


def is_mask(x: Tensor | float) -> bool:
    """Decides whether ``x`` hides scores or adds 0 to them, as in a text that needs no padding."""
    return isinstance(x, Tensor) and bool(((x == 0) | (x < MASKED)).all())


def _sum(z: Tensor, eps: float, fixed: Tensor | None) -> Tensor:
    """Applies the rule of sums; a fixed term may cancel an activation, as in straight-through code.

    A sum of 0 has no relevance to share, and in the limit of a small stabiliser the activation
    gets none; the gradient alone would give it some, and the fixed term minus as much.
    A mask is no term: hidden scores have no relevance, and all others stay as they are.
    """
    if eps:
        return z if fixed is not None and is_mask(fixed) else rules.epsilon(z, eps=eps)
    return z if fixed is None or not cancels(fixed, z) else rules.scale(z, z.detach() != 0)


def _cut_scores(z: Tensor, eps: float, bias: Tensor | None) -> Tensor:
    return marked(z.detach(), WEIGHTS)  # results are still attention weights


def _plainly(f: Callable[..., Tensor], *given: Any, **named: Any) -> Tensor:
    return f(*given, **named)


def _unchanged(z: Tensor, eps: float, bias: Tensor | None) -> Tensor:
    return z


@dataclass(frozen=True)
class Rule:
    """One rule at one kind of operation.

    compute: gives the output another gradient than the function has, before ``at_output``
    to_scores, to_value: in fused attention, the part of a plain cotangent that goes on towards Q
    and K, and by a readout towards V; None if the rule is no factor, and spells attention out
    """

    kind: str
    name: str
    at_output: AtOutput = _unchanged
    compute: Compute = _plainly
    to_scores: float | None = None
    to_value: float = 0.0


_epsilon: AtOutput = lambda z, eps, bias: rules.epsilon(z, eps=eps)
_bilinear: AtOutput = lambda z, eps, bias: rules.bilinear_epsilon(z, eps=eps)
_identity: Compute = lambda f, x, *given, **named: rules.identity(
    lambda x: f(x, *given, **named), x, slope_at_zero=torch.inf
)

RECORDS = (
    Rule(kinds.LINEAR, kinds.EPSILON, _epsilon),
    Rule(kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS,
         lambda z, eps, bias: rules.epsilon(z, eps=eps, bias=bias)),
    Rule(kinds.LINEAR, kinds.GRADIENT),
    Rule(kinds.ADD, kinds.EPSILON, _sum),
    Rule(kinds.ADD, kinds.GRADIENT),
    Rule(kinds.SCORES, kinds.BILINEAR_EPSILON, _bilinear, to_scores=0.5),
    Rule(kinds.SCORES, kinds.CONSTANT, _cut_scores, to_scores=0.0),
    Rule(kinds.SCORES, kinds.GRADIENT, to_scores=1.0),
    Rule(kinds.SOFTMAX, kinds.TAYLOR, to_scores=1.0),  # Eq. 5 is the plain gradient
    Rule(kinds.SOFTMAX, kinds.CONSTANT, lambda z, eps, bias: z.detach(), to_scores=0.0),
    Rule(kinds.SOFTMAX, kinds.IDENTITY, compute=_identity),
    Rule(kinds.SOFTMAX, kinds.GRADIENT, to_scores=1.0),
    Rule(kinds.READOUT, kinds.BILINEAR_EPSILON, _bilinear, to_scores=0.5, to_value=0.5),
    Rule(kinds.READOUT, kinds.VALUE_ONLY, _epsilon,  # of weights that are cut off
         to_scores=0.0, to_value=1.0),
    Rule(kinds.READOUT, kinds.GRADIENT, to_scores=1.0, to_value=1.0),
    Rule(kinds.BILINEAR, kinds.BILINEAR_EPSILON, _bilinear),
    Rule(kinds.BILINEAR, kinds.GRADIENT),
    Rule(kinds.PRODUCT, kinds.EQUAL_SPLIT, lambda z, eps, bias: rules.scale(z, 0.5)),
    Rule(kinds.PRODUCT, kinds.GRADIENT),
    Rule(kinds.LAYER_NORM, kinds.HELD_DEVIATION, _epsilon,  # of the linear map that it then is
         compute=lambda f, *given: rules.HeldLayerNorm.apply(*given)),
    Rule(kinds.LAYER_NORM, kinds.IDENTITY, compute=_identity),
    Rule(kinds.LAYER_NORM, kinds.GRADIENT),
    Rule(kinds.RMS_NORM, kinds.HELD_DEVIATION),  # these act where the deviation is computed
    Rule(kinds.RMS_NORM, kinds.GRADIENT),
    Rule(kinds.ACTIVATION, kinds.IDENTITY),  # and these where a function of entries ends
    Rule(kinds.ACTIVATION, kinds.GRADIENT),
)  # fmt: skip
RULES = {(rule.kind, rule.name): rule for rule in RECORDS}
"""By kind and rule: all that are implemented."""

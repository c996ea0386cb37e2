"""Applies the rules of a Composite to a stock model, for as long as a ``with`` block lasts."""

from numbers import Real
from typing import Any

import torch
from torch import nn

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.engine.engine import Propagation


def applied(
    model: nn.Module, composite: Composite, *, eps: float = 0.0, turns: bool = False
) -> Propagation:
    """Opens a block where ``model`` runs under the propagation rules of ``composite``.

    The model's outputs inside are its usual ones, and the gradient of a logit with respect
    to ``entries.all[0].embedding`` is ``relevance / embedding``.  With ``eps == 0`` attention runs
    on whatever kernel the model is set to; a finite ``eps`` acts on the scores and therefore
    spells attention out.  With ``turns`` rotary position keeps half of the relevance of queries
    and keys, noted in ``turned``; without it rotation is a fixed linear map.
    Activations in float64 stay in float64, where stock code would pass through float32.
    The model itself is never changed, and the rules hold in this thread alone.
    Raises ValueError (bad ``eps``); on leaving the block UnassignedOperation, with all functions
    without a rule, and ValueError if ``composite`` names a layer or module without operations.
    """
    floats = (x.dtype for x in model.parameters() if x.is_floating_point())
    check_stabiliser(eps, next(floats, torch.float32))
    return Propagation(model, composite, eps=eps, turns=turns)


def check_stabiliser(eps: Any, dtype: torch.dtype = torch.float64) -> None:
    """Raises ValueError unless ``eps`` is 0 or well above subnormal numbers."""
    real = isinstance(eps, Real) and not isinstance(eps, bool)
    if not real or not 0 <= eps < (2**63 if isinstance(eps, int) else float("inf")):
        raise ValueError(
            f"eps={eps!r} ({type(eps).__name__}): the stabiliser must be finite and >= 0; "
            "pass eps=0 for the limit"
        )
    number = torch.finfo(torch.promote_types(dtype, torch.float32))  # as in rules.wide
    if 0 < eps < (least := number.tiny / number.eps):
        raise ValueError(
            f"eps={eps!r}: in {number.dtype} the stabiliser must be 0 or at least {least:.0e}, "
            "because processors may take numbers near it for 0; pass eps=0 for the limit, or more"
        )

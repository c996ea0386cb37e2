"""GIM: gradient x word with a warmer softmax, held norms and shared gradients of products."""

from collections.abc import Iterator
from functools import partial
from numbers import Real
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.axioms.composites import GIM
from lrp_axioms.numeric.engine import attention, handlers, packed
from lrp_axioms.numeric.engine import operations as does
from lrp_axioms.numeric.engine.calls import Use
from lrp_axioms.numeric.engine.engine import Propagation
from lrp_axioms.numeric.engine.marks import Function
from lrp_axioms.numeric.engine.rulebook import Rulebook
from lrp_axioms.numeric.methods.lrp import lrp
from lrp_axioms.numeric.models.batches import Batch
from lrp_axioms.numeric.targets.readout import Found, Readout


def gim(
    model: PreTrainedModel, batch: Batch, readout: Readout, *, temperature: float = 2.0
) -> Iterator[Found]:
    """Computes each word embedding times its gradient as GIM modifies it (Edin et al., 2025).

    The rules are ``axioms.composites.GIM`` (arXiv 2505.17630).  What arrives at a softmax as G is
    handed on as A' (G - sum A' G), A' being the weights at ``temperature``, without the factor
    1 / temperature, as in the authors' package gim-explain 0.1.4.  With ``temperature=1`` the
    result is ``lrp`` of the composite.  The authors multiply by the word less a baseline token's,
    and this by the whole word; it is in logits, and not conserved.
    Attention is spelled out, and every softmax of the model is changed.
    Raises ValueError for a temperature that is no finite number above 0.
    """
    real = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not real or not 0 < temperature < float("inf"):
        raise ValueError(f"temperature={temperature!r}: pass a finite number above 0, such as 2")
    rules = Propagation(packed.unpack(model), GIM)
    warm = partial(_softmax, temperature)
    rules.handlers |= {does.SOFTMAX: warm, does.ATTENTION: attention.unfuse}
    for found in lrp(model, batch, readout, rules, composite=GIM, share="word"):
        yield found._replace(details={})


def _softmax(temperature: float, engine: Rulebook, use: Use) -> Tensor:
    use = handlers.in_own_dtype(use)
    return handlers.softmax(engine, use._replace(func=partial(_warm, temperature, use.func)))


def _warm(temperature: float, softmax: Function, input: Tensor, *args: Any, **named: Any) -> Tensor:
    """Returns softmax(z), with temperature times the gradient of softmax(z / temperature)."""
    a: Tensor = softmax(input, *args, **named).detach()
    warm = temperature * softmax(input / temperature, *args, **named)
    out: Tensor = a + (warm - warm.detach())
    return out

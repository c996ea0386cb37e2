"""Rules that act on an operation's output: the function of each kind and rule."""

from collections.abc import Callable

from torch import Tensor

from axioms import kinds
from numeric.engine import rules
from numeric.engine.marks import WEIGHTS, marked

MASKED = -1e3  # terms below this hide scores: exp(-1e3) is 0 in float64
AtOutput = Callable[[Tensor, float, Tensor | None], Tensor]
"""(output, stabiliser, bias) -> the output, with the rule in place of its gradient."""


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


_unchanged: AtOutput = lambda z, eps, bias: z
_epsilon: AtOutput = lambda z, eps, bias: rules.epsilon(z, eps=eps)
_bilinear: AtOutput = lambda z, eps, bias: rules.bilinear_epsilon(z, eps=eps)
AT_OUTPUT: dict[tuple[str, str], AtOutput] = {
    (kinds.LINEAR, kinds.EPSILON): _epsilon,
    (kinds.LINEAR, kinds.EPSILON_WITHOUT_BIAS): lambda z, eps, bias: rules.epsilon(
        z, eps=eps, bias=bias
    ),
    (kinds.LINEAR, kinds.GRADIENT): _unchanged,
    (kinds.ADD, kinds.EPSILON): _sum,
    (kinds.ADD, kinds.GRADIENT): _unchanged,
    (kinds.SCORES, kinds.BILINEAR_EPSILON): _bilinear,
    (kinds.SCORES, kinds.CONSTANT): _cut_scores,
    (kinds.SCORES, kinds.GRADIENT): _unchanged,
    (kinds.SOFTMAX, kinds.TAYLOR): _unchanged,  # Eq. 5 is the plain gradient
    (kinds.SOFTMAX, kinds.CONSTANT): lambda z, eps, bias: z.detach(),
    (kinds.SOFTMAX, kinds.GRADIENT): _unchanged,
    (kinds.READOUT, kinds.BILINEAR_EPSILON): _bilinear,
    (kinds.READOUT, kinds.VALUE_ONLY): _epsilon,  # the weights are cut off
    (kinds.READOUT, kinds.GRADIENT): _unchanged,
    (kinds.BILINEAR, kinds.BILINEAR_EPSILON): _bilinear,
    (kinds.BILINEAR, kinds.GRADIENT): _unchanged,
    (kinds.PRODUCT, kinds.EQUAL_SPLIT): lambda z, eps, bias: rules.scale(z, 0.5),
    (kinds.PRODUCT, kinds.GRADIENT): _unchanged,
    (kinds.LAYER_NORM, kinds.HELD_DEVIATION): _epsilon,  # the norm is a linear map then
    (kinds.LAYER_NORM, kinds.IDENTITY): _unchanged,
    (kinds.LAYER_NORM, kinds.GRADIENT): _unchanged,
}
"""By kind and rule, for operations whose rule acts on their output."""
WHERE_HELD = {(kinds.RMS_NORM, kinds.HELD_DEVIATION), (kinds.RMS_NORM, kinds.GRADIENT)}
"""Kinds and rules that act where the deviation is computed."""
KNOWN = {
    *AT_OUTPUT,
    *WHERE_HELD,
    *((kinds.ACTIVATION, rule) for rule in kinds.RULES[kinds.ACTIVATION]),
}
"""Every kind and rule that is implemented."""

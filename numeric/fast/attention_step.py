"""The rules of the attention step: factors for Q, K and V, or scores that a stabiliser can reach.

In the limit Eqs. 3 to 5 divide what reaches Q and K by 4 and what reaches V by 2, and value-only
attention gives all to V.  As only these cotangents change, the model keeps its kernel, in the
forward pass at least.  Factors act inside the stock fused attention ("sdpa"), or, with any other,
at the projections.  A finite epsilon acts on the scores, and spells attention out.
"""

from functools import partial

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, masking_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from axioms import kinds
from numeric.fast import families, patches, rules, value_only

FUSED, EXPLICIT = "lrp_axioms_fused", "lrp_axioms_explicit"
KINDS = (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)
RULES = "lrp_axioms_rules"  # attribute by which an attention module hands its rules to these


def _unchanged(z, *, eps):
    return z


STEP = {
    (kinds.SCORES, kinds.BILINEAR_EPSILON): (0.5, rules.bilinear_epsilon),
    (kinds.SCORES, kinds.CONSTANT): (0.0, _unchanged),
    (kinds.SCORES, kinds.GRADIENT): (1.0, _unchanged),
    (kinds.SOFTMAX, kinds.TAYLOR): (1.0, _unchanged),
    (kinds.SOFTMAX, kinds.CONSTANT): (0.0, _unchanged),
    (kinds.SOFTMAX, kinds.GRADIENT): (1.0, _unchanged),
    (kinds.READOUT, kinds.BILINEAR_EPSILON): (0.5, rules.bilinear_epsilon),
    (kinds.READOUT, kinds.VALUE_ONLY): (0.0, rules.epsilon),
    (kinds.READOUT, kinds.GRADIENT): (1.0, _unchanged),
}
"""By kind and rule: the part of a plain cotangent that goes on towards Q and K as eps -> 0, and
what acts on the output with a finite eps."""
TO_VALUE = {kinds.BILINEAR_EPSILON: 0.5, kinds.VALUE_ONLY: 1.0, kinds.GRADIENT: 1.0}
"""By rule of the readout: the part that goes on towards V."""


def register():
    """Makes both known to Transformers by name; no model uses them until its config says so."""
    AttentionInterface.register(FUSED, fused)
    AttentionInterface.register(EXPLICIT, explicit)
    # Without their masks Transformers would pass none at all, silently.
    AttentionMaskInterface.register(FUSED, masking_utils.sdpa_mask)
    AttentionMaskInterface.register(EXPLICIT, masking_utils.eager_mask)


def shares(chosen: dict[str, str]) -> tuple[float, float, float]:
    """The factors that the rules of one attention module put on the cotangents of Q, K and V."""
    return to_scores(chosen), to_scores(chosen), TO_VALUE[chosen[kinds.READOUT]]


def to_scores(chosen: dict[str, str]) -> float:
    """The part of a plain cotangent that reaches Q and K."""
    parts = [STEP[kind, chosen[kind]][0] for kind in KINDS]
    return parts[0] * parts[1] * parts[2]  # the compiler traces no math.prod


def spelled_out(module: nn.Module, chosen: dict[str, str], *, eps: float) -> list:
    """Patches for a finite stabiliser, of a module whose implementation is set to EXPLICIT."""
    return [partial(patches.set_attribute, module, RULES, (chosen, eps))]


def in_the_limit(module: nn.Module, chosen: dict[str, str], *, configs: dict) -> list:
    """Patches in the limit: inside the stock fused attention, one step of the backward pass.

    ``configs`` as in ``patches.set_attention``.
    """
    factors = shares(chosen)
    if factors == (1, 1, 1):
        return []
    called = ALL_ATTENTION_FUNCTIONS.get(module.config._attn_implementation)
    if called is not sdpa_attention_forward:
        return at_projections(module, chosen)
    return [
        partial(patches.set_attribute, module, RULES, factors),
        partial(patches.set_attention, module, FUSED, configs),
    ]


def at_projections(module: nn.Module, chosen: dict[str, str]) -> list:
    """Patches in the limit that know nothing of how the module attends."""
    factors = shares(chosen)
    names = families.ATTENTION[type(module)]
    if len(set(names)) == 1:  # Q, K and V are thirds of one output
        packed = partial(_scale_thirds, factors=factors)
        return [partial(patches.change_output, getattr(module, names[0]), packed)]
    return [
        partial(patches.change_output, getattr(module, name), partial(rules.scale, factor=factor))
        for name, factor in zip(names, factors, strict=True)
        if factor != 1
    ]


def _scale_thirds(qkv, factors):
    thirds = zip(qkv.chunk(3, dim=-1), factors, strict=True)
    return torch.cat([rules.scale(x, factor) for x, factor in thirds], dim=-1)


def fused(module, query: Tensor, key: Tensor, value: Tensor, attention_mask, **options):
    """The stock fused attention with the factors of ``module`` on the cotangents of Q, K and V.

    query, key, value: (batch, head, token, channel) -> (batch, token, head, channel), None
    """

    def run(query, key, value):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)[0]

    factors = getattr(module, RULES, (1, 1, 1))  # none left, if the scope has ended meanwhile
    if all(factors):
        return run(*rules.scale_each((query, key, value), factors)), None
    query, key, value = (
        rules.scale(x, f) for x, f in zip((query, key, value), factors, strict=True)
    )
    if not any(factors[:2]) and value_only.knows(module, query, key, attention_mask):
        scaling = options.get("scaling") or query.shape[-1] ** -0.5
        return value_only.read_out(run, query, key, value, attention_mask, scaling), None
    return run(query, key, value), None


def explicit(module, query, key, value, attention_mask, scaling=None, **_):
    """Attention with both bilinear layers visible, so that a finite epsilon can act on them.

    query, key, value: (batch, head, token, channel) -> (batch, token, head, channel), weights
    """
    chosen, eps = getattr(module, RULES)
    scores = (query @ key.mT) * (scaling or query.shape[-1] ** -0.5)
    at_scores, at_softmax, at_readout = (STEP[kind, chosen[kind]][1] for kind in KINDS)
    scores = at_scores(scores, eps=eps)
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = at_softmax(torch.softmax(scores, dim=-1), eps=eps)
    out = at_readout((weights if to_scores(chosen) else weights.detach()) @ value, eps=eps)
    return out.transpose(1, 2).contiguous(), weights

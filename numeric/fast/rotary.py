"""Where stock models turn queries and keys, and the half of their relevance that turning keeps.

q' = q cos + rot(q) sin: Eq. 1 on the sum hands R_q' to its two terms, and each splits its part in
half between q and the layer's (cos, sin).  Over the channels of a head q . c_q = q' . c_q' for
cotangents c, because a rotation is linear, so both halves can be read where the rotation starts.
"""

from functools import partial

import torch
from torch import Tensor, nn
from transformers.models.llama import modeling_llama as llama
from transformers.models.mistral import modeling_mistral as mistral
from transformers.models.qwen2 import modeling_qwen2 as qwen2
from transformers.models.qwen3 import modeling_qwen3 as qwen3

from axioms import kinds
from numeric.fast import patches, rules

ROTARY = {
    llama.LlamaAttention: ("q_proj", "k_proj"),
    mistral.MistralAttention: ("q_proj", "k_proj"),
    qwen2.Qwen2Attention: ("q_proj", "k_proj"),
    qwen3.Qwen3Attention: ("q_norm", "k_norm"),
}
"""Attention modules, and the children whose outputs are turned."""


def rotary_patches(sites, composite, turned: dict[int, list], share) -> list:
    """Keeps every turned query and key with its factor in ``turned``, by layer, and halves it.

    ``share(rules)`` is the part of a plain cotangent there that the rules of its
    attention let through.  Raises ValueError that lists the modules at which products do not
    split their relevance.
    """
    found = {}
    for site in sites:
        if type(site.module) in ROTARY:
            found.setdefault(site.module, (site.operation, {}))[1][site.operation.kind] = (
                composite.rule(
                    site.operation.kind, layer=site.operation.layer, module=site.operation.module
                )
            )
    wrong = [
        op.module
        for op, _ in found.values()
        if composite.rule(kinds.PRODUCT, layer=op.layer, module=op.module) != kinds.EQUAL_SPLIT
    ]
    if wrong:
        raise ValueError(
            f"composite {composite.name!r} does not split products at {', '.join(wrong)}, where "
            f"rotary position needs it; pass rules with {kinds.PRODUCT!r}: {kinds.EQUAL_SPLIT!r}, "
            "or positions=None"
        )
    plan = []
    for module, (operation, chosen) in found.items():
        kept = turned.setdefault(operation.layer, [])
        for name in ROTARY[type(module)]:
            halve = partial(_halve, kept=kept, factor=share(chosen))
            plan.append(partial(patches.change_output, getattr(module, name), halve))
    return plan


def _halve(x: Tensor, *, kept: list, factor: float) -> Tensor:
    """``x`` handing on half of its cotangent; what it is turned by keeps the other half."""
    y = rules.scale(x, 0.5)
    kept.append((y, 0.5 * factor))
    return y


def rotary_relevance(turned: dict[int, list], cotangents: dict[int, Tensor]) -> Tensor:
    """Relevance of each layer's (cos, sin) by channel of q and k: (batch, layer, token, channel).

    ``cotangents`` by the identity of each kept tensor; those without one carry no relevance.
    """
    layers = []
    for layer in sorted(turned):
        parts = []
        for y, factor in turned[layer]:
            flat = y.detach().flatten(2)
            c = cotangents.get(id(y))
            parts.append(torch.zeros_like(flat) if c is None else factor * flat * c.flatten(2))
        layers.append(torch.cat(parts, dim=-1))
    return torch.stack(layers, dim=1)


def has_rotary(model: nn.Module) -> bool:
    return any(type(module) in ROTARY for module in model.modules())

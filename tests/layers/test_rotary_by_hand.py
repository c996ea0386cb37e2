"""LLaMA and its like by hand: a forward pass whose plain gradient is AttnLRP."""

import pytest
import torch

from numeric import attribute
from tests.layers.test_families import ROTARY, close, half
from tests.support import cases


def by_hand(model, ids):
    """AttnLRP of one text (token,) by its forward pass in other words, for the first class."""
    core = model.model

    def norm(layer, x):
        rms = (x.pow(2).mean(-1, keepdim=True) + layer.variance_epsilon).sqrt()
        return x / rms.detach() * layer.weight

    def rotated(x):
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)

    def heads(attention, name, x):
        y = getattr(attention, f"{name}_proj")(x).unflatten(-1, (-1, attention.head_dim))
        y = norm(getattr(attention, f"{name}_norm"), y) if hasattr(attention, f"{name}_norm") else y
        return y.transpose(0, 1)  # (head, token, channel)

    x = embedding = core.embed_tokens(ids).detach().requires_grad_()
    cos, sin = (
        angle[0, :, : angle.shape[-1] // 2]
        for angle in core.rotary_emb(x, torch.arange(len(ids))[None])
    )
    hidden = torch.full((len(ids), len(ids)), -torch.inf).double().triu(1)
    for layer in core.layers:
        h, attention = norm(layer.input_layernorm, x), layer.self_attn
        q, k, v = (heads(attention, name, h) for name in "qkv")
        k, v = (y.repeat_interleave(len(q) // len(y), 0) for y in (rotated(k), v))
        scores = half(rotated(q), k.mT, torch.matmul) * attention.head_dim**-0.5 + hidden
        out = half(scores.softmax(-1), v, torch.matmul)
        x = x + attention.o_proj(out.transpose(0, 1).flatten(1))
        h, mlp = norm(layer.post_attention_layernorm, x), layer.mlp
        gate = mlp.gate_proj(h)
        gate = gate * gate.sigmoid().detach()
        x = x + mlp.down_proj(half(gate, mlp.up_proj(h), torch.mul))
    logit = model.score(norm(core.norm, x))[-1, 0]
    (c,) = torch.autograd.grad(logit, embedding)
    return (embedding * c).sum(-1).detach()


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_decoders_are_as_by_hand(name):
    model, inputs = cases.family(name)
    a = attribute(model, inputs, target=0)
    want = by_hand(model, inputs["input_ids"][0])
    close(a.relevance[0], want)

"""Value-only attention gives V the cotangent of the stock fused kernel, and Q and K none."""

import pytest
import torch
from torch import nn

from numeric import attribute
from numeric.fast import value_only
from tests import cases

BATCH, HEADS, TOKENS, CHANNELS = 3, 2, 5, 4
MASKS = {
    "none": lambda: None,
    "padding": lambda: torch.arange(TOKENS) < torch.tensor([5, 3, 1])[:, None, None, None],
    "shared by the batch": lambda: torch.ones(1, 1, TOKENS, TOKENS).tril() > 0,
    "rows that see nothing": lambda: torch.ones(1, 1, TOKENS, TOKENS).tril(-2) > 0,
    "additive": lambda: torch.linspace(-3, 3, TOKENS * TOKENS).view(1, 1, TOKENS, TOKENS).double(),
}


@pytest.fixture
def qkv():
    drawn = torch.Generator().manual_seed(0)
    size = BATCH, TOKENS, HEADS, CHANNELS
    made = [torch.randn(size, generator=drawn, dtype=torch.float64) for _ in range(4)]
    *qkv, c = made
    return [x.transpose(1, 2).requires_grad_() for x in qkv], c


def attend(run, q, k, v, mask, c, *, causal=False):
    module = nn.Module()
    module.is_causal = causal
    out, _ = run(module, q, k, v, mask)
    return out, torch.autograd.grad(out, (q, k, v), c, allow_unused=True)


@pytest.mark.parametrize("at_once", [1, value_only.AT_ONCE], ids=["one by one", "whole batch"])
@pytest.mark.parametrize("mask", MASKS)
def test_v_gets_the_cotangent_of_the_fused_kernel(qkv, mask, at_once, monkeypatch):
    monkeypatch.setattr(value_only, "AT_ONCE", at_once)
    (q, k, v), c = qkv
    mask = MASKS[mask]()
    stock, (_, _, want) = attend(value_only.sdpa_attention_forward, q, k, v, mask, c)
    out, (of_q, of_k, of_v) = attend(value_only.attention, q, k, v, mask, c)
    assert (out == stock).all()
    assert of_q is None
    assert of_k is None
    torch.testing.assert_close(of_v, want, rtol=0, atol=1e-13)


@pytest.mark.parametrize("mask", [name for name in MASKS if name != "none"])
def test_the_comparison_notices_a_mask_that_is_dropped(qkv, mask):
    (q, k, v), c = qkv
    _, (_, _, with_mask) = attend(value_only.attention, q, k, v, MASKS[mask](), c)
    _, (_, _, without) = attend(value_only.attention, q, k, v, None, c)
    assert (with_mask - without).abs().max() > 1e-2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("groups", [1, 2])
def test_what_the_short_way_does_not_know_goes_through_the_fused_kernel(qkv, dtype, groups):
    """Causal without a mask, heads that share keys, and lower precision."""
    (q, k, v), c = qkv
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (q, k[:, ::groups], v[:, ::groups]))

    def run(attention):
        module = nn.Module()
        module.is_causal, module.num_key_value_groups = groups == 1, groups
        out, _ = attention(module, q, k, v, None)
        return torch.autograd.grad(out, v, c.to(dtype))[0]

    assert (run(value_only.attention) == run(value_only.sdpa_attention_forward)).all()


def test_stock_bert_takes_the_short_way_under_cp_lrp_and_forgets_it(monkeypatch):
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    taken = []
    weights = value_only._weights
    monkeypatch.setattr(value_only, "_weights", lambda *a: taken.append(1) or weights(*a))
    short = attribute(model, inputs, "cp-lrp").relevance
    assert len(taken) == model.config.num_hidden_layers
    assert all(m.config is model.config for m in model.modules() if hasattr(m, "config"))
    monkeypatch.setattr(value_only, "FUSED", "no implementation")
    torch.testing.assert_close(attribute(model, inputs, "cp-lrp").relevance, short)
    assert len(taken) == model.config.num_hidden_layers


def test_padding_on_the_left_of_a_decoder_takes_the_short_way_too():
    model, _ = cases.family("llama", num_key_value_heads=2)
    ids = torch.tensor([[0, 0, 17, 41, 5], [2, 44, 13, 3, 9]])
    batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    found = attribute(model, batch, "cp-lrp").relevance
    alone = attribute(model, {"input_ids": ids[:1, 2:]}, "cp-lrp").relevance
    torch.testing.assert_close(found[0, 2:], alone[0], rtol=0, atol=1e-5)
    assert found.abs().max() > 1e-2

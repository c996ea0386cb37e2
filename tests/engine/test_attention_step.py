"""The factors of the attention step at the fused kernel equal the rules at its operations."""

import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, bypass_softmax
from numeric import attribute
from numeric.engine import attention, value_only
from numeric.engine.engine import Propagation
from numeric.methods import amplification
from tests.support import cases

BATCH, HEADS, TOKENS, CHANNELS = 3, 2, 5, 4
VALUE_ONLY = (0, 0, 1)
FACTORS = [VALUE_ONLY, (0, 0, 0.5), (0.25, 0.25, 0.5), (1, 1, 0.5), (0.5, 0.25, 1)]
MASKS = {
    "none": lambda: None,
    "padding": lambda: torch.arange(TOKENS) < torch.tensor([5, 3, 1])[:, None, None, None],
    "shared by the batch": lambda: torch.ones(1, 1, TOKENS, TOKENS).tril() > 0,
    "rows that see nothing": lambda: torch.ones(1, 1, TOKENS, TOKENS).tril(-2) > 0,
    "additive": lambda: torch.linspace(-3, 3, TOKENS * TOKENS).view(1, 1, TOKENS, TOKENS).double(),
}
COMPOSITES = [
    ATTNLRP,
    CP_LRP,
    bypass_softmax([1]),
    Composite("constant scores", ATTNLRP.rules | {kinds.SCORES: kinds.CONSTANT}),
    Composite("plain scores", ATTNLRP.rules | {kinds.SCORES: kinds.GRADIENT}),
    Composite("plain readout", ATTNLRP.rules | {kinds.READOUT: kinds.GRADIENT}),
]
CASES = [(name, composite) for name in cases.FAMILIES for composite in COMPOSITES]
CASES.remove(("albert", COMPOSITES[2]))  # ALBERT's layers have no numbers


@pytest.fixture
def qkv():
    drawn = torch.Generator().manual_seed(0)
    size = BATCH, TOKENS, HEADS, CHANNELS
    made = [torch.randn(size, generator=drawn, dtype=torch.float64) for _ in range(4)]
    *qkv, c = (x.transpose(1, 2) for x in made)
    return [x.requires_grad_() for x in qkv], c


FUSED = nn.functional.scaled_dot_product_attention


def attend(q, k, v, mask, c, **options):
    """The fused kernel's output, and the cotangents of Q, K and V, under the rules that are on."""
    out = FUSED(*(x.view_as(x) for x in (q, k, v)), attn_mask=mask, **options)
    return out, torch.autograd.grad(out, (q, k, v), c, allow_unused=True)


def fused(q, k, v, mask, c, factors, monkeypatch, **options):
    monkeypatch.setattr(attention, "shares", lambda *_: factors)
    inside = [x.view_as(x) for x in (q, k, v)]  # relevance comes to results, not to leaves
    with Propagation(nn.Module(), ATTNLRP):
        out = FUSED(*inside, attn_mask=mask, **options)
    return out, torch.autograd.grad(out, (q, k, v), c, allow_unused=True)


@pytest.mark.parametrize("at_once", [1, value_only.AT_ONCE], ids=["one by one", "whole batch"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("factors", FACTORS)
def test_q_k_and_v_get_their_factors_of_the_stock_cotangents(
    qkv, factors, mask, at_once, monkeypatch
):
    monkeypatch.setattr(value_only, "AT_ONCE", at_once)
    (q, k, v), c = qkv
    mask = MASKS[mask]()
    before = c.clone()
    right, plain = attend(q, k, v, mask, c)
    out, found = fused(q, k, v, mask, c, factors, monkeypatch)
    assert (out == right).all()
    assert (c == before).all()
    compare(found, plain, factors, 1e-13)


def compare(found, plain, factors, tolerance):
    for factor, x, want in zip(factors, found, plain, strict=True):
        if factor == 0:
            assert x is None
        else:
            torch.testing.assert_close(x, factor * want, rtol=0, atol=tolerance)


UNKNOWN = {
    "causal without a mask": (torch.float64, {"is_causal": True}),
    "heads that share keys": (torch.float64, {"enable_gqa": True}),
    "lower precision": (torch.bfloat16, {}),
}


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("why", UNKNOWN)
def test_what_the_short_way_does_not_know_goes_through_the_fused_kernel(
    qkv, why, factors, monkeypatch
):
    monkeypatch.delattr(value_only, "weights")
    (q, k, v), c = qkv
    dtype, options = UNKNOWN[why]
    groups = 2 if "enable_gqa" in options else 1
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (q, k[:, ::groups], v[:, ::groups]))
    _, plain = attend(q, k, v, None, c.to(dtype), **options)
    _, found = fused(q, k, v, None, c.to(dtype), factors, monkeypatch, **options)
    compare(found, plain, factors, 0)  # a factor is a power of 2


@pytest.mark.parametrize(("name", "composite"), CASES, ids=lambda x: getattr(x, "name", x))
def test_in_every_family_factors_at_the_fused_kernel_equal_rules_at_its_operations(
    name, composite, monkeypatch
):
    model, inputs = cases.family(name)
    monkeypatch.setattr(amplification, "warn", lambda *_given, **_options: None)
    taken = []
    inside = attention.shares
    monkeypatch.setattr(attention, "shares", lambda *given: taken.append(1) or inside(*given))
    found = attribute(model, inputs, composite).relevance
    assert len(taken) == model.config.num_hidden_layers
    model.set_attn_implementation("eager")
    want = attribute(model, inputs, composite).relevance
    assert len(taken) == model.config.num_hidden_layers
    bound = 1e-12 * want.abs().max().item()
    torch.testing.assert_close(found, want, rtol=0, atol=bound)


def test_stock_bert_takes_the_short_way_under_cp_lrp(monkeypatch, tiny, batch):
    taken = []
    weights = value_only.weights
    monkeypatch.setattr(value_only, "weights", lambda *a: taken.append(1) or weights(*a))
    attribute(tiny, batch, "cp-lrp")
    assert len(taken) == tiny.config.num_hidden_layers


def test_padding_on_the_left_of_a_decoder_changes_nothing():
    model, _ = cases.family("llama", num_key_value_heads=2)
    ids = torch.tensor([[0, 0, 17, 41, 5], [2, 44, 13, 3, 9]])
    batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    for method in ("cp-lrp", "attnlrp"):
        found = attribute(model, batch, method).relevance
        alone = attribute(model, {"input_ids": ids[:1, 2:]}, method).relevance
        torch.testing.assert_close(found[0, 2:], alone[0], rtol=0, atol=1e-5)
        assert found.abs().max() > 1e-2

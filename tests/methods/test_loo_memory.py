"""Leave-One-Out within a budget of memory, and in another precision."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.research.speed.usage import peak_memory
from numeric import attribute
from numeric.methods.loo import in_dtype
from numeric.methods.memory_budget import bytes_kept, bytes_of_a_copy, chunks
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import assert_same, snapshot, watch


def needs(model, tokens, **options):
    size = torch.tensor([tokens])
    return int(bytes_of_a_copy(model, size, keys=size, kept=0 * size, **options))


def test_a_small_budget_runs_few_copies_and_gives_the_same(tiny, batch):
    want = attribute(tiny, batch, "loo")
    shapes = []
    for copies in (1, 2, 100):
        shapes.clear()
        memory = copies * needs(tiny, 6)
        with watch(tiny.get_input_embeddings(), lambda out: shapes.append(tuple(out.shape[:2]))):
            close(attribute(tiny, batch, "loo", memory=memory).relevance, want.relevance)
        assert shapes.pop(0) == (3, 6)  # the batch and its witness
        assert shapes[0] == (min(copies, 6), 6)  # one copy of 6 tokens and five of 5
        assert all(n * needs(tiny, tokens) <= memory for n, tokens in shapes)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("copies", [4, 16, 64])
def test_the_budget_is_kept(copies, attention):
    sizes = dict(
        hidden_size=96, intermediate_size=384, num_attention_heads=4, max_position_embeddings=64
    )
    model = cases.tiny_bert(**sizes, attn_implementation=attention).float()
    ids = torch.randint(1, 11, (2, 64), generator=torch.Generator().manual_seed(0))
    budget = copies * needs(model, 63)
    used = peak_memory(lambda: attribute(model, {"input_ids": ids}, "loo", memory=budget))
    assert budget / 4 < used <= budget


def test_the_budget_holds_the_logits_that_are_read():
    config = GPT2Config(
        n_embd=32, n_layer=2, n_head=2, vocab_size=20_000, n_positions=64,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    ids = torch.randint(1, 100, (1, 32))
    budget = 8 * needs(model, 32, rows=1)
    used = peak_memory(lambda: attribute(model, {"input_ids": ids}, "loo", memory=budget))
    assert budget / 4 < used <= budget


def test_chunks_hold_every_copy_once_within_budget_and_of_like_length():
    lengths = torch.tensor([3, 20, 19, 7, 20, 7, 1, 18])
    options = {"batch_size": 3, "memory": 60, "device": lengths.device}
    parts = list(chunks(lengths, lengths, **options))
    assert torch.cat(parts).sort().values.tolist() == list(range(8))
    for part in parts:
        longest = int(lengths[part].max())
        assert len(part) * longest <= 60
        assert len(part) <= 3
        assert lengths[part].min() >= 0.9 * longest
    assert [len(part) for part in parts] == [3, 1, 2, 1, 1]


def test_on_a_gpu_copies_may_take_half_of_what_is_free_there(monkeypatch):
    free = {torch.device("cuda", 0): 90, torch.device("cuda", 1): 30}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[device], 1000))
    lengths = torch.tensor([10] * 9)
    for device, sizes in zip(free, ([4, 4, 1], [1] * 9), strict=True):
        parts = chunks(lengths, lengths, batch_size=128, memory="auto", device=device)
        assert [len(part) for part in parts] == sizes


def test_on_a_gpu_float64_spells_scores_out_under_any_attention(tiny):
    def need(device, attention):
        about = {"config": tiny.config, "dtype": tiny.dtype, "modules": tiny.modules}
        model = SimpleNamespace(device=torch.device(device), **about)
        tiny.config._attn_implementation = attention
        return needs(model, 6)

    assert need("cpu", "sdpa") < need("cuda", "sdpa") == need("cuda", "eager")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_another_precision_is_near_and_leaves_class_and_model(dtype):
    model = cases.tiny_bert().float()
    batch = cases.tiny_batch()
    exact = attribute(model.double(), batch, "loo")
    model.float()
    before = snapshot(model)
    a = attribute(model, batch, "loo", dtype=dtype)
    assert_same(before, snapshot(model))
    assert torch.equal(a.target, exact.target)
    assert a.relevance.dtype == torch.float32
    # A logit of this size has this unit in the last place; the two logits of a difference pass
    # through about 30 rounded operations each.
    unit = torch.finfo(getattr(torch, dtype)).eps + torch.finfo(torch.float32).eps
    size = exact.logit.abs().max().item()
    error = (a.relevance - exact.relevance).abs().max()
    assert error <= 60 * unit * size
    if dtype != "float64":
        assert error > 0.01 * unit * size  # it did run in that precision


def test_positions_keep_their_digits_in_another_precision(tmp_path):
    """A copy in half precision is the model that Transformers loads in it."""
    model, text = cases.one_text("llama")
    model.float().save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    one = in_dtype(model, "bfloat16")
    with torch.no_grad():
        assert torch.equal(one(**text).logits, loaded(**text).logits)
    kept = dict(one.named_buffers())
    assert kept
    for name, x in loaded.named_buffers():
        assert (kept[name].dtype, torch.equal(kept[name], x)) == (x.dtype, True), name


# Kept by a forward pass


def test_bytes_that_are_kept_are_counted_by_hand():
    model = nn.Linear(3, 4).requires_grad_(requires_grad=False)
    x = torch.ones(5, 3, requires_grad=True)
    assert bytes_kept(model, lambda: model(x)) == 0  # but the weight
    assert bytes_kept(model, lambda: model(x).exp()) == 4 * 5 * 4  # the output
    assert bytes_kept(model, lambda: model(x).exp().square()) == 4 * 5 * 4  # the same
    assert bytes_kept(model, lambda: model(x).sin().square()) == 2 * 4 * 5 * 4
    assert bytes_kept(model, lambda: model(x.detach()).exp()) == 0  # no way back


def test_counting_keeps_nothing():
    gone = []

    def run():
        y = torch.ones(3, requires_grad=True).exp()  # which autograd keeps with its own step
        gone.append(weakref.ref(y))
        return y

    gc.disable()  # a cycle would wait for it
    try:
        assert bytes_kept(nn.Identity(), run) == 12
        assert gone[0]() is None
    finally:
        gc.enable()

"""Leave-One-Out by shortcuts is the plain loop over texts and tokens, whatever the shortcut."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from benchmarks.timing import peak_memory
from numeric import attribute
from numeric.evaluation.perturbation import perturbation_curve
from numeric.inputs import prepare
from numeric.methods import loo, masking
from numeric.methods.chunks import bytes_of_a_copy, chunks
from numeric.methods.whole import whole
from tests import cases
from tests.test_families import DECODERS, ENCODERS, ROTARY, SINGLE, close
from tests.traces import assert_same, contains, refused, snapshot

PROJECTING = [name for name in ENCODERS if name != "albert"]


def tolerance(name):
    return SINGLE if name in ROTARY else 1e-10


@torch.no_grad()
def plain(model, inputs, keep, target):
    """Logits of copies, each alone and whole, with the attention mask as the only change."""
    rows = zip(keep[0].tolist(), keep[1].long(), strict=True)
    one = lambda n, mask: model(input_ids=inputs["input_ids"][None, n], attention_mask=mask[None])
    return torch.stack([one(n, mask).logits[0, target[n]] for n, mask in rows])


def left_out(inputs):
    present = inputs["attention_mask"] == 1
    example, token = present.nonzero(as_tuple=True)
    keep = present[example]
    keep[torch.arange(len(token)), token] = False
    return example, keep


def check(model, inputs, relevance, target, logit, *, tolerance=1e-10):
    keep = left_out(inputs)
    got = relevance[inputs["attention_mask"] == 1]
    close(got, logit[keep[0]] - plain(model, inputs, keep, target), tolerance=tolerance)


def varied(name):
    """Six texts of 2 to 12 tokens, padded on the right."""
    lengths = torch.tensor([12, 2, 7, 7, 3, 10])
    draw = torch.Generator().manual_seed(2)
    ids = torch.randint(4, 50, (6, 12), generator=draw)
    mask = (torch.arange(12) < lengths[:, None]).long()
    pad = cases.FAMILIES[name][1]["pad_token_id"]
    return {"input_ids": ids.where(mask == 1, torch.tensor(pad)), "attention_mask": mask}


def with_a_hole(name):
    inputs = varied(name)
    inputs["attention_mask"][0, 4:6] = 0
    return inputs


@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 5}], ids=repr)
@pytest.mark.parametrize("texts", [varied, with_a_hole])
@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_texts_of_many_lengths_are_the_plain_loop(name, texts, options):
    model, _ = cases.family(name)
    inputs = texts(name)
    a = attribute(model, inputs, "loo", **options)
    check(model, inputs, a.relevance, a.target, a.logit, tolerance=tolerance(name))


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_scores_that_are_spelled_out_give_the_same(name):
    model, inputs = cases.family(name)
    eager, _ = cases.family(name, attn_implementation="eager")
    fused, spelled_out = (attribute(m, inputs, "loo").relevance for m in (model, eager))
    close(fused, spelled_out, tolerance=tolerance(name))


@pytest.mark.parametrize("name", DECODERS)
def test_texts_padded_on_the_left_are_the_plain_loop(name):
    model, inputs = cases.family(name)
    moved = {key: x.roll(2, 1).contiguous() for key, x in inputs.items()}
    inputs = {
        key: x.where(torch.tensor([[False], [True]]), inputs[key]) for key, x in moved.items()
    }
    a = attribute(model, inputs, "loo")
    check(model, inputs, a.relevance, a.target, a.logit, tolerance=tolerance(name))


@pytest.mark.parametrize("name", DECODERS)
def test_without_padding_id_a_text_alone_is_the_plain_loop(name):
    model, inputs = cases.family(name, pad_token_id=None)
    inputs = {key: x[:1] for key, x in inputs.items()}
    a = attribute(model, inputs, "loo")
    check(model, inputs, a.relevance, a.target, a.logit, tolerance=tolerance(name))


def test_a_window_of_attention_is_not_narrowed_by_what_is_left_out():
    model, _ = cases.family("mistral", sliding_window=4)
    inputs = varied("mistral")
    a = attribute(model, inputs, "loo")
    check(model, inputs, a.relevance, a.target, a.logit, tolerance=SINGLE)
    wide, _ = cases.family("mistral")
    far = (attribute(wide, inputs, "loo").relevance - a.relevance).abs().max()
    assert far > 1e-3


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_curves_of_decoders_are_the_plain_loop(name, order):
    model, inputs = cases.family(name)
    relevance = torch.randn(2, 6, generator=torch.Generator().manual_seed(0)).double()
    target = torch.tensor([0, 2])
    curve = perturbation_curve(model, prepare(model, inputs), relevance, target, order=order)
    for row, length in ((0, 6), (1, 4)):
        falling = relevance[row, :length].argsort(descending=order == "morf")
        mask = inputs["attention_mask"][row].repeat(length, 1)
        for step in range(length):
            mask[step, falling[:step]] = 0
        want = plain(model, inputs, (torch.full((length,), row), mask), target)
        close(curve.logits[row, :length], want, tolerance=tolerance(name))


# What is shared


@pytest.mark.parametrize("name", PROJECTING)
def test_encoders_project_once_and_finish_one_row(name):
    model, inputs = cases.family(name)
    kept = whole(model, prepare(model, inputs))
    assert len(kept.first) == 3
    rows = []
    last = [m for m in model.modules() if type(m) is torch.nn.LayerNorm][-1]
    last.register_forward_hook(lambda _m, _i, out: rows.append(out.shape[1]))
    attribute(model, inputs, "loo", batch_size=10)
    assert rows == [6, 1, 1]  # the batch itself, six copies of 5 tokens, four of 3


def test_layers_that_run_twice_share_nothing_and_are_right():
    model, inputs = cases.family("albert")
    kept = whole(model, prepare(model, inputs))
    assert kept.first == {}
    assert kept.last is None
    model, inputs = cases.family("bert")
    for layers in ([0, 1, 0], [0, 0], [1, 0, 1, 0]):
        ours = model.bert.encoder.layer
        model.bert.encoder.layer = torch.nn.ModuleList([ours[n] for n in layers]).eval()
        a = attribute(model, inputs, "loo")
        check(model, inputs, a.relevance, a.target, a.logit)
        model.bert.encoder.layer = ours


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_run_only_what_comes_behind_the_token(name):
    model, inputs = cases.family(name)
    inputs = {key: x[:1] for key, x in inputs.items()}
    seen = []
    model.get_input_embeddings().register_forward_hook(lambda _m, _i, out: seen.append(out.shape))
    attribute(model, inputs, "loo", batch_size=1)
    assert [tuple(shape[:2]) for shape in seen] == [
        (1, 6),
        (1, 5),
        (1, 4),
        (1, 3),
        (1, 2),
        (1, 1),
        (1, 1),
    ]


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
def test_the_model_is_left_as_it_was(name):
    model, inputs = cases.family(name)
    before = snapshot(model)
    attribute(model, inputs, "loo")
    assert_same(before, snapshot(model))
    message = refused(ValueError, model, inputs, "loo", removal="zeroing")
    contains(message, "removal='zeroing'")


WRONG = {  # what a shortcut may get wrong: fields of Whole, from those that are right
    "tables of another text": lambda kept, _: {
        "first": {m: x.flip(0) for m, x in kept.first.items()}
    },
    "tables of moved tokens": lambda kept, _: {
        "first": {m: x.roll(1, 1) for m, x in kept.first.items()}
    },
    "one table for all": lambda kept, _: {
        "first": dict.fromkeys(kept.first, next(iter(kept.first.values())))
    },
    "the end of another layer": lambda _, model: {
        "last": model.bert.encoder.layer[0].attention.output
    },
}


def check_with(fields, monkeypatch):
    """The check, with some of what the whole batch leaves to the copies replaced."""
    model, inputs = cases.family("bert")
    kept = whole(model, prepare(model, inputs))
    kept = dataclasses.replace(kept, **fields(kept, model))
    monkeypatch.setattr(loo, "whole", lambda *_: kept)
    a = attribute(model, inputs, "loo")
    check(model, inputs, a.relevance, a.target, a.logit)


def test_the_right_tables_pass(monkeypatch):
    check_with(lambda *_: {}, monkeypatch)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_shortcut_is_rejected(wrong, monkeypatch):
    with pytest.raises((AssertionError, RuntimeError)):
        check_with(WRONG[wrong], monkeypatch)


@pytest.mark.parametrize("name", DECODERS)
def test_a_wrong_prefix_is_rejected(name, monkeypatch):
    model, inputs = cases.family(name)
    real = masking.prefix
    monkeypatch.setattr(masking, "prefix", lambda cache, where, n: real(cache, 1 - where, n))
    a = attribute(model, inputs, "loo")
    with pytest.raises(AssertionError):
        check(model, inputs, a.relevance, a.target, a.logit, tolerance=tolerance(name))


# Memory and precision


def needs(model, tokens):
    size = torch.tensor([tokens])
    return int(bytes_of_a_copy(model, size, keys=size, kept=0 * size))


def test_a_small_budget_runs_few_copies_and_gives_the_same(tiny, batch):
    want = attribute(tiny, batch, "loo")
    shapes = []
    tiny.get_input_embeddings().register_forward_hook(
        lambda _m, _i, out: shapes.append(tuple(out.shape[:2]))
    )
    for copies in (1, 2, 100):
        shapes.clear()
        memory = copies * needs(tiny, 6)
        close(attribute(tiny, batch, "loo", memory=memory).relevance, want.relevance)
        assert shapes.pop(0) == (2, 6)  # the batch itself
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


@pytest.mark.parametrize("memory", [0, -1, 1.5, True, None, "much", 100], ids=repr)
def test_a_wrong_budget_is_refused(tiny, batch, memory):
    message = refused(ValueError, tiny, batch, "loo", memory=memory)
    contains(message, f"memory={memory!r}", "about" if memory == 100 else '"auto"')


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
        model = SimpleNamespace(config=tiny.config, device=torch.device(device), dtype=tiny.dtype)
        tiny.config._attn_implementation = attention
        return needs(model, 6)

    assert need("cpu", "sdpa") < need("cuda", "sdpa") == need("cuda", "eager")


def test_attention_that_drops_masked_queries_is_refused(tiny):
    tiny.config._attn_implementation = "flash_attention_2"
    for removal in masking.REMOVALS:
        with pytest.raises(ValueError, match=r"'flash_attention_2' leaves .*\(\"sdpa\"\)"):
            masking.check(tiny, removal)
    masking.check(tiny, 7)  # everything stays in view


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


@pytest.mark.parametrize("dtype", ["half", "int8", "", 16])
def test_a_wrong_precision_is_refused(tiny, batch, dtype):
    message = refused(ValueError, tiny, batch, "loo", dtype=dtype)
    contains(message, f"dtype={dtype!r}", "bfloat16")


def test_a_class_that_may_read_all_rows_is_refused():
    class Averaging(type(cases.tiny_bert())):
        """It has the modules of BERT, and what it does with their rows is its own affair."""

    model = cases.tiny_bert()
    model.__class__ = Averaging
    with pytest.raises(ValueError, match=r"Averaging.*which token its logits are read from"):
        attribute(model, cases.tiny_batch(), "loo")

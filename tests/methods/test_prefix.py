"""Copies that begin where they differ from their text are the plain loop over whole copies."""

import pytest
import torch

from numeric import attribute
from numeric.attribution import attribute_each
from numeric.methods import prefix
from numeric.models.inputs import prepare
from numeric.targets import log_probability, logit, span
from numeric.targets.readout import Readout
from tests.census.build import CAUSAL, build, with_inputs
from tests.support.cases import close
from tests.support.loops import hide, left_out, replace
from tests.support.traces import contains, refused, watch

SHARING = [
    "llama", "qwen2", "gpt2", "mistral", "gemma", "gemma3_text", "gpt_neox", "opt", "bloom",
    "falcon", "mixtral", "gpt_oss", "bart",
]  # fmt: skip
OTHER = {
    "git": "later tokens",
    "jamba": "a state",
    "llama4_text": "chunks",
    "mamba2": "a state",
    "xlnet": "later tokens",
}
TARGETS = [None, logit(7, at=4), logit(7) - log_probability(8, at=-2), span(5, 7), 9]


pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Prefixes are used for the short texts of these tests, too."""
    monkeypatch.setattr(prefix, "least", lambda _device: 1)


def texts(side):
    """Three texts of 9, 7 and 9 tokens, the last with a hole; padded at one side."""
    drawn = torch.Generator().manual_seed(1)
    mask = torch.ones(3, 9, dtype=torch.int64)
    mask[1, 7:], mask[2, 3] = 0, 0
    ids = torch.randint(10, 50, (3, 9), generator=drawn) * mask
    if side == "left":
        ids[1], mask[1] = ids[1].roll(2), mask[1].roll(2)
    return {"input_ids": ids, "attention_mask": mask}


def plain(model, batch, targets=(None,), change=hide):
    """One forward pass over the whole batch per column, each read for every target."""
    readout = Readout.of(model, prepare(model, batch), targets)
    with torch.no_grad():
        chosen = readout.choose(readout.run(model, batch)).targets

    def numbers(given):
        rows = readout.run(model, given)
        return torch.stack([each.of(rows) for each in chosen])

    return left_out(batch, numbers, change)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", SHARING)
def test_copies_that_begin_where_they_differ_are_the_plain_loop(name, side):
    model, batch = build(name, CAUSAL), texts(side)
    shortest = []
    with watch(model.get_input_embeddings(), lambda out: shortest.append(out.shape[1])):
        found = attribute_each(model, batch, "loo", targets=TARGETS, batch_size=4)
    assert min(shortest) <= 2
    for target, each, want in zip(TARGETS, found, plain(model, batch, TARGETS), strict=True):
        close(each.relevance, want, tolerance=1e-10)
        close(attribute(model, batch, "loo", target).relevance, want, tolerance=1e-10)


def test_a_token_put_in_place_is_the_plain_loop():
    model, batch = build("llama", CAUSAL), texts("left")
    a = attribute(model, batch, "loo", removal=7)
    close(a.relevance, plain(model, batch, change=replace)[0])


def test_what_comes_behind_the_row_that_is_read_loses_exactly_nothing():
    model, batch = build("llama", CAUSAL), texts("right")
    a = attribute(model, batch, "loo", logit(7, at=4))
    assert (a.relevance[:2, :5] != 0).all()
    assert not a.relevance[:, 5:].any()


def test_fewer_than_two_thirds_of_the_tokens_run():
    model = build("llama", CAUSAL)
    batch = {"input_ids": torch.arange(40)[None] + 10}
    seen = []
    with watch(model.get_input_embeddings(), lambda out: seen.append(out.shape[:2])):
        attribute(model, batch, "loo")
    ran = sum(copies * tokens for copies, tokens in seen)
    assert 40 * 41 / 2 < ran < 40 * 40 * 2 / 3  # with the text itself and the check


@pytest.mark.parametrize("name", OTHER)
def test_a_model_that_hands_on_more_than_keys_and_values_runs_whole(name):
    model, batch = with_inputs(name, CAUSAL)
    readout = Readout.of(model, prepare(model, batch), [None])
    assert prefix.of_text(model, prepare(model, batch), readout) is None
    a = attribute(model, batch, "loo")
    close(a.relevance, plain(model, batch)[0])


WRONG = {  # instead of the keys and values before a column
    "one token too few": lambda real: lambda cache, where, n: real(cache, where, n - 1),
    "those of another text": lambda real: lambda cache, where, n: real(cache, 1 - where, n),
    "those of the end": lambda real: lambda cache, where, n: _last(real(cache, where, 9), n),
    "none": lambda real: lambda cache, where, n: None,
}


def _last(cache, tokens):
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, -tokens:], layer.values[:, :, -tokens:]
    return cache


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_a_prefix_that_does_not_continue_as_the_text_is_found_out(wrong, monkeypatch):
    model, batch = build("llama", CAUSAL), {key: x[:2] for key, x in texts("right").items()}
    if wrong:
        changed = WRONG[wrong](prefix.first_keys)
        only_behind = lambda cache, where, n: changed(cache, where, n) if n else None
        monkeypatch.setattr(prefix, "first_keys", only_behind)
    readout = Readout.of(model, prepare(model, batch), [None])
    found = prefix.of_text(model, prepare(model, batch), readout)
    assert (found is None) == bool(wrong)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("loo", {"budget": 15, "groups": [2, 1]}),
        ("loo", {"each": lambda *_: None, "batch_size": 2}),
        ("budgeted-loo", {"tolerance": 0.0}),
    ],
)
def test_copies_that_come_in_rounds_look_once_for_what_they_share(method, options, monkeypatch):
    found, of_text = [], prefix.of_text
    monkeypatch.setattr(prefix, "of_text", lambda *x: found.append(of_text(*x)) or found[-1])
    model = build("llama", CAUSAL)
    ids = torch.randint(10, 50, (1, 16), generator=torch.Generator().manual_seed(2))
    a = attribute(model, {"input_ids": ids}, method, **options)
    assert len(found) == 1
    assert found[0] is not None
    monkeypatch.setattr(prefix, "of_text", lambda *_: None)
    close(a.relevance, attribute(model, {"input_ids": ids}, method, **options).relevance)


@pytest.mark.parametrize("padded", ["before the text", "within the text"])
def test_a_model_that_counts_positions_by_padding_is_the_plain_loop(padded):
    model, batch = build("roberta", CAUSAL), texts("left")
    if padded == "within the text":
        ids = torch.arange(40)[None] + 10
        ids[0, 30] = model.config.pad_token_id
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    a = attribute(model, batch, "loo")
    close(a.relevance, plain(model, batch)[0])


def test_code_of_a_users_own_sees_whole_texts():
    model, batch, seen = build("llama", CAUSAL), texts("right"), []
    hook = lambda _module, _args, out: seen.append(out.shape[1])
    model.model.layers[0].mlp.register_forward_hook(hook)
    a = attribute(model, batch, "loo")
    assert set(seen) == {9}
    close(a.relevance, plain(model, batch)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_is_taken_for_no_difference(dtype):
    model, batch = build("llama", CAUSAL).to(dtype), texts("right")
    readout = Readout.of(model, prepare(model, batch), [None])
    assert prefix.of_text(model, prepare(model, batch), readout) is not None


def test_a_row_without_anything_to_attend_to_is_refused():
    model, batch = build("llama", CAUSAL), texts("right")
    message = refused(ValueError, model, batch, "loo", target=span(1, 3))
    contains(message, "nothing is left to attend to", "in examples [0, 1, 2]", "span(2, end)")


@pytest.mark.parametrize("target", [logit(7, at=0), span(1, 2)], ids=["logit", "span"])
def test_a_first_row_and_a_hook_are_refused_alike(target):
    for hooked in (False, True):
        model, batch = build("llama", CAUSAL), texts("right")
        if hooked:
            model.model.layers[0].mlp.register_forward_hook(lambda _module, _args, _out: None)
        message = refused(ValueError, model, batch, "loo", target=target)
        contains(message, "nothing is left to attend to")

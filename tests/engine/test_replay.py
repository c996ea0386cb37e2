"""Calls of one shape replay recorded operations, and give the result of rules in every bit."""

import copy
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from lrp_axioms import attribute
from lrp_axioms.numeric.replay import calls
from lrp_axioms.numeric.targets import log_probability, logit
from tests.census.build import ANSWERS, CAUSAL, CLASSES, MASKED, TAGS, with_inputs
from tests.support import cases, user_changes

MODELS = [
    ("bert", CLASSES), ("roberta", CLASSES), ("llama", CLASSES), ("t5", CLASSES),
    ("distilbert", TAGS), ("electra", ANSWERS), ("bert", MASKED), ("gpt2", CAUSAL),
    ("qwen2", CAUSAL), ("gemma2", CAUSAL), ("mixtral", CAUSAL), ("mamba", CAUSAL),
]  # fmt: skip
NUMBERS = ("relevance", "target", "logit", "residual")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Records at the second call of a shape, so that the third proves and the fourth replays."""
    monkeypatch.setattr(calls, "AFTER", 1)


def by_rules(*given, **options):
    """The result without a tape, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "is_watched", lambda: True)
        return outcome(*given, **options)


def outcome(*given, **options):
    try:
        return attribute(*given, **options)
    except (ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}"


def assert_equal(found, wanted):
    if isinstance(wanted, str):
        assert found == wanted
        return
    for name in NUMBERS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert torch.equal(one, other), name
        assert (one.dtype, one.requires_grad) == (other.dtype, other.requires_grad), name


def assert_replays(*given, **options):
    wanted = by_rules(*given, **options)
    for _ in range(5):
        assert_equal(outcome(*given, **options), wanted)


def proved(model):
    """The tapes of a model that have given the result of rules on a second input."""
    return [x for x in calls.MEMORIES[model].tapes.values() if x.proved]


def warmed(model, inputs, *more, **options):
    for _ in range(4):
        attribute(model, inputs, *more, **options)
    assert proved(model)


def variants(inputs, task):
    """Batches of one shape: other words, and other padding."""
    yield inputs
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    yield inputs | {"input_ids": torch.cat([ids[:, :1], ids[:, 1:-2].flip(1), ids[:, -2:]], dim=1)}
    if task not in (ANSWERS, MASKED):
        shorter = mask.clone()
        shorter[0, -1] = 0
        yield inputs | {"attention_mask": shorter}


@pytest.mark.parametrize(("kind", "task"), MODELS)
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "gradient-x-input"])
def test_replays_equal_rules_in_every_bit(kind, task, method):
    model, inputs = with_inputs(kind, task)
    if task == MASKED:
        model.config.mask_token_id = 5
        inputs["input_ids"][:, 2] = 5
    target = logit(1, at=1) if task == TAGS else None
    wanted = [(batch, by_rules(model, batch, method, target)) for batch in variants(inputs, task)]
    for batch, want in [*wanted, wanted[0]] * 2:
        assert_equal(outcome(model, batch, method, target), want)
    assert proved(model)


TARGETS = 1, [2, 0], logit(1) - logit(0), log_probability(2), logit(0) + logit(1)
OWN = [*({"target": x} for x in TARGETS), {"epsilon": 0.1}, {"share": "word"}]
OWN += [{"epsilon": 0.1, "share": "word"}]


@pytest.mark.parametrize("options", OWN, ids=str)
def test_targets_and_options_have_tapes_of_their_own(options):
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    warmed(model, inputs)
    assert_replays(model, inputs, **options)
    assert proved(model)


def test_a_proved_tape_is_used_and_no_other():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    wanted = by_rules(model, inputs)
    for _ in range(2):
        attribute(model, inputs)
    (tape,) = calls.MEMORIES[model].tapes.values()
    right = tape.play
    tape.play = lambda *given: [x + 1 for x in right(*given)]
    assert_equal(attribute(model, inputs), wanted)  # it is wrong, and dropped
    assert not calls.MEMORIES[model].tapes
    warmed(model := cases.tiny_bert(), inputs)
    (tape,) = proved(model)
    right = tape.play
    tape.play = lambda *given: [x + 1 for x in right(*given)]
    assert not torch.equal(attribute(model, inputs).relevance, wanted.relevance)


@pytest.mark.parametrize(("change", "name"), user_changes.CASES)
def test_every_change_of_a_model_is_seen(change, name, monkeypatch):
    model, inputs = cases.family(name)
    warmed(model, inputs)
    try:
        user_changes.CHANGES[change][1](model, name, monkeypatch)
        model.eval()
        assert_replays(model, inputs)
    finally:
        getattr(model, "undo", lambda: None)()


DENSE, SQUARE = (f"bert.encoder.layer.0.{x}output.dense" for x in ("", "attention."))


def with_data(path, change):
    def act(model, patch):
        weight = model.get_submodule(path).weight
        weight.data = change(weight.data)

    return act


def equal_config(model, patch):
    """Replaces the config by one that Transformers calls equal, with other attention."""
    config = copy.deepcopy(model.config)
    config._attn_implementation = "eager"
    assert config == model.config
    for module in model.modules():
        if hasattr(module, "config"):
            module.config = config


def set_in_config(model, patch):
    model.config.layer_norm_eps = 0.5
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 0.5


SETTINGS = {
    "a weight that is written to": torch.no_grad()(
        lambda model, patch: model.get_submodule(DENSE).weight.mul_(1.5)
    ),
    "other data of a weight": with_data(DENSE, lambda x: x.flip(0)),
    "a weight that is transposed in place": with_data(SQUARE, torch.t),
    "a buffer": lambda model, patch: model.bert.embeddings.register_buffer(
        "shift", torch.ones(()), persistent=False
    ),
    "an epsilon": set_in_config,
    "float32": lambda model, patch: model.float(),
    "an equal config": equal_config,
    "eager attention": lambda model, patch: model.set_attn_implementation("eager"),
    "a default of attention": lambda model, patch: patch.setattr(
        sdpa_attention_forward, "__defaults__", (0.0, None, True, *[None] * 2)
    ),
    "another method": lambda model, patch: patch.setattr(
        type(model.bert.pooler), "forward", lambda self, x: x[:, 1]
    ),
}


@pytest.mark.parametrize("change", SETTINGS)
def test_every_setting_is_seen(change, monkeypatch):
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    inputs = inputs | {"attention_mask": torch.ones_like(inputs["attention_mask"])}
    warmed(model, inputs)
    SETTINGS[change](model, monkeypatch)
    assert_replays(model, inputs)


def test_other_experts_of_a_registered_name_are_seen(monkeypatch):
    model, inputs = with_inputs("mixtral", CAUSAL)
    model.set_experts_implementation(name := "batched_mm")
    warmed(model, inputs)
    old = ALL_EXPERTS_FUNCTIONS[name]
    turned = lambda module, x, index, weights: old(module, x, index, weights.flip(-1))
    monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS._local_mapping, name, turned)
    assert_replays(model, inputs)


class Labels(list):
    """A list that its copy cannot be made of."""

    def __init__(self, text, separator):
        super().__init__(text.split(separator))


def test_an_attribute_of_the_user_changes_nothing():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    model.labels = Labels("good,bad", ",")
    assert_replays(model, inputs)


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


AROUND = {
    "attention spelled out": lambda: sdpa_kernel([SDPBackend.MATH]),
    "another default dtype": lambda: default_dtype(torch.float64),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu"),
    "a function mode": BaseTorchFunctionMode,
    "saved tensors elsewhere": torch.autograd.graph.save_on_cpu,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_every_block_around_a_call_is_seen(around):
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    warmed(model, inputs)
    for _ in range(5):
        with AROUND[around]():
            found, wanted = outcome(model, inputs), by_rules(model, inputs)
        assert_equal(found, wanted)


def test_several_threads_share_tapes():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    batches = [*variants(inputs, CLASSES)]
    wanted = [by_rules(model, x) for x in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: attribute(model, batches[n % len(batches)]), range(40)))
    for n, each in enumerate(found):
        assert_equal(each, wanted[n % len(batches)])


def test_texts_with_and_without_padding_are_both_replayed():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    whole = inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])}
    padded = whole | {"attention_mask": whole["attention_mask"].index_fill(1, torch.tensor(-1), 0)}
    wanted = [by_rules(model, batch) for batch in (whole, padded)]
    for batch, want in [*zip((whole, padded), wanted, strict=True)] * 4:
        assert_equal(attribute(model, batch), want)
    assert len(proved(model)) == 2


def test_a_model_that_is_not_stock_has_no_tape():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    model.dropout = torch.nn.Sequential(torch.nn.Identity()).eval()
    for _ in range(6):
        attribute(model, inputs)
    assert not calls.MEMORIES[model].tapes

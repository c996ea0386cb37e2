"""Calls of one shape replay recorded operations, and give the result of rules in every bit."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode

from lrp_axioms import attribute
from lrp_axioms.numeric.replay import calls
from lrp_axioms.numeric.targets import log_probability, logit
from tests.census.build import ANSWERS, CAUSAL, CLASSES, MASKED, TAGS, with_inputs
from tests.support import cases

MODELS = [
    ("bert", CLASSES), ("roberta", CLASSES), ("llama", CLASSES), ("t5", CLASSES),
    ("distilbert", TAGS), ("electra", ANSWERS), ("bert", MASKED), ("gpt2", CAUSAL),
    ("qwen2", CAUSAL), ("gemma2", CAUSAL), ("mixtral", CAUSAL), ("mamba", CAUSAL),
]  # fmt: skip
NUMBERS = ("relevance", "target", "logit", "residual")
pytestmark = pytest.mark.usefixtures("soon")


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
def test_targets_and_options_have_tapes_of_their_own(options, tiny, batch):
    warmed(tiny, batch)
    assert_replays(tiny, batch, **options)
    assert proved(tiny)


def test_a_proved_tape_is_used_and_no_other(tiny, batch):
    wanted = by_rules(tiny, batch)
    for _ in range(2):
        attribute(tiny, batch)
    (tape,) = calls.MEMORIES[tiny].tapes.values()
    right = tape.play
    tape.play = lambda *given: [x + 1 for x in right(*given)]
    assert_equal(attribute(tiny, batch), wanted)  # it is wrong, and dropped
    assert not calls.MEMORIES[tiny].tapes
    warmed(tiny := cases.tiny_bert(), batch)
    (tape,) = proved(tiny)
    right = tape.play
    tape.play = lambda *given: [x + 1 for x in right(*given)]
    assert not torch.equal(attribute(tiny, batch).relevance, wanted.relevance)


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
def test_every_block_around_a_call_is_seen(around, tiny, batch):
    warmed(tiny, batch)
    for _ in range(5):
        with AROUND[around]():
            found, wanted = outcome(tiny, batch), by_rules(tiny, batch)
        assert_equal(found, wanted)


@contextmanager
def autocast_of_a_gpu():
    torch.set_autocast_enabled("cuda", True)  # noqa: FBT003
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)  # noqa: FBT003


REFUSED = {
    "mpnet": (lambda: torch.autograd.graph.disable_saved_tensors_hooks("none here"), "none here"),
    "nemotron": (autocast_of_a_gpu, "itself fails"),  # asks for it on a CPU
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_error_of_a_block_around_a_call_is_raised(kind):
    model, inputs = with_inputs(kind, CLASSES)
    warmed(model.float(), inputs)
    around, says = REFUSED[kind]
    with around(), pytest.raises((RuntimeError, ValueError), match=says):
        attribute(model, inputs)


def test_several_threads_share_tapes(tiny, batch):
    batches = [*variants(batch, CLASSES)]
    wanted = [by_rules(tiny, x) for x in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: attribute(tiny, batches[n % len(batches)]), range(40)))
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


def test_a_model_that_is_not_stock_has_no_tape(tiny, batch):
    tiny.dropout = torch.nn.Sequential(torch.nn.Identity()).eval()
    for _ in range(6):
        attribute(tiny, batch)
    assert not calls.MEMORIES[tiny].tapes

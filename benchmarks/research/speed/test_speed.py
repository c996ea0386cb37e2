"""LRP against plain gradient x input: ratios of time and of peak memory, over texts and batches.

BERT-base size with random weights when timed; the ordinary test run executes each case on two
narrow layers, in float32 and bfloat16, and checks the answers.
"""

import copy
import math
from functools import partial

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments.time_by_length import LABELS, METHODS
from lrp_axioms.benchmarks.research.speed.usage import keeping, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.numeric.methods import amplification
from lrp_axioms.numeric.replay import calls

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = ["float32", "bfloat16"]
SMALL = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256,
    initializer_range=0.2,  # so large that methods differ beyond bfloat16
)  # fmt: skip
SIZES = [(batch, tokens) for batch in (1, 8, 32) for tokens in (32, 128, 512)]
FOR_MEMORY = [(1, 32), (8, 128), (1, 512)]
LRP = ("attnlrp", "cp-lrp")
MEMORY_GOAL, MEMORY_BOUND = 1.02, 1.10  # the bound holds in every test run
ROUGHLY_TOKENS = 1024  # of a batch, that are timed in ROUNDS rounds and checked
ROUNDS = 9


def goal(method, tokens):
    """Returns the goal for a method's time, in times of the plain gradient."""
    if method == "attnlrp":
        return 1.03
    return 0.88 if tokens == 512 else 0.95


def rounds(batch, tokens):
    """Returns many rounds for short runs, which scatter more, and fewer for long ones."""
    times = ROUGHLY_TOKENS / (batch * tokens)
    return max(3, math.ceil(ROUNDS * max(times, math.sqrt(times))))


def bert(dtype, **sizes):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**sizes)).eval()
    return model.to(DEVICE, getattr(torch, dtype))


@pytest.fixture(scope="module", params=DTYPES)
def model(request, timed):
    if timed and request.param == "bfloat16" and DEVICE == "cpu":
        pytest.skip("bfloat16 is timed on a GPU, and this machine has none")
    return bert(request.param, **({} if timed else SMALL))


@pytest.fixture(scope="module", params=DTYPES)
def small(request):
    return bert(request.param, **SMALL)


def text(model, size, timed):
    batch, tokens = size if timed else (min(size[0], 2), size[1] // 8)
    return random_text(model, batch=batch, tokens=tokens)


def label(model, method, size):
    return f"{LABELS[method]}, {setting(model, size)}"


def setting(model, size):
    batch, tokens = size
    where = "" if DEVICE == "cpu" else f", GPU, {str(model.dtype).removeprefix('torch.')}"
    return f"batch {batch}, {tokens} tokens{where}"


def assert_right(model, inputs, method, relevance):
    """A wrong answer has no speed: float64 must give the same for as many texts as are quick."""
    assert relevance.shape == inputs["input_ids"].shape
    quick = max(1, ROUGHLY_TOKENS // relevance.shape[1])
    few = {key: value[:quick] for key, value in inputs.items()}
    with torch.no_grad():
        logits = model(**few).logits  # of a classifier, or of every token
        target = logits.reshape(len(logits), -1, logits.shape[-1])[:, -1].argmax(dim=1)
    exact = copy.deepcopy(model).double()
    name = "gradient-x-input" if method == "gradient" else method
    want = attribute(exact, few, name, target).relevance
    error = (relevance[:quick].double() - want).norm() / want.norm()
    unit = torch.finfo(model.dtype).eps / 2
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for x in exact.parameters():
            x.mul_(1 + unit * torch.randn(x.shape, generator=noise, dtype=x.dtype).to(x.device))
    moved = (attribute(exact, few, name, target).relevance - want).norm() / want.norm()
    allowed = rounding(model, loss=max(8, moved / unit))
    assert error <= allowed, f"{method}: float64 differs by {error:.1e} of its norm"


def rounding(model, *, loss=8):
    """The random walk of one rounding per operation, about 40 a layer both ways, as a share.

    With a ``loss`` of up to three bits where terms cancel, or as much as the relevance of these
    texts moves when weights are rounded.  In bfloat16 that is too wide to tell AttnLRP from CP-LRP
    with weights as small as BERT-base's; in float32 it is not.
    """
    unit = torch.finfo(model.dtype).eps / 2
    return loss * unit * math.sqrt(40 * model.config.num_hidden_layers)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_lrp_takes_about_the_time_of_a_gradient(model, size, timed, ratios, monkeypatch):
    monkeypatch.setattr(calls, "AFTER", 1)  # an early record saves calls that are not timed
    inputs = text(model, size, timed)
    names = ("gradient", *LRP)
    runs, answers = keeping({name: partial(METHODS[name], model, inputs) for name in names})
    replayed = timed and inputs["input_ids"].numel() <= calls.LARGEST
    ready = calls.AFTER + 2 if replayed else 1  # from then on calls are replayed
    seconds = alternate(runs, repeats=rounds(*size) if timed else 1, warm_up=ready)
    if replayed:
        assert [tape.proved for tape in calls.MEMORIES[model].tapes.values()][-2:] == [True, True]
    for name, relevance in answers.items():
        assert_right(model, inputs, name, relevance)
    for name in LRP:
        about = dict(group="time of LRP", goal=goal(name, size[1]))
        ratios.over(label(model, name, size), seconds[name], seconds["gradient"], **about)


@pytest.mark.parametrize("method", LRP)
@pytest.mark.parametrize("size", FOR_MEMORY, ids="{0[0]}x{0[1]}".format)
def test_lrp_needs_about_the_memory_of_a_gradient(model, size, method, timed, ratios, monkeypatch):
    # A logit near 0, as random weights may give, asks for further passes.
    monkeypatch.setattr(amplification, "warn", lambda *_given, **_options: None)
    inputs = text(model, size, timed)
    used = {
        name: peak_memory(lambda f=METHODS[name]: f(model, inputs), device=DEVICE)
        for name in ("gradient", method)
    }
    held = inputs["input_ids"].numel() * model.config.intermediate_size * model.dtype.itemsize
    layers = model.config.num_hidden_layers
    assert used["gradient"] >= layers * held, "the measurement missed the activations"
    ratio = used[method] / used["gradient"]
    name = f"memory of {label(model, method, size)}"
    ratios.note(name, [ratio], group="memory of LRP", goal=MEMORY_GOAL)
    assert ratio <= MEMORY_BOUND


WRONG = {
    "nothing": torch.zeros_like,
    "the wrong sign": torch.neg,
    "twice": lambda relevance: 2 * relevance,
    "the tokens in another order": lambda relevance: relevance.flip(1),
    "one token missing": lambda relevance: relevance[:, 1:],
    "not a number": lambda relevance: relevance * torch.nan,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("method", ["gradient", *LRP])
def test_a_wrong_answer_is_not_timed(small, method, wrong):
    inputs = random_text(small, batch=2, tokens=8)
    relevance = METHODS[method](small, inputs)
    assert_right(small, inputs, method, relevance)
    with pytest.raises(AssertionError):
        assert_right(small, inputs, method, WRONG[wrong](relevance))


@pytest.mark.parametrize(("method", "other"), [("attnlrp", "cp-lrp"), ("cp-lrp", "gradient")])
def test_the_answer_of_another_method_is_not_timed(small, method, other):
    inputs = random_text(small, batch=2, tokens=8)
    with pytest.raises(AssertionError, match="float64 differs"):
        assert_right(small, inputs, method, METHODS[other](small, inputs))

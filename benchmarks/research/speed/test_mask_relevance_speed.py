"""Mask relevance against plain gradient x input: ratios of time, over texts and batches.

BERT-base and eight layers of the shape of Qwen2-0.5B with random weights when timed; the ordinary
test run executes each case on two narrow layers and checks the answers.
"""

import time
from functools import partial

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lrp_axioms import attribute
from lrp_axioms.benchmarks.research.speed import test_long, test_speed
from lrp_axioms.benchmarks.research.speed.usage import ONE_ROW
from lrp_axioms.benchmarks.running.timing import alternate, plain_gradient

METHOD = "mask-relevance"
GROUP = "mask relevance"
GOAL = 1.5
SIZES = [(1, 32), (1, 128), (8, 32), (1, 512)]
OF_LANGUAGE_MODEL = [(1, 64), (1, 256)]
LAYERS = {"num_hidden_layers": 8}
CLOCK = time.process_time if test_speed.DEVICE == "cpu" else time.perf_counter


@pytest.fixture(scope="module")
def model(timed):
    return test_speed.bert("float32", **({} if timed else test_speed.SMALL))


@pytest.fixture(scope="module")
def language_model(timed):
    torch.manual_seed(0)
    sizes = test_long.QWEN2_05B | LAYERS if timed else test_long.SMALL
    return Qwen2ForCausalLM(Qwen2Config(**sizes)).eval()


def note(model, size, name, timed, ratios, **options):
    inputs = test_speed.text(model, size, timed)
    explain = lambda: attribute(model, inputs, METHOD).relevance
    test_speed.assert_right(model, inputs, METHOD, explain())
    runs = {"gradient": partial(plain_gradient, model, inputs, **options), METHOD: explain}
    rounds = max(3, min(15, 1024 // (size[0] * size[1]))) if timed else 1
    seconds = alternate(runs, repeats=rounds, clock=CLOCK if timed else time.perf_counter)
    name = f"{name}, batch {size[0]}, {size[1]} tokens"
    ratios.over(name, seconds[METHOD], seconds["gradient"], group=GROUP, goal=GOAL)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_mask_relevance_takes_little_more_than_a_gradient(model, size, timed, ratios):
    note(model, size, "BERT", timed, ratios)


@pytest.mark.parametrize("size", OF_LANGUAGE_MODEL, ids="{0[0]}x{0[1]}".format)
def test_that_of_a_language_model_does_too(language_model, size, timed, ratios):
    note(language_model, size, "language model", timed, ratios, **ONE_ROW)

"""LRP against plain gradient x input: time as a ratio in one run, memory as a peak.

BERT-base size with random weights, 128 tokens.  Run by `make bench`; the ordinary test run
executes each case once, without timing it.
"""

import os
import statistics

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.timing import METHODS, alternate, peak_memory, random_text
from numeric import attribute

BOUNDS = {"attnlrp": 1.10, "cp-lrp": 1.00}
"""How many times the plain gradient's time each method may take."""
MEMORY_BOUND = 1.10
ROUNDS = {1: 15, 8: 7}


@pytest.fixture(scope="module")
def bert_base():
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig()).eval()


@pytest.fixture(params=ROUNDS, ids="batch {}".format)
def inputs(request, bert_base):
    return random_text(bert_base, batch=request.param, tokens=128)


@pytest.fixture
def only_when_timed(request):
    option = request.config.getoption
    if option("benchmark_disable") and not option("benchmark_enable"):
        pytest.skip("a ratio of times needs an idle machine; `make bench` measures it")


def assert_right(model, inputs, method, relevance):
    """A wrong answer has no speed: float64 must give the same relevance."""
    ids = inputs["input_ids"]
    assert relevance.shape == ids.shape
    if method == "gradient":
        expected = attribute(model, inputs, "gradient-x-input").relevance
    else:
        with torch.no_grad():
            model.double()
            expected = attribute(model, inputs, method).relevance
            model.float()
    torch.testing.assert_close(relevance.double(), expected.double(), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("method", ["gradient", "attnlrp", "cp-lrp"])
def test_time(benchmark, bert_base, inputs, method):
    benchmark.group = f"BERT-base, 128 tokens, batch {len(inputs['input_ids'])}"
    benchmark.extra_info.update(threads=torch.get_num_threads(), cores=os.cpu_count())
    relevance = benchmark(METHODS[method], bert_base, inputs)
    assert_right(bert_base, inputs, method, relevance)


@pytest.mark.usefixtures("only_when_timed")
def test_lrp_costs_no_more_than_its_bound(bert_base, inputs, benchmark, record_property):
    names = ("gradient", *BOUNDS)
    run = {name: lambda f=METHODS[name]: f(bert_base, inputs) for name in names}
    rounds = ROUNDS[len(inputs["input_ids"])]
    seconds = benchmark.pedantic(alternate, (run,), {"repeats": rounds}, rounds=1)
    ratio = {
        name: statistics.median(
            a / b for a, b in zip(seconds[name], seconds["gradient"], strict=True)
        )
        for name in BOUNDS
    }
    benchmark.extra_info["ratio to gradient x input"] = ratio
    assert {name: r for name, r in ratio.items() if r > BOUNDS[name]} == {}


@pytest.mark.parametrize("method", BOUNDS)
def test_lrp_needs_no_more_memory_than_its_bound(bert_base, inputs, method):
    plain = peak_memory(lambda: METHODS["gradient"](bert_base, inputs))
    ours = peak_memory(lambda: METHODS[method](bert_base, inputs))
    assert plain > 1e7, "the measurement missed the activations"
    assert ours <= MEMORY_BOUND * plain

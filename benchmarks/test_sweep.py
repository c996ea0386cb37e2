"""All mixes of Table A3 from one forward pass against one run for each, in CPU time and memory.

The embedded model on 32 texts of 26 tokens and BERT-base (random weights) on 8 texts of 32.  Run
by `make bench`; the ordinary test run only compares a few mixes of the embedded model.
"""

import statistics
import time

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks import models, rows
from benchmarks.timing import peak_memory, random_text
from numeric import attribute
from numeric.fast.sweep import sweep

COMPOSITES = [v.method for v in rows.load("figure2-sst2").composites(12).values()]
AT_LEAST = 3.0
"""How many times faster than separate runs: 34 x 24 layer passes against 12 + 178."""
MEMORY_BOUND = 1.25
"""Peak memory against one AttnLRP run: one cotangent of each layer waits beside its activations."""
ROUNDS = {"embedded": 3, "bert-base": 1}


def is_timed(config):
    return config.getoption("benchmark_enable") or not config.getoption("benchmark_disable")


@pytest.fixture(params=ROUNDS)
def case(request):
    if request.param != "embedded" and not is_timed(request.config):
        pytest.skip("BERT-base takes a minute; `make bench` compares it")
    torch.manual_seed(0)
    if request.param == "embedded":
        model = models.load().model.float()
        return request.param, model, random_text(model, batch=32, tokens=26)
    model = BertForSequenceClassification(BertConfig()).eval()
    return request.param, model, random_text(model, batch=8, tokens=32)


@pytest.fixture
def only_when_timed(request):
    if not is_timed(request.config):
        pytest.skip("a ratio of times takes minutes; `make bench` measures it")


def separately(model, inputs, composites):
    return torch.stack([attribute(model, inputs, c).relevance for c in composites])


def cpu_seconds(function):
    start = time.process_time()
    return function(), time.process_time() - start


@pytest.mark.usefixtures("only_when_timed")
def test_the_sweep_is_faster_than_separate_runs(case, benchmark):
    name, model, inputs = case
    ratios = []

    def alternate():
        for _ in range(ROUNDS[name]):
            alone, slow = cpu_seconds(lambda: separately(model, inputs, COMPOSITES))
            found, fast = cpu_seconds(lambda: sweep(model, inputs, COMPOSITES).relevance)
            assert_close(found, alone)
            ratios.append(slow / fast)

    benchmark.pedantic(alternate, rounds=1)
    threads = torch.get_num_threads()
    benchmark.extra_info.update({"separate runs / sweep": ratios, "threads": threads})
    assert statistics.median(ratios) >= AT_LEAST


def test_a_few_mixes_equal_separate_runs_in_float32(case):
    _, model, inputs = case
    few = COMPOSITES[::11]
    assert_close(sweep(model, inputs, few).relevance, separately(model, inputs, few))


def test_the_sweep_needs_little_more_memory_than_one_run(case):
    _, model, inputs = case
    one = peak_memory(lambda: attribute(model, inputs, "attnlrp"))
    ours = peak_memory(lambda: sweep(model, inputs, COMPOSITES[:12]))
    assert one > 1e6, "the measurement missed the activations"
    assert ours <= MEMORY_BOUND * one


def assert_close(found, alone):
    """Within float32 rounding, which grows along 12 layers, of the largest relevance."""
    bound = 1e-4 * alone.abs().max().item()
    torch.testing.assert_close(found, alone, rtol=0, atol=bound)

"""All mixes of Table A3 from one forward pass against one run for each, in CPU time and memory.

The embedded model on 32 texts of 26 tokens and BERT-base (random weights) on 8 texts of 32.  Run
by `make bench`; the ordinary test run only compares a few mixes of the embedded model.
"""

import time
from functools import partial

import pytest
import torch

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments import rows
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.research.speed.usage import keeping, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.benchmarks.sources import models
from lrp_axioms.numeric.layer_mixes import sweep

COMPOSITES = [v.method for v in rows.load("figure2-sst2").composites(12).values()]
GOAL = 3.0
"""How many times faster than separate runs: 34 x 24 layer passes against 12 + 178."""
MEMORY_BOUND = 1.25
"""Peak memory against one AttnLRP run: one cotangent of each layer waits beside its activations."""
ROUNDS = {"embedded model": 5, "BERT-base": 3}


@pytest.fixture(params=ROUNDS)
def case(request, timed):
    if request.param == "BERT-base" and not timed:
        pytest.skip("BERT-base takes minutes; `make bench` compares it")
    if request.param == "embedded model":
        model = models.load().model.float()
        return request.param, model, random_text(model, batch=32, tokens=26)
    model = test_speed.bert("float32").cpu()
    return request.param, model, random_text(model, batch=8, tokens=32)


def separately(model, inputs, composites):
    return torch.stack([attribute(model, inputs, c).relevance for c in composites])


@pytest.mark.usefixtures("only_when_timed")
def test_the_sweep_is_faster_than_separate_runs(case, ratios):
    name, model, inputs = case
    runs = {"alone": separately, "together": lambda *given: sweep(*given).relevance}
    runs = {way: partial(run, model, inputs, COMPOSITES) for way, run in runs.items()}
    functions, answers = keeping(runs)
    seconds = alternate(functions, repeats=ROUNDS[name], clock=time.process_time)
    assert_close(answers["together"], answers["alone"])
    about = dict(group="sweep", better="higher", goal=GOAL)
    ratios.over(f"time, {name}", seconds["alone"], seconds["together"], **about)


def test_a_few_mixes_equal_separate_runs_in_float32(case):
    _, model, inputs = case
    few = COMPOSITES[::11]
    assert_close(sweep(model, inputs, few).relevance, separately(model, inputs, few))


def test_the_sweep_needs_little_more_memory_than_one_run(case, ratios):
    name, model, inputs = case
    one = peak_memory(lambda: attribute(model, inputs, "attnlrp"))
    ours = peak_memory(lambda: sweep(model, inputs, COMPOSITES[:12]))
    assert one > 1e6, "the measurement missed the activations"
    ratios.note(f"memory, {name}", [ours / one], group="sweep", goal=MEMORY_BOUND)
    assert ours <= MEMORY_BOUND * one


def assert_close(found, alone):
    """Within float32 rounding, which grows along 12 layers, of the largest relevance."""
    bound = 1e-4 * alone.abs().max().item()
    torch.testing.assert_close(found, alone, rtol=0, atol=bound)

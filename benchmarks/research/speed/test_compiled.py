"""Compiled AttnLRP against AttnLRP as ``attribute`` replays it: the same answer, then time.

Run by `make bench`, which needs a C++ compiler.
"""

import pytest
import torch

from lrp_axioms import attribute, compiled
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.numeric.replay import calls

GROUP = "torch.compile"
ROUNDS = {(1, 32): 60, (1, 128): 15, (8, 128): 5}


@pytest.fixture
def forget():
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("only_when_timed", "forget")
@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("size", ROUNDS)
def test_compiled_answers_are_those_of_attribute_and_times_are_noted(size, ratios, benchmark):
    model = test_speed.bert("float32")
    inputs = random_text(model, batch=size[0], tokens=size[1])
    with compiled(model) as explain:
        run = {"compiled": lambda: explain(inputs), "replayed": lambda: attribute(model, inputs)}
        found, want = (each().relevance for each in run.values())
        torch.testing.assert_close(found, want, rtol=0, atol=1e-4 * want.abs().max().item())
        options = {"repeats": ROUNDS[size], "warm_up": calls.AFTER + 2}  # then calls are replayed
        seconds = benchmark.pedantic(alternate, (run,), options, rounds=1)
    name = f"compiled / replayed AttnLRP, {test_speed.setting(model, size)}"
    ratios.over(name, seconds["compiled"], seconds["replayed"], group=GROUP)

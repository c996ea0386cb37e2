"""Compiled AttnLRP against AttnLRP as ``attribute`` replays it: the same answer, then time.

Run by `make bench`, which needs a C++ compiler.
"""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms import attribute, compiled
from lrp_axioms.benchmarks.running.timing import alternate, random_text
from lrp_axioms.numeric.replay import calls

GROUP = "torch.compile"
ROUNDS = {1: 15, 8: 5}


@pytest.fixture
def forget():
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("only_when_timed", "forget")
@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("batch", ROUNDS)
def test_compiled_answers_are_those_of_attribute_and_times_are_noted(batch, ratios, benchmark):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).eval()
    inputs = random_text(model, batch=batch, tokens=128)
    with compiled(model) as explain:
        run = {"compiled": lambda: explain(inputs), "replayed": lambda: attribute(model, inputs)}
        found, want = (each().relevance for each in run.values())
        torch.testing.assert_close(found, want, rtol=0, atol=1e-4 * want.abs().max().item())
        options = {"repeats": ROUNDS[batch], "warm_up": calls.AFTER + 2}  # then calls are replayed
        seconds = benchmark.pedantic(alternate, (run,), options, rounds=1)
    values = [a / b for a, b in zip(seconds["compiled"], seconds["replayed"], strict=True)]
    ratios.note(f"compiled / replayed AttnLRP, batch {batch}, 128 tokens", values, group=GROUP)

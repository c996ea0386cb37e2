"""Long texts: AttnLRP, as it is and with layers that run again, against plain gradient x input.

A language model of the shape of Qwen2-0.5B with random weights when timed; the ordinary test run
executes each case on two narrow layers and checks the answers.
"""

import time
from functools import partial

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lrp_axioms import attribute
from lrp_axioms.benchmarks.research.speed.test_speed import assert_right, rounding
from lrp_axioms.benchmarks.research.speed.usage import ONE_ROW, keeping, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate, plain_gradient, random_text

GROUP = "long texts"
VOCABULARY = 1024
QWEN2_05B = dict(
    hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    intermediate_size=4864, vocab_size=VOCABULARY,
)  # fmt: skip
"""The shape of Qwen2-0.5B, whose own vocabulary is larger and costs memory alone."""
SMALL = QWEN2_05B | dict(
    hidden_size=56, num_hidden_layers=2, intermediate_size=304,
    initializer_range=0.08,  # makes sums of 56 as large as the stock 0.02 makes sums of 896
)  # fmt: skip
TOKENS, LONGEST = 1024, 8192
ROUNDS = 5
GOALS = {"AttnLRP": 1.03, "AttnLRP, again": 1.5 * 1.03}  # three passes in place of two
MEMORY_GOALS = {"AttnLRP": 1.02, "AttnLRP, again": 0.25}
RUNS = {
    "gradient": partial(plain_gradient, **ONE_ROW),
    "AttnLRP": lambda model, inputs: attribute(model, inputs).relevance,
    "AttnLRP, again": lambda model, inputs: attribute(model, inputs, checkpoint=True).relevance,
}


@pytest.fixture(scope="module")
def model(timed):
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**QWEN2_05B if timed else SMALL)).eval()


@pytest.fixture
def runs(model, timed):
    """Returns name -> run on one text, once the answers to a short one are right."""
    short = random_text(model, batch=1, tokens=32)
    for name, run in RUNS.items():
        assert_right(model, short, name.split(",")[0].lower(), run(model, short))
    text = random_text(model, batch=1, tokens=TOKENS if timed else 64)
    return {name: partial(run, model, text) for name, run in RUNS.items()}


def test_attnlrp_of_a_long_text_takes_about_the_time_of_a_gradient(runs, timed, ratios):
    clock = time.process_time if timed else time.perf_counter
    seconds = alternate(runs, repeats=ROUNDS if timed else 1, clock=clock)
    for name, goal in GOALS.items():
        label = f"time of {name}, {TOKENS:,} tokens"
        ratios.over(label, seconds[name], seconds["gradient"], group=GROUP, goal=goal)


def test_layers_that_run_again_take_a_part_of_the_memory(model, runs, timed, ratios):
    runs, answers = keeping(runs)
    used = {name: peak_memory(run) for name, run in runs.items()}
    assert (answers["AttnLRP"] - answers["AttnLRP, again"]).norm() <= (
        rounding(model) * answers["AttnLRP"].norm()
    )
    assert used["AttnLRP, again"] < used["AttnLRP"]
    for name, goal in MEMORY_GOALS.items():
        ratio = used[name] / used["gradient"]
        ratios.note(f"memory of {name}, {TOKENS:,} tokens", [ratio], group=GROUP, goal=goal)


@pytest.mark.usefixtures("only_when_timed")
def test_a_text_of_8192_tokens_takes_the_memory_of_one_of_1024(model, ratios):
    """Layers run again there, and a plain gradient here, whose memory at 8,192 would be much.

    This takes about eight minutes.
    """
    texts = {tokens: random_text(model, batch=1, tokens=tokens) for tokens in (TOKENS, LONGEST)}
    gradient = peak_memory(partial(RUNS["gradient"], model, texts[TOKENS]))
    again = peak_memory(partial(RUNS["AttnLRP, again"], model, texts[LONGEST]))
    goal = MEMORY_GOALS["AttnLRP, again"] * LONGEST / TOKENS
    name = f"memory of AttnLRP, again, {LONGEST:,} tokens / gradient, {TOKENS:,} tokens"
    ratios.note(name, [again / gradient], group=GROUP, goal=goal)

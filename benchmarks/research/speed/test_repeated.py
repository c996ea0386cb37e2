"""Repeated calls of one short text, replayed and by rules, against plain gradient x input."""

import time
from functools import partial

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lrp_axioms import attribute
from lrp_axioms.benchmarks.research.speed import test_long, test_speed
from lrp_axioms.benchmarks.research.speed.usage import ONE_ROW
from lrp_axioms.benchmarks.running.timing import alternate, one_thread, plain_gradient, random_text
from lrp_axioms.benchmarks.sources import models
from lrp_axioms.numeric.replay import calls

GROUP = "repeated calls"
GOALS = {"AttnLRP": 1.03, "CP-LRP": 0.95}
GOALS_EMBEDDED = dict.fromkeys(GOALS, 1.25)
BERT, QWEN2, EMBEDDED = "BERT-base", "shape of Qwen2-0.5B", "embedded model"
QWEN2_ROW = f"{QWEN2} with one row of logits"
VOCABULARY = {"vocab_size": 151_936}
CASES = [
    (EMBEDDED, 16, 40), (QWEN2, 16, 8), (QWEN2_ROW, 16, 8), (BERT, 8, 40), (BERT, 32, 40),
    (BERT, 128, 20),
]  # fmt: skip


def stock_model(name, timed):
    if name == EMBEDDED:
        return models.load().model
    if name == BERT:
        return test_speed.bert("float32", **({} if timed else test_speed.SMALL)).cpu()
    torch.manual_seed(0)
    sizes = test_long.QWEN2_05B | VOCABULARY if timed else test_long.SMALL
    return Qwen2ForCausalLM(Qwen2Config(**sizes)).eval()


def by_rules(model, inputs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "LARGEST", 0)
        return attribute(model, inputs).relevance


@pytest.mark.parametrize(("name", "tokens", "rounds"), CASES, ids=str)
def test_repeated_calls_take_about_the_time_of_a_gradient(name, tokens, rounds, timed, ratios):
    model = stock_model(name, timed)
    inputs = random_text(model, batch=1, tokens=tokens)
    runs = {
        "gradient": partial(plain_gradient, **(ONE_ROW if name == QWEN2_ROW else {})),
        "AttnLRP": lambda *given: attribute(*given).relevance,
        "CP-LRP": lambda *given: attribute(*given, "cp-lrp").relevance,
        "AttnLRP by rules": by_rules,
    }
    runs = {label: partial(run, model, inputs) for label, run in runs.items()}
    options = {"repeats": rounds if timed else 1, "warm_up": calls.AFTER + 2}  # then replayed
    clock = time.process_time if timed else time.perf_counter
    with one_thread():
        seconds = alternate(runs, clock=clock, **options)
    tapes = calls.MEMORIES[model].tapes.values()
    assert [tape.proved for tape in tapes] == [True, True]
    assert torch.equal(runs["AttnLRP"](), runs["AttnLRP by rules"]())
    for label, values in seconds.items():
        if label != "gradient":
            aim = (GOALS_EMBEDDED if name == EMBEDDED else GOALS).get(label)
            about = {"group": GROUP, "goal": aim}
            ratios.over(f"{label}, {name}, 1 x {tokens}", values, seconds["gradient"], **about)

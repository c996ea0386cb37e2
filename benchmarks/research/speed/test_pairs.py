"""Exact interactions of all pairs against a loop of one forward pass for each pair.

The models are the embedded one and BERT-base with random weights.  The ordinary test run compares
the answers on two layers, without timing.
"""

import time
from functools import partial
from itertools import combinations

import pytest
import torch

from lrp_axioms import interactions
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.research.speed.usage import keeping, peak_memory
from lrp_axioms.benchmarks.running.timing import alternate
from lrp_axioms.benchmarks.sources import models

TEXT = (
    "The plot is thin, but the acting is a quiet joy, and nobody who saw it will regret the long "
    "evening."
)  # 26 tokens, and so 325 pairs
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
GROUP = "interactions"


def loop(model, inputs):
    """Returns the logits of all pairs left out: (pair, class)."""
    found = []
    with torch.inference_mode():
        for pair in combinations(range(inputs["input_ids"].shape[1]), 2):
            mask = inputs["attention_mask"].clone()
            mask[0, list(pair)] = 0
            found.append(model(**inputs | {"attention_mask": mask}).logits[0])
    return torch.stack(found)


@pytest.mark.parametrize("name", ["embedded", "BERT-base"])
def test_pairs_are_the_loops_and_come_sooner(name, timed, ratios):
    loaded = models.load()
    sizes = {"vocab_size": len(loaded.tokenizer), **({} if timed else SMALL)}
    embedded = name == "embedded"
    model = loaded.model if embedded else test_speed.bert("float32", **sizes).cpu()
    inputs = loaded.tokenizer(TEXT, return_tensors="pt")
    ours = partial(interactions, model, loaded.tokenizer, TEXT)
    functions, answers = keeping({"ours": ours, "loop": partial(loop, model, inputs)})
    rounds = {"embedded": 5, "BERT-base": 2}[name] if timed else 1
    seconds = alternate(functions, repeats=rounds, clock=time.process_time)
    ours = answers["ours"]
    first, second = torch.triu_indices(*ours.pairs.shape, 1)
    both = ours.logit - answers["loop"][:, ours.target[0]]
    want = ours.relevance[0, first] + ours.relevance[0, second] - both
    torch.testing.assert_close(ours.pairs[first, second], want, rtol=0, atol=1e-4)
    about = {"group": GROUP, "better": "higher"}
    ratios.over(f"seconds of a loop / ours, {name}", seconds["loop"], seconds["ours"], **about)
    if timed:
        memory = [peak_memory(functions[which]) for which in ("ours", "loop")]
        ratios.note(f"memory of ours / a loop, {name}", [memory[0] / memory[1]], group=GROUP)

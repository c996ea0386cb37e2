"""Exact Leave-One-Out against Captum's FeatureAblation, and against its own copies run whole.

The models are BERT-base, and Qwen2-0.5B with fewer layers and words, with random weights.  ``make
bench`` measures; where Captum is missing the cases are skipped by name.  The ordinary test run
compares the answers on two layers, without timing.
"""

import statistics
import time
import warnings
from functools import partial

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lrp_axioms import attribute
from lrp_axioms.benchmarks.research.speed import test_speed
from lrp_axioms.benchmarks.research.speed.usage import keeping, operations
from lrp_axioms.benchmarks.running.timing import alternate
from lrp_axioms.numeric.methods import prefix

AT_ONCE = (1, 4, 16)
"""Captum's ``perturbations_per_eval``: its default, and larger ones; the best counts."""
TEXTS = {
    "1 text of 32 tokens": [32],
    "8 texts of 32 tokens": [32] * 8,
    "8 texts of 8 to 64 tokens": [8, 16, 24, 32, 40, 48, 56, 64],
}
GOALS = {
    "1 text of 32 tokens": {"default": 1.5, "best": 1.15},
    "8 texts of 32 tokens": {"default": 1.5, "best": 1.15},
    "8 texts of 8 to 64 tokens": {"default": None, "best": 2.0},
}
ROUNDS = {"1 text of 32 tokens": 7, "8 texts of 32 tokens": 5, "8 texts of 8 to 64 tokens": 3}
TOLERANCE = 1e-5  # logits, in float32


@pytest.fixture(scope="module")
def captum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library, at import
        return pytest.importorskip("captum.attr", reason="captum is in the group 'peers'")


@pytest.fixture(scope="module")
def bert(timed):
    return test_speed.bert("float32", num_hidden_layers=12 if timed else 2).cpu()


def text(lengths):
    """Token ids without meaning, padded on the right: time depends on shapes alone."""
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 30000, (len(lengths), max(lengths)), generator=drawn)
    mask = (torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def ours(model, inputs):
    return attribute(model, inputs, "loo").relevance


@torch.inference_mode()
def by_captum(captum, model, inputs, at_once):
    """Runs FeatureAblation of the attention mask's columns, for the predicted class."""
    ids, mask = inputs["input_ids"], inputs["attention_mask"]

    def forward(kept, ids):
        return model(input_ids=ids, attention_mask=kept.long()).logits

    found = captum.FeatureAblation(forward).attribute(
        mask.float(),
        target=forward(mask, ids).argmax(dim=1),
        additional_forward_args=(ids,),
        perturbations_per_eval=at_once,
    )
    return found * mask


@pytest.mark.parametrize("lengths", TEXTS.values(), ids=TEXTS)
def test_the_answers_are_captums(captum, bert, lengths):
    inputs = text([n // 4 for n in lengths])
    want = by_captum(captum, bert, inputs, 4)
    torch.testing.assert_close(ours(bert, inputs), want, rtol=0, atol=TOLERANCE)
    assert want.abs().max() > 100 * TOLERANCE


@pytest.mark.parametrize("case", TEXTS)
def test_leave_one_out_computes_fewer_products_than_captum(captum, bert, case, ratios):
    """Compares numbers of products: about the ratio of time, where products dominate."""
    inputs = text(TEXTS[case])
    theirs = operations(lambda: by_captum(captum, bert, inputs, AT_ONCE[-1]))
    ratio = theirs / operations(lambda: ours(bert, inputs))
    assert ratio > 1
    name = f"Captum's products / ours, {case}"
    ratios.note(name, [ratio], group="Leave-One-Out against Captum", better="higher")


@pytest.mark.usefixtures("only_when_timed")
@pytest.mark.parametrize("case", TEXTS)
def test_leave_one_out_is_ahead_of_captum(captum, bert, case, ratios):
    inputs = text(TEXTS[case])
    theirs = {at_once: partial(by_captum, captum, bert, inputs, at_once) for at_once in AT_ONCE}
    functions, answers = keeping({"ours": partial(ours, bert, inputs)} | theirs)
    seconds = alternate(functions, repeats=ROUNDS[case], clock=time.process_time)
    for name in AT_ONCE:
        torch.testing.assert_close(answers["ours"], answers[name], rtol=0, atol=TOLERANCE)
    best = min(AT_ONCE, key=lambda name: statistics.median(seconds[name]))
    for label, name in {"default": AT_ONCE[0], "best": best}.items():
        ratios.over(
            f"Captum's {label} / ours, {case}",
            seconds[name],
            seconds["ours"],
            group="Leave-One-Out against Captum",
            better="higher",
            goal=GOALS[case][label],
        )


@pytest.fixture(scope="module")
def qwen2(timed):
    torch.manual_seed(0)
    config = Qwen2Config(
        hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
        num_hidden_layers=4 if timed else 1, vocab_size=32_000 if timed else 1000,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


def test_copies_of_a_language_model_share_what_comes_before(qwen2, timed, ratios, monkeypatch):
    tokens = 128 if timed else 64
    inputs = {"input_ids": torch.arange(tokens)[None] + 1}
    of_text = prefix.of_text

    def run(name):
        monkeypatch.setattr(prefix, "of_text", of_text if name == "ours" else lambda *_: None)
        return ours(qwen2, inputs)

    functions, answers = keeping({name: partial(run, name) for name in ("ours", "whole")})
    products = {name: operations(function) for name, function in functions.items()}
    torch.testing.assert_close(answers["ours"], answers["whole"], rtol=0, atol=TOLERANCE)
    found = {"products": [products["whole"] / products["ours"]]}
    assert found["products"] > [1.5]
    if timed:
        seconds = alternate(functions, repeats=3, clock=time.process_time)
        pairs = zip(seconds["whole"], seconds["ours"], strict=True)
        found["seconds"] = [a / b for a, b in pairs]
    for unit, values in found.items():
        name = f"{unit} of whole copies / ours, 1 text of {tokens} tokens"
        ratios.note(name, values, group="Leave-One-Out of a language model", better="higher")

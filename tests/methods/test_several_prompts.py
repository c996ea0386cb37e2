"""Several prompts are explained as each is alone, whatever form they come in."""

import re

import pytest
import torch

from lrp_axioms import explain_generation, explain_generations
from tests.support.writers import ANSWER, PROMPT, model_of, tokenizer

pytestmark = pytest.mark.usefixtures("float64")
PROMPTS = [PROMPT, "he had a beef", "a dad"]
ANSWERS = [ANSWER, "a cab", "faded"]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_each_prompt_of_a_batch_is_explained_as_alone(name):
    model, words, how = model_of(name), tokenizer(), {"method": "cp-lrp"}
    padded = {"padding": True, "return_tensors": "pt"}
    batches = [words(PROMPTS, padding_side=side, **padded) for side in ("left", "right")]
    assert all(0 in batch["attention_mask"] for batch in batches)
    pairs = zip(PROMPTS, ANSWERS, strict=True)
    alone = [explain_generation(model, words, x, answer=y, **how) for x, y in pairs]
    for prompts in (PROMPTS, *batches, words(PROMPTS)):
        found = explain_generations(model, words, prompts, answers=ANSWERS, **how)
        for each, want in zip(found, alone, strict=True):
            assert each.tokens == want.tokens
            assert torch.equal(each.relevance, want.relevance)
    written = explain_generations(model, words, PROMPTS, max_new_tokens=2)
    alone = explain_generation(model, words, PROMPTS[2], max_new_tokens=2)
    assert torch.equal(written[2].relevance, alone.relevance)


def test_each_prompt_has_its_own_contrast_and_segments():
    given, others = (model_of("llama"), tokenizer()), ["a beef", [6], "fed"]
    parts = [{"part": x.split()[-1]} for x in PROMPTS]
    own = {"answers": ANSWERS, "contrasts": others, "segments": parts}
    found = explain_generations(*given, PROMPTS, **own)
    for n, each in enumerate(found):
        own = {"answer": ANSWERS[n], "contrast": others[n], "segments": parts[n]}
        alone = explain_generation(*given, PROMPTS[n], **own)
        assert torch.equal(each.relevance, alone.relevance)
        assert (each.contrast, each.segments) == (alone.contrast, alone.segments)
        assert "part" in each.segments


def test_what_is_no_list_of_prompts_is_refused():
    model, words = model_of("gpt2"), tokenizer()
    holes = {"input_ids": [[4, 5, 6], [4, 5, 6]], "attention_mask": [[0, 1, 1], [1, 0, 1]]}
    truth = {"input_ids": [[4, 5, 6]], "attention_mask": torch.tensor([[True, False, True]])}
    bad = {
        "prompts='a': pass a list": ("a", {}),
        "prompts=[]: pass a list": ([], {}),
        "prompts={}: pass a list": ({}, {}),
        "answers=['a']: pass one per prompt, 3 in all": (PROMPTS, {"answers": ["a"]}),
        "answers='abc': pass one per prompt, 3 in all": (PROMPTS, {"answers": "abc"}),
        "contrasts=[]: pass one per prompt, 1 in all\nsegments={'a': 'a'}: pass one": (
            ["a"],
            {"contrasts": [], "segments": {"a": "a"}},
        ),
        "hides tokens in the middle of rows [1]": (holes, {}),
        "hides tokens in the middle of rows [0]": (truth, {}),
        "prompt='' (str without tokens)": (["a", ""], {}),
    }
    for message, (prompts, options) in bad.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            explain_generations(model, words, prompts, max_new_tokens=1, **options)

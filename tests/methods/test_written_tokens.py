"""Texts of answers become the tokens that a decoder writes, and ends are the model's."""

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import GenerationConfig, PreTrainedTokenizerFast, WhisperForConditionalGeneration

from numeric import attribute, explain_generation
from numeric.generation.apart import of_columns
from numeric.targets import logit
from tests.support import writers
from tests.support.cases import close
from tests.support.writers import ANSWER, PROMPT, model_of

pytestmark = pytest.mark.usefixtures("float64")
OTHER = "fed he"


def beginning_with(word):
    """Puts the token ``word`` before a text."""
    ids = {"<s>": 1, "</s>": 2, "<unk>": 3}
    return TemplateProcessing(single=f"{word} $A </s>", special_tokens=[*ids.items()])


class Translating(PreTrainedTokenizerFast):
    """Begins a text to read with another token than a text to write, as for languages."""

    def _switch_to_input_mode(self):
        self.backend_tokenizer.post_processor = beginning_with("</s>")

    def _switch_to_target_mode(self):
        self.backend_tokenizer.post_processor = beginning_with("<unk>")


def translating():
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return Translating(tokenizer_object=writers.tokenizer().backend_tokenizer, **names)


def test_an_answer_is_tokenized_as_a_text_to_write():
    model, words = model_of("marian"), translating()
    ids = [words(text_target=x)["input_ids"] for x in (ANSWER, OTHER)]
    assert ids[0][0] == 3 != words(ANSWER)["input_ids"][0]
    for other in ({}, {"contrast": OTHER}):
        found = explain_generation(model, words, PROMPT, answer=ANSWER, **other)
        given = {"contrast": ids[1]} if other else {}
        want = explain_generation(model, words, PROMPT, answer=ids[0], **given)
        assert found.tokens == want.tokens
        close(found.relevance, want.relevance)


def test_an_answer_to_a_sound_has_the_start_token_once():
    model, words = model_of("whisper", WhisperForConditionalGeneration), writers.tokenizer()
    words.backend_tokenizer.post_processor = beginning_with("<s>")
    start, *answer = words(ANSWER)["input_ids"]
    _, *other = words(OTHER)["input_ids"]
    assert start == model.config.decoder_start_token_id
    config = model.config
    sound = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    for texts, ids in (
        ({"answer": ANSWER}, {"answer": answer}),
        ({"answer": ANSWER, "contrast": OTHER}, {"answer": answer, "contrast": other}),
    ):
        found, want = (
            explain_generation(model, words, sound, method="gradient-x-input", **x)
            for x in (texts, ids)
        )
        assert found.tokens == want.tokens
        close(found.relevance, want.relevance)


def test_the_ends_of_the_model_hold_beside_a_config_that_names_none(tokenizer):
    model = model_of("llama")
    model.generation_config.eos_token_id = None
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    _, end = model.generate(ids, max_new_tokens=2, do_sample=False)[0, ids.shape[1] :].tolist()
    model.generation_config.eos_token_id = end
    config = GenerationConfig(max_new_tokens=4, do_sample=False)
    found, want = (
        explain_generation(model, tokenizer, PROMPT, contrast="he", **how)
        for how in ({"generation_config": config}, {"max_new_tokens": 4})
    )
    close(found.logit, want.logit)


@pytest.mark.parametrize("name", ["t5", "bart", "llama"])
def test_max_length_counts_tokens_as_generate_does(name, tokenizer):
    model = model_of(name)
    model.generation_config.eos_token_id = None
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    before = ids.shape[1] if name == "llama" else 1
    config = GenerationConfig(max_length=before + 3, do_sample=False)
    assert model.generate(ids, generation_config=config).shape[1] == before + 3
    found = explain_generation(model, tokenizer, PROMPT, generation_config=config)
    assert len(found.written) == 3
    config = GenerationConfig(max_length=before, do_sample=False)
    with pytest.raises(ValueError, match="max_new_tokens=0"):
        explain_generation(model, tokenizer, PROMPT, generation_config=config)


def test_a_chat_has_the_special_tokens_of_its_template_alone():
    model, words = model_of("llama"), writers.tokenizer()
    words.backend_tokenizer.post_processor = beginning_with("<s>")
    words.chat_template = "{{ messages[0]['content'] }}"
    chat = [{"role": "user", "content": PROMPT}]
    read = words.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    found = explain_generation(model, words, chat, answer=ANSWER)
    assert found.first == len(read)
    want = explain_generation(model, words, read, answer=ANSWER)
    assert found.tokens == want.tokens


def alone(model, words, prompt, answer, **options):
    """Every row as ``attribute`` of the text before it."""
    ids = [*words(prompt)["input_ids"], *words(answer, add_special_tokens=False)["input_ids"]]
    first = len(ids) - len(words(answer, add_special_tokens=False)["input_ids"])
    for n in range(first, len(ids)):
        text = {"input_ids": torch.tensor([ids[:n]])}
        own = {key: of_columns(x, text) for key, x in options.items()}
        yield attribute(model, text, target=logit(ids[n], at=n - 1), **own)


SHARED_OUT = {  # number of tokens that are read -> options
    "loo": lambda _: {"method": "loo", "budget": 5},
    "groups": lambda n: {"method": "loo", "budget": 8, "groups": [torch.arange(n)[None] // 6]},
    "levels": lambda n: {"method": "loo", "budget": 8, "groups": [torch.arange(n)[None] // 6, 2]},
    "budgeted": lambda _: {"method": "budgeted-loo"},
    "shapley": lambda _: {"method": "shapley", "samples": 99},
    "fixed": lambda n: {"method": "shapley", "samples": 99, "fixed": torch.arange(n)[None] < 2},
}


@pytest.mark.parametrize("name", SHARED_OUT)
def test_passes_that_are_shared_out_are_not_spent_on_later_tokens(name, tmp_path):
    model, words = model_of("gpt2"), writers.tokenizer()
    prompt, answer = "add one bad cab fed", "hid one egg"
    length = len(words(prompt)["input_ids"] + words(answer, add_special_tokens=False)["input_ids"])
    options = SHARED_OUT[name](length - 1)
    found = explain_generation(model, words, prompt, answer=answer, **options)
    kept = explain_generation(model, words, prompt, answer=answer, keep=tmp_path / "a", **options)
    told = []
    explain_generation(
        model, words, prompt, answer=answer, each=lambda _n, row: told.append(row), **options
    )
    for row in told:
        shapes = {x.shape for x in row.details.values() if x.ndim == 2}
        assert shapes <= {row.relevance.shape}
    rows = list(alone(model, words, prompt, answer, **options))
    assert len(found.relevance) == len(rows) > 2
    for n, row in enumerate(rows):
        for each in (found, kept):
            length = row.relevance.shape[1]
            close(each.relevance[n, :length], row.relevance[0])
            assert not each.relevance[n, length:].any()
            close(each.residual[n], row.residual[0])
    close(found.relevance.sum(dim=1) + found.residual, found.logit)


@pytest.mark.parametrize("name", ["loo", "shapley"])
def test_the_rows_of_a_contrast_add_up_with_passes_that_are_shared_out(name):
    model, words = model_of("gpt2"), writers.tokenizer()
    answers = {"answer": "hid one egg fed he", "contrast": "egg hid"}
    found = explain_generation(model, words, "add one bad", **answers, **SHARED_OUT[name](0))
    close(found.relevance.sum(dim=1) + found.residual, found.logit)

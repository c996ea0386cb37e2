"""Each row of an explained text equals ``attribute`` on the text up to there."""

import re

import pytest
import torch
from transformers import GenerationConfig, WhisperForConditionalGeneration

from axioms.composites import CP_LRP
from benchmarks.sources import models
from numeric import attribute, audit, explain_generation
from numeric.results.words import pieces, units
from numeric.targets import log_probability, logit, span
from tests.census.measure import without_shifts
from tests.layers.test_encoder_decoders import by_hand
from tests.support import cases
from tests.support.cases import close
from tests.support.traces import watch
from tests.support.writers import ANSWER, PROMPT, TWO, model_of

ONE = ["llama", "gpt2", "gemma3_text"]
pytestmark = pytest.mark.usefixtures("float64")


def ids_of(tokenizer, *texts):
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


@pytest.mark.parametrize("method", ["attnlrp", "loo"])
@pytest.mark.parametrize("name", ONE)
def test_a_row_is_what_attribute_finds_of_the_text_up_to_there(name, method, tokenizer):
    model, (prompt, answer) = model_of(name), ids_of(tokenizer, PROMPT, ANSWER)
    found = explain_generation(model, tokenizer, PROMPT, answer=ANSWER, method=method)
    assert found.first == len(prompt)
    assert len(found.logit) == len(answer)
    for n, token in enumerate(answer):
        text = {"input_ids": torch.tensor([prompt + answer[:n]])}
        want = attribute(model, text, method, target=token)
        close(found.relevance[n, : len(prompt) + n], want.relevance[0])
        assert not found.relevance[n, len(prompt) + n :].any()
        close(found.logit[n], want.logit[0])
        close(found.residual[n], want.residual[0])


@pytest.mark.parametrize("method", ["cp-lrp", "loo"])
@pytest.mark.parametrize("name", TWO)
def test_a_row_of_two_texts_is_what_attribute_finds_up_to_there(name, method, tokenizer):
    model, (prompt, answer) = model_of(name), ids_of(tokenizer, PROMPT, ANSWER)
    found = explain_generation(model, tokenizer, prompt, answer=answer, method=method)
    assert (found.source, found.first) == (len(prompt), len(prompt) + 1)
    for n, token in enumerate(answer):
        begun = torch.tensor([[1, *answer[:n]]])
        text = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": begun}
        want = attribute(model, text, method, target=token)
        close(found.relevance[n, : found.first + n], want.relevance[0])
        assert not found.relevance[n, found.first + n :].any()


@pytest.mark.parametrize("name", TWO)
def test_rows_of_two_texts_add_up_without_biases(name, tokenizer):
    model, (prompt, answer) = model_of(name), ids_of(tokenizer, PROMPT, ANSWER)
    with without_shifts(model):
        kept = explain_generation(model, tokenizer, prompt, answer=answer, method="cp-lrp")
    assert kept.residual.abs().max() < 1e-8 * kept.logit.abs().max()
    assert kept.relevance[:, : kept.source].abs().min() > 0


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_both_texts_get_gradient_times_embedding(name, tokenizer):
    model, (prompt, answer) = model_of(name), ids_of(tokenizer, PROMPT, ANSWER)
    text = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([[1, *answer]])}
    parts = by_hand(model, text, lambda y: y[0, 2, 9] - y[0, 2, 8])
    found = attribute(model, text, "gradient-x-input", logit(9, at=2) - logit(8, at=2))
    # RMSNorm of stock T5 passes through float32, where the rules do not.
    close(found.relevance, torch.cat(parts, dim=1), tolerance=1e-9)


def test_what_is_written_of_a_sound_has_relevance_of_what_was_written_before(tokenizer):
    model = model_of("whisper", WhisperForConditionalGeneration)
    config = model.config
    sound = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    (answer,) = ids_of(tokenizer, ANSWER)
    found = explain_generation(model, tokenizer, sound, answer=answer, method="gradient-x-input")
    seen = []
    text = torch.tensor([[1, *answer[:-1]]])
    with watch(model.get_input_embeddings(), seen.append):
        logits = model(input_features=sound, decoder_input_ids=text).logits[0]
    for n, token in enumerate(answer):
        (gradient,) = torch.autograd.grad(logits[n, token], seen, retain_graph=True)
        close(found.relevance[n, :-1], (seen[0] * gradient).sum(-1)[0].detach())
    assert found.source == 0
    assert len(explain_generation(model, tokenizer, sound, max_new_tokens=3).written) == 3
    heard = {"input_features": sound, "decoder_input_ids": text}
    assert torch.equal(attribute(model, heard, target=span(1, 3)).target, text[:, 1:3])
    account = audit(model, heard, CP_LRP)
    whole = attribute(model, heard, "cp-lrp")
    close(torch.from_numpy(account.relevance), whole.relevance[0])
    assert sum(account.by_cause().values()) == pytest.approx(account.residual)
    with pytest.raises(ValueError, match="prompt is a str: WhisperForConditionalGeneration hears"):
        explain_generation(model, tokenizer, PROMPT)


def test_all_rows_take_one_forward_pass_and_one_way_back_each(tokenizer, monkeypatch):
    model, events = model_of("llama"), []
    back = torch.autograd._engine_run_backward
    noted = lambda *args, **options: events.append("back") or back(*args, **options)
    monkeypatch.setattr(torch.autograd, "_engine_run_backward", noted)
    with watch(model.lm_head, lambda out: events.append(out.shape[1])):
        found = explain_generation(model, tokenizer, PROMPT, answer=ANSWER)
    count = len(found.written)
    alone = [count, 1]  # for probabilities, and the first token again, alone
    assert events[events.index(count) :] == [count] + ["back"] * count + alone


def test_the_model_writes_what_is_likeliest(tokenizer):
    model, (prompt,) = model_of("gpt2"), ids_of(tokenizer, PROMPT)
    ids = list(prompt)
    for _ in range(5):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    found = explain_generation(model, tokenizer, PROMPT, max_new_tokens=5)
    assert found.tokens == tuple(pieces(tokenizer, ids))
    assert "".join(found.tokens) == tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def test_what_a_trained_model_writes_is_written_because_of_its_causes():
    found = models.load("embedded-lm")
    prompt = "bert ink anna apple carl pen ; anna"
    model = found.model.double()
    why = explain_generation(model, found.tokenizer, prompt, max_new_tokens=1)
    assert [x.strip() for x in why.written] == ["apple"]
    most = why.relevance[0].topk(2).indices.tolist()
    assert sorted(most) == [3, 4]  # the causes by definition: "anna" and "apple", which follows it
    assert [x.strip() for x in why.tokens[3:5]] == ["anna", "apple"]


TEMPLATE = "<s>{% for m in messages %}{{ m['content'] }} {% endfor %}"
GENERATES = "{% if add_generation_prompt %}film{% endif %}"


def test_a_chat_is_its_template_with_the_tokens_that_begin_it_once(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", TEMPLATE + GENERATES, raising=False)
    model, chat = model_of("llama"), [{"role": "user", "content": PROMPT}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text.endswith("film")
    found = explain_generation(model, tokenizer, chat, answer=ANSWER)
    want = explain_generation(model, tokenizer, text, answer=ANSWER)
    assert found.tokens == want.tokens
    close(found.relevance, want.relevance)
    goes_on = [*chat, {"role": "assistant", "content": "good"}]
    begun = explain_generation(model, tokenizer, goes_on, answer=ANSWER)
    assert "film" not in "".join(begun.tokens[: begun.first])
    with monkeypatch.context() as without:
        without.setattr(tokenizer, "chat_template", None)
        with pytest.raises(ValueError, match="chat_template"):
            explain_generation(model, tokenizer, chat)


def test_a_sampled_text_is_explained_as_it_was_written(tokenizer):
    model = model_of("llama")
    sampled = GenerationConfig(do_sample=True, top_k=5, max_new_tokens=6)
    torch.manual_seed(0)
    found = explain_generation(model, tokenizer, PROMPT, generation_config=sampled)
    assert len(found.logit) == 6
    torch.manual_seed(0)
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    written = model.generate(ids, generation_config=sampled)[0, ids.shape[1] :].tolist()
    want = explain_generation(model, tokenizer, PROMPT, answer=written)
    close(found.relevance, want.relevance)


def test_log_probabilities_and_other_methods_are_explained_too(tokenizer):
    model, (prompt, answer) = model_of("llama"), ids_of(tokenizer, PROMPT, ANSWER)
    found = explain_generation(
        model, tokenizer, PROMPT, answer=ANSWER, method="loo", scale="log-probability"
    )
    text = {"input_ids": torch.tensor([prompt + answer])}
    whole = attribute(model, text, "loo", span(-len(answer), each=log_probability))
    close(found.relevance.sum(dim=0)[:-1], whole.relevance[0, :-1])
    close(found.logit.sum(), whole.logit[0])


# Words and sentences

TEXT = re.findall("[^|]+", "The| un|done| cab|,| he| said|.| Go|!|\n|It’|s| on|.")
WORDS = [0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 10, 11]


@pytest.mark.parametrize("name", ["llama", TWO[0]])
def test_the_probability_of_each_written_token_is_the_models(name, tokenizer):
    model, (prompt, answer) = model_of(name), ids_of(tokenizer, PROMPT, ANSWER)
    found = explain_generation(model, tokenizer, prompt, answer=answer)
    start = [model.config.decoder_start_token_id] if name in TWO else prompt
    text = torch.tensor([start + answer])
    given = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": text}
    with torch.no_grad():
        rows = model(**(given if name in TWO else {"input_ids": text})).logits[0]
    likely = rows[len(start) - 1 : -1].softmax(dim=-1)
    close(found.probability, likely[torch.arange(len(answer)), torch.tensor(answer)])
    close(found.by("sentence").probability.prod(), found.probability.prod())


def test_tokens_of_a_word_and_of_a_sentence_belong_together():
    assert units(TEXT, "word") == WORDS
    assert units(TEXT, "sentence") == [0] * 8 + [1, 1] + [2] * 5
    assert units(["3", ".", "14", " is", " it", "."], "sentence") == [0] * 6
    assert units(["a", "b", "c"], "word", cuts=[2]) == [0, 0, 1]
    assert units(["是", "。", "好", "。"], "sentence") == [0, 0, 1, 1]
    assert units(["", "é", "a", ""], "word") == [0, 0, 0, 0]
    assert units(["happy", "", " 😀", "!"], "word") == [0, 1, 1, 2]
    assert units(["So.", "", "", " 好 film"], "sentence") == [0, 1, 1, 1]


def test_a_character_of_several_tokens_stands_at_its_last():
    class Bytes:
        def decode(self, ids, **_):
            return bytes(ids).decode("utf-8", errors="replace")

    text = "né 是…"
    assert "".join(pieces(Bytes(), text.encode())) == text
    assert pieces(Bytes(), "né!".encode()) == ["n", "", "é", "!"]


def test_a_row_of_a_word_is_that_of_the_sum_of_its_logits(tokenizer):
    model, (prompt, answer) = model_of("llama"), ids_of(tokenizer, PROMPT, ANSWER)
    found = explain_generation(model, tokenizer, PROMPT, answer=ANSWER)
    words = found.by("word")
    assert [word.strip() for word in words.tokens] == [*PROMPT.split(), *ANSWER.split()]
    (count,) = map(len, ids_of(tokenizer, "fed"))
    text = {"input_ids": torch.tensor([prompt + answer])}
    want = attribute(model, text, target=span(len(prompt), len(prompt) + count))
    close(words.relevance[0].sum(), want.relevance.sum())
    close(words.logit[0], want.logit[0])
    sentence = found.by("sentence")
    assert sentence.relevance.shape == (1, 2)
    close(sentence.relevance.sum(), found.relevance.sum())


# Refusals


@pytest.mark.parametrize("name", ["xlnet", "prophetnet"])
def test_a_model_that_sees_the_tokens_that_follow_is_refused(name, tokenizer):
    says = "sees the tokens that follow: the first written token has"
    with pytest.raises(ValueError, match=says):
        explain_generation(model_of(name), tokenizer, PROMPT, answer=ANSWER)


def test_bad_calls_are_refused(tokenizer):
    model = model_of("llama")
    bad = {
        "prompt='' (str without tokens)": {"prompt": ""},
        "answer=[] (list without tokens)": {"answer": []},
        "prompt=['a', 'b'] (list without tokens): pass one prompt": {"prompt": ["a", "b"]},
        "(Tensor without tokens): pass one prompt": {"prompt": torch.tensor([[1, 2]]).to_sparse()},
        "Tensor without tokens": {"prompt": torch.zeros(1, 3, dtype=torch.long, device="meta")},
        "prompt=tensor(3) (Tensor without tokens)": {"prompt": torch.tensor(3)},
        "max_new_tokens=0: pass a whole": {"max_new_tokens": 0},
        "scale='p': pass one of logit, log-probability": {"scale": "p"},
        "unknown method 'lime'": {"method": "lime", "answer": ANSWER},
        "BertForSequenceClassification writes no text": {"model": cases.tiny_bert()},
    }
    for message, change in bad.items():
        given = {"model": model, "tokenizer": tokenizer, "prompt": PROMPT} | change
        with pytest.raises(ValueError, match=re.escape(message)):
            explain_generation(**given)
    with pytest.raises(ValueError, match="by='line': pass one of word, sentence"):
        explain_generation(model, tokenizer, PROMPT, answer=ANSWER).by("line")
    two = model_of("t5")
    text = {"input_ids": torch.tensor([[4, 5]])}
    bad = {
        "writes another: pass decoder_input_ids": text,
        "input_ids has shape": {
            "input_ids": torch.tensor(4),
            "decoder_input_ids": torch.ones(1, 1).long(),
        },
        "has 2 examples": text | {"decoder_input_ids": torch.ones(2, 1).long()},
        "has 0 tokens; pass 1": text | {"decoder_input_ids": torch.ones(1, 0).long()},
        "token id out of range": text | {"decoder_input_ids": torch.tensor([[999]])},
        "inputs has no input_ids": {"decoder_input_ids": torch.tensor([[1]])},
    }
    for message, inputs in bad.items():
        with pytest.raises(ValueError, match=message):
            attribute(two, inputs)
    with pytest.raises(ValueError, match="an encoder and a decoder; pass another method"):
        explain_generation(two, tokenizer, PROMPT, answer=ANSWER, method="attention-rollout")


def test_stop_strings_of_a_model_are_found_by_its_tokenizer(tokenizer):
    model = model_of("gpt2")
    want = explain_generation(model, tokenizer, PROMPT, max_new_tokens=3)
    model.generation_config.stop_strings = ["h"]  # which it does not write
    found = explain_generation(model, tokenizer, PROMPT, max_new_tokens=3)
    assert torch.equal(found.relevance, want.relevance)

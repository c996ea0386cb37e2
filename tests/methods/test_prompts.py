"""Prompts in batches are explained as alone, and named parts of a prompt add up to the whole."""

import re

import pytest
import torch
from transformers import GenerationConfig

from numeric import explain_generation
from numeric.generation.result import Generation
from tests.support import writers
from tests.support.cases import close
from tests.support.program import printed
from tests.support.writers import ANSWER, PROMPT, TWO, model_of

pytestmark = pytest.mark.usefixtures("float64")
TEMPLATE = "<s>{% for m in messages %}{{ m['content'] | trim }} {% endfor %}"
TEXTS = ["a bad cab", "he fed a dad", "a"]


@pytest.fixture(scope="module")
def tokenizer():
    return writers.tokenizer()


@pytest.fixture
def chatting(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", TEMPLATE, raising=False)
    return tokenizer


# Batches


def chats(texts):
    return [[{"role": "user", "content": x}] for x in texts]


def rows(tokenizer, texts, side):
    return tokenizer(texts, padding=True, padding_side=side, return_tensors="pt")


BATCHES = {
    "texts": lambda _: TEXTS,
    "padded on the left": lambda of: rows(of, TEXTS, "left"),
    "lists of ids": lambda of: of(TEXTS)["input_ids"],
    "lists with masks": lambda of: of(TEXTS, padding=True, padding_side="left"),
}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_a_prompt_in_a_batch_is_explained_as_alone(name, kind, tokenizer):
    model, prompts = model_of(name), BATCHES[kind](tokenizer)
    found = explain_generation(model, tokenizer, prompts, max_new_tokens=3)
    assert len(found) == len(TEXTS)
    for text, each in zip(TEXTS, found, strict=True):
        alone = explain_generation(model, tokenizer, text, max_new_tokens=3)
        assert each.tokens == alone.tokens
        torch.testing.assert_close(each.relevance, alone.relevance, rtol=1e-10, atol=1e-10)


def test_chats_answers_contrasts_and_segments_have_one_entry_each(chatting):
    model, answers = model_of("llama"), [ANSWER, [9], "he"]
    others = ["a beef", [6], "fed"]
    found = explain_generation(model, chatting, chats(TEXTS), answer=answers, contrast=others)
    for n, chat in enumerate(chats(TEXTS)):
        given = {"answer": answers[n], "contrast": others[n]}
        alone = explain_generation(model, chatting, chat, **given)
        close(found[n].relevance, alone.relevance)
        assert found[n].segments == alone.segments != ()


def test_an_encoder_leaves_out_padding_on_both_sides(tokenizer):
    model = model_of("t5")
    found = explain_generation(
        model, tokenizer, rows(tokenizer, TEXTS, "right"), answer=[ANSWER] * 3
    )
    close(found[2].relevance, explain_generation(model, tokenizer, "a", answer=ANSWER).relevance)


HOLE = {"input_ids": [5, 6, 7], "attention_mask": [1, 0, 1]}
BAD_BATCHES = {
    "padding on the right": (lambda of: rows(of, TEXTS, "right"), {},
        r"prompt\[0\]: attention_mask is 0 at columns \[.*\] of \d, behind the first token, as "
        r"(?s:.*)tokenizer.padding_side = \"left\".*\nprompt\[2\]: attention_mask is 0 at"),
    "a hole": (lambda _: HOLE, {}, r"attention_mask is 0 at columns \[1\] of 3, behind"),
    "a shorter mask": (lambda _: HOLE | {"attention_mask": [1]}, {}, r"columns \[1, 2\] of 3"),
    "fewer masks": (lambda of: {**of(TEXTS), "attention_mask": [[1]]}, {}, "mask has 1 rows, and"),
    "no text": (lambda _: ["a", "", 3], {},
        r"prompt\[1\]: prompt=''(?s:.*)\nprompt\[2\]: prompt=3"),
    "segments of ids": (lambda _: [5, 6], {"segments": {"a": "b"}}, "parts of a text or"),
    "one answer for all": (lambda _: TEXTS, {"answer": ANSWER, "contrast": ["a"]},
        "answer is 'fed a beef': pass a list with one for each of 3 prompts\ncontrast is"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_what_is_no_batch_is_refused_with_all_its_faults(case, tokenizer):
    prompts, given, says = BAD_BATCHES[case]
    with pytest.raises(ValueError, match=says):
        explain_generation(model_of("llama"), tokenizer, prompts(tokenizer), **given)


def test_the_text_of_the_best_beam_is_explained(tokenizer):
    model = model_of("llama")
    beams = GenerationConfig(num_beams=4, max_new_tokens=6, num_return_sequences=2, pad_token_id=0)
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    best, *_ = model.generate(ids, generation_config=beams, tokenizer=tokenizer)
    greedy = model.generate(ids, do_sample=False, max_new_tokens=6)[0]
    assert best.tolist() != greedy.tolist()
    ended = GenerationConfig(**beams.to_dict() | {"eos_token_id": 38})
    assert len(explain_generation(model, tokenizer, PROMPT, generation_config=ended).written) == 1
    found = explain_generation(model, tokenizer, PROMPT, generation_config=beams)
    want = explain_generation(model, tokenizer, PROMPT, answer=best[ids.shape[1] :].tolist())
    assert found.tokens == want.tokens
    close(found.relevance, want.relevance)


# Segments


@pytest.mark.parametrize("name", ["llama", TWO[0]])
def test_segments_and_the_rest_add_up_to_the_whole(name, tokenizer, tmp_path):
    model, text = model_of(name), "a bad cab he fed a dad"
    segments = {"second": "he fed", "first": (0, 3)}  # ends inside a word
    found = explain_generation(model, tokenizer, text, answer=ANSWER, segments=segments)
    told = dict.fromkeys(found.segments, "")
    for name_of, token in zip(found.segments, found.tokens, strict=False):
        told[name_of] += token
    assert {key: told[key].strip() for key in segments} == {"second": "he fed", "first": "a b"}
    parts = found.by("segment")
    assert set(parts.segments) == {"second", "first", "rest"}
    assert parts.tokens == (*parts.segments, *found.written)
    for n, part in enumerate(parts.segments):
        here = [x == part for x in found.segments]
        close(parts.relevance[:, n], found.relevance[:, : found.first][:, here].sum(dim=1))
    close(parts.relevance.sum(dim=1), found.relevance.sum(dim=1))
    close(parts.relevance[:, parts.first :], found.relevance[:, found.first :])
    close(found.by("word").by("segment").relevance.sum(0)[:3], parts.relevance.sum(0)[:3])
    found.save(tmp_path / "found")
    assert Generation.load(tmp_path / "found").segments == found.segments
    assert '"segment": {' in found.html("segment")
    said = printed(found.terminal(80), 80)
    assert f"first {parts.relevance.sum(0)[parts.segments.index('first')]:+.3g}" in said


def test_the_messages_of_a_chat_are_its_segments(chatting):
    chat = [
        {"role": "system", "content": " a bad cab "},
        {"role": "user", "content": "he fed"},
        {"role": "assistant", "content": "a dad"},
        {"role": "user", "content": "he fed"},
    ]
    model = model_of("llama")
    found = explain_generation(model, chatting, chat, answer=ANSWER)
    names = ("rest", "system", "user 1", "assistant", "user 2")
    assert tuple(dict.fromkeys(found.segments)) == names
    own = explain_generation(model, chatting, chat, answer=ANSWER, segments={"food": "a dad"})
    assert set(own.segments) == {"rest", "food"}


BAD_SEGMENTS = {
    "'x': 'zoo' is not a single part; 'y': 'a' is not; 'z': (9, 99) is not; 'w': '' is not a":
        {"x": "zoo", "y": "a", "z": (9, 99), "w": ""},
    "'x' and 'y' overlap at characters 2 to 4; 'x' and 'z' overlap at characters 5 to 7":
        {"x": (0, 9), "y": (2, 4), "z": (5, 7)},
    "'x': 7 is not a single part; 'rest' stands for all other tokens": {"rest": "bad", "x": 7},
    "'x' has no token": {"x": (1, 2)},
    "segments=['bad']: pass a dict of parts by name": ["bad"],
    "segments={3: 'bad'}: pass a dict": {3: "bad"},
}  # fmt: skip


@pytest.mark.parametrize("says", BAD_SEGMENTS)
def test_segments_that_are_no_parts_are_refused_with_all_their_faults(says, tokenizer):
    with pytest.raises(ValueError, match=".*".join(map(re.escape, says.split("; ")))):
        explain_generation(
            model_of("llama"), tokenizer, PROMPT, answer=ANSWER, segments=BAD_SEGMENTS[says]
        )


def test_a_slow_tokenizer_has_no_segments(chatting, monkeypatch):
    monkeypatch.setattr(type(chatting), "is_fast", False)
    given = model_of("llama"), chatting
    with pytest.raises(
        ValueError, match="does not say where its tokens are; pass a fast tokenizer"
    ):
        explain_generation(*given, PROMPT, answer=ANSWER, segments={"a": "bad"})
    assert explain_generation(*given, chats([PROMPT])[0], answer=ANSWER).segments == ()

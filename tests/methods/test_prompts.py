"""Named parts of a prompt add up to the whole, and the best beam is explained."""

import re

import numpy as np
import pytest
from transformers import GenerationConfig

from numeric import explain_generation
from numeric.generation.result import Generation
from tests.support.cases import close
from tests.support.program import printed
from tests.support.writers import ANSWER, PROMPT, TWO, model_of

pytestmark = pytest.mark.usefixtures("float64")
TEMPLATE = "<s>{% for m in messages %}{{ m['content'] | trim }} {% endfor %}"


@pytest.fixture
def chatting(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", TEMPLATE, raising=False)
    return tokenizer


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
    want = explain_generation(model, tokenizer, PROMPT, answer=[*best[ids.shape[1] :].numpy()])
    assert found.tokens == want.tokens
    close(found.relevance, want.relevance)


@pytest.mark.parametrize("name", ["llama", TWO[0]])
def test_segments_and_the_rest_add_up_to_the_whole(name, tokenizer, tmp_path):
    model, text = model_of(name), "a bad cab he fed a dad"
    segments = {"second": "he fed", "first": (0, np.int64(3))}  # ends inside a word
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


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("he {{ m['content'] }} he ", {"user 1": "he", "user 2": "a"}),  # as the template's words
        ("fed {{ m['content'] | replace('he', 'had') }} ", {"user 2": "a"}),  # a changed message
        ("{{ m['content'] }}d ", {"user 1": "h"}),  # messages that end in the middle of a token
    ],
)
def test_a_message_is_where_the_template_writes_it(template, found, tokenizer, monkeypatch):
    text = "{% for m in messages %}" + template + "{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", text, raising=False)
    chat = [{"role": "user", "content": x} for x in ("he", "a")]
    why = explain_generation(model_of("llama"), tokenizer, chat, answer=ANSWER)
    told = dict.fromkeys(why.segments, "")
    for name, token in zip(why.segments, why.tokens, strict=False):
        told[name] += token
    told.pop("rest", None)
    assert {name: x.strip() for name, x in told.items()} == found


BAD_SEGMENTS = {
    "'x': 'zoo' is not a single part; 'y': 'a' is not; 'z': (9, 99) is not; 'w': '' is not a":
        {"x": "zoo", "y": "a", "z": (9, 99), "w": ""},
    "'x': 'dad' is not a single part": {"x": "dad"},  # is there twice, and overlaps itself
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
            model_of("llama"), tokenizer, "a bad dadad", answer=ANSWER, segments=BAD_SEGMENTS[says]
        )


def test_a_slow_tokenizer_has_no_segments(chatting, monkeypatch):
    monkeypatch.setattr(type(chatting), "is_fast", False)
    given = model_of("llama"), chatting
    with pytest.raises(
        ValueError, match="does not say where its tokens are; pass a fast tokenizer"
    ):
        explain_generation(*given, PROMPT, answer=ANSWER, segments={"a": "bad"})
    chat = {"role": "user", "content": PROMPT}
    assert explain_generation(*given, chat, answer=ANSWER).segments == ()

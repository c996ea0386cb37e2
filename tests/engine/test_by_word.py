"""Relevance of tokens is added up to words and sentences."""

from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from numeric import Attribution, explain
from numeric.results.words import pieces, units
from numeric.targets import log_probability, logit

TEXTS = ["unbelievably slow, but heartwarming! we didn't mind.", "a fine film"]


@pytest.fixture(scope="module")
def found(loaded):
    return explain(loaded.model, loaded.tokenizer, TEXTS)


@pytest.mark.parametrize("unit", ["word", "sentence"])
def test_the_relevance_of_a_unit_is_the_sum_of_its_tokens(loaded, found, unit):
    whole = found.by(unit, loaded.tokenizer)
    for n in range(len(TEXTS)):
        tokens = iter(found.lines(n))
        for _, name, value in whole.lines(n):
            parts, summed = "", 0.0
            while parts != name.replace(" ", ""):
                _, token, r = next(tokens)
                parts, summed = parts + token.removeprefix("##"), summed + r
            assert value == pytest.approx(summed, abs=1e-6)
        assert list(tokens) == []
    assert torch.equal(whole.residual, found.residual)
    assert len(whole.html()) > 1000


def test_vowel_signs_and_accents_are_parts_of_their_words():
    tokens = ["हि", "न", "्दी", " cafe", "\u0301", "s", " می", "\u200c", "روم", "।"]
    assert units(tokens, "word") == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_words_are_those_of_a_reader(loaded, found):
    words = [name for _, name, _ in found.by("word", loaded.tokenizer).lines(0)]
    assert {"unbelievably", "heartwarming", "slow", ",", "!"} <= set(words)
    assert words[0] == "[CLS]"


def test_what_has_no_words_is_refused(loaded, found):
    with pytest.raises(ValueError, match="by='letter': pass one of word, sentence"):
        found.by("letter", loaded.tokenizer)
    with pytest.raises(ValueError, match="tokens are not known: pass tokenizer=tokenizer"):
        replace(found, tokens=None).by("word", loaded.tokenizer)
    without_unknown = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE({"a": 0}, [])))
    with pytest.raises(ValueError, match="not the tokenizer's: pass the tokenizer of the model"):
        found.by("word", without_unknown)


@pytest.mark.parametrize("text", ["😀\n\nThe ab", "ក្ខគa", "👩‍💻 ab", "é ab", "a\n"])
def test_bytes_of_characters_beyond_the_vocabulary_spell_the_text(text):
    """As LLaMA's tokenizer spells them: a run of bytes that is cut in a character is lost whole."""
    spelled = [f"<0x{n:02X}>" for n in range(256)]
    known = {x: n for n, x in enumerate([*spelled, *"▁abTheé"])}
    inner = Tokenizer(models.BPE(known, [], byte_fallback=True))
    inner.normalizer = normalizers.Replace(" ", "▁")
    steps = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()
    inner.decoder = decoders.Sequence([*steps])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    ids = tokenizer(text)["input_ids"]
    found = pieces(tokenizer, ids)
    assert "".join(found) == text
    assert [x for x in found if "\ufffd" in x] == []


def test_a_picture_of_several_characters_is_one_word():
    texts = ["I", "❤", "\ufe0f", "NY", " ", "👩", "\u200d", "💻", "🎉", "❤\ufe0f", "🎉"]
    assert units(texts, "word") == [0, 1, 1, 2, 3, 3, 3, 3, 4, 5, 6]
    assert units(["👍", "🏽", "🇩", "🇪", "🇫🇷", "!"], "word") == [0, 0, 1, 1, 2, 3]


def test_white_space_belongs_to_the_word_behind_it_however_long_it_is():
    assert units(["a", " ", " b"], "word") == [0, 1, 1]
    assert units(["!", "\n", "\n", "It", "  ", " is"], "word") == [0, 1, 1, 1, 2, 2]
    assert units(["a", " ", " "], "word") == [0, 0, 0]  # nothing is behind it


NUMBERS = {
    "logit": logit(1),
    "logit difference": logit(1) - logit(0),
    "logit sum": logit(1) + logit(0),
    "weighted logit": 3 * logit(1),
    "weighted logit sum": -logit(1) - logit(0),
    "sum of logits and log-probabilities": log_probability(1) - logit(0),
    "log-probability": log_probability(1),
    "log-probability difference": log_probability(1) - log_probability(0),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_every_form_names_the_explained_number(loaded, number, tmp_path):
    a = explain(loaded.model, loaded.tokenizer, "not a bad film", target=NUMBERS[number])
    a.save(tmp_path / "a")
    for each in (a, Attribution.load(tmp_path / "a"), a.by("word", loaded.tokenizer)):
        assert each.number == number
        assert f": {number} " in each.about(0)
        assert f"{number.capitalize()} " in each.html()
        assert (" the tokens; `audit` says" in each.html()) == ("log-" not in number)
        assert f", {number} [" in repr(each)

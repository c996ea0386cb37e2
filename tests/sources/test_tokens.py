"""Only the start of a long text is tokenised, with the same tokens as in the whole text."""

import re
import struct
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import models as kinds
from transformers import PreTrainedTokenizerFast

from benchmarks.sources import models, tokens

WORDS = [
    *("a", "fine", "film", "isn't", "the", "film's", "2020", "it", "costs", "12345", "dollars"),
    *(";", "Ünder", "ﬁne", "映画", "film", "fine", "it"),
]
MARK, SPACES = tokens.MARK, Regex(" {2,}")


def charsmap(pairs):
    """A table of SentencePiece: a double array of the bytes of the keys, then the replacements."""
    children, values, found = [{}], {}, b""
    for key, value in pairs.items():
        node = 0
        for byte in key.encode():
            if byte not in children[node]:
                children[node][byte] = len(children)
                children.append({})
            node = children[node][byte]
        values[node] = len(found)
        found += value.encode() + b"\0"
    units, places, waiting = [0xFF] * (256 * (len(children) + 1)), {0: 0}, [0]
    for node in waiting:  # the children of a node have a page of their own, and value 0 of it
        page, place = 256 * (node + 1), places[node]
        units[place] = units[place] & 0xFF if node else 0
        units[place] |= ((place ^ page) << 10) | ((node in values) << 8)
        units[page] = 1 << 31 | values[node] if node in values else units[page]
        for byte, child in children[node].items():
            places[child], units[page + byte] = page + byte, byte
            waiting.append(child)
    packed = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(packed)) + packed + found


NFKC = {"ﬁ": "fi", "\u00a0": " ", "\u3000": " ", "\n": " ", "\t": " ", "Ü": "Ü", "\u200b": ""}


def trained(model, trainer, steps, *, normalizer=None, added=(), texts=None):
    made = Tokenizer(model)
    if steps:
        made.pre_tokenizer = pre_tokenizers.Sequence(list(steps)) if len(steps) > 1 else steps[0]
    if normalizer:
        made.normalizer = normalizers.Sequence(normalizer)
    made.train_from_iterator((texts or [" ".join(WORDS), *WORDS]) * 3, trainer)
    made.add_tokens(list(added))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A <s>", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<s>")


QUIET = {"special_tokens": ["<unk>", "<s>"], "show_progress": False}


def bpe(*steps, end_of_word_suffix=None, **options):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    ends = {"end_of_word_suffix": end_of_word_suffix} if end_of_word_suffix else {}
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, **ends, **QUIET)
    model = kinds.BPE(unk_token="<unk>", fuse_unk=True, **ends)
    return trained(model, trainer, steps, **options)


def unigram(*steps, **options):
    trainer = trainers.UnigramTrainer(vocab_size=90, unk_token="<unk>", **QUIET)
    return trained(kinds.Unigram(), trainer, steps, **options)


BYTES, TO_BYTES = pre_tokenizers.ByteLevel, pre_tokenizers.ByteLevel(use_regex=False)
MARKS, WHOLE = pre_tokenizers.Metaspace(), pre_tokenizers.Metaspace(split=False)
IN_ONE = normalizers.Replace(" ", MARK)
LLAMA3, QWEN2 = sorted(tokens.PATTERNS, key=len, reverse=True)
KNOWN = {
    "WordPiece": lambda: models.load().tokenizer,
    "words": lambda: models.load("embedded-lm").tokenizer,
    "GPT-2": lambda: bpe(BYTES(add_prefix_space=False)),
    "GPT-2 with a mask": lambda: bpe(
        BYTES(), added=[AddedToken("<mask>", lstrip=True), AddedToken("film", rstrip=True)]
    ),
    "Llama 3": lambda: bpe(pre_tokenizers.Split(Regex(LLAMA3), "isolated"), TO_BYTES),
    "Qwen 2": lambda: bpe(
        pre_tokenizers.Split(Regex(QWEN2), "isolated"), TO_BYTES, normalizer=[normalizers.NFC()]
    ),
    "StarCoder": lambda: bpe(pre_tokenizers.Digits(individual_digits=True), BYTES()),
    "Llama 2": lambda: bpe(normalizer=[normalizers.Prepend(MARK), IN_ONE], texts=WORDS),
    "Unigram": lambda: unigram(MARKS, normalizer=[normalizers.NFKC()]),
    "Unigram, undivided": lambda: unigram(WHOLE),
    "T5": lambda: unigram(
        pre_tokenizers.WhitespaceSplit(),
        MARKS,
        normalizer=[normalizers.Precompiled(charsmap(NFKC)), normalizers.Replace(SPACES, " ")],
    ),
    "XLNet": lambda: unigram(
        MARKS,
        normalizer=[
            *(normalizers.Replace(quote, '"') for quote in ("``", "''")),
            *(normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()),
            normalizers.Precompiled(charsmap(NFKC)),
            *(normalizers.Strip(left=False), normalizers.Replace(SPACES, MARK)),
        ],
    ),
}
ACROSS = Regex(r"film (?=fine)|\S+|\s")
UNKNOWN = {
    "a pattern that looks further": lambda: bpe(pre_tokenizers.Split(ACROSS, "isolated"), TO_BYTES),
    "a token of two words": lambda: bpe(BYTES(), added=["film fine"]),
    "pieces over spaces": lambda: bpe(normalizer=[IN_ONE, normalizers.Replace("!", f"m{MARK}f")]),
    "undivided": lambda: bpe(),
    "a last letter that is another": lambda: bpe(
        normalizer=[IN_ONE], texts=WORDS, end_of_word_suffix="</w>"
    ),
    "undivided and lower": lambda: bpe(normalizer=[normalizers.Lowercase()]),
    "spaces that are marked before": lambda: bpe(
        pre_tokenizers.WhitespaceSplit(), normalizer=[IN_ONE]
    ),
    "letters that are lost": lambda: bpe(
        BYTES(), normalizer=[normalizers.Precompiled(charsmap({"é": ""}))]
    ),
    "letters that are replaced": lambda: bpe(BYTES(), normalizer=[normalizers.Replace("m", " ")]),
    "bytes first": lambda: bpe(TO_BYTES, pre_tokenizers.WhitespaceSplit()),
}


@cache
def made(name):
    return (KNOWN | UNKNOWN)[name]()


AWKWARD = (
    *(" ", "  ", "\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\x1c", "\x85", "\u200b", "\0"),
    *("\u0301", "\u0600", "\u0d4e", "\u3164", "\u200d", "\ufe0f", "🎬", "´", "¨", "\u037a", "ﷺ"),
    *(MARK, "Ġ", "<mask>", "[MASK]", "<s>", "[SEP]", "'s", "''", "``", ".", "...", "!\n", "_", "m"),
)
PIECES = st.one_of(st.sampled_from((*WORDS, " ", " ", " ")), st.sampled_from(AWKWARD))
TEXTS = st.one_of(
    st.lists(PIECES, min_size=1, max_size=60).map("".join),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.lists(st.sampled_from([w for w in AWKWARD + tuple(WORDS) if not re.search(r"\s", w)]),
             min_size=1, max_size=60).map("".join),
)  # fmt: skip


def whole(tokenizer, texts, most):
    read = tokenizer(texts, truncation=True, max_length=most, return_special_tokens_mask=True)
    return [{key: read[key][n] for key in read} for n in range(len(texts))]


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_tokens_of_a_start_are_those_of_the_whole_text(name):
    tokenizer = made(name)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(3, 12), st.integers(1, 4))
    def compared(texts, most, letters):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "LETTERS", letters)
            found = tokens.tokenised(tokenizer, texts, most)
        assert found == whole(tokenizer, texts, most)

    compared()


@pytest.mark.parametrize("name", KNOWN)
def test_of_a_long_text_only_a_start_is_tokenised(name):
    tokenizer, long = made(name), " ".join(WORDS * 200)
    begin = tokens.start(tokenizer, long, 1000)
    assert 0 < len(begin) <= 1000
    assert long[: len(begin) + 1].endswith(" ")
    assert tokens.tokenised(tokenizer, [long], 9) == whole(tokenizer, [long], 9)


@pytest.mark.parametrize("name", UNKNOWN)
def test_whoever_may_look_further_gets_the_whole_text(name):
    long = " ".join(WORDS * 200)
    assert tokens.start(made(name), long, 1000) == long


def test_a_tokenizer_that_cuts_at_the_left_gets_the_whole_text():
    tokenizer, long = models.load().tokenizer, "a fine film " * 50 + "dull"
    tokenizer.truncation_side = "left"
    assert tokens.tokenised(tokenizer, [long], 5) == whole(tokenizer, [long], 5)

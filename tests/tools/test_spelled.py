"""Tokens of byte-level tokenizers are shown in the characters of the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from numeric.results.spelled import LETTERS, readable


def spelled(text):
    (found,) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(
        text
    )
    return found[0]


def test_the_letters_are_those_of_tokenizers():
    assert {*pre_tokenizers.ByteLevel.alphabet()} == {*LETTERS}
    assert [LETTERS[spelled(chr(n))] for n in range(0x80)] == [*range(0x80)]
    assert [LETTERS[x] for x in spelled("\u00a0\u00ad\u00ff")] == [*"\u00a0\u00ad\u00ff".encode()]


def test_words_are_read_and_spaces_stay():
    row = ["<|begin|>", spelled("Не"), spelled(" плохой"), spelled(" film"), spelled("\n日本 x")]
    assert readable(row) == ["<|begin|>", "Не", "Ġплохой", "Ġfilm", "Ċ日本Ġx"]


def test_bytes_of_a_shared_character_are_numbers():
    letters = spelled("日本")
    assert readable([letters[:3], letters[3:5], letters[5:]]) == ["日", "<0xE6><0x9C>", "<0xAC>"]


@pytest.mark.parametrize(
    "row",
    [
        ["[CLS]", "café", "déjà", "##ł", "Öı", "[SEP]"],  # WordPiece spells characters
        ["SP", "##ÓŁ", "##KA"],  # also where letters happen to be bytes of another one
        ["▁SPÓŁKA"],
        ["<s>", "▁Не", "▁плохой", "<0xE6>"],  # and so does SentencePiece
        ["Ġnot", "Ġa", "Ċ"],
        [],
        ["", "0", "1"],
    ],
)
def test_other_rows_are_not_changed(row):
    assert readable(row) == row


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_every_character_beyond_ascii_is_read_and_no_other(texts):
    want = ["".join(x if x > "\x7f" else spelled(x) for x in text) for text in texts]
    assert readable([spelled(text) for text in texts]) == want

"""The embedded model of English has the tokenizer, the accuracy and the size that its card says."""

import random
import re

import pytest
from transformers import AutoTokenizer, LlamaForCausalLM

from benchmarks.research import english
from benchmarks.research.train_english import ID, accuracies, reader
from benchmarks.sources import models
from lrp_axioms import explain
from tests.sources.test_sentences import card_table

FOLDER = models.EMBEDDED["embedded-english"]


@pytest.fixture(scope="module")
def found():
    return models.load("embedded-english")


def test_stories_fit_and_use_only_the_vocabulary():
    rng, shares = random.Random(5), {kind.__name__: 1.0 for kind in english.KINDS}
    for _ in range(500):
        words, answers = english.text(rng, shares)
        assert len(words) <= english.LONGEST
        assert answers
        assert set(words) <= ID.keys()
        assert {words[n] for n in answers}.isdisjoint({".", ",", "</s>"})


def test_an_answer_follows_from_its_story():
    rng = random.Random(6)
    for _ in range(200):
        *told, asked = " ".join(english.place(rng).words).split(" . ")
        thing = re.fullmatch(r"The (\w+) is in the", asked).group(1)
        assert sum(f" the {thing} in " in fact for fact in told) == 1
    subject = [english.agreement(rng) for _ in range(200)]
    assert all(x.words[-4].endswith("s") == (x.answer == "are") for x in subject)


def test_the_model_is_a_small_stock_llama_with_the_tokenizer_of_its_grammar(found):
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2 * 2**20
    assert type(found.model) is LlamaForCausalLM
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    assert tokenizer.get_vocab() == reader().get_vocab() == ID
    text = "Anna put the key in the box. The key is in the box."
    assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text


def test_the_card_has_the_accuracy_of_the_model(found):
    shares = accuracies(found.model, 1000)
    card = {kind: cells[-1] for kind, cells in card_table("kind of story").items()}
    assert shares.keys() == card.keys()
    # Other processors round otherwise, which may turn a tie of two words.
    assert all(abs(share - float(card[kind])) <= 0.005 for kind, share in shares.items())


def test_relevance_of_a_place_stands_at_the_place(found):
    text = "Anna put the key in the box. Ben put the cup in the garden. The key is in the"
    one = explain(found.model, found.tokenizer, text)
    assert found.label(one.target.item()) == "box"
    assert one.tokens[0][one.relevance[0].argmax()] == "box"
    half = one.relevance[0].abs().sum() / 2  # the first "box" has more than all others together
    assert one.relevance[0].max() > half

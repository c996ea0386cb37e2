"""The similarity of two texts is explained by tokens and pairs of tokens, as BiLRP defines it."""

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedModel,
)

from lrp_axioms import Attribution, Similarity, attribute, explain, explain_similarity
from tests.census.measure import without_shifts
from tests.support import cases
from tests.support.cases import close
from tests.support.sentence_objects import Crossed, Encoder, Mean, Step, Unit
from tests.support.tools import loaded, tiny_tokenizer, translator
from tests.support.traces import assert_same, snapshot

A, B = "a fine film", "a dull film . film"
PAGE = (Path(__file__).parents[2] / "docs" / "EXPLAIN.md").read_text("utf-8")
ALL = {"method": "cp-lrp", "epsilon": 0.0}


@pytest.fixture
def words(tmp_path):
    return tiny_tokenizer(tmp_path)


@pytest.fixture
def encoder():
    return cases.perturbed(BertModel, vocab_size=11, max_position_embeddings=16)


class Toy(PreTrainedModel):
    """Embeddings, a mean over tokens beside each, and two linear maps with a ReLU; no biases."""

    config_class = BertConfig

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(BertConfig(vocab_size=11, hidden_size=6, pad_token_id=0))
        self.words = nn.Embedding(11, 6)
        self.up, self.down = nn.Linear(6, 8, bias=False), nn.Linear(8, 5, bias=False)
        self.double().eval()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        x = self.words(input_ids)
        x = x + x.mean(dim=1, keepdim=True)
        return SimpleNamespace(last_hidden_state=self.down(torch.relu(self.up(x))))


def by_hand(toy, ids):
    """The embedding, and its LRP by channel: (channel,), (token, channel).

    Without biases LRP of a ReLU network is input times gradient, written out here.
    """
    e, up, down = (x.weight.detach().numpy() for x in (toy.words, toy.up, toy.down))
    x, n = e[ids], len(ids)
    mix = np.eye(n) + 1 / n
    hidden = mix @ x @ up.T
    found = np.zeros((n, len(down)))
    for row in range(n):  # of the encoding, each with the weight 1/n in the mean
        jacobian = (down * (hidden[row] > 0)) @ up
        found += mix[row][:, None] * (x @ jacobian.T) / n
    return (np.maximum(hidden, 0) @ down.T).mean(axis=0), found


def test_pairs_are_the_products_of_relevance_by_channel(words):
    toy = Toy()
    (phi_a, of_a), (phi_b, of_b) = (by_hand(toy, words(text)["input_ids"]) for text in (A, B))
    norms = {"dot": 1, "cosine": np.linalg.norm(phi_a) * np.linalg.norm(phi_b)}
    for measure, size in norms.items():
        found = explain_similarity(toy, words, A, B, measure=measure, **ALL)
        close(found.pairs, torch.tensor(of_a @ of_b.T / size))
        close(found.relevance[0, : len(of_a)], torch.tensor(of_a @ phi_b / size))
        close(found.relevance[1], torch.tensor(of_b @ phi_a / size))
        assert found.similarity == pytest.approx(phi_a @ phi_b / size, rel=1e-12)
        assert found.residual.abs().max() < 1e-12


def test_pairs_add_up_to_tokens_and_to_the_cosine_where_nothing_is_absorbed(encoder, words):
    with without_shifts(encoder):
        found = explain_similarity(encoder, words, A, B, **ALL)
    close(found.pairs.sum(dim=1), found.relevance[0, : len(found.pairs)])
    close(found.pairs.sum(dim=0), found.relevance[1])
    close(found.pairs.sum(), found.logit[0])


def cosine(encoder, words, pool):
    texts = [words(text, return_tensors="pt") for text in (A, B)]
    with torch.no_grad():
        u, v = (pool(encoder(**x).last_hidden_state[0]) for x in texts)
    return torch.cosine_similarity(u, v, dim=0)


def test_the_table_accounts_for_all_that_is_absorbed(encoder, words):
    found = explain_similarity(encoder, words, A, B, **ALL)
    assert found.residual.abs().min() > 1e-3
    of_a = found.relevance[0, : len(found.pairs)]
    close(found.table.sum(dim=1), torch.cat([of_a, found.residual[:1]]))
    close(found.table.sum(dim=0), torch.cat([found.relevance[1], found.residual[1:]]))
    assert found.table[:-1, :-1].equal(found.pairs)


POOLED = {
    "mean": lambda x: x.mean(0), "cls": lambda x: x[0], "last": lambda x: x[-1],
    "max": lambda x: x.max(0).values,
}  # fmt: skip


@pytest.mark.parametrize("pooling", POOLED)
def test_texts_that_change_places_change_places_in_the_result(encoder, words, pooling):
    one = explain_similarity(encoder, words, A, B, pooling=pooling, **ALL)
    other = explain_similarity(encoder, words, B, A, pooling=pooling, **ALL)
    close(one.logit[0], cosine(encoder, words, POOLED[pooling]))
    close(one.pairs, other.pairs.T)
    close(one.relevance, other.relevance.flip(0))
    assert one.tokens == other.tokens[::-1]
    assert one.tokens[0][-2:] == (None, None)
    assert (one.relevance[0, -2:] == 0).all()  # padding behind the shorter text


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "gradient-x-input"])
def test_relevance_does_not_depend_on_how_many_copies_run_at_once(encoder, words, method):
    at_once = explain_similarity(encoder, words, A, B, method=method)
    one = explain_similarity(encoder, words, A, B, method=method, batch_size=1)
    close(one.pairs, at_once.pairs)
    alone = explain_similarity(encoder, words, A, B, method=method, pairs=False)
    assert torch.equal(alone.relevance, at_once.relevance)
    with pytest.raises(ValueError, match="pairs=True"):
        _ = alone.table


def test_a_result_is_shown_saved_and_added_up_to_words(encoder, words, tmp_path):
    found = explain_similarity(encoder, words, A, "film . a dull film .", **ALL)
    parts = found.by("sentence", words)  # one of a, three of b
    close(parts.pairs, torch.stack([x.sum() for x in found.pairs.split([3, 4, 1], dim=1)])[None])
    close(parts.table.sum(), found.logit[0])
    for said in ("Pairs of tokens", "why a is similar to b", "Cosine"):
        assert said in found.html()
    assert f"cosine {found.similarity:+.4f}" in repr(found)
    assert "a: cosine" in found._repr_html_()
    assert found.png().startswith(b"\x89PNG")
    bytewise = tuple(("Gr", "Ã¶", "ÃŁe", *row[3:]) for row in found.tokens)
    assert "Ã¶" not in replace(found, tokens=bytewise).html()
    found.save(tmp_path / "found")
    assert torch.equal(Similarity.load(tmp_path / "found").pairs, found.pairs)
    assert type(Attribution.load(tmp_path / "found")) is Attribution
    assert "speaks for the similarity" in found._repr_html_()
    replace(Attribution.load(tmp_path / "found"), options={}).save(tmp_path / "other")
    with pytest.raises(ValueError, match="other holds no similarity; call"):
        Similarity.load(tmp_path / "other")


def test_numbers_of_numpy_are_taken(encoder, words, tmp_path):
    given = {"epsilon": np.float32(0.5), "batch_size": np.int64(2)}
    found = explain_similarity(encoder, words, A, B, **given)
    assert found.pairs.equal(
        explain_similarity(encoder, words, A, B, epsilon=0.5, batch_size=2).pairs
    )
    found.save(tmp_path / "found")
    assert Similarity.load(tmp_path / "found").options["epsilon"] == 0.5


def headed(encoder):
    return BertForSequenceClassification(encoder.config).double().eval()


BAD = {
    "all offenders": (
        lambda m: (m, "", 3),
        {"measure": "l2", "pooling": "sum", "batch_size": 0},
        ["a='' (no text): pass one text", "b=3 (int in place of text): pass one text",
         "measure='l2': pass 'cosine' or 'dot'",
         "pooling='sum': pass None or 'mean' or 'cls' or 'last' or 'max'",
         "batch_size=0: pass a whole number of copies, at least 1"],
    ),
    "a head": (lambda m: (headed(m), A, B), {}, ["no last_hidden_state; pass the model without"]),
    "a decoder": (lambda m: (translator(), A, B), {}, ["pass its encoder, model.get_encoder()"]),
    "no rules": (lambda m: (m, A, B), {"method": "loo"}, ["'loo'"]),
    "train mode": (lambda m: (m.train(), A, B), {}, ["call model.eval() first"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_refused_and_leaves_the_model_as_it_was(encoder, words, name):
    change, options, says = BAD[name]
    model, *texts = change(encoder)
    before = snapshot(model)
    with pytest.raises(ValueError, match=".*\n?".join(map(re.escape, says))):
        explain_similarity(model, words, *texts, **options)
    assert_same(before, snapshot(model))


def test_an_object_of_sentence_transformers_is_its_model_with_its_pooling(encoder, words):
    whole = Encoder(Step(encoder), Mean(), Unit())
    whole.tokenizer = words
    found = explain_similarity(whole, None, A, B, **ALL)
    want = explain_similarity(encoder, words, A, B, **ALL)
    close(found.pairs, want.pairs)
    close(found.relevance, want.relevance)
    assert found.options["pooling"] == "mean, Normalize"
    assert whole.training  # encode() of the object is called on a copy
    with pytest.raises(ValueError, match="pooling='cls': pass None"):
        explain_similarity(whole, None, A, B, pooling="cls")
    whole.cut = 2
    with pytest.raises(ValueError, match=r"encode\(\) of this SentenceTransformer returns another"):
        explain_similarity(whole, None, A, B)


def test_a_cross_encoder_is_its_model(encoder, words):
    model = headed(encoder)
    whole = Crossed(Step(model))
    whole.tokenizer = words
    found, want = (explain(x, t, [(A, B)]) for x, t in ((whole, None), (model, words)))
    assert torch.equal(found.relevance, want.relevance)
    assert found.tokens == want.tokens
    batch = words([(A, B)], return_tensors="pt")
    assert torch.equal(attribute(whole, batch).relevance, want.relevance)
    with pytest.raises(ValueError, match="CrossEncoder has no module that pools; call explain"):
        explain_similarity(whole, None, A, B)


def test_the_real_objects_are_explained(encoder, words, tmp_path):
    library, steps = loaded("sentence_transformers"), loaded("sentence_transformers.models")
    encoder.float().save_pretrained(tmp_path / "model")
    words.save_pretrained(tmp_path / "model")
    step = steps.Transformer(str(tmp_path / "model"))
    for name in ("mean", "cls"):
        pooling = steps.Pooling(encoder.config.hidden_size, name)
        whole = library.SentenceTransformer(modules=[step, pooling, steps.Normalize()])
        found = explain_similarity(whole, None, A, B, **ALL)
        want = explain_similarity(step.model, words, A, B, pooling=name, **ALL)
        close(found.pairs, want.pairs, tolerance=1e-5)


def by_pair(found):
    """Relevance by pair of tokens, the largest first."""
    a, b = ([x for x in row if x] for row in found.tokens)
    rows = zip(a, found.pairs.tolist(), strict=True)
    pairs = {(x, y): value for x, row in rows for y, value in zip(b, row, strict=True)}
    return dict(sorted(pairs.items(), key=lambda pair: -pair[1]))


def test_the_embedded_classifier_finds_dull_and_boring_alike(embedded):
    model, words = embedded["sdpa"].base_model, AutoTokenizer.from_pretrained(cases.EMBEDDED)
    texts = "a slow, dull play", "a boring evening at the theatre"
    found = explain_similarity(model, words, *texts, **ALL).by("word", words)
    pairs = by_pair(found)
    assert next(iter(pairs)) == ("dull", "boring")
    assert f"# {found!r}" in PAGE
    assert f"have {pairs['dull', 'boring']:.2f} of a cosine of {found.similarity:.2f}," in PAGE
    assert f"and `play` and `theatre` {pairs['play', 'theatre']:.3f}." in PAGE


def test_an_encoder_of_sentences_pairs_words_of_like_meaning(tmp_path):
    folder = loaded("all_minilm_l6_v2").extract_model(str(tmp_path))
    model, words = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    texts = "the dog sleeps in the garden", "a puppy naps on the grass"
    found = explain_similarity(model, words, *texts, **ALL).by("word", words)
    for (a, b), value in islice(by_pair(found).items(), 3):
        assert re.search(rf"^{a} +{b} +{value:.3f}$", PAGE, re.MULTILINE)
    total, whole = found.pairs.sum().item(), found.similarity
    assert f"add up to {total:.2f}, and their cosine is {whole:.2f}. " in PAGE
    assert f"The other \u2212{total - whole:.2f} stand" in PAGE

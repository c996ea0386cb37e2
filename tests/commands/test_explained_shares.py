"""The shares that commands show are numbers of ``evaluate``, and never cost an explanation."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BatchEncoding,
    FNetConfig,
    FNetForSequenceClassification,
)

from benchmarks.commands.explained import explained_shares
from numeric import evaluate
from tests.support.cases import BERT_LIKE, family

BART = dict(
    vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=20,
    num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
    init_std=0.5,
)  # fmt: skip
IDS = torch.tensor([[1, 7, 9, 12, 5, 30, 8, 2]])


def constant():
    model, _ = family("bert")
    torch.nn.init.zeros_(model.classifier.weight)
    return model


MODELS = {
    "bert": (lambda: family("bert")[0], {"one"}),
    "llama": (lambda: family("llama")[0], {"one"}),
    "bart": (lambda: BartForSequenceClassification(BartConfig(**BART)).eval(), {"one"}),
    "fnet": (lambda: FNetForSequenceClassification(FNetConfig(**BERT_LIKE)).eval(), set()),
    "constant": (constant, set()),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_share_is_the_number_of_evaluate_or_missing(name):
    """FNet drops the mask, and ``evaluate`` refuses it; a constant map has no value."""
    torch.manual_seed(0)
    make, names = MODELS[name]
    model = make()
    inputs = BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)})
    one = np.random.default_rng(0).normal(size=IDS.shape[1])
    maps = {"one": one, "even": np.ones_like(one), "infinite": np.inf * one}
    found = explained_shares(SimpleNamespace(model=model), inputs, 1, maps)
    assert found.keys() == names
    for key in names:
        want = evaluate(model, inputs, maps[key][None], target=1, measures=["explained"])
        assert found[key] == pytest.approx(want["relevance"]["explained"][0])


def test_an_early_row_is_audited_without_a_share(run):
    """A quarter of the tokens can hide all that the row attends to."""
    text = "anna apple bert pen carl map ; bert anna apple bert pen"
    code, out, err = run("audit", "embedded-lm", text, "--column", 1, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["explained"] is None
    code, out, _ = run("audit", "embedded-lm", text, "--column", 1)
    assert code == 0
    assert "explained" not in out

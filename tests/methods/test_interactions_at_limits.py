"""Interactions of models, texts and options at their limits are refused, or are as they say."""

import io
import math

import pytest
import torch
from rich.console import Console
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    FNetConfig,
    FNetForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

from numeric import Interactions, attribute, interactions
from numeric.methods import meetings, pair_losses
from numeric.targets import logit
from tests.support import writers
from tests.support.cases import BERT_LIKE, close, one_text, tokens_of

TEXT = "not a bad film, but unforgettably dull"


@pytest.mark.parametrize("at", range(5))
def test_a_row_needs_three_parts_that_it_attends_to(at):
    """The advice of the error holds: later rows are explained."""
    tokenizer, text = tokens_of(6)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=9)
    model = GPT2LMHeadModel(config).eval()
    for pairs in ("exact", "estimated"):
        if at < 2:
            with pytest.raises(ValueError, match=rf"attends to {at + 1} of 6.*a later column"):
                interactions(model, tokenizer, text, target=logit(7, at=at), pairs=pairs)
        else:
            found = interactions(model, tokenizer, text, target=logit(7, at=at), pairs=pairs)
            assert found.pairs.isfinite().all()


def test_inputs_come_with_a_tokenizer():
    tokenizer, text = tokens_of(6)
    with pytest.raises(ValueError, match="tokenizer is a NoneType; pass the model's tokenizer"):
        interactions(one_text("bert")[0], None, tokenizer(text, return_tensors="pt"))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("pairs", ["exact", "estimated"])
def test_logits_that_are_not_finite_without_some_parts_are_refused(value, size, pairs):
    """Single parts, pairs or larger sets alone may lack finite logits."""
    model, _ = one_text("bert")
    tokenizer, text = tokens_of(9)

    def spoil(_module, _args, kwargs, out):
        few = (kwargs["attention_mask"] == 1).sum(dim=1) == 9 - size
        out.logits[few] = value
        return out

    model.register_forward_hook(spoil, with_kwargs=True)
    with pytest.raises(ValueError, match=r"no finite logits|non-finite logits"):
        interactions(model, tokenizer, text, target=1, pairs=pairs, budget=None)


@pytest.mark.parametrize("mixes", [0, 1])
def test_a_logit_that_does_not_vary_has_no_shares(mixes):
    """A classifier of zeros has one logit; without values a row sees itself alone."""
    model, _ = one_text("bert")
    tokenizer, text = tokens_of(8)
    own = [x.attention.self.value for x in model.bert.encoder.layer]
    for module in own if mixes else [model.classifier]:
        torch.nn.init.zeros_(module.weight)
    found = interactions(model.float(), tokenizer, text, target=1)
    assert all(map(math.isnan, found.explained.values()))
    shown = [found.said_explained(), found.html(), *map(str, found.terminal())]
    assert "does not vary" in shown[0]
    assert not any("nan" in x or "inf" in x for x in shown)


def test_estimates_are_never_shown_as_losses(loaded):
    """A pair has a loss in the table only where both parts were left out."""
    found = interactions(loaded.model, loaded.tokenizer, TEXT, pairs="estimated", budget=0)
    assert found.error is None
    assert "nan" not in found.html()
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(found.pair_table(5))
    assert console.export_text().count("estimated") == 5
    console.print(
        interactions(loaded.model, loaded.tokenizer, TEXT, pairs="estimated", budget=1).pair_table(
            5
        )
    )
    assert 1 <= console.export_text().count("estimated") <= 5


def test_estimates_take_no_more_copies_than_they_may(loaded, monkeypatch):
    """Batch size and memory hold for estimates too, and change no number."""
    sizes = []
    want = interactions(loaded.model, loaded.tokenizer, TEXT, pairs="estimated").pairs
    true = pair_losses.mask_relevance

    def told(model, batch, readout):
        sizes.append(len(batch.ids))
        return true(model, batch, readout)

    monkeypatch.setattr(pair_losses, "mask_relevance", told)
    for options, most in (({"batch_size": 3}, 3), ({"memory": 1 << 20}, 8)):
        sizes.clear()
        close(
            interactions(loaded.model, loaded.tokenizer, TEXT, pairs="estimated", **options).pairs,
            want,
            tolerance=1e-4,
        )
        assert max(sizes) <= most


@pytest.mark.parametrize("earlier", [False, True])
def test_estimates_do_not_depend_on_earlier_calls(earlier, monkeypatch):
    """DeBERTa hides its read token by another effect than its mask."""
    monkeypatch.setattr(meetings, "KNOWN", {})
    torch.manual_seed(0)
    model = DebertaV2ForSequenceClassification(DebertaV2Config(**BERT_LIKE)).eval()
    tokenizer, text = tokens_of(5)
    if earlier:
        attribute(model, tokenizer([text], return_tensors="pt"), "mask-relevance", 1)
    exact = interactions(model, tokenizer, text, target=1)
    found = interactions(model, tokenizer, text, target=1, pairs="estimated", budget=99)
    close(found.pairs, exact.pairs, tolerance=1e-5)


def test_advice_can_be_followed_here():
    """No error names an option of another function."""
    tokenizer, text = tokens_of(5)
    config = FNetConfig(**BERT_LIKE)
    model = FNetForSequenceClassification(config).eval()
    for pairs in ("exact", "estimated"):
        with pytest.raises(ValueError, match="FNet") as raised:
            interactions(model, tokenizer, text, target=1, pairs=pairs)
        assert "removal" not in str(raised.value)
        assert "another method" not in str(raised.value)


def test_numbers_do_not_depend_on_the_default_dtype(loaded):
    """The random quarters depend on the seed and the number of parts alone."""
    want = interactions(loaded.model, loaded.tokenizer, TEXT).explained
    torch.set_default_dtype(torch.float64)
    try:
        found = interactions(loaded.model, loaded.tokenizer, TEXT).explained
    finally:
        torch.set_default_dtype(torch.float32)
    assert found == pytest.approx(want, abs=1e-5)


def test_a_file_of_another_method_holds_no_interactions(tmp_path):
    model, inputs = one_text("bert")
    attribute(model, inputs, "loo").save(tmp_path / "loo.safetensors")
    with pytest.raises(ValueError, match=r"a map by loo; call Attribution.load"):
        Interactions.load(tmp_path / "loo.safetensors")


def test_two_texts_have_no_interactions_of_one():
    inputs = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[1, 4]])}
    with pytest.raises(ValueError, match="decoder_input_ids: parts are of one text"):
        interactions(writers.model_of("t5"), writers.tokenizer(), inputs)

"""A text has the logits that it has alone, whatever its batch has; padding is tried out first."""

from dataclasses import replace

import pytest
import torch
import transformers

from benchmarks.experiments import forecast, rows, text
from benchmarks.experiments.record import Request
from benchmarks.sources import data, models
from numeric import attribute, explain, propagation
from numeric.methods import padding

TEXTS = data.unlabelled("five", ["a fine film", "a dull evening , all in all", "warm", "dull", "b"])
TOGETHER = [[2, 3, 4, 0, 1]]
APART = [[2, 3, 4], [0], [1]]
ALONE = [[2], [3], [4], [0], [1]]
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
}  # fmt: skip
NAMED = {"n_embd": 32, "n_layer": 2, "n_head": 4}
TWO = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "eos_token_id": 3}
GEMMA = SIZES | {"num_key_value_heads": 2, "head_dim": 8}
LOCAL = {"num_layers": 2, "num_heads": 4, "hidden_size": 32, "intermediate_size": 48}
LOCAL |= {"attention_types": [[["global", "local"], 1]]}
CASES = {  # class, sizes, difference of both padding ids, batches
    "encoder": ("DebertaV2", SIZES, 0, TOGETHER),
    "counts from the padding id": ("Roberta", SIZES, 0, TOGETHER),
    "decoder": ("Gemma", GEMMA, 0, TOGETHER),
    "counts columns": ("GPTNeo", LOCAL, 0, TOGETHER),
    "adds positions to padding": ("CTRL", NAMED | {"dff": 48}, 0, TOGETHER),
    "encoder and decoder": ("Bart", TWO, 0, TOGETHER),
    "reads the last column": ("XLNet", {"d_model": 32, "n_layer": 2, "n_head": 4}, 0, TOGETHER),
    "encoder, other padding": ("DebertaV2", SIZES, 7, TOGETHER),
    "decoder, other padding": ("Gemma", GEMMA, 7, APART),
    "convolution": ("ConvBert", SIZES | {"embedding_size": 32}, 0, APART),
    "no mask": ("FNet", SIZES, 0, APART),
    "decoder without padding": ("GPT2", NAMED, None, ALONE),
}


@pytest.fixture
def loaded():
    """Loads the embedded classifier, whose tokenizer gives no token types."""
    words = transformers.AutoTokenizer.from_pretrained(
        models.EMBEDDED["embedded"], model_input_names=["input_ids", "attention_mask"]
    )
    return replace(models.load(), tokenizer=words)


def network(loaded, name, sizes, further):
    torch.manual_seed(0)
    pad = None if further is None else loaded.tokenizer.pad_token_id + further
    config = getattr(transformers, f"{name}Config")
    made = config(vocab_size=len(loaded.tokenizer), pad_token_id=pad, **sizes)
    return getattr(transformers, f"{name}ForSequenceClassification")(made).eval().double()


def of_kind(loaded, kind):
    name, sizes = ("GPT2", NAMED) if kind.startswith("GPT2") else (kind.partition("For")[0], SIZES)
    config = network(loaded, name, sizes, 0).config
    return getattr(transformers, kind)(config).eval().double()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("case", CASES)
def test_a_batch_gives_the_logits_of_each_text_alone(loaded, case, side):
    name, sizes, further, batches = CASES[case]
    loaded.tokenizer.padding_side = side
    loaded = replace(loaded, model=network(loaded, name, sizes, further))
    read = text.read(loaded, TEXTS)
    assert text.shards(loaded, read) == batches
    for shard in batches:
        found = loaded.model(**text.in_batch(loaded, read, shard)[0]).logits
        for row, n in enumerate(shard):
            alone = loaded.model(**text.in_batch(loaded, read, [n])[0]).logits[0]
            assert found[row].tolist() == pytest.approx(alone.tolist(), abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_every_classifier_that_is_measured_is_forecast(loaded, case):
    """Its texts are timed, as its rows batch them, because some models refuse other ones."""
    name, sizes, further, _ = CASES[case]
    request = Request(
        classifier=replace(loaded, model=network(loaded, name, sizes, further)),
        data=TEXTS,
        output=None,
    )
    row = replace(
        rows.load("table2-sst2-loo"), curves=False, variants={"GxI": {"method": "gradient-x-input"}}
    )
    seconds, size = forecast.forecast(request, [row], {row.name: 3.0}, 1)
    assert seconds > 0
    assert size() > sum(x.nbytes for x in request.classifier.model.parameters())


def test_a_tokenizer_that_makes_no_mask_is_asked_for_one(loaded):
    loaded.tokenizer.model_input_names = ["input_ids"]
    inputs, _ = text.in_batch(loaded, text.read(loaded, TEXTS), range(len(TEXTS.texts)))
    lengths = [len(loaded.tokenizer(x)["input_ids"]) for x in TEXTS.texts]
    assert len({*lengths}) > 1
    assert inputs["attention_mask"].sum(dim=1).tolist() == lengths


def test_a_special_token_behind_the_first_words_is_no_fault(loaded):
    texts = ("good film [SEP] bad film", *TEXTS.texts[1:])
    assert text.check(loaded, replace(TEXTS, texts=texts)) == {}


@pytest.mark.parametrize(("kind", "batches"), [
    ("DebertaV2ForTokenClassification", TOGETHER), ("DebertaV2ForQuestionAnswering", TOGETHER),
    ("DebertaV2ForMaskedLM", TOGETHER), ("GPT2LMHeadModel", TOGETHER),
    ("ConvBertForTokenClassification", APART), ("ConvBertForQuestionAnswering", APART),
])  # fmt: skip
def test_every_kind_of_logits_is_tried_out(loaded, kind, batches):
    model = of_kind(loaded, kind)
    assert text.shards(replace(loaded, model=model), TEXTS) == batches


@pytest.mark.parametrize("case", ["encoder, other padding", "decoder, other padding"])
def test_a_decoder_that_may_read_padding_warns_and_an_encoder_does_not(loaded, case, recwarn):
    name, sizes, further, _ = CASES[case]
    model = network(loaded, name, sizes, further)
    attribute(model, loaded.tokenizer(["warm", "a fine film"], padding=True, return_tensors="pt"))
    told = [
        str(x.message) for x in recwarn if "hides ids other than pad_token_id=7" in str(x.message)
    ]
    assert len(told) == (name == "Gemma")
    assert all("behind examples [0]" in said for said in told)


@pytest.mark.parametrize("asked", [["input_ids"], ["input_ids", "attention_mask"]])
@pytest.mark.parametrize("case", [x for x in CASES if CASES[x][-1] != ALONE])
def test_explain_warns_where_padding_changes_logits_and_nowhere_else(loaded, case, asked, recwarn):
    name, sizes, further, batches = CASES[case]
    loaded.tokenizer.model_input_names = asked
    model = network(loaded, name, sizes, further)
    texts = ["warm", "a fine film", "a dull evening , all in all"]
    found = explain(model, loaded.tokenizer, texts)
    alone = [explain(model, loaded.tokenizer, each).logit.item() for each in texts]
    told = [x for x in recwarn if "padding changes the logits" in str(x.message)]
    assert (found.logit.tolist() == pytest.approx(alone, abs=1e-9)) == (batches == TOGETHER)
    assert len(told) == (batches == APART)


@pytest.mark.parametrize("kind", ["ConvBertForQuestionAnswering", "DebertaV2ForQuestionAnswering"])
def test_pairs_of_texts_are_tried_out(loaded, kind, recwarn):
    model = of_kind(loaded, kind)
    loaded.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    explain(model, loaded.tokenizer, [("who", "a man"), ("who", "a man in a red coat , it seems")])
    told = [x for x in recwarn if "padding changes the logits" in str(x.message)]
    assert len(told) == kind.startswith("ConvBert")


@pytest.mark.parametrize("around", [
    lambda model: torch.autocast("cpu", torch.bfloat16),
    lambda model: propagation(model, "cp-lrp"),
    lambda model: torch.inference_mode(),
], ids=["autocast", "rules", "inference mode"])  # fmt: skip
def test_padding_is_tried_out_as_methods_run(loaded, around, recwarn):
    model = network(loaded, "ConvBert", CASES["convolution"][1], 0)
    with around(model):
        explain(model, loaded.tokenizer, ["warm", "a fine film"])
    assert len([x for x in recwarn if "padding changes the logits" in str(x.message)]) == 1


def test_a_trial_that_fails_leaves_the_relevance(loaded, monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(padding, "_logits", fail)
    texts = ["warm", "a fine film"]
    with pytest.warns(UserWarning, match="trial of padding failed, .* may depend on it: no room"):
        assert explain(loaded.model, loaded.tokenizer, texts).relevance.shape[0] == 2

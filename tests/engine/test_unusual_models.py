"""Models whose heads, positions or token types are not as in BERT are read as their code reads."""

import pytest
import torch
from transformers import (
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    ElectraConfig,
    ElectraForPreTraining,
    EsmConfig,
    EsmForSequenceClassification,
    LlamaForCausalLM,
    XLNetConfig,
    XLNetForSequenceClassification,
)

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, bypass_softmax
from numeric import attribute, explain
from numeric.targets import logit
from tests.support import cases
from tests.support.cases import close
from tests.support.writers import model_of, tokenizer

pytestmark = pytest.mark.usefixtures("float64")
SMALL = {
    "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "num_labels": 3,
}  # fmt: skip


def build_from(cls, config):
    torch.manual_seed(0)
    return cls(config).double().eval()


def test_token_types_that_deberta_ignores_change_nothing():
    model = build_from(DebertaV2ForSequenceClassification, DebertaV2Config(**SMALL))
    assert model.config.type_vocab_size == 0
    ids = torch.arange(5, 15)[None]
    found = attribute(model, {"input_ids": ids, "token_type_ids": 0 * ids})
    close(found.relevance, attribute(model, {"input_ids": ids}).relevance)


LONG = {
    "relative positions alone": (DebertaV2ForSequenceClassification, DebertaV2Config(
        **SMALL, relative_attention=True, position_biased_input=False, max_position_embeddings=8,
        pos_att_type=["p2c", "c2p"],
    )),
    "rotation": (EsmForSequenceClassification, EsmConfig(
        **SMALL, position_embedding_type="rotary", max_position_embeddings=8, pad_token_id=1,
        mask_token_id=2,
    )),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the text has 12 tokens")
@pytest.mark.parametrize("name", LONG)
def test_a_model_without_a_table_of_positions_takes_any_length(name):
    model, ids = build_from(*LONG[name]), torch.arange(5, 17)[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
    close(attribute(model, {"input_ids": ids}).logit, logits.max()[None])


def xlnet():
    config = XLNetConfig(vocab_size=50, d_model=32, n_layer=2, n_head=4, d_inner=48, num_labels=3)
    return build_from(XLNetForSequenceClassification, config)


def test_a_head_that_reads_the_last_column_gets_padding_on_the_left():
    model, words, texts = xlnet(), tokenizer(), ["a bad cab", "he fed a dad a face"]
    found = explain(model, words, texts)
    for n, text in enumerate(texts):
        close(found.logit[[n]], explain(model, words, text).logit)
    batch = words(texts, padding=True, padding_side="right", return_tensors="pt")
    with pytest.warns(UserWarning, match=r"the last column, which .* hides in examples \[0\]"):
        attribute(model, dict(batch))


def test_a_subclass_of_a_language_model_is_one():
    class Own(LlamaForCausalLM):
        pass

    model, inputs = model_of("llama"), {"input_ids": torch.tensor([[5, 6, 7]])}
    own = Own(model.config).double().eval()
    own.load_state_dict(model.state_dict())
    close(attribute(own, inputs).relevance, attribute(model, inputs).relevance)


def test_a_head_with_a_logit_for_every_token_is_no_classifier():
    config = ElectraConfig(**SMALL, embedding_size=32)
    for cls in (ElectraForPreTraining, type("Own", (ElectraForPreTraining,), {})):
        model, ids = build_from(cls, config), torch.arange(5, 15)[None]
        with pytest.raises(ValueError, match=f"{cls.__name__} gives a logit to every token"):
            attribute(model, {"input_ids": ids})


def test_rules_for_kinds_that_no_layer_has_are_refused():
    model, inputs = cases.one_text("bert")
    wrong = Composite(
        "mine", ATTNLRP.rules, layers={n: {kinds.RMS_NORM: kinds.GRADIENT} for n in (0, 1)}
    )
    with pytest.raises(ValueError, match=r"overrides rms_norm in layer 0, rms_norm in layer 1, wh"):
        attribute(model, inputs, wrong)
    attribute(model, inputs, bypass_softmax([0]))


def test_the_weight_of_a_target_has_all_its_digits():
    model, inputs = cases.one_text("bert")
    torch.set_default_dtype(torch.float32)
    one, tenth = (attribute(model, inputs, target=x * logit(1)) for x in (1, 0.1))
    torch.testing.assert_close(tenth.relevance, 0.1 * one.relevance, rtol=1e-12, atol=0)

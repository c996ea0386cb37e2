"""Rows whose window of attention is hidden are refused: their numbers depend on the kernel."""

import pytest
import torch
from transformers import (
    GPTNeoConfig,
    GPTNeoForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    MistralConfig,
    MistralForCausalLM,
    MistralForQuestionAnswering,
    MistralForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertForTokenClassification,
)

from numeric import attribute, evaluate
from numeric.targets import answer, logit
from tests.support.cases import close

SIZES = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
MISTRAL = SIZES | {"num_key_value_heads": 2, "sliding_window": 4}
NEO = {
    "vocab_size": 60, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "window_size": 4,
    "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64,
}  # fmt: skip
CHUNKS = SIZES | {
    "num_key_value_heads": 2, "head_dim": 8, "intermediate_size_mlp": 24, "num_local_experts": 1,
    "interleave_moe_layer_step": 3, "attention_chunk_size": 4,
}  # fmt: skip
BOTH = "eager", "sdpa"
MODELS = {  # class, config, and attentions where a row that nobody reads may be blind
    "mistral, a next token": (MistralForCausalLM, MistralConfig(**MISTRAL), ["sdpa"]),
    "mistral, a class": (MistralForSequenceClassification, MistralConfig(**MISTRAL), ["sdpa"]),
    "gpt-neo": (GPTNeoForCausalLM, GPTNeoConfig(**NEO), ["eager"]),
    "modernbert": (
        ModernBertForSequenceClassification,
        ModernBertConfig(**SIZES, local_attention=6, cls_token_id=1, sep_token_id=2),
        BOTH,
    ),
    "llama 4": (Llama4ForCausalLM, Llama4TextConfig(**CHUNKS), BOTH),
}


def made(name, attention):
    cls, config, _ = MODELS[name]
    torch.manual_seed(0)
    config._attn_implementation = attention
    return cls(config).eval().double()


def inputs(tokens=24):
    ids = torch.randint(3, 60, (1, tokens), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize(
    ("name", "attention"), [(name, x) for name in MODELS for x in MODELS[name][2]]
)
def test_a_group_that_hides_a_window_is_refused(name, attention):
    model = made(name, attention)
    with pytest.raises(ValueError, match=r"=\d: nothing is left in view of a row .*examples \[0\]"):
        attribute(model, inputs(), "loo", budget=8, groups=6)


@pytest.mark.parametrize("name", MODELS)
def test_smaller_groups_have_the_losses_of_every_attention(name):
    models = [made(name, attention) for attention in MODELS[name][2]]
    found = [attribute(model, inputs(), "loo", budget=10, groups=3).relevance for model in models]
    close(found[0], found[-1])
    assert found[0].abs().max() > 0


def test_a_tag_is_read_at_its_column_and_an_answer_at_its_ends():
    config = MODELS["modernbert"][1].to_dict() | {"classifier_pooling": "mean"}
    tags = ModernBertForTokenClassification(ModernBertConfig(**config)).eval()
    with pytest.raises(ValueError, match="nothing is left in view of a row"):
        attribute(tags, inputs(), "loo", logit(1, at=11), budget=8, groups=8)
    attribute(tags, inputs(), "loo", logit(1, at=11), budget=10, groups=3)
    torch.manual_seed(0)
    answers = MistralForQuestionAnswering(MistralConfig(**MISTRAL)).eval()
    attribute(answers, inputs(), "loo", answer(9, 12))
    with pytest.raises(ValueError, match="nothing is left in view of a row"):
        attribute(answers, inputs(), "loo", answer(9, 12), budget=8, groups=6)


def test_a_curve_may_hide_all_but_a_few_tokens():
    model, target = made("modernbert", "sdpa"), 1
    evaluate(model, inputs(), {"x": torch.arange(24.0)[None]}, target=target, measures=["MoRF"])


def test_a_token_that_begins_a_chunk_is_not_left_out_of_its_own_row():
    model = made("llama 4", "eager")
    with pytest.raises(ValueError, match="attention_chunk_size=4: nothing is left in view"):
        attribute(model, inputs(), "loo", logit(5, at=8))
    attribute(model, inputs(), "loo", logit(5, at=9))

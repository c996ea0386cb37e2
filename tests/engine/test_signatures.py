"""Layers of a toy and of a real model run the same operations, with the digests in this file.

An upgrade of Transformers that changes the code of a family fails here by name; read the new code,
and then put the printed digest in place of the old one.
"""

import pytest

from numeric.auditing.capture import capture
from numeric.models.inputs import prepare
from tests.support import cases

SIGNATURES = {
    "bert": "a980f749aec20cf9",
    "roberta": "a980f749aec20cf9",
    "electra": "a980f749aec20cf9",
    "albert": "7e4d88d073fd82bc",
    "distilbert": "4c45e4c968376e86",
    "gpt2": "55627d3328c5566e",
    "llama": "a02a2adc2bb28f26",
    "mistral": "283dc6b55bb52ae0",
    "qwen2": "a02a2adc2bb28f26",
    "qwen3": "af4e8a738a64d3d8",
    "vit": "6081890175bb24e0",
}
"""Digests of a layer's operations by family, made by ``numeric.auditing.capture``."""

THREE = {"num_hidden_layers": 3, "vocab_size": 50}
GROUPED = THREE | dict(
    hidden_size=256, num_attention_heads=8, num_key_value_heads=2, intermediate_size=512,
    head_dim=32, pad_token_id=0, attention_bias=True, mlp_bias=True,
)  # fmt: skip
REAL = {
    "bert": {},  # BERT-base as it is published
    "distilbert": {"n_layers": 3, "vocab_size": 50},
    "roberta": THREE,
    "electra": THREE,
    "albert": THREE | {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    "gpt2": {"pad_token_id": 0, "n_layer": 3, "bos_token_id": 1, "eos_token_id": 2},
    "llama": GROUPED,
    "mistral": GROUPED,
    "qwen2": GROUPED,
    "qwen3": GROUPED,
    "vit": {"num_hidden_layers": 3, "image_size": 6, "patch_size": 2, "num_channels": 2},
}
"""Options beside the defaults of Transformers, which are published sizes; fewer layers."""


def layers(model, inputs):
    found = capture(model, prepare(model, cases.first(inputs))).signatures
    return {layer: digest for layer, digest in found.items() if layer is not None}


@pytest.mark.parametrize("name", cases.FAMILIES)
def test_every_layer_runs_the_operations_that_were_read(name):
    found = layers(*cases.family(name, attn_implementation="eager"))
    assert found == dict.fromkeys(range(2), SIGNATURES[name])


@pytest.mark.parametrize("name", REAL)
def test_a_toy_runs_the_operations_of_a_real_model(name):
    cls, _ = cases.FAMILIES[name]
    config = cls.config_class(**REAL[name])
    config._attn_implementation = "eager"
    found = layers(cls(config).eval(), cases.family_inputs(name))
    assert found == dict.fromkeys(range(config.num_hidden_layers), SIGNATURES[name])
    assert config.hidden_size > 16


def test_another_activation_is_another_signature():
    found = layers(*cases.family("bert", attn_implementation="eager", hidden_act="relu"))
    assert SIGNATURES["bert"] not in found.values()

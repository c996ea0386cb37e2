"""Layers of a toy and of a real model run the same operations, with the digests in this file.

An upgrade of Transformers that changes the code of a family fails here by name; read the new code,
and then put the printed digest in place of the old one.
"""

import pytest
import torch

from numeric.auditing.capture import capture
from numeric.models.inputs import prepare
from tests.support import cases
from tests.support.changes import ACT, LAYER, on, then

PLACE = LAYER(0) + ACT

SIGNATURES = {
    "bert": "343226d1a3e24e52",
    "roberta": "343226d1a3e24e52",
    "electra": "343226d1a3e24e52",
    "albert": "6adbbf3ef6dc6c92",
    "distilbert": "32f9cfec3b51a3f7",
    "gpt2": "c5d617965b53f54f",
    "llama": "8b02048834a3b7e0",
    "mistral": "85c197a9704e7b3b",
    "qwen2": "8b02048834a3b7e0",
    "qwen3": "4dbd5c224b48bdbe",
    "vit": "3bcf73ed88812d91",
}
"""Digests of a layer's operations by family, made by ``numeric.auditing.capture``."""

THREE = {"num_hidden_layers": 3, "vocab_size": 50}
GROUPED = THREE | dict(
    hidden_size=256, num_attention_heads=8, num_key_value_heads=2, intermediate_size=512,
    head_dim=32, pad_token_id=0, attention_bias=True, mlp_bias=True,
)  # fmt: skip
REAL = {
    "bert": THREE,
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


def test_another_operand_of_a_product_is_another_signature():
    def altered(n):
        model, inputs = cases.family("bert", attn_implementation="eager")
        eye = torch.eye(model.config.intermediate_size, dtype=torch.float64)
        maps = lambda x: [torch.nn.functional.linear(x, k * eye) for k in (2, 3)]
        on(then(lambda x: maps(x)[n] * x), PLACE)({"model": model})
        return layers(model, inputs)[0]

    assert altered(0) != altered(1)

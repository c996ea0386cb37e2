"""Whatever changes about a model, its code or its rules is seen before anything is replayed."""

import copy

import pytest
import torch
from transformers.activations import ACT2FN
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from lrp_axioms import attribute
from lrp_axioms.axioms.composites import ATTNLRP, CP_LRP, Composite
from lrp_axioms.numeric.replay import calls
from tests.census.build import CAUSAL, CLASSES, with_inputs
from tests.engine.test_replay import assert_replays, proved, warmed
from tests.support import cases, tools, user_changes

pytestmark = pytest.mark.usefixtures("soon")


@pytest.mark.parametrize(("change", "name"), user_changes.CASES)
def test_every_change_of_a_model_is_seen(change, name, monkeypatch):
    model, inputs = cases.family(name)
    warmed(model, inputs)
    try:
        user_changes.CHANGES[change][1](model, name, monkeypatch)
        model.eval()
        assert_replays(model, inputs)
    finally:
        getattr(model, "undo", lambda: None)()


DENSE, SQUARE = (f"bert.encoder.layer.0.{x}output.dense" for x in ("", "attention."))


def with_data(path, change):
    def act(model, patch):
        weight = model.get_submodule(path).weight
        weight.data = change(weight.data)

    return act


def equal_config(model, patch):
    """Replaces the config by one that Transformers calls equal, with other attention."""
    config = copy.deepcopy(model.config)
    config._attn_implementation = "eager"
    assert config == model.config
    for module in model.modules():
        if hasattr(module, "config"):
            module.config = config


def set_in_config(model, patch):
    model.config.layer_norm_eps = 0.5
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 0.5


SETTINGS = {
    "a weight that is written to": torch.no_grad()(
        lambda model, patch: model.get_submodule(DENSE).weight.mul_(1.5)
    ),
    "other data of a weight": with_data(DENSE, lambda x: x.flip(0)),
    "a weight that is transposed in place": with_data(SQUARE, torch.t),
    "a buffer": lambda model, patch: model.bert.embeddings.register_buffer(
        "shift", torch.ones(()), persistent=False
    ),
    "an epsilon": set_in_config,
    "float32": lambda model, patch: model.float(),
    "an equal config": equal_config,
    "eager attention": lambda model, patch: model.set_attn_implementation("eager"),
    "a default of attention": lambda model, patch: patch.setattr(
        sdpa_attention_forward, "__defaults__", (0.0, None, True, *[None] * 2)
    ),
    "another method": lambda model, patch: patch.setattr(
        type(model.bert.pooler), "forward", lambda self, x: x[:, 1]
    ),
}


@pytest.mark.parametrize("change", SETTINGS)
def test_every_setting_is_seen(change, monkeypatch, tiny, batch):
    batch = batch | {"attention_mask": torch.ones_like(batch["attention_mask"])}
    warmed(tiny, batch)
    SETTINGS[change](tiny, monkeypatch)
    assert_replays(tiny, batch)


def test_other_experts_of_a_registered_name_are_seen(monkeypatch):
    model, inputs = with_inputs("mixtral", CAUSAL)
    model.set_experts_implementation(name := "batched_mm")
    warmed(model, inputs)
    old = ALL_EXPERTS_FUNCTIONS[name]
    turned = lambda module, x, index, weights: old(module, x, index, weights.flip(-1))
    monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS._local_mapping, name, turned)
    assert_replays(model, inputs)


def test_another_activation_of_a_registered_name_is_seen(monkeypatch):
    model, inputs = with_inputs("deberta-v2", CLASSES)  # which looks it up in every call
    warmed(model, inputs)
    monkeypatch.setitem(ACT2FN, model.config.pooler_hidden_act, torch.nn.Tanh)
    assert_replays(model, inputs)


def test_the_environment_that_attention_reads_is_seen(monkeypatch):
    model, inputs = cases.family("llama")
    warmed(model, inputs, "cp-lrp")
    monkeypatch.setenv("TRANSFORMERS_SDPA_FORCE_GQA", "1")
    attribute(model, inputs, "cp-lrp")
    assert not proved(model)
    assert_replays(model, inputs, "cp-lrp")


class OfOneLayer(Composite):
    """Rules of a user who overrides the choice of a rule."""

    def rule(self, kind, *, layer=None, module=""):
        return (CP_LRP if layer == 1 else self).rules[kind]


def test_rules_that_a_class_of_the_user_chooses_are_not_the_rules_of_its_tables(tiny, batch):
    warmed(tiny, batch, "attnlrp")
    own = OfOneLayer("own", ATTNLRP.rules, layers={0: CP_LRP.rules})
    plain = Composite("plain", ATTNLRP.rules, layers={0: CP_LRP.rules})
    warmed(tiny, batch, plain)
    assert_replays(tiny, batch, own)
    assert len(proved(tiny)) == 2


def test_another_tensor_of_equal_value_is_seen():
    model, inputs = cases.tiny_bert(num_labels=1), cases.tiny_batch()
    torch.nn.init.constant_(model.classifier.bias, 0.5)
    warmed(model, inputs)
    model.classifier.bias = torch.nn.Parameter(model.classifier.bias.detach().float())
    assert_replays(model, inputs)


def test_tokens_of_a_decoder_count(monkeypatch):
    ids = torch.tensor([[4, 5, 6]])
    inputs = {"input_ids": ids, "decoder_input_ids": ids}
    for largest, count in ((2 * ids.numel(), 1), (2 * ids.numel() - 1, 0)):
        model = tools.translator()
        monkeypatch.setattr(calls, "LARGEST", largest)
        for _ in range(4):
            attribute(model, inputs)
        assert len(calls.MEMORIES[model].tapes if model in calls.MEMORIES else ()) == count


class Labels(list):
    """A list that its copy cannot be made of."""

    def __init__(self, text, separator):
        super().__init__(text.split(separator))


def test_an_attribute_of_the_user_changes_nothing(tiny, batch):
    tiny.labels = Labels("good,bad", ",")
    assert_replays(tiny, batch)

"""Every bad input gets one error with value, place and next step, and leaves the model alone."""

import pytest
import torch
from torch import nn
from transformers import (
    BertForTokenClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
)

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation, bypass_softmax
from numeric import attribute
from numeric.attribution import METHODS
from tests import cases
from tests.traces import assert_same, snapshot


def refused(error, model, batch, method="attnlrp", **options):
    """The message of the one error; the model must be as it was."""
    before = snapshot(model)
    with pytest.raises(error) as caught:
        attribute(model, batch, method, **options)
    assert_same(before, snapshot(model))
    assert type(caught.value) is error
    return str(caught.value)


def contains(message, *parts):
    for part in parts:
        assert part in message, message


# Inputs: what to change in the batch, and what the message says (value, place, next step).


def at(key, index, value):
    def change(batch):
        batch[key][index] = value
        return batch

    return change


def every(change):
    return lambda batch: {key: change(value) for key, value in batch.items()}


def put(**entries):
    return lambda batch: batch | entries


INPUTS = {
    "id too large": (
        at("input_ids", (1, 2), 11),
        "token id",
        "11 at example 1, token 2",
        "0 to 10",
    ),
    "id negative": (at("input_ids", (0, 3), -1), "-1 at example 0, token 3", "own tokenizer"),
    "type out of range": (at("token_type_ids", (0, 1), 2), "token type", "2 at", "0 to 1"),
    "too long": (every(lambda x: x.repeat(1, 2)), "12 tokens", "9 positions", "truncation=True"),
    "no tokens": (every(lambda x: x[:, :0]), "no token in examples [0, 1]", "leave them out"),
    "no examples": (every(lambda x: x[:0]), "empty batch", "at least one text"),
    "all masked": (at("attention_mask", 1, 0), "no token in examples [1]", "leave them out"),
    "left padding": (every(lambda x: x.flip(1)), "masked out in examples [1]", "padding_side"),
    "mask of 2": (at("attention_mask", (0, 1), 2), "value 2", "0 or 1"),
    "additive mask": (
        put(attention_mask=torch.full((2, 6), -1e9)),
        "value -1000000000.0",
        "0 or 1",
    ),
    "mask of nan": (put(attention_mask=torch.full((2, 6), torch.nan)), "value nan", "0 or 1"),
    "shapes differ": (put(attention_mask=torch.ones(2, 5)), "(2, 5)", "(2, 6)"),
    "one text, no batch": (every(lambda x: x[0]), "(6,)", "(batch, token)"),
    "lists": (every(torch.Tensor.tolist), "input_ids is a list", 'return_tensors="pt"'),
    "floats": (put(input_ids=torch.ones(2, 6)), "torch.float32", "int64"),
    "booleans": (put(input_ids=torch.ones(2, 6).bool()), "torch.bool", "int64"),
    "no ids": (lambda batch: {"attention_mask": batch["attention_mask"]}, "no input_ids", "batch"),
    "unknown keys": (put(labels=torch.zeros(2)), "'labels'", "it may have input_ids"),
    "embeddings": (put(inputs_embeds=torch.zeros(2, 6, 8)), "'inputs_embeds'", "it may have"),
    "a text": (lambda _: "a fine film", "inputs is a str", "tokenizer("),
    "texts": (lambda _: ["a fine film"], "inputs is a list", "tokenizer("),
    "ids alone": (lambda batch: batch["input_ids"], "inputs is a Tensor", "tokenizer("),
    "nothing": (lambda _: None, "inputs is a NoneType", "tokenizer("),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("method", ["attnlrp", "loo", "attention-rollout"])
def test_bad_inputs(tiny, batch, name, method):
    change, *parts = INPUTS[name]
    contains(refused(ValueError, tiny, change(batch), method), *parts)


TARGETS = {
    "too large": (3, "[3] out of range", "0 to 2"),
    "negative": ([0, -1], "[-1] out of range", "0 to 2"),
    "all that are wrong": ([5, 7], "[5, 7]"),
    "too many": ([0, 1, 2], "3 entries for 2 examples"),
    "too few": ([0], "1 entries for 2 examples"),
    "float": (1.0, "target=1.0", "pass None, an int"),
    "floats": (torch.tensor([0.0, 1.0]), "tensor([0., 1.])", "pass None, an int"),
    "bool": (True, "target=True", "pass None, an int"),
    "label": ("positive", "target='positive'", "pass None, an int"),
    "mixed": ([None, 1], "[None, 1]", "one int per example"),
    "table": ([[0, 1]], "[[0, 1]]", "one int per example"),
    "empty": ([], "target=[]", "one int per example"),
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", ["attnlrp", "loo", "integrated-gradients"])
def test_bad_targets(tiny, batch, name, method):
    target, *parts = TARGETS[name]
    contains(refused(ValueError, tiny, batch, method, target=target), *parts)


def test_several_problems_are_all_listed(tiny, batch):
    tiny.train()
    batch["token_type_ids"] = batch["token_type_ids"].tolist()
    batch["labels"] = 0
    message = refused(ValueError, tiny, batch)
    contains(message, "train mode", "'labels'", "token_type_ids is a list")
    assert len(message.splitlines()) == 3


def test_several_wrong_values_are_all_listed(tiny, batch):
    batch = {key: value.repeat(1, 2) for key, value in batch.items()}
    batch["input_ids"][0, 0], batch["token_type_ids"][0, 0] = 99, 9
    batch["attention_mask"][1] = 0
    message = refused(ValueError, tiny, batch, target="good")
    contains(message, "12 tokens", "first 99", "first 9 ", "examples [1]", "target='good'")
    assert len(message.splitlines()) == 5


# Methods and options

OPTIONS = {
    "negative": ("attnlrp", {"epsilon": -1.0}, "eps=-1.0 (float)", "pass eps=0"),
    "nan": ("cp-lrp", {"epsilon": float("nan")}, "eps=nan", "pass eps=0"),
    "infinite": (ATTNLRP, {"epsilon": float("inf")}, "eps=inf", "pass eps=0"),
    "text": ("attnlrp", {"epsilon": "1e-6"}, "eps='1e-6' (str)", "pass eps=0"),
    "missing": ("attnlrp", {"epsilon": None}, "eps=None", "pass eps=0"),
    "bool": ("attnlrp", {"epsilon": True}, "eps=True (bool)", "pass eps=0"),
    "share": ("attnlrp", {"share": "position"}, "share='position'", "embedding, word"),
    "steps": ("integrated-gradients", {"steps": 0}, "steps=0", "at least 1"),
    "baseline": ("integrated-gradients", {"baseline": "mean"}, "baseline='mean'", "zero, pad"),
    "variant": ("attention-rollout", {"variant": "raw"}, "variant='raw'", "paper, abnar-zuidema"),
    "copies": ("loo", {"batch_size": 0}, "batch_size=0", "at least 1"),
    "method": ("lrp", {}, "unknown method 'lrp'", *METHODS, "Composite"),
    "no method": (None, {}, "unknown method None", *METHODS),
    "layer": (bypass_softmax([1, 2, 7]), {}, "layer 2, layer 7", "its layers are 0 to 1"),
    "module": (
        Composite("typo", ATTNLRP.rules, modules={"bert.poler": {}}), {}, "'bert.poler'", "typo",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(tiny, batch, name):
    method, options, *parts = OPTIONS[name]
    contains(refused(ValueError, tiny, batch, method, **options), *parts)


def test_unknown_options_are_named_with_those_that_exist(tiny, batch):
    message = refused(TypeError, tiny, batch, "loo", epsilon=0.1, stepz=3)
    contains(message, "'epsilon', 'stepz'", "batch_size=128")
    message = refused(TypeError, tiny, batch, composite=ATTNLRP)
    contains(message, "'composite'", "epsilon=0.0, share='embedding'")


def test_a_composite_without_a_rule_names_every_place(tiny, batch):
    rules = {kind: rule for kind, rule in ATTNLRP.rules.items() if kind != kinds.LAYER_NORM}
    message = refused(UnassignedOperation, tiny, batch, Composite("no norms", rules))
    norms = [path for path, module in tiny.named_modules() if isinstance(module, nn.LayerNorm)]
    contains(message, "'no norms'", "5 of 33", *norms, "held-deviation")


def test_a_single_token_cannot_be_left_out(tiny, batch):
    batch["attention_mask"][1, 1:] = 0
    contains(refused(ValueError, tiny, batch, "loo"), "one token only in examples [1]", "leave")
    assert attribute(tiny, batch).relevance[1, 0] != 0


# Models


def with_own_activation():
    class Swish(nn.SiLU):
        pass

    model = cases.tiny_bert()
    model.bert.encoder.layer[1].intermediate.intermediate_act_fn = Swish()
    return model.eval()


def with_function_as_activation():
    model = cases.tiny_bert()
    for layer in model.bert.encoder.layer:
        del layer.intermediate.intermediate_act_fn
        layer.intermediate.intermediate_act_fn = nn.functional.gelu
    return model


def with_replaced_forward():
    model = cases.tiny_bert()
    norm = model.bert.embeddings.LayerNorm
    forward = norm.forward
    norm.forward = lambda x: 2 * forward(x)
    return model


def with_parametrization():
    model = cases.tiny_bert()
    nn.utils.parametrizations.orthogonal(model.bert.pooler.dense)
    return model.eval()


def distilbert():
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=11, dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=9
        )
    ).eval()


def gpt2():
    config = GPT2Config(
        vocab_size=11, n_embd=8, n_layer=1, n_head=2, n_positions=9, pad_token_id=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return GPT2ForSequenceClassification(config).eval()


LAYERS = "bert.encoder.layer.{}.{}".format
ALIENS = {
    "cross-attention": (
        lambda: cases.tiny_bert(is_decoder=True, add_cross_attention=True),
        "BertCrossAttention",
        LAYERS(0, "crossattention.self"),
        LAYERS(1, "crossattention.self"),
    ),
    "token classifier": (
        lambda: cases.perturbed(BertForTokenClassification), "BertForTokenClassification (root)",
    ),
    "DistilBERT": (
        distilbert, "distilbert.embeddings", "distilbert.transformer.layer.0.attention",
        "distilbert.transformer.layer.1.attention", "distilbert.transformer.layer.1.ffn",
    ),
    "GPT-2": (gpt2, "transformer.h.0.attn.c_attn", "transformer.h.0.mlp.c_proj"),
    "own activation": (with_own_activation, "Swish", LAYERS(1, "intermediate.intermediate_act_fn")),
    "function as activation": (
        with_function_as_activation, "intermediate_act_fn that is no module",
        LAYERS(0, "intermediate"), LAYERS(1, "intermediate"),
    ),
    "replaced forward": (
        with_replaced_forward, "LayerNorm with a replaced forward", "bert.embeddings.LayerNorm",
    ),
    "parametrized weight": (
        with_parametrization, "ParametrizedLinear", "bert.pooler.dense",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIENS)
def test_modules_without_a_rule_are_all_listed(batch, name):
    make, *parts = ALIENS[name]
    for method in ("attnlrp", "gradient-x-input"):
        del batch["token_type_ids"]
        contains(refused(UnassignedOperation, make(), batch, method), *parts, "No layer of this")
        batch = cases.tiny_batch()


@pytest.mark.parametrize("method", ["loo", "integrated-gradients"])
@pytest.mark.parametrize("cls", [BertForTokenClassification])
def test_logits_of_tokens_are_refused(batch, cls, method):
    message = refused(ValueError, cases.perturbed(cls), batch, method)
    contains(message, "(2, 6, 3)", "(batch, class)")


def test_a_model_without_logits_is_refused(batch):
    message = refused(ValueError, cases.perturbed(BertModel), batch, "loo")
    contains(message, "model is a BertModel", "pass a Transformers sequence classifier")


def test_what_is_no_transformers_model_is_refused(tiny, batch):
    for model, name in ((nn.Sequential(tiny), "Sequential"), ("bert-base-uncased", "str")):
        with pytest.raises(ValueError, match=f"model is a {name}; pass a Transformers"):
            attribute(model, batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile's own modules
def test_a_compiled_wrapper_is_refused(tiny, batch):
    with pytest.raises(ValueError, match="model is a OptimizedModule; pass a Transformers"):
        attribute(torch.compile(tiny), batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_compiled_in_place_are_refused(tiny, batch):
    # Code that was compiled before the rules came keeps running without some of them.
    for module, path in ((tiny.bert.encoder.layer[1], LAYERS(1, "")[:-1]), (tiny, "(root)")):
        module.compile(backend="eager")
        contains(refused(ValueError, tiny, batch), "compiled", path, "before model.compile()")


@pytest.mark.parametrize("make", [gpt2, distilbert])
def test_tokens_are_left_out_only_where_that_is_known_to_be_exact(batch, make):
    del batch["token_type_ids"]
    contains(refused(ValueError, make(), batch, "loo"), "model is a", "read the first token")
    contains(refused(ValueError, make(), batch, "attention-rollout"), "BertSelfAttention")


def test_train_mode_is_refused_wherever_it_is(tiny, batch):
    tiny.bert.encoder.layer[1].output.dropout.train()
    message = refused(ValueError, tiny, batch, "loo")
    contains(message, "1 modules", LAYERS(1, "output.dropout"), "model.eval()")


def test_a_model_made_in_inference_mode_is_refused(batch):
    with torch.inference_mode():
        model = cases.tiny_bert()
    with pytest.raises(ValueError, match="made in inference mode"):
        attribute(model, batch)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_are_not_finite_are_found(tiny, batch, method):
    with torch.no_grad():
        tiny.classifier.weight[1, 0] = torch.nan
    message = refused(ValueError, tiny, batch, method)
    contains(message, "non-finite logits in examples [0, 1]", "nan", "check the weights")


def test_relevance_that_is_not_finite_is_found(tiny, batch):
    # The classifier's inputs contribute exactly 0 to a logit that is all bias.
    with torch.no_grad():
        tiny.classifier.weight[1] = 0
    rules = ATTNLRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
    message = refused(ValueError, tiny, batch, Composite("without bias", rules), target=1)
    contains(message, "non-finite relevance in examples [0, 1]", "pass epsilon=1e-6")


def test_one_shared_module_with_two_rules_is_refused(tiny, batch):
    tiny.bert.encoder.layer[1] = tiny.bert.encoder.layer[0]
    message = refused(ValueError, tiny, batch, bypass_softmax([1]))
    contains(message, "scores", LAYERS(1, "attention.self"), "'constant'", "'bilinear-epsilon'")


def test_a_good_call_passes_the_check_of_refusals_by_failing_it(tiny, batch):
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refused(ValueError, tiny, batch)

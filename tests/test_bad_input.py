"""Every bad input gets one error with value, place and next step, and leaves the model alone."""

import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation, bypass_softmax
from numeric import attribute
from numeric.attribution import METHODS
from tests.traces import contains, refused

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
    "steps that are a truth value": (
        "integrated-gradients", {"steps": True}, "steps=True", "at least 1"
    ),
    "copies that are a truth value": (
        "integrated-gradients", {"batch_size": True}, "batch_size=True", "at least 1"
    ),
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
    contains(message, "'no norms'", "for 5 of", *norms, "held-deviation")


def test_a_single_token_cannot_be_left_out(tiny, batch):
    batch["attention_mask"][1, 1:] = 0
    contains(refused(ValueError, tiny, batch, "loo"), "one token only in examples [1]", "leave")
    assert attribute(tiny, batch).relevance[1, 0] != 0


def test_a_good_call_passes_the_check_of_refusals_by_failing_it(tiny, batch):
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refused(ValueError, tiny, batch)

"""Results of the reference cannot be changed, and are made by naming every part."""

from dataclasses import FrozenInstanceError, fields

import pytest

from axioms.composites import ATTNLRP
from tests.oracles import bert_relevance, linear_attention
from tests.reference.test_reference import IDS, tiny
from tests.reference.test_reference_linear_attention import linear_network


def records():
    _, model = tiny()
    got = bert_relevance.relevance(model, IDS, composite=ATTNLRP)
    linear = linear_attention.relevance(*linear_network(), factorization="qk_first")
    return {"Bert": model, "bert": got, "Entry": got.ledger[0], "linear attention": linear}


@pytest.mark.parametrize("name", ["Bert", "bert", "Entry", "linear attention"])
def test_a_record_is_frozen(name):
    record = records()[name]
    for field in fields(record):
        with pytest.raises(FrozenInstanceError):
            setattr(record, field.name, None)


@pytest.mark.parametrize("name", ["Bert", "bert", "linear attention"])
def test_the_parts_of_a_record_are_named(name):
    record = records()[name]
    parts = {field.name: getattr(record, field.name) for field in fields(record)}
    assert vars(type(record)(**parts)) == parts
    with pytest.raises(TypeError, match="positional"):
        type(record)(*parts.values())


HEAD = """linear classifier
activation bert.pooler.activation
linear bert.pooler.dense
layer_norm bert.embeddings.LayerNorm
add bert.embeddings"""
LAYER = """scores attention.self
softmax attention.self
readout attention.self
linear attention.self.query
linear attention.self.key
linear attention.self.value
linear attention.output.dense
linear intermediate.dense
linear output.dense
add attention.output
add output
layer_norm attention.output.LayerNorm
layer_norm output.LayerNorm
activation intermediate.intermediate_act_fn"""


def test_the_operations_are_listed_layer_by_layer_as_errors_name_them():
    want = [(*line.split(), None) for line in HEAD.splitlines()]
    for layer in (0, 1):
        for kind, module in map(str.split, LAYER.splitlines()):
            want.append((kind, f"bert.encoder.layer.{layer}.{module}", layer))
    _, model = tiny()
    assert [(op.kind, op.module, op.layer) for op in bert_relevance.operations(model)] == want

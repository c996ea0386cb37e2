"""The operations of the reference are listed layer by layer, as its errors name them."""

from tests.oracles import bert_relevance
from tests.reference.test_reference import tiny

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

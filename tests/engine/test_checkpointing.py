"""Layers that run again on the way back give the results of one run, from less memory."""

import gc

import pytest
import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
)

from axioms.composites import bypass_softmax
from benchmarks.research.speed.usage import peak_memory
from numeric import attribute, compiled
from numeric.attribution import attribute_each
from numeric.targets import logit
from tests.census.measure import conditions
from tests.census.sizes import tiny
from tests.support import cases
from tests.support.cases import close

METHODS = ["attnlrp", "cp-lrp", "gradient-x-input", bypass_softmax([1])]
CASES = [(name, method) for name in cases.FAMILIES for method in METHODS]
CASES.remove(("albert", METHODS[-1]))  # whose layers are one, without a number of its own


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
@pytest.mark.parametrize(("name", "method"), CASES)
def test_relevance_is_that_of_one_run(name, method, epsilon):
    model, inputs = cases.family(name)
    want = attribute(model, inputs, method, epsilon=epsilon)
    found = attribute(model, inputs, method, epsilon=epsilon, checkpoint=True)
    close(found.relevance, want.relevance)
    assert torch.equal(found.logit, want.logit)


def test_several_targets_each_take_a_way_back():
    model, one = cases.one_text("llama")
    targets = [logit(0), logit(1), logit(0) - logit(1)]
    want = attribute_each(model, one, targets=targets)
    found = attribute_each(model, one, targets=targets, checkpoint=True)
    for a, b in zip(found, want, strict=True):
        close(a.relevance, b.relevance)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_of_torchscript_elsewhere_do_not_matter():
    torch.jit.script(doubled)
    model, inputs = cases.family("roberta")
    want = attribute(model, inputs)
    close(attribute(model, inputs, checkpoint=True).relevance, want.relevance)
    with compiled(model, backend="aot_eager") as explain:
        close(explain(inputs).relevance, want.relevance)


def doubled(x: torch.Tensor):
    return 2 * x


def deep(layers):
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_attention_heads=4, intermediate_size=64,
        num_hidden_layers=layers,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def test_the_memory_of_a_deep_model_is_that_of_one_layer_and_all_inputs():
    ids = torch.randint(5, 50, (1, 256))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    models = [deep(4), deep(16)]
    size = 4 * 32 * 256  # bytes of a layer's input

    def grows(*, checkpoint):
        """Bytes for each more layer."""
        gc.collect()  # or garbage would count as memory that is given back
        few, many = (
            peak_memory(lambda m=model: attribute(m, inputs, checkpoint=checkpoint))
            for model in models
        )
        return (many - few) / 12

    assert grows(checkpoint=True) == pytest.approx(size, rel=0.01)
    assert grows(checkpoint=False) > 5 * size


def test_a_layer_that_keeps_what_it_has_seen_is_an_error():
    model, inputs = cases.family("bert")
    layer = model.bert.encoder.layer[0]
    forward, calls = type(layer).forward, []

    def remembers(self, x, *args, **kwargs):
        calls.append(1)
        return forward(self, x * len(calls), *args, **kwargs)

    layer.forward = remembers.__get__(layer)
    with pytest.raises(ValueError, match=r"layer\.0 does not give the same when it runs again"):
        attribute(model, inputs, checkpoint=True)


def sharing(name):
    """A model whose last two layers read keys and values of the first two."""
    kinds = ["sliding_attention", "full_attention"] * 2
    fields = {x: y for x, y in tiny(name).to_dict().items() if x != "per_layer_config"}
    fields |= {"num_hidden_layers": 4, "layer_types": kinds, "num_kv_shared_layers": 2}
    if name == "gemma3n_text":
        fields |= {"activation_sparsity_pattern": [0.0] * 4, "intermediate_size": [48] * 4}
    torch.manual_seed(0)
    config = CONFIG_MAPPING[name](**fields)
    return AutoModelForCausalLM.from_config(config).double().eval()


@pytest.mark.parametrize("name", ["gemma3n_text", "gemma4_text"])
def test_layers_that_share_keys_and_values_are_refused(name):
    with conditions():
        model, inputs = sharing(name), {"input_ids": torch.arange(12, 17)[None]}
        assert attribute(model, inputs).relevance.any()
        with pytest.raises(ValueError, match=r"layers\.2 reads activations of an earlier layer"):
            attribute(model, inputs, checkpoint=True)

"""Unusual models and calls are audited right, or refused with value, place and next step."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP, Composite, UnassignedOperation
from numeric import attribute, audit
from numeric.auditing.data import Subject, plain
from tests.census.build import with_inputs
from tests.support import cases, traces
from tests.support.audits import eager
from tests.support.traces import assert_same, contains, snapshot


def both(model, inputs, composite=ATTNLRP, **options):
    """Relevance by either text, and the audit."""
    found = audit(model, inputs, composite, target=1, **options)
    a = attribute(model, inputs, composite, target=1, **options)
    return a.relevance[0].numpy(), found.relevance, found


def check(model, inputs, composite=ATTNLRP, **options):
    """Both texts agree; returns their relevance and the audit."""
    fast, slow, found = both(model, inputs, composite, **options)
    np.testing.assert_allclose(slow, fast, rtol=1e-8, atol=1e-8)
    return fast, found


UNUSUAL = {
    "heads wider than their share": ("llama", {"head_dim": 6}),
    "a window": ("mistral", {"sliding_window": 2}),
    "a window in some layers": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 1},
    ),
    "scores scaled by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "a decoder that was an encoder": ("bert", {"is_decoder": True}),
    "labels that do not exclude": ("bert", {"problem_type": "multi_label_classification"}),
    "feed forward in chunks": ("bert", {"chunk_size_feed_forward": 2}),
    "groups": ("albert", {"num_hidden_groups": 2}),
    "layers in a group": ("albert", {"inner_group_num": 2}),
    "no bias of queries": ("vit", {"qkv_bias": False}),
    "no projection of embeddings": ("electra", {"embedding_size": 16}),
    "sine positions": ("distilbert", {"sinusoidal_pos_embds": True}),
    "no layer": ("bert", {"num_hidden_layers": 0}),
}
"""Stock configurations under which a family runs other code."""


refused = partial(traces.refused, call=audit)


class Activation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


SPELLED = {"gelu_new": "gelu tanh", "gelu_fast": "gelu tanh", "gelu_python": "gelu"}


@pytest.mark.parametrize("name", SPELLED)
def test_a_gelu_is_one_operation_however_it_is_spelled(name):
    model, inputs = eager(hidden_act=name)
    _, found = check(model, inputs)
    named = [x.node.attributes.get("function") for x in found.ledger.lines]
    functions = [name for name in named if name]
    assert functions == ["tanh", SPELLED[name], SPELLED[name]]  # the first is the pooler's
    assert found.forward_error < 1e-9


SLOPE = math.sqrt(2 / math.pi)
NO_GELUS = {
    "another slope": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * x**3))),
    "another third": lambda x: 0.5 * x * (1 + torch.tanh(SLOPE * (x + 0.0447 * x**3))),
    "a term too many": lambda x: 0.5 * x * (1 + torch.tanh(SLOPE * (x + x**2 + 0.044715 * x**3))),
    "no term": lambda x: 0.5 * x * (1 + torch.tanh(SLOPE * x)),
    "a whole": lambda x: 1.0 * x * (1 + torch.tanh(SLOPE * (x + 0.044715 * x**3))),
    "two": lambda x: 0.5 * x * (2 + torch.tanh(SLOPE * (x + 0.044715 * x**3))),
    "another argument": lambda x: 0.5 * x * (1 + torch.tanh(SLOPE * (-x + 0.044715 * x**3))),
    "erf of another": lambda x: 0.5 * x * (1 + torch.erf(0.7 * x)),
}


@pytest.mark.parametrize(("name", "f"), NO_GELUS.items(), ids=NO_GELUS)
def test_what_is_nearly_a_gelu_is_none(name, f):

    model, inputs = eager()
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = Activation(f).eval()
    _, found = check(model, inputs)
    functions = [line.node.attributes.get("function") for line in found.ledger.lines]
    assert functions.count("tanh") == 1  # the pooler's
    assert functions.count("mul") == 2
    assert not {"gelu", "gelu tanh"} & set(functions)


@pytest.mark.parametrize("name", ["quick_gelu", "mish", "leaky_relu"])
def test_other_activations_are_the_same_for_both_texts(name):
    check(*eager(hidden_act=name))


STABILISERS = [-1, math.nan, math.inf, True, "x", None, torch.tensor(0.1)]


@pytest.mark.parametrize("eps", STABILISERS, ids=repr)
def test_a_stabiliser_that_is_none_is_refused(eps):
    message = refused(ValueError, *eager(), epsilon=eps)
    contains(message, f"eps={eps!r}", "finite and >= 0", "pass eps=0")


@pytest.mark.parametrize("eps", [1e-290, 1e-30, 1e300])
def test_extreme_stabilisers_still_add_up(eps):
    _, found = check(*eager(), epsilon=eps)
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9


TARGETS = {
    3: "classes 0 to 2",
    -1: "classes 0 to 2",
    1.5: "pass None, an int",
    "a": "no class has this name",
}


@pytest.mark.parametrize(("target", "message"), TARGETS.items())
def test_an_impossible_target_is_refused(target, message):
    contains(refused(ValueError, *eager(), target=target), str(target), message)


@pytest.mark.parametrize("target", [[1], torch.tensor(1), torch.tensor([1]), np.int64(1)])
def test_a_target_may_be_written_as_for_attribute(target):
    found = audit(*eager(), target=target)
    assert found.target == 1
    assert type(found.target) is int


def test_overrides_of_what_is_not_there_are_refused_together():
    rules = {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS}
    typo = Composite("typo", ATTNLRP.rules, layers={7: rules}, modules={"bert.pooler.dens": rules})
    message = refused(ValueError, *eager(), typo)
    contains(message, "layer 7", "module 'bert.pooler.dens'", "0 to 1")


@pytest.mark.parametrize(
    ("path", "table"),
    {
        "bert.pooler.dense": {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS},
        "bert.embeddings.LayerNorm": {kinds.LAYER_NORM: kinds.IDENTITY},
        "bert.encoder.layer.0.attention.self": {
            kinds.SCORES: kinds.CONSTANT,
            kinds.SOFTMAX: kinds.CONSTANT,
            kinds.READOUT: kinds.VALUE_ONLY,
        },
    }.items(),
)
def test_an_override_of_a_module_is_the_same_for_both_texts(path, table):
    model, inputs = eager()
    fast, _ = check(model, inputs, Composite("one", ATTNLRP.rules, modules={path: table}))
    plain = attribute(model, inputs, ATTNLRP, target=1).relevance[0].numpy()
    assert abs(fast - plain).max() > 1e-4


def test_weights_that_are_not_finite_are_found():
    model, inputs = eager()
    with torch.no_grad():
        model.classifier.weight[1, 0] = torch.nan
    contains(refused(ValueError, model, inputs), "non-finite logits", "nan", "check the weights")


def test_a_model_that_fails_by_itself_is_said_to():
    model, inputs = eager()
    model.bert.pooler.float()
    message = refused(ValueError, model, inputs)
    contains(message, "BertForSequenceClassification itself fails", "dtype")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_one_narrow_module_is_enough_to_be_refused(dtype):
    model, inputs = eager()
    model.bert.pooler.to(dtype)
    contains(refused(ValueError, model, inputs), str(dtype), "model.float()")


def test_a_branch_on_the_input_is_audited_as_it_is_taken(capfd):
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    fast, slow, _ = both(*eager("llama", rope_parameters=dynamic))
    np.testing.assert_allclose(slow, fast, rtol=1e-5, atol=1e-6)  # stock norms are in float32
    assert capfd.readouterr() == ("", "")


def test_an_output_of_exactly_0_is_named_with_its_place():
    # The logit is all bias, and the rule hands all of it to inputs that contribute nothing.
    model, inputs = eager()
    with torch.no_grad():
        model.classifier.weight[1] = 0
    without = Composite("c", ATTNLRP.rules | {kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS})
    message = refused(ZeroDivisionError, model, inputs, without, target=1)
    contains(message, "linear at classifier", "exactly 0", "pass eps > 0")
    fast, slow, _ = both(model, inputs, without, epsilon=0.25)
    np.testing.assert_allclose(slow, fast, atol=1e-10)


def test_autocast_does_not_reach_the_audit():
    model, inputs = eager()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = audit(model.float(), inputs, target=1)
    assert found.forward_error < 1e-5


@pytest.mark.filterwarnings("ignore:attention_mask hides the first column")
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_padding_on_the_left_of_a_decoder_is_refused(name):
    model, inputs = eager(name)
    pad = torch.tensor([[model.config.pad_token_id]])
    inputs["input_ids"] = torch.cat([pad, inputs["input_ids"]], dim=1)
    inputs["attention_mask"] = (inputs["input_ids"] != pad).long()
    contains(refused(ValueError, model, inputs), "attention_mask", "first token", "leave padding")


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_gaps_in_the_mask_are_the_same_for_both_texts(name):
    model, inputs = eager(name)
    inputs["attention_mask"][0, 2] = 0
    found = audit(model, inputs, target=1)
    a = attribute(cases.family(name)[0], inputs, target=1)
    np.testing.assert_allclose(found.relevance, a.relevance[0].numpy(), rtol=1e-8, atol=1e-8)
    assert abs(found.relevance[2]) < 1e-10


@pytest.mark.parametrize(("name", "options"), UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_configurations_are_the_same_for_both_texts(name, options):
    model, inputs = eager(name, **options)
    found = audit(model, inputs, target=1)
    fast, _ = cases.family(name, **options)  # sdpa, whose kernels keep float64
    a = attribute(fast, inputs, target=1)
    np.testing.assert_allclose(found.relevance, a.relevance[0].numpy(), rtol=1e-8, atol=1e-8)
    assert abs(sum(found.by_cause().values()) - found.residual) <= 1e-9
    assert found.forward_error < 1e-5


def test_an_operation_without_a_rule_may_have_several_outputs():
    def between(x):
        small, large = torch.aminmax(x, dim=-1, keepdim=True)
        return x * small * large

    model, inputs = eager()
    model.bert.encoder.layer[1].intermediate.intermediate_act_fn = Activation(between).eval()
    message = refused(UnassignedOperation, model, inputs)
    contains(message, "aminmax", "layer.1.intermediate.intermediate_act_fn")


@pytest.mark.parametrize("explain", [attribute, audit])
def test_logits_in_a_tuple_are_refused(explain):
    model, inputs = eager(return_dict=False)
    with pytest.raises(ValueError, match=r"return_dict=False: .*set model.config.return_dict"):
        explain(model, inputs)


def interrupted(_):
    raise KeyboardInterrupt


def test_an_interrupt_leaves_the_model_as_it_was():
    model, inputs = eager("llama")
    model.model.layers[1].mlp.act_fn = Activation(interrupted).eval()
    before, config = snapshot(model), model.config.to_dict()
    with pytest.raises(KeyboardInterrupt):
        audit(model, inputs)
    assert_same(before, snapshot(model))
    assert model.config.to_dict() == config


def test_layers_without_numbers_are_one_stage():
    model, inputs = with_inputs("xlm")
    found = audit(model, cases.first(inputs))
    tokens = ("a",) * len(found.relevance)
    facts = plain(found, Subject(model="tiny", input="a", tokens=tokens, label=""))
    assert [stage["name"] for stage in facts["stages"]] == ["the whole model"]

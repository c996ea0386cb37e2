"""``attribute`` leaves nothing behind, on any model, also after an exception."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from transformers import BertForSequenceClassification, CLIPConfig

from axioms import kinds
from axioms.composites import ATTNLRP, CP_LRP, Composite, bypass_softmax
from numeric import attribute
from numeric.engine.calls import call_of, foreign
from numeric.engine.engine import Propagation
from numeric.methods.catalogue import METHODS
from numeric.models import patches
from tests.census.build import build
from tests.support import cases
from tests.support.traces import assert_same, failing, snapshot, watch

every_method = pytest.mark.parametrize("method", METHODS)
IDENTITY = Composite("identity norms", ATTNLRP.rules | {kinds.LAYER_NORM: kinds.IDENTITY})
CALLS = [(method, {}) for method in METHODS]
CALLS += [(method, {"epsilon": 0.1}) for method in ("attnlrp", "cp-lrp", IDENTITY)]
CALLS += [(bypass_softmax([1]), {"share": "word"}), (IDENTITY, {})]
CALLS += [("cp-lrp", {"at": "bert.encoder.layer.*"}), ("attnlrp", {"positions": "signed"})]
CALLS += [("attnlrp", {"checkpoint": True})]


def plain_gradient(model):
    """Gradients of all parameters of a plain backward pass, which are then cleared."""
    model(**cases.tiny_batch()).logits[:, 0].sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    return gradients


def assert_plain(model, want):
    got = plain_gradient(model)
    assert all(g is w is None or torch.equal(g, w) for g, w in zip(got, want, strict=True))


# The identity rule of LayerNorm has a pole, and may amplify relevance.
@pytest.mark.filterwarnings("ignore::numeric.methods.amplification.AmplifiedRelevance")
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_methods_in_sequence_leave_the_model_as_it_was(attention, batch):
    model = cases.tiny_bert(attn_implementation=attention)
    model.bert.encoder.layer[0].attention.self.query.weight.requires_grad = False
    want, before = plain_gradient(model), snapshot(model)
    first = [attribute(model, batch, method, **options) for method, options in CALLS]
    fresh = cases.tiny_batch()
    assert [*batch] == [*fresh]
    assert all(torch.equal(batch[key], x) for key, x in fresh.items())
    assert_same(before, snapshot(model))
    assert_plain(model, want)
    again = [attribute(model, batch, method, **options) for method, options in reversed(CALLS)]
    for a, b in zip(first, reversed(again), strict=True):
        assert torch.equal(a.relevance, b.relevance)


@pytest.mark.parametrize(("method", "options"), CALLS, ids=str)
def test_an_exception_in_mid_forward_leaves_the_model_as_it_was(tiny, batch, method, options):
    before, want = snapshot(tiny), plain_gradient(tiny)
    with (
        failing(tiny),
        pytest.raises(ValueError, match=r"itself fails on this input .*in mid-forward"),
    ):
        attribute(tiny, batch, method, **options)
    assert_same(before, snapshot(tiny))
    assert_plain(tiny, want)


def test_the_snapshot_sees_every_kind_of_trace(batch):
    tiny = cases.tiny_bert(attn_implementation="eager")
    layer = tiny.bert.encoder.layer[0]
    for change in (
        lambda: layer.register_forward_hook(lambda *_: None),
        lambda: setattr(layer.output.LayerNorm, "forward", layer.output.LayerNorm.forward),
        lambda: setattr(tiny.bert, "config", cases.tiny_config()),
        lambda: setattr(tiny.config, "_attn_implementation", "sdpa"),
        lambda: tiny.classifier.weight.requires_grad_(requires_grad=False),
        lambda: tiny.classifier.weight.data.add_(1),
        lambda: tiny(**batch, output_attentions=True),
        lambda: tiny(**batch).logits.sum().backward(),
    ):
        before = snapshot(tiny)
        change()
        with pytest.raises(AssertionError):
            assert_same(before, snapshot(tiny))


def test_two_models_with_one_config_do_not_influence_each_other(tiny, batch):
    other = BertForSequenceClassification(tiny.config).double().eval()
    assert other.config is tiny.config
    want, before = plain_gradient(other), snapshot(other)
    alone = attribute(other, batch, "attnlrp", 0).relevance
    with Propagation(tiny, CP_LRP, eps=0.1):
        tiny(**batch)
        assert_same(before, snapshot(other))
        with ThreadPoolExecutor(1) as pool:  # the rules hold in this thread alone
            pool.submit(assert_plain, other, want).result()
        assert torch.equal(attribute(other, batch, "attnlrp", 0).relevance, alone)


@every_method
def test_hooks_that_transformers_leaves_behind_do_not_matter(batch, method):
    tiny = cases.tiny_bert(attn_implementation="eager")
    want = attribute(tiny, batch, method).relevance
    before = len(snapshot(tiny)[0])
    tiny(**batch, output_attentions=True, output_hidden_states=True)
    tiny.enable_input_require_grads()
    assert len(snapshot(tiny)[0]) > before + 3
    assert torch.equal(attribute(tiny, batch, method).relevance, want)


@every_method
def test_gradient_checkpointing_does_not_matter(tiny, batch, method):
    want = attribute(tiny, batch, method).relevance
    for layer in tiny.bert.encoder.layer:
        layer.gradient_checkpointing = True  # which acts in train mode only
    assert torch.equal(attribute(tiny, batch, method).relevance, want)


@every_method
def test_dropout_may_have_been_taken_out(tiny, batch, method):
    want = attribute(tiny, batch, method).relevance
    tiny.bert.encoder.layer[0].output.dropout = torch.nn.Identity().eval()
    # Leave-One-Out and Integrated Gradients then take no shortcut, and round otherwise.
    cases.close(attribute(tiny, batch, method).relevance, want, tolerance=1e-12)


def test_shared_modules_get_their_rules_once(batch):
    shared, separate = (cases.tiny_bert(hidden_act="gelu") for _ in range(2))
    layers = shared.bert.encoder.layer
    layers[1].intermediate.intermediate_act_fn = layers[0].intermediate.intermediate_act_fn
    for epsilon in (0.0, 0.1):
        a, b = (attribute(m, batch, epsilon=epsilon).relevance for m in (shared, separate))
        assert torch.equal(a, b)


def test_a_shared_layer_is_explained_at_both_places(batch):
    tied, copied = cases.tiny_bert(), cases.tiny_bert()
    tied.bert.encoder.layer[1] = tied.bert.encoder.layer[0]
    copied.bert.encoder.layer[1].load_state_dict(copied.bert.encoder.layer[0].state_dict())
    for composite in (ATTNLRP, CP_LRP, bypass_softmax([0, 1])):
        for epsilon in (0.0, 0.1):
            a, b = (attribute(m, batch, composite, epsilon=epsilon) for m in (tied, copied))
            assert torch.equal(a.relevance, b.relevance)


def test_a_model_called_by_a_hook_in_mid_pass_is_no_part_of_the_pass(tiny, batch):
    want = attribute(tiny, batch).relevance
    other, seen = cases.tiny_bert(seed=1), []
    stock = [model(**batch).logits for model in (tiny, other)]

    def call(_):
        if not seen:
            seen.append(None)
            seen.extend(model(**batch).logits for model in (tiny, other))

    with watch(tiny.bert.encoder.layer[0].output, call):
        assert torch.equal(attribute(tiny, batch).relevance, want)
    assert all(map(torch.equal, seen[1:], stock))


def test_another_implementation_of_attention_does_not_reach_configs_within_a_config():
    module = nn.Module()
    module.config = CLIPConfig(attn_implementation="sdpa")
    within = module.config.text_config
    twin = patches.twin(module)
    patches.attention_implementation([twin], "eager")
    assert twin.config._attn_implementation == "eager"
    assert module.config._attn_implementation == "sdpa"
    assert within._attn_implementation == "sdpa"


def test_modules_that_share_a_parameter_share_it_in_a_twin_also():
    model = build("t5", "sequence classification")
    tables = [
        m for path, m in patches.twin(model).named_modules() if path.endswith(("shared", "tokens"))
    ]
    assert len(tables) == 3
    assert {id(table.weight) for table in tables} == {id(tables[0].weight)}


def test_no_table_keeps_a_function_or_a_class_of_the_user():
    """Such as a function in the place of one of torch, with a model in its closure."""

    def forgotten():
        def softmax(x):
            return x

        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        assert call_of(softmax).role is None
        assert foreign(type(Own.apply(torch.ones(1, requires_grad=True)).grad_fn))
        return weakref.ref(softmax), weakref.ref(Own)

    kept = forgotten()
    gc.collect()
    assert [x() for x in kept] == [None, None]

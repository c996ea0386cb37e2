"""Hooks and replaced forwards: their operations are looked up like all others."""

import copy
from functools import partial
from types import MethodType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from axioms.composites import UnassignedOperation
from numeric import attribute, compiled, plan
from numeric.methods import amplification
from tests.support import cases
from tests.support.loops import left_out, logits_of
from tests.support.traces import contains, refused
from tests.support.uses import BY_RULES, USES, assert_alike, case, put, relevance

MIX = 0.3 * torch.randn(16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
PLACES = {"bert": "bert.encoder.layer.1.attention", "llama": "model.layers.0.mlp"}
WEIGHED = {"bert": "bert.encoder.layer.1", "llama": "model.norm"}


def mixed(x):
    return functional.gelu(x @ MIX) + x


def mixed_first(x):
    return (mixed(x[0]), *x[1:]) if isinstance(x, tuple) else mixed(x)


class After(nn.Module):
    """The function of the hooks below, as a module of the model."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return mixed_first(self.inner(*args, **kwargs))


class Before(After):
    def forward(self, x, *args, **kwargs):
        return self.inner(mixed(x), *args, **kwargs)


def own_then_mixed(module, *args, **kwargs):
    return mixed_first(type(module).forward(module, *args, **kwargs))


def by_hook(module):
    module.register_forward_hook(lambda _m, _i, out: mixed_first(out))


def by_method(module):
    module.forward = MethodType(own_then_mixed, module)


def by_partial(module):
    module.forward = partial(own_then_mixed, module)


def by_pre_hook(module):
    module.register_forward_pre_hook(
        lambda _m, args, named: ((mixed(args[0]), *args[1:]), named), with_kwargs=True
    )


def by_function(module):
    forward = module.forward
    module.forward = lambda *args, **kwargs: mixed_first(forward(*args, **kwargs))


ALTERED = {
    "hook": (by_hook, After), "method": (by_method, After), "partial": (by_partial, After),
    "pre-hook": (by_pre_hook, Before),
}  # fmt: skip


# These uses run one pass with other rules; an audit takes long.
LIKE_ATTNLRP = {"cp-lrp", "gradient-x-input", "finite epsilon", "audit"}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", PLACES)
def test_a_hook_is_explained_as_the_module_that_computes_the_same(name, use):
    model, inputs = case(name)
    plain, wanted = USES[use](model, inputs), {}
    for way in ["hook"] if use in LIKE_ATTNLRP else ALTERED:
        alter, made = ALTERED[way]
        if made not in wanted:
            wanted[made] = USES[use](put(copy.deepcopy(model), PLACES[name], made), inputs)
        altered = copy.deepcopy(model)
        alter(altered.get_submodule(PLACES[name]))
        assert_alike(USES[use](altered, inputs), wanted[made])
        if use != "attention-rollout":  # it sees nothing behind the last attention
            assert (plain - wanted[made]).abs().max() > 1e-3 * wanted[made].abs().max()


@pytest.mark.parametrize("use", USES)
def test_hooks_that_only_look_change_nothing(use):
    model, inputs = case("bert")
    want, seen = USES[use](model, inputs), []
    for module in model.modules():
        module.register_forward_hook(lambda *given: seen.append(len(given)))
        module.register_forward_pre_hook(lambda *given: seen.append(len(given)))
    assert_alike(USES[use](model, inputs), want, rtol=1e-12)
    assert seen


@pytest.mark.parametrize("name", PLACES)
def test_to_ask_about_gradients_where_none_are_wanted_changes_nothing(name):
    model, inputs = case(name)
    want = relevance(model, inputs)
    for module in model.modules():

        @module.register_forward_pre_hook
        def asks(_module, args):
            with torch.no_grad():
                assert all(hasattr(x, "requires_grad") for x in args if isinstance(x, Tensor))

    assert torch.equal(relevance(model, inputs), want)


@pytest.mark.parametrize("name", PLACES)
def test_leave_one_out_of_a_model_with_hooks_is_that_of_each_text_alone(name):
    """Hooks that go by the number of a token, or act on logits, are wrong on a part of the text."""
    model, inputs = case(name)
    tokens = inputs["attention_mask"].shape[1]
    weights = torch.linspace(0.5, 2, tokens, dtype=torch.float64)[:, None]

    def tripled(_module, _args, output):
        output.logits = 3 * output.logits

    model.get_submodule(WEIGHED[name]).register_forward_hook(lambda _m, _i, out: out * weights)
    model.register_forward_hook(tripled)
    found = attribute(model, inputs, "loo", 1)
    torch.testing.assert_close(found.relevance, left_out(inputs, logits_of(model, 1)))


@pytest.mark.parametrize("method", ["attention-rollout", "sweep"])
def test_a_function_in_place_of_a_forward_is_refused_where_a_copy_of_the_modules_runs(method):
    model, inputs = case("bert")
    by_function(model.bert.encoder.layer[1])
    with pytest.raises(ValueError, match=r"replaced forward of 1 modules, bert.encoder.layer.1"):
        USES[method](model, inputs)


@pytest.mark.parametrize("use", [*BY_RULES, "audit", "loo", "integrated-gradients"])
def test_a_function_in_place_of_a_forward_is_explained_where_the_model_itself_runs(use):
    model, inputs = case("llama")
    want = USES[use](put(copy.deepcopy(model), PLACES["llama"], After), inputs)
    by_function(model.get_submodule(PLACES["llama"]))
    assert_alike(USES[use](model, inputs), want)


@pytest.mark.parametrize("way", ALTERED)
@pytest.mark.parametrize("name", PLACES)
def test_relevance_at_a_module_is_that_of_what_its_forward_returns(name, way):
    """Hooks of a module are given the output of its forward."""
    alter, made = ALTERED[way]
    model, inputs = case(name)
    path = PLACES[name]
    wrapped = put(copy.deepcopy(model), path, made)
    (want,) = attribute(
        wrapped, inputs, target=1, at=path + ".inner" * (way == "hook")
    ).inside.values()
    alter(model.get_submodule(path))
    (found,) = attribute(model, inputs, target=1, at=path).inside.values()
    assert_alike(found, want)


def test_the_plan_names_what_a_hook_computes():
    model, inputs = cases.family("bert")
    before = plan(model, inputs).operations
    by_hook(model.get_submodule(PLACES["bert"]))
    added = plan(model, inputs).operations[len(before) :]
    assert len(plan(model, inputs).operations) - len(before) == len(added) == 3


def test_a_graph_is_not_compiled_of_hooks_which_would_run_but_once(batch):
    model = cases.tiny_bert()
    by_method(model.bert.encoder.layer[0])
    with pytest.raises(ValueError, match=r"call attribute\(\), or remove"), compiled(model):
        pass


def test_a_hook_of_a_tensor_may_look_at_relevance_and_not_change_it(batch, monkeypatch):
    monkeypatch.setattr(amplification, "warn", lambda *_given, **_options: None)
    model = cases.tiny_bert()
    want, seen = relevance(model, batch), []
    dense = model.bert.encoder.layer[0].output.dense
    look = dense.register_forward_hook(lambda _m, _i, out: out.register_hook(seen.append) and None)
    assert torch.equal(relevance(model, batch), want)
    assert len(seen) == 1
    look.remove()
    for change in (
        lambda out: out.register_hook(lambda c: 2 * c),
        lambda out: out.register_hook(hook=torch.zeros_like),
    ):
        hook = dense.register_forward_hook(lambda _m, _i, out: change(out) and None)  # noqa: B023
        contains(refused(ValueError, model, batch), "of a tensor changes the gradient")
        hook.remove()


@pytest.mark.parametrize("use", ["attnlrp", "cp-lrp", "integrated-gradients", "sweep"])
def test_a_hook_of_a_parameter_is_never_called(batch, use):
    model = cases.tiny_bert()
    want = USES[use](model, batch)
    for parameter in model.parameters():
        parameter.register_hook(torch.zeros_like)
    assert torch.equal(USES[use](model, batch), want)


WRITES = {
    "a part": lambda x: x.__setitem__((slice(None), 1), 0.5),
    "a part of a view": lambda x: x[0].__setitem__(1, 0.5),
    "a function in place": lambda x: x.mul_(0.5),
    "an operator": lambda x: x.__imul__(0.5),
    "zeros": lambda x: x[:, 1].zero_(),
    "an activation in place": lambda x: functional.relu(x, inplace=True),
    "a result": lambda x: torch.mul(x.detach(), 0.5, out=x),
    "one of two results": lambda x: torch.frexp(x.detach(), out=(x, torch.zeros_like(x).int())),
}


@pytest.mark.parametrize("use", ["attnlrp", "cp-lrp", "gradient-x-input", "audit"])
@pytest.mark.parametrize("write", WRITES)
def test_a_hook_that_writes_where_gradients_are_off_is_refused(write, use):
    """Relevance would come to the overwritten values."""
    model, inputs = case("llama")

    def hook(_module, _args, output):
        with torch.set_grad_enabled(on):
            WRITES[write](output)

    model.model.layers[0].self_attn.o_proj.register_forward_hook(hook)
    on = False
    with pytest.raises(UnassignedOperation, match="into an activation where gradients are"):
        USES[use](model, inputs)
    on = True
    # An audit follows no write through a view, and torch no gradient through ``out``.
    if use != "audit" and "result" not in write:
        assert USES[use](model, inputs).isfinite().all()

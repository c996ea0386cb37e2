"""Models as users have them: with hooks, offloaded weights, adapters, checkpoints."""

import copy
from functools import partial, update_wrapper
from types import MethodType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from axioms.composites import ATTNLRP, CP_LRP, UnassignedOperation
from numeric import attribute, audit, compiled, plan, propagation, sweep
from numeric.attribution import METHODS
from tests.support import cases
from tests.support.traces import contains, refused

BY_RULES = ["attnlrp", "cp-lrp", "gradient-x-input"]


def relevance(model, inputs, method="attnlrp", **options):
    return attribute(model, inputs, method, 1, **options).relevance


def swept(model, inputs):
    return sweep(model, inputs, [ATTNLRP, CP_LRP], 1).relevance


def audited(model, inputs):
    return torch.tensor(audit(model, {key: x[:1] for key, x in inputs.items()}, target=1).relevance)


USES = {method: partial(relevance, method=method) for method in METHODS}
USES |= {"finite epsilon": partial(relevance, epsilon=0.25), "sweep": swept, "audit": audited}


def case(name):
    """A model and a batch that every method takes, of a decoder without padding."""
    model, inputs = cases.family(name)
    if name == "llama":
        inputs = {key: x[:, :4] for key, x in inputs.items()}
    return model, inputs


def assert_alike(got, want, rtol=1e-9):
    assert got.isfinite().all()
    assert (got - want).abs().max() <= rtol * want.abs().max()


# Hooks and replaced forwards: what they compute is looked up like all else.

MIX = 0.3 * torch.randn(16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
PLACES = {"bert": "bert.encoder.layer.1.attention", "llama": "model.layers.0.mlp"}
WEIGHED = {"bert": "bert.encoder.layer.1", "llama": "model.norm"}


def mixed(x):
    return functional.gelu(x @ MIX) + x


def mixed_first(x):
    return (mixed(x[0]), *x[1:]) if isinstance(x, tuple) else mixed(x)


class After(nn.Module):
    """What the hooks below compute, as a module of the model."""

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


def put(model, path, make):
    parent, _, name = path.rpartition(".")
    child = model.get_submodule(path)
    setattr(model.get_submodule(parent), name, make(child))
    return model.eval()


ALL = [(use, way) for use in USES for way in ALTERED if use != "audit" or way == "hook"]  # slow


@pytest.mark.parametrize(("use", "way"), ALL)
@pytest.mark.parametrize("name", PLACES)
def test_a_hook_is_explained_as_the_module_that_computes_the_same(name, way, use):
    alter, made = ALTERED[way]
    model, inputs = case(name)
    want = USES[use](put(copy.deepcopy(model), PLACES[name], made), inputs)
    plain = USES[use](model, inputs)
    alter(model.get_submodule(PLACES[name]))
    assert_alike(USES[use](model, inputs), want)
    if use != "attention-rollout":  # which does not see what comes behind the last attention
        assert (plain - want).abs().max() > 1e-3 * want.abs().max()


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
    mask = inputs["attention_mask"]
    weights = torch.linspace(0.5, 2, mask.shape[1], dtype=torch.float64)[:, None]

    def tripled(_module, _args, output):
        output.logits = 3 * output.logits

    model.get_submodule(WEIGHED[name]).register_forward_hook(lambda _m, _i, out: out * weights)
    model.register_forward_hook(tripled)
    found = attribute(model, inputs, "loo", 1)
    for token in range(mask.shape[1]):
        hidden = torch.where(torch.arange(mask.shape[1]) == token, 0, mask)
        without = model(**inputs | {"attention_mask": hidden}).logits[:, 1].detach()
        want = (found.logit - without) * mask[:, token]
        torch.testing.assert_close(found.relevance[:, token], want)


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
    """Which is what its hooks are given."""
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
    with pytest.raises(ValueError, match="pass disable=True"), compiled(model):
        pass


def test_a_hook_of_a_tensor_may_look_at_relevance_and_not_change_it(batch):
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


# accelerate: weights are fetched before a module runs, and dropped behind it.


def offload(model):
    """As accelerate does it, where nothing of it is installed."""
    for module in list(model.modules()):
        weights = {
            name: x.detach().clone() for name, x in module._parameters.items() if x is not None
        }
        add_hook(module, weights)
        drop(module, weights)
    return model


def drop(module, weights):
    for name, x in weights.items():
        module._parameters[name] = nn.Parameter(x.to("meta"))


def add_hook(module, weights):
    def new_forward(module, *args, **kwargs):
        for name, x in weights.items():
            module._parameters[name] = nn.Parameter(x)
        out = module._old_forward(*args, **kwargs)
        drop(module, weights)
        return out

    module._old_forward = module.forward
    module.forward = update_wrapper(partial(new_forward, module), module._old_forward)


def by_accelerate(way):
    def offloaded(model, folder):
        accelerate = pytest.importorskip("accelerate")
        if way == "disk":
            return accelerate.disk_offload(model, folder, execution_device="cpu")
        if way == "cpu":
            return accelerate.cpu_offload(model, execution_device="cpu")
        return accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True)

    return offloaded


OFFLOADS = {name: by_accelerate(name) for name in ("cpu", "disk", "map")}
OFFLOADS["by hand"] = lambda model, _: offload(model)


@pytest.mark.parametrize("way", OFFLOADS)
@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_weights_that_are_fetched_when_they_are_used_change_nothing(name, way, tmp_path):
    model, inputs = (cases.family if name == "vit" else case)(name)
    texts_only = ["integrated-gradients", "loo"] if name == "vit" else []
    offloaded = OFFLOADS[way](copy.deepcopy(model), tmp_path)
    on_meta = {path: x.device for path, x in offloaded.named_parameters()}
    for use in USES:
        if use not in texts_only and use != "audit":
            assert_alike(USES[use](offloaded, inputs), USES[use](model, inputs), rtol=1e-12)
    assert {path: x.device for path, x in offloaded.named_parameters()} == on_meta


# Adapters: linear maps beside others, whose relevance is that of one map.


class LoRA(nn.Module):
    """x W^T + b + scaling * dropout(x) A^T B^T"""

    def __init__(self, base, rank=3, scaling=2.0):
        super().__init__()
        drawn = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.randn(*shape, generator=drawn, dtype=torch.float64) / 4
        self.base, self.scaling, self.dropout = base, scaling, nn.Dropout(0.1)
        self.a, self.b = (nn.Linear(n, m, bias=False) for n, m in ((1, 1), (1, 1)))
        self.a.weight = nn.Parameter(draw(rank, base.in_features))
        self.b.weight = nn.Parameter(draw(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.b(self.a(self.dropout(x))) * self.scaling

    def merged(self):
        self.base.weight.data += self.scaling * self.b.weight @ self.a.weight
        return self.base


ADAPTED = {
    "bert": ("attention.self.query", "attention.self.value", "intermediate.dense"),
    "llama": ("q_proj", "v_proj", "gate_proj", "down_proj"),
}


def adapt(model, names):
    for path, module in list(model.named_modules()):
        if path.endswith(names):
            put(model, path, lambda _, module=module: LoRA(module))
    return model.eval()


def merge(model):
    for path, module in list(model.named_modules()):
        if isinstance(module, LoRA):
            put(model, path, lambda _, module=module: module.merged())
    return model


@pytest.mark.parametrize("name", ADAPTED)
def test_an_adapter_beside_a_map_is_explained_as_the_two_in_one(name):
    model, inputs = case(name)
    adapted = adapt(copy.deepcopy(model), ADAPTED[name])
    merged = merge(copy.deepcopy(adapted))
    for use in set(USES) - {"finite epsilon"}:  # a stabiliser acts on each sum
        want = USES[use](merged, inputs)
        assert_alike(USES[use](adapted, inputs), want)
        assert (USES[use](model, inputs) - want).abs().max() > 1e-3 * want.abs().max()


@pytest.mark.filterwarnings("ignore")  # peft asks Transformers for what is deprecated
@pytest.mark.parametrize("name", ADAPTED)
def test_adapters_of_peft_are_explained_as_the_merged_model(name):
    peft = pytest.importorskip("peft")
    model, inputs = case(name)
    torch.manual_seed(3)
    names = [path.rsplit(".", 1)[-1] for path in ADAPTED[name]]
    config = peft.LoraConfig(
        task_type="SEQ_CLS", target_modules=names, r=4, init_lora_weights=False, lora_dropout=0.1
    )
    wrapped = peft.get_peft_model(model, config).double().eval()
    contains(refused(ValueError, wrapped, inputs), "model is a Peft", "model.get_base_model()")
    adapted = wrapped.get_base_model()
    found = {use: USES[use](adapted, inputs) for use in USES if use != "finite epsilon"}
    merged = wrapped.merge_and_unload().eval()
    for use, got in found.items():
        assert_alike(got, USES[use](merged, inputs))


# Checkpoints: what is computed again on the way back is not under the rules.


def checkpointed(model, path, **options):
    def forward(module, *args, **kwargs):
        return checkpoint(partial(type(module).forward, module), *args, **kwargs, **options)

    module = model.get_submodule(path)
    module.forward = MethodType(forward, module)
    return model


CHECKPOINTS = {
    "bert": ["bert.encoder.layer.0", "bert.encoder.layer.1.intermediate", "bert"],
    "llama": ["model.layers.1.mlp", "model.norm"],
}
OF_CHECKPOINTS = [
    (name, path, use)
    for name, paths in CHECKPOINTS.items()
    for path in paths
    for use in USES
    if use != "audit" or path == "bert"
]


@pytest.mark.parametrize(("name", "path", "use"), OF_CHECKPOINTS)
def test_a_checkpoint_changes_nothing(name, path, use):
    model, inputs = case(name)
    want = USES[use](model, inputs)
    got = USES[use](checkpointed(model, path, use_reentrant=False), inputs)
    assert_alike(got, want, rtol=1e-12)


@pytest.mark.parametrize("method", BY_RULES)
def test_a_reentrant_checkpoint_is_refused_by_name(batch, method):
    model = cases.tiny_bert()
    checkpointed(model, "bert.encoder.layer.1.intermediate", use_reentrant=True)
    message = refused(UnassignedOperation, model, batch, method)
    contains(message, "CheckpointFunctionBackward", "pass use_reentrant=False")


def test_inside_a_block_of_propagation_a_checkpoint_changes_nothing():
    model, inputs = cases.family("llama")
    found = []
    for each in (model, checkpointed(copy.deepcopy(model), "model.layers.0", use_reentrant=False)):
        x = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        with propagation(each):
            logits = each(inputs_embeds=x, attention_mask=inputs["attention_mask"]).logits
            found += torch.autograd.grad(logits[0, 1], x)
    assert torch.equal(*found)


# Modules around a model.


def test_a_model_inside_data_parallel_is_refused_with_what_to_pass(batch):
    model = cases.tiny_bert()
    with pytest.raises(ValueError, match=r"model is a DataParallel; pass model\.module"):
        attribute(nn.DataParallel(model), batch)
    with pytest.raises(ValueError, match=r"model is a DataParallel; pass model\.module"):
        propagation(nn.DataParallel(model))

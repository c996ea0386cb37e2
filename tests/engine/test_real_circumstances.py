"""Models as users have them: with offloaded weights, adapters, checkpoints, wrappers."""

import copy
from functools import partial, update_wrapper
from types import MethodType

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import BloomConfig, BloomForSequenceClassification

from axioms.composites import UnassignedOperation
from numeric import propagation
from tests.support import cases
from tests.support.traces import contains, refused
from tests.support.uses import BY_RULES, USES, assert_alike, case, put

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
OF_TEXTS = ("integrated-gradients", "loo", "mask-relevance", "budgeted-loo", "atman", "shapley")
OFFLOADS["by hand"] = lambda model, _: offload(model)


@pytest.mark.parametrize("way", OFFLOADS)
@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_weights_that_are_fetched_when_they_are_used_change_nothing(name, way, tmp_path):
    model, inputs = (cases.family if name == "vit" else case)(name)
    texts_only = OF_TEXTS if name == "vit" else ()
    offloaded = OFFLOADS[way](copy.deepcopy(model), tmp_path)
    on_meta = {path: x.device for path, x in offloaded.named_parameters()}
    for use in USES:
        if use not in texts_only and use != "audit":
            assert_alike(USES[use](offloaded, inputs), USES[use](model, inputs), rtol=1e-12)
    assert {path: x.device for path, x in offloaded.named_parameters()} == on_meta


# Adapters: a linear map and another beside it have the relevance of their sum.


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


@pytest.mark.filterwarnings("ignore")  # peft uses deprecated parts of Transformers
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


# Checkpoints: a computation that runs again on the way back is not under the rules.


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


@pytest.mark.parametrize("use", [*BY_RULES, "finite epsilon", "audit"])
def test_a_function_whose_gradient_is_its_authors_is_explained_as_the_function(use):
    """Bloom computes GELU in a torch.autograd.Function."""
    sizes = dict(vocab_size=11, hidden_size=16, n_layer=2, n_head=2, initializer_range=0.5)
    torch.manual_seed(0)
    model = BloomForSequenceClassification(BloomConfig(**sizes)).double().eval()
    inputs = {"input_ids": torch.tensor([[2, 7, 1, 5]]), "attention_mask": torch.ones(1, 4).long()}
    got = USES[use](model, inputs)
    for layer in range(2):
        put(model, f"transformer.h.{layer}.mlp.gelu_impl", lambda _: nn.GELU("tanh"))
    assert_alike(got, USES[use](model, inputs), rtol=1e-6)  # Bloom rounds its constants

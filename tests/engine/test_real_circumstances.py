"""Models as users have them: with offloaded weights, adapters, checkpoints, wrappers."""

import copy
from functools import partial
from inspect import signature
from types import MethodType

import accelerate
import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import BloomConfig, BloomForSequenceClassification

from axioms.composites import UnassignedOperation
from numeric import propagation
from numeric.models.identity import is_stock
from numeric.models.patches import twin
from numeric.models.places import numbered_layers
from tests.support import cases
from tests.support.traces import contains, refused
from tests.support.user_code import LoRA
from tests.support.uses import BY_RULES, USES, assert_alike, case, put

# accelerate: weights are fetched before a module runs, and dropped behind it.

OF_TEXTS = ("integrated-gradients", "loo", "mask-relevance", "budgeted-loo", "atman", "shapley")


def one_hook(model, _folder):
    add_hook_to_module(model.get_submodule(numbered_layers(model)[0]), ModelHook())
    return model


OFFLOADS = {
    "cpu": lambda model, _: accelerate.cpu_offload(model, execution_device="cpu"),
    "disk": lambda model, to: accelerate.disk_offload(model, to, execution_device="cpu"),
    "map": lambda model, _: accelerate.dispatch_model(model, {"": "cpu"}, force_hooks=True),
    "one hook": one_hook,
}


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_weights_that_are_fetched_when_they_are_used_change_nothing(name, tmp_path):
    model, inputs = (cases.family if name == "vit" else case)(name)
    assert name != "bert" or is_stock(model)
    left_out = {"audit", *(OF_TEXTS if name == "vit" else ())}
    want = {use: USES[use](model, inputs) for use in USES if use not in left_out}
    for offload in OFFLOADS.values():
        offloaded = offload(copy.deepcopy(model), tmp_path)
        assert not is_stock(offloaded)
        on_meta = {path: x.device for path, x in offloaded.named_parameters()}
        for use, right in want.items():
            assert_alike(USES[use](offloaded, inputs), right, rtol=1e-12)
        assert {path: x.device for path, x in offloaded.named_parameters()} == on_meta


def test_a_twin_of_an_offloaded_model_says_what_its_forward_takes(tmp_path):
    model, _ = case("llama")
    want = signature(model.forward).parameters
    offloaded = accelerate.dispatch_model(copy.deepcopy(model), {"": "cpu"}, force_hooks=True)
    assert signature(twin(offloaded).forward).parameters.keys() == want.keys()


def test_activations_in_whole_numbers_are_refused():
    def rounded(_module, _inputs, out):
        return (out * 16).round().clamp(-128, 127).to(torch.int8).to(out.dtype) / 16

    model, inputs = case("llama")
    model.model.layers[0].mlp.register_forward_hook(rounded)
    assert "a cast to integers" in refused(UnassignedOperation, model, inputs)


# Adapters: a linear map and another beside it have the relevance of their sum.


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
OF_CHECKPOINTS = [(x, use) for x in CHECKPOINTS for use in USES if (x, use) != ("llama", "audit")]


@pytest.mark.parametrize(("name", "use"), OF_CHECKPOINTS)
def test_a_checkpoint_changes_nothing(name, use):
    model, inputs = case(name)
    want = USES[use](model, inputs)
    for path in CHECKPOINTS[name] if use != "audit" else ["bert"]:
        again = checkpointed(copy.deepcopy(model), path, use_reentrant=False)
        assert_alike(USES[use](again, inputs), want, rtol=1e-12)


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

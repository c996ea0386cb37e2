"""Changes that users make to a model before they explain it, by name."""

import copy
from functools import partial
from types import MethodType

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize
from transformers.cache_utils import DynamicLayer
from transformers.integrations import sdpa_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert import modeling_bert
from transformers.models.llama import modeling_llama

from tests.support import user_code as own
from tests.support.uses import case, put

LAYER = {"bert": "bert.encoder.layer.1", "llama": "model.layers.0"}
MLP = {"bert": "bert.encoder.layer.0.intermediate", "llama": "model.layers.0.mlp"}
ATTENTION = {"bert": "bert.encoder.layer.0.attention", "llama": "model.layers.1.self_attn"}
LINEAR = {"bert": "bert.encoder.layer.0.output.dense", "llama": "model.layers.0.mlp.down_proj"}
SCORES = {"bert": "bert.encoder.layer.0.attention.self", "llama": ATTENTION["llama"]}
ACTIVATION = {
    "bert": "bert.encoder.layer.0.intermediate.intermediate_act_fn",
    "llama": "model.layers.0.mlp.act_fn",
}
POOLER = {"bert": "bert.pooler"}
HEAD = {"bert": "classifier", "llama": "score"}
STACK = {"bert": "bert.encoder", "llama": "model"}


def at(places, alter):
    return lambda model, name, patch: alter(model.get_submodule(places[name]))


def swap(places, make):
    return lambda model, name, patch: put(model, places[name], make)


def attribute(places, **values):
    return at(places, lambda module: [setattr(module, key, x) for key, x in values.items()])


def patched(owner, name, change=own.mixing):
    return lambda model, _, patch: patch.setattr(owner, name, change(getattr(owner, name)))


def without_rotation(_rotate):
    return lambda q, k, *_args, **_options: (q, own.mixed(k.transpose(1, 2)).transpose(1, 2))


def layers(order):
    def change(model, name, patch):
        stack = model.get_submodule(STACK[name])
        path = "layer" if name == "bert" else "layers"
        old = getattr(stack, path)
        setattr(stack, path, nn.ModuleList([old[n] for n in order]))

    return change


def parametrized(module):
    parametrize.register_parametrization(module, "weight", own.Scaled())


def bound_by(bind):
    """Replaces the forward of a module by a function that ``bind`` gives the module."""
    new = lambda self, *args, **kwargs: own.first_mixed(type(self).forward(self, *args, **kwargs))
    return lambda module: setattr(module, "forward", bind(new, module))


nothing = lambda _: nn.Identity()
hook = lambda module: module.register_forward_hook(lambda _m, _args, out: own.first_mixed(out))
pre_hook = lambda module: module.register_forward_pre_hook(lambda _m, args: (own.mixed(args[0]),))


def by_function(module):
    module.forward = own.mixing(module.forward)


def by_call(module):
    """Replaces the call of a module; its forward stays."""
    new = lambda *args, **kwargs: own.first_mixed(type(module).forward(module, *args, **kwargs))
    vars(module)["_call_impl"] = new


def positions_that_repeat(model, name, patch):
    model.bert.embeddings.position_ids.clamp_(max=4)


def positions_in_int32(model, name, patch):
    table = model.bert.embeddings
    table.position_ids = (table.position_ids // 2 * 2).int()


def by_other_method(model, name, patch):
    layer = model.bert.encoder.layer[1]
    new = lambda self, x: own.mixed(type(self).feed_forward_chunk(self, x))
    layer.feed_forward_chunk = MethodType(new, layer)


def other_attention(model, name, patch):
    patch.setitem(
        ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", own.mixing(ALL_ATTENTION_FUNCTIONS["sdpa"])
    )


def other_cache(model, name, patch):
    old = DynamicLayer.update

    def update(self, *given, **options):
        keys, values = old(self, *given, **options)
        return keys, own.mixed(values)

    patch.setattr(DynamicLayer, "update", update)


def layers_under_other_names(model, name, patch):
    """A list of layers runs them in the order of its table, whatever their names are."""
    table = model.bert.encoder.layer._modules
    table["0"] = table.pop("0")


def everywhere(model, name, patch):
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, _, out: own.mixed(out) if isinstance(module, nn.LayerNorm) else None
    )
    patch.setattr(model, "undo", hook.remove, raising=False)  # see ``changed``


def a_table_of_more_positions(model, name, patch):
    old = model.bert.embeddings.position_embeddings
    new = nn.Embedding(32, old.embedding_dim, dtype=old.weight.dtype)
    with torch.no_grad():
        new.weight[: len(old.weight)] = old.weight
    model.bert.embeddings.position_embeddings = new


BOTH, BERT, LLAMA = ("bert", "llama"), ("bert",), ("llama",)
CHANGES = {
    # modules
    "a module around another": (BOTH, swap(MLP, own.Mixer)),
    "a module around attention": (BOTH, swap(ATTENTION, own.Mixer)),
    "LoRA": (BOTH, swap(LINEAR, own.LoRA)),
    "merged LoRA": (BOTH, at(LINEAR, lambda x: own.LoRA(x).merged())),
    "a head of two layers": (
        BOTH, swap(HEAD, lambda x: nn.Sequential(own.Doubled(), nn.GELU(), x)),
    ),
    "a mean for a pooler": (
        BERT, swap(POOLER, lambda _: nn.Sequential(nn.AdaptiveAvgPool2d((1, 16)), nn.Flatten(1))),
    ),
    "the last token for a pooler": (BERT, swap(POOLER, lambda _: own.LastToken())),
    "a norm that is gone": (BERT, swap({"bert": "bert.embeddings.LayerNorm"}, nothing)),
    "a dropout that is gone": (BERT, swap({"bert": "bert.embeddings.dropout"}, nothing)),
    "an activation": (BOTH, swap(ACTIVATION, lambda _: nn.Tanh())),
    "more positions": (BERT, a_table_of_more_positions),
    "fewer layers": (BOTH, layers([0])),
    "a layer twice": (BOTH, layers([0, 1, 0])),
    "layers the other way round": (BERT, layers([1, 0])),
    "layers in another order of their table": (BERT, layers_under_other_names),
    # classes
    "a subclass of the model": (BERT, attribute({"bert": ""}, __class__=own.Steep)),
    "a subclass of attention": (
        BERT, attribute({"bert": "bert.encoder.layer.1.attention.self"}, __class__=own.Biased),
    ),
    "a parametrization": (BOTH, at(LINEAR, parametrized)),
    # functions of instances
    "a method for a forward": (BOTH, at(MLP, bound_by(MethodType))),
    "a partial for a forward": (BOTH, at(MLP, bound_by(partial))),
    "a function for a forward": (BOTH, at(MLP, by_function)),
    "a method for another method": (BERT, by_other_method),
    # hooks
    "a hook": (BOTH, at(LAYER, hook)),
    "a pre-hook": (BOTH, at(MLP, pre_hook)),
    "a hook of all modules": (BERT, everywhere),
    "a call of a module": (BOTH, at(MLP, by_call)),
    # attributes
    "positions that repeat": (BERT, positions_that_repeat),
    "positions of another type": (BERT, positions_in_int32),
    "no positions": (BERT, lambda model, *_: model.bert.embeddings.position_ids.zero_()),
    "a scale of attention": (BOTH, attribute(SCORES, scaling=0.9)),
    "chunks of the MLP": (BERT, attribute({"bert": LAYER["bert"]}, chunk_size_feed_forward=1)),
    # functions of classes and files
    "a forward of a class, of BERT": (BERT, patched(modeling_bert.BertIntermediate, "forward")),
    "a forward of a class, of LLaMA": (LLAMA, patched(modeling_llama.LlamaMLP, "forward")),
    "a function without a file": (BERT,
        patched(modeling_bert.BertIntermediate, "forward", own.typed_in)),
    "an object for a function": (BERT,
        patched(modeling_bert.BertIntermediate, "forward", own.CallableObject)),
    "a descriptor": (BERT, patched(modeling_bert.BertIntermediate, "forward", own.Descriptor)),
    "a first column": (LLAMA, patched(torch, "rsqrt", own.in_column(0))),
    "a column of a method of tensors": (LLAMA, patched(torch.Tensor, "mean", own.in_column(2))),
    "a column of an integration": (LLAMA, patched(sdpa_attention, "repeat_kv", own.in_column(1))),
    "a partial method": (BERT, patched(modeling_bert.BertIntermediate, "forward", own.of_a_method)),
    "a forward of torch": (BOTH, patched(nn.Linear, "forward")),
    "a function of a file": (LLAMA,
        patched(modeling_llama, "apply_rotary_pos_emb", without_rotation)),
    "a function of torch": (BERT, patched(functional, "layer_norm")),
    "attention of a registered name": (BOTH, other_attention),
    "a method of the cache": (LLAMA, other_cache),
}  # fmt: skip
"""Name -> families, and a function (model, family, monkeypatch) that changes the model in place."""
CASES = [(change, name) for change, (names, _) in CHANGES.items() for name in names]


def changed(change, name, patch):
    """Returns a changed model in float64, and a batch."""
    model, inputs = case(name)  # given embeddings, as in loops, LLaMA reads the last column
    CHANGES[change][1](model, name, patch)
    return model.eval(), inputs


def with_hooks_that_look(model):
    model = copy.deepcopy(model)
    for module in model.modules():
        module.register_forward_hook(lambda *_: None)
        module.register_forward_pre_hook(lambda *_: None)
    return model

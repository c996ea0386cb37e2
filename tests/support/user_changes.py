"""Changes that users make to a model before they explain it, by name."""

import copy
from functools import partial, partialmethod, wraps
from types import MethodType

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize
from transformers import BertForSequenceClassification
from transformers.integrations import sdpa_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.bert import modeling_bert
from transformers.models.llama import modeling_llama

from tests.support import cases
from tests.support.uses import put

LAYER = {"bert": "bert.encoder.layer.1", "llama": "model.layers.0"}
MLP = {"bert": "bert.encoder.layer.0.intermediate", "llama": "model.layers.0.mlp"}
ATTENTION = {"bert": "bert.encoder.layer.0.attention", "llama": "model.layers.1.self_attn"}
LINEAR = {"bert": "bert.encoder.layer.0.output.dense", "llama": "model.layers.0.mlp.down_proj"}
SCORES = {"bert": "bert.encoder.layer.0.attention.self", "llama": ATTENTION["llama"]}
ACTIVATION = {
    "bert": "bert.encoder.layer.0.intermediate.intermediate_act_fn",
    "llama": "model.layers.0.mlp.act_fn",
}
HEAD = {"bert": "classifier", "llama": "score"}
STACK = {"bert": "bert.encoder", "llama": "model"}


def mixed(x):
    """Mixes all tokens, whatever the mask is."""
    return x + 0.3 * x.mean(dim=1, keepdim=True)


def first_mixed(out):
    return (mixed(out[0]), *out[1:]) if isinstance(out, tuple) else mixed(out)


def mixing(forward):
    """Wraps a forward as the decorator of a user does."""

    @wraps(forward)
    def changed(*args, **kwargs):
        return first_mixed(forward(*args, **kwargs))

    return changed


class Mixer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return first_mixed(self.inner(*args, **kwargs))


class LoRA(nn.Module):
    def __init__(self, inner):
        super().__init__()
        drawn = torch.Generator().manual_seed(3)
        sizes = (inner.in_features, 2), (2, inner.out_features)
        self.inner = inner
        self.down, self.up = (
            nn.Parameter(torch.randn(*x, generator=drawn, dtype=torch.float64) / 3) for x in sizes
        )

    def forward(self, x):
        return self.inner(x) + x @ self.down @ self.up


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


class Steep(BertForSequenceClassification):
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits + out.logits.mean(dim=1, keepdim=True)
        return out


class Biased(modeling_bert.BertSelfAttention):
    """Attention with a slope over columns, as ALiBi has."""

    def forward(self, x, attention_mask=None, **kwargs):
        if attention_mask is not None and attention_mask.is_floating_point():
            attention_mask = attention_mask + torch.linspace(0, 1, x.shape[1], dtype=x.dtype)
        return mixed(x), super().forward(x, attention_mask, **kwargs)[1]


def at(places, alter):
    return lambda model, name, patch: alter(model.get_submodule(places[name]))


def swap(places, make):
    return lambda model, name, patch: put(model, places[name], make)


def attribute(places, **values):
    return at(places, lambda module: [setattr(module, key, x) for key, x in values.items()])


def patched(owner, name, change=mixing):
    return lambda model, _, patch: patch.setattr(owner, name, change(getattr(owner, name)))


def without_rotation(_rotate):
    return lambda q, k, *_args, **_options: (q, mixed(k.transpose(1, 2)).transpose(1, 2))


def nothing(_module):
    return nn.Identity()


def layers(order):
    def change(model, name, patch):
        stack = model.get_submodule(STACK[name])
        path = "layer" if name == "bert" else "layers"
        own = getattr(stack, path)
        setattr(stack, path, nn.ModuleList([own[n] for n in order]))

    return change


def merge(module):
    lora = LoRA(module)
    with torch.no_grad():
        module.weight += (lora.down @ lora.up).T


def parametrized(module):
    class Scaled(nn.Module):
        def forward(self, weight):
            return weight * torch.linspace(0.5, 1.5, weight.shape[1], dtype=weight.dtype)

    parametrize.register_parametrization(module, "weight", Scaled())


def by_method(module):
    own = lambda self, *args, **kwargs: first_mixed(type(self).forward(self, *args, **kwargs))
    module.forward = MethodType(own, module)


def by_partial(module):
    own = lambda self, *args, **kwargs: first_mixed(type(self).forward(self, *args, **kwargs))
    module.forward = partial(own, module)


def by_function(module):
    module.forward = mixing(module.forward)


def by_hook(module):
    module.register_forward_hook(lambda _module, _args, out: first_mixed(out))


def by_pre_hook(module):
    module.register_forward_pre_hook(lambda _module, args: (mixed(args[0]),))


def by_call(module):
    """Replaces the call of a module; its forward stays."""
    own = lambda *args, **kwargs: first_mixed(type(module).forward(module, *args, **kwargs))
    vars(module)["_call_impl"] = own


class CallableObject:
    """A callable object that replaces a function of a class."""

    def __init__(self, forward):
        self.forward = forward

    def __get__(self, module, _cls):
        return partial(self, module)

    def __call__(self, *args, **kwargs):
        return first_mixed(self.forward(*args, **kwargs))


class Descriptor:
    """An object without a call that replaces a function of a class."""

    def __init__(self, forward):
        self.forward = forward

    def __get__(self, module, _cls):
        return lambda *args, **kwargs: first_mixed(self.forward(module, *args, **kwargs))


def in_column(number):
    """Wraps a function so that it changes one column alone."""

    def wrapped(function):
        @wraps(function)
        def changed(*args, **kwargs):
            out = function(*args, **kwargs)
            axis = out.ndim - 2
            if axis < 1:
                return out
            columns = torch.arange(out.shape[axis])[:, None] == number
            return out * torch.where(columns, 1.7, 1.0).to(out.dtype)

        return changed

    return wrapped


def typed_in(forward):
    """Makes a function as typed into a prompt, whose code has no file."""
    names = {"forward": forward, "first_mixed": first_mixed}
    code = "lambda self, *args, **kwargs: first_mixed(forward(self, *args, **kwargs))"
    return eval(compile(code, "<stdin>", "eval"), names)


def of_a_method(forward):
    return partialmethod(lambda self, *args, **kwargs: first_mixed(forward(self, *args, **kwargs)))


def positions_that_repeat(model, name, patch):
    model.bert.embeddings.position_ids.clamp_(max=4)


def positions_in_int32(model, name, patch):
    table = model.bert.embeddings
    table.position_ids = (table.position_ids // 2 * 2).int()


def by_other_method(model, name, patch):
    layer = model.bert.encoder.layer[1]
    own = lambda self, x: mixed(type(self).feed_forward_chunk(self, x))
    layer.feed_forward_chunk = MethodType(own, layer)


def pooled_by_mean(model, name, patch):
    model.bert.pooler = nn.Sequential(nn.AdaptiveAvgPool2d((1, 16)), nn.Flatten(1))


def last_token_pooled(model, name, patch):
    class Last(nn.Module):
        def forward(self, x):
            return x[:, -1]

    model.bert.pooler = Last()


def other_class(model, name, patch):
    model.__class__ = Steep


def other_attention(model, name, patch):
    patch.setitem(
        ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", mixing(ALL_ATTENTION_FUNCTIONS["sdpa"])
    )


def subclass_of_attention(model, name, patch):
    model.bert.encoder.layer[1].attention.self.__class__ = Biased


def everywhere(model, name, patch):
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, _, out: mixed(out) if isinstance(module, nn.LayerNorm) else None
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
    "a module around another": (BOTH, swap(MLP, Mixer)),
    "a module around attention": (BOTH, swap(ATTENTION, Mixer)),
    "LoRA": (BOTH, swap(LINEAR, LoRA)),
    "merged LoRA": (BOTH, at(LINEAR, merge)),
    "a head of two layers": (BOTH, swap(HEAD, lambda x: nn.Sequential(Doubled(), nn.GELU(), x))),
    "a mean for a pooler": (BERT, pooled_by_mean),
    "the last token for a pooler": (BERT, last_token_pooled),
    "a norm that is gone": (BERT, swap({"bert": "bert.embeddings.LayerNorm"}, nothing)),
    "a dropout that is gone": (BERT, swap({"bert": "bert.embeddings.dropout"}, nothing)),
    "an activation": (BOTH, swap(ACTIVATION, lambda _: nn.Tanh())),
    "more positions": (BERT, a_table_of_more_positions),
    "fewer layers": (BOTH, layers([0])),
    "a layer twice": (BOTH, layers([0, 1, 0])),
    "layers the other way round": (BERT, layers([1, 0])),
    # classes
    "a subclass of the model": (BERT, other_class),
    "a subclass of attention": (BERT, subclass_of_attention),
    "a parametrization": (BOTH, at(LINEAR, parametrized)),
    # functions of instances
    "a method for a forward": (BOTH, at(MLP, by_method)),
    "a partial for a forward": (BOTH, at(MLP, by_partial)),
    "a function for a forward": (BOTH, at(MLP, by_function)),
    "a method for another method": (BERT, by_other_method),
    # hooks
    "a hook": (BOTH, at(LAYER, by_hook)),
    "a pre-hook": (BOTH, at(MLP, by_pre_hook)),
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
        patched(modeling_bert.BertIntermediate, "forward", typed_in)),
    "an object for a function": (BERT,
        patched(modeling_bert.BertIntermediate, "forward", CallableObject)),
    "a descriptor": (BERT, patched(modeling_bert.BertIntermediate, "forward", Descriptor)),
    "a first column": (LLAMA, patched(torch, "rsqrt", in_column(0))),
    "a column of a method of tensors": (LLAMA, patched(torch.Tensor, "mean", in_column(2))),
    "a column of an integration": (LLAMA, patched(sdpa_attention, "repeat_kv", in_column(1))),
    "a partial method": (BERT, patched(modeling_bert.BertIntermediate, "forward", of_a_method)),
    "a forward of torch": (BOTH, patched(nn.Linear, "forward")),
    "a function of a file": (LLAMA,
        patched(modeling_llama, "apply_rotary_pos_emb", without_rotation)),
    "a function of torch": (BERT, patched(functional, "layer_norm")),
    "attention of a registered name": (BOTH, other_attention),
}  # fmt: skip
"""Name -> families, and a function (model, family, monkeypatch) that changes the model in place."""
CASES = [(change, name) for change, (names, _) in CHANGES.items() for name in names]


def changed(change, name, patch):
    """Returns a changed model in float64, and a batch."""
    model, inputs = cases.family(name)
    if name == "llama":  # its Integrated Gradients take no padding on the right
        inputs = {key: x[:, :4] for key, x in inputs.items()}
    CHANGES[change][1](model, name, patch)
    return model.eval(), inputs


def with_hooks_that_look(model):
    model = copy.deepcopy(model)
    for module in model.modules():
        module.register_forward_hook(lambda *_: None)
        module.register_forward_pre_hook(lambda *_: None)
    return model

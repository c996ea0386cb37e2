"""Changes of a call of ``attribute``: of its arguments, of its inputs, of modules of its model."""

import warnings
from operator import methodcaller

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tests.support import cases

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it is deprecated

    @torch.jit.script
    def scripted(x):
        return x * torch.sigmoid(x)


POOLER, LAYER = "bert.pooler.dense", "bert.encoder.layer.{}".format
ACT = ".intermediate.intermediate_act_fn"


def given(*method, **arguments):
    """Other arguments of the call; the first one, if any, is the method."""
    return lambda call: call.update(zip(["method"], method, strict=False), **arguments)


def put(**entries):
    return lambda call: call["inputs"].update(entries)


def entry(key, place, value):
    return lambda call: call["inputs"][key].__setitem__(place, value)


def change_of(key, change):
    return lambda call: call["inputs"].update({key: change(call["inputs"][key])})


def every(change):
    return lambda call: call.update(inputs={k: change(x) for k, x in call["inputs"].items()})


def made(make, *arguments, **options):
    return lambda call: call.update(model=make(*arguments, **options))


def on(act, *paths):
    """Acts on modules of the model."""
    return lambda call: [act(call["model"].get_submodule(path)) for path in paths]


def placed(module, path):
    return lambda call: call["model"].set_submodule(path, module.eval())


class Own(torch.autograd.Function):
    """Code that no torch function shows."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, c):
        return 2 * c


def cumulative(x):
    return torch.cumprod(x, dim=-1)  # a function without a rule


def then(function):
    """Sends the output of a module through a function."""

    def act(module):
        stock = module.forward
        module.forward = lambda x: function(stock(x))

    return act


@torch.no_grad()
def filled(place, value, module):
    module.weight[place] = value


compiled = methodcaller("compile", backend="eager")


@torch.inference_mode()
def inferring():
    return cases.tiny_bert()


def unmasked():
    AttentionInterface.register("without a mask", sdpa_attention_forward)
    return cases.tiny_bert(attn_implementation="without a mask")


def shared(call):
    layers = call["model"].bert.encoder.layer
    layers[1] = layers[0]

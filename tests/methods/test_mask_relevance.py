"""Mask relevance follows its formula, in NumPy and by differences of the masks themselves.

With ``midpoint`` gradients come from a pass with half masks.
"""

import math

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from numeric import attribute
from tests.census.build import CAUSAL, CLASSES, with_inputs
from tests.census.measure import conditions
from tests.support.cases import close

METHOD = "mask-relevance"
ANY = [
    ("deberta-v2", CLASSES), ("roberta", CLASSES), ("mpnet", CLASSES), ("modernbert", CLASSES),
    ("xlnet", CAUSAL), ("gpt2", CAUSAL), ("llama", CAUSAL), ("gemma2", CAUSAL), ("opt", CAUSAL),
    ("gpt_oss", CAUSAL), ("mpt", CAUSAL), ("mixtral", CAUSAL),
]  # fmt: skip
"""Biases of position inside the scores, windows, shared keys, soft caps, sinks, routers."""


def made(name, task):
    with conditions():
        return with_inputs(name, task)


def spelled_out(q, k, v, *, attn_mask=None, scale=None, is_causal=False, softmax, **_):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    z = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(z.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        least = torch.finfo(z.dtype).min
        z = z.masked_fill(~attn_mask, least) if attn_mask.dtype == torch.bool else z + attn_mask
    return softmax(z) @ v


class Watched(TorchFunctionMode):
    """The weights of every attention of a pass, whose fused kernels are spelled out.

    ``step`` times 1 / (1 - A) is added to the score of the key ``column``, in all rows but its own.
    ``held``: the deviations of LayerNorms are constants.
    """

    def __init__(self, tokens, *, column=0, step=0.0, held=False):
        super().__init__()
        self.tokens, self.column, self.step, self.held = tokens, column, step, held
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            return spelled_out(*args, softmax=self._weights, **kwargs)
        if name == "layer_norm" and self.held:
            return held(*args, **kwargs)
        if name != "softmax":
            return func(*args, **kwargs)
        z = args[0] if args else kwargs.pop("input")
        if z.ndim < 3 or z.shape[-1] < self.tokens or z.shape[-2] != self.tokens:
            return func(z, *args[1:], **kwargs)
        return self._weights(z)

    def _weights(self, z):
        if self.step:
            others = 1 - torch.softmax(z, dim=-1)[..., self.column]
            more = torch.where(others > 0, self.step / others, 0)
            more[..., self.column] = 0  # its own row
            z = z.index_add(-1, torch.tensor([self.column]), more[..., None])
        self.found.append(torch.softmax(z, dim=-1))
        return self.found[-1]


def held(x, _shape, weight, bias, eps):
    deviation = (x.var(dim=-1, correction=0, keepdim=True) + eps).sqrt().detach()
    return (x - x.mean(dim=-1, keepdim=True)) / deviation * weight + bias


def read(model, batch, target, *, watched):
    """The explained logits, (batch,)."""
    with conditions(), watched:
        logits = model(**batch).logits
    rows = torch.arange(len(logits))
    if logits.ndim == 3:
        return logits[rows, batch["attention_mask"].sum(dim=1) - 1, target]
    return logits[rows, target]


SINKS, CAPS = ("gpt_oss", CAUSAL), ("gemma2", CAUSAL)


@pytest.mark.parametrize(("name", "task"), [("bert", CLASSES), ("gpt2", CAUSAL), SINKS, CAPS])
def test_it_is_the_derivative_by_what_leaving_a_key_out_does_to_its_rows(name, task):
    """By central differences of the scores of one key in all layers."""
    model, batch = made(name, task)
    with conditions():
        a = attribute(model, batch, METHOD)
    assert a.details == {}
    tokens, step = batch["input_ids"].shape[1], 1e-5  # times 1 / (1 - A) of the steepest row
    want = torch.zeros_like(a.relevance)
    with torch.no_grad():
        for column in range(tokens):
            ends = [
                read(
                    model, batch, a.target,
                    watched=Watched(tokens, column=column, step=sign * step),
                )
                for sign in (1, -1)
            ]  # fmt: skip
            want[:, column] = (ends[0] - ends[1]) / (2 * step)
    close(a.relevance, want * batch["attention_mask"], tolerance=1e-6)


def by_loops(weights, gradient):
    """Relevance of one head: <G_i, v_j> is the gradient of the logit by weight A_ij."""
    total = np.zeros(weights.shape[1])
    for i, (a, effect) in enumerate(zip(weights, gradient, strict=True)):
        for j in range(len(a)):
            if i == j:
                continue
            others = sum(a[k] for k in range(len(a)) if k != j)
            mean = sum(a[k] * effect[k] for k in range(len(a)))
            if others > 0:
                total[j] += a[j] * (effect[j] - mean) / others
    return total


LOOPS = [(*each, "true") for each in [("bert", CLASSES), *ANY]]
LOOPS += [(name, CLASSES, "held") for name in ("bert", "gpt2")]


@pytest.mark.parametrize(("name", "task", "deviations"), LOOPS)
def test_it_is_the_formula_in_loops(name, task, deviations):
    model, batch = made(name, task)
    with conditions():
        a = attribute(model, batch, METHOD, heads=True, deviations=deviations)
    watched = Watched(tokens := batch["input_ids"].shape[1], held=deviations == "held")
    logits = read(model, batch, a.target, watched=watched)
    layers = watched.found
    gradients = torch.autograd.grad(logits.sum(), layers)
    want = [
        by_loops(weights, gradient)
        for weights, gradient in zip(_rows(layers), _rows(gradients), strict=True)
    ]
    want = torch.tensor(np.array(want)).view(len(layers), len(logits), -1, layers[0].shape[-1])
    want = want.transpose(0, 1)[..., :tokens]  # sinks are behind the tokens
    close(a.details["heads"], want, tolerance=1e-9)
    close(a.relevance, want.sum(dim=(1, 2)) * batch["attention_mask"], tolerance=1e-9)


def _rows(layers):
    """Matrices of every layer, text and head, in this order."""
    return [each for x in layers for each in x.detach().flatten(0, -3).numpy()]


# Gradients at half masks


class Halved(Watched):
    """Every ``count``-th token of a text, from the ``first``, has half of its weight elsewhere."""

    def __init__(self, present, *, count=1, first=0):
        super().__init__(present.shape[1])
        chosen = (present.cumsum(dim=1) - 1) % count == first
        others = 1 - torch.eye(self.tokens, dtype=torch.float64)
        self.added = chosen[:, None] * others * math.log(0.5)

    def _weights(self, z):
        scores = z.reshape(len(self.added), -1, *z.shape[-2:]).clone()
        scores[..., : self.tokens] += self.added[:, None]
        self.found.append(torch.softmax(scores.reshape(z.shape), dim=-1))
        return self.found[-1]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("name", "task"), [("bert", CLASSES), *ANY])
def test_weights_are_those_of_the_text_and_gradients_those_of_half_masks(name, task, count):
    model, batch = made(name, task)
    with conditions():
        a = attribute(model, batch, METHOD, midpoint=count)
    present = batch["attention_mask"]
    plain = Watched(present.shape[1])
    read(model, batch, a.target, watched=plain)
    want = torch.zeros_like(a.relevance)
    for first in range(count):
        halved = Halved(present, count=count, first=first)
        logits = read(model, batch, a.target, watched=halved)
        chosen = (present.cumsum(dim=1) - 1) % count == first
        layers = zip(plain.found, torch.autograd.grad(logits.sum(), halved.found), strict=True)
        for weights, gradients in layers:
            by_text = [
                x.detach().reshape(len(want), -1, *x.shape[-2:]) for x in (weights, gradients)
            ]
            for row, heads in enumerate(zip(*by_text, strict=True)):
                for head in zip(*heads, strict=True):
                    part = by_loops(*(x.numpy() for x in head))
                    want[row] += torch.tensor(part)[: want.shape[1]] * chosen[row]
    close(a.relevance, want * present, tolerance=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_change_which_tokens_are_halved_together(side):
    model, batch = made("opt", CAUSAL)  # which counts positions by the mask
    text = batch["input_ids"][:1, :5]
    place = (1, 0) if side == "left" else (0, 1)
    pad = lambda x: torch.nn.functional.pad(x, place)
    padded = {"input_ids": pad(text), "attention_mask": pad(torch.ones_like(text))}
    with conditions():
        alone = attribute(model, {"input_ids": text}, METHOD, midpoint=2)
        a = attribute(model, padded, METHOD, target=alone.target, midpoint=2)
    close(a.relevance[:, padded["attention_mask"][0] == 1], alone.relevance, tolerance=1e-12)


def test_there_are_no_more_passes_than_tokens():
    model, batch = made("bert", CLASSES)
    tokens = batch["input_ids"].shape[1]
    ran = []
    model.register_forward_hook(lambda *_: ran.append(1))
    with conditions():
        each = attribute(model, batch, METHOD, midpoint=tokens)
        count = len(ran)
        more = attribute(model, batch, METHOD, midpoint=tokens + 5)
    assert len(ran) == 2 * count
    close(more.relevance, each.relevance)


def test_a_model_that_attends_elsewhere_at_half_masks_is_refused():
    model, batch = made("bert", CLASSES)
    runs = []

    def twice(module, inputs):
        runs.append(module)
        if len(runs) > 1:
            torch.softmax(inputs[0], dim=-1)

    model.get_submodule("bert.encoder.layer.0").register_forward_pre_hook(twice)
    one = {name: x[:1] for name, x in batch.items()}
    with pytest.raises(ValueError, match="in 3 calls instead of 2; pass midpoint=0"):
        attribute(model, one, METHOD, midpoint=1)

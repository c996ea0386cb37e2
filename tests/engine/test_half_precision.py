"""Relevance in bfloat16 differs from float32 by rounding, no more than a plain gradient does."""

import copy
import random

import pytest
import torch
from torch import nn

from benchmarks.experiments.causes.examples import DRAW, draw
from benchmarks.sources import data, models
from numeric import attribute

TEXTS = 12


def sentences():
    """The embedded classifier and its first sentences."""
    return models.load(), data.load().texts[:TEXTS]


def prompts():
    """The embedded language model and prompts of its language, of all tasks in turn."""
    rng, tasks = random.Random(0), list(DRAW)
    texts = [" ".join(draw(tasks[n % len(tasks)], rng).words) for n in range(TEXTS)]
    return models.load("embedded-lm"), texts


@pytest.fixture(scope="module", params=[sentences, prompts], ids=["classifier", "language model"])
def errors(request):
    """By method: the distance from float32 as a share of the norm, in the median over texts."""
    found, texts = request.param()
    half = copy.deepcopy(found.model)
    for weight in half.parameters():  # as from_pretrained does, which leaves angles alone
        weight.data = weight.data.bfloat16()
    full = copy.deepcopy(half)
    for weight in full.parameters():  # the same numbers
        weight.data = weight.data.float()

    def error(text, method):
        inputs = dict(found.tokenizer(text, return_tensors="pt"))
        want = attribute(full, inputs, method)
        r = attribute(half, inputs, method, want.target).relevance
        return (r.double() - want.relevance.double()).norm() / want.relevance.double().norm()

    methods = ("gradient-x-input", "attnlrp", "cp-lrp")
    return {m: torch.stack([error(text, m) for text in texts]).quantile(0.5) for m in methods}


def test_rules_lose_at_most_twice_what_a_gradient_loses_to_bfloat16(errors):
    """A rule adds one rounded factor at most to an operation on its way back.

    These are twice as many roundings at most, which at worst add up.
    """
    for method in ("attnlrp", "cp-lrp"):
        assert 0 < errors[method] <= 2 * errors["gradient-x-input"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [0.02, 400.0])
@pytest.mark.parametrize("norm", [nn.RMSNorm(16), nn.GroupNorm(2, 16), nn.LayerNorm(16)])
def test_norms_in_half_precision_are_those_of_torch(norm, size, dtype):
    """Their kernels compute in float32, whose ε is the default of RMSNorm."""
    torch.manual_seed(0)
    before, after = nn.Linear(8, 16, bias=False), nn.Linear(16, 1)
    module = nn.Sequential(before, copy.deepcopy(norm), after).to(dtype).eval()
    x = size * torch.randn(3, 8, dtype=dtype)
    a = attribute(module, {"input": x}, of="input", read=lambda out: out[:, 0], epsilon=1e-6)
    want = module(x)[:, 0].double()
    unit = torch.finfo(dtype).eps
    assert (a.logit.double() - want).abs().max() <= 4 * unit * want.abs().max().clamp(min=1)

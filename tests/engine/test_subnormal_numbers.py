"""Relevance does not depend on whether a processor keeps subnormal numbers or takes them for 0.

Some do for one type alone, such as bfloat16, and a program can ask for it.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from axioms.composites import ATTNLRP
from numeric.engine import rules
from numeric.engine.engine import Propagation

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
ACTIVATIONS = {
    "gelu": (functional.gelu, 0.5),
    "gelu, tanh": (partial(functional.gelu, approximate="tanh"), 0.5),
    "silu": (functional.silu, 0.5),
    "tanh": (torch.tanh, 1.0),
    "a small slope": (lambda x: torch.tanh(x) / 8, 0.125),
    "a large slope": (lambda x: torch.tanh(x) * 8, 8.0),
}


def flushed(x):
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, x * 0, x)


def in_flush_mode(compute, *arguments):
    """In a thread of its own, because the mode belongs to a thread and ends with it."""

    def run():
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor keeps subnormal numbers, whatever it is asked")
        return compute(*arguments)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def slopes(f, at_zero, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(rules.identity(f, x, slope_at_zero=at_zero).sum(), x)[0]


PROCESSORS = {
    "keeps them": slopes,
    "flushes outputs": lambda f, at_zero, x: slopes(lambda x: flushed(f(x)), at_zero, x),
    "flushes inputs": lambda f, at_zero, x: slopes(lambda x: f(flushed(x)), at_zero, x),
    "flushes in the division": lambda f, at_zero, x: slopes(
        lambda x: flushed(f(x)), at_zero, flushed(x)
    ),
    "is told to flush": partial(in_flush_mode, slopes),
}


def around_zero(dtype):
    """Zero, and numbers of either sign from the smallest there is to some that are normal."""
    about = torch.finfo(dtype)
    small = [about.tiny * about.eps, about.tiny / 3, about.tiny / 2, about.tiny * (1 - about.eps)]
    sizes = torch.tensor([0.0, *small, *(about.tiny * n for n in (1, 2, 3, 5, 20))], dtype=dtype)
    return torch.cat([sizes, -sizes])


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_slope_of_an_activation_is_its_derivative_where_it_nearly_vanishes(name, processor):
    f, at_zero = ACTIVATIONS[name]
    for dtype in DTYPES:
        x = around_zero(dtype)
        # The curvature of these functions is at most 1, so that their slope changes by |x|.
        within = torch.finfo(dtype).eps * at_zero + x.abs().double()
        away = (PROCESSORS[processor](f, at_zero, x).double() - at_zero).abs()
        assert (away <= within).all(), (dtype, x, away)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_slope_of_relu_is_0_or_1_at_all_numbers_however_small(processor):
    for dtype in DTYPES:
        x = around_zero(dtype)
        slope = PROCESSORS[processor](torch.relu, 0.0, x)
        assert ((slope == 0) | (slope == 1)).all()
        normal = x.abs() >= torch.finfo(dtype).tiny
        assert torch.equal(slope[normal], (x[normal] > 0).to(dtype))


def test_the_mode_of_the_processor_is_over_after_its_thread():
    subnormal = torch.tensor([1e-39])
    assert in_flush_mode(lambda: (subnormal / 2).item()) == 0
    assert (subnormal / 2).item() > 0


@pytest.mark.parametrize("eps", [1e-6, 1e-8, 1e-30])
@pytest.mark.parametrize("rule", [rules.epsilon, rules.bilinear_epsilon])
def test_an_output_of_zero_passes_nothing_on_however_small_the_stabiliser(rule, eps):
    """In float16 the stabiliser itself may be subnormal, or less than any number there is."""

    def passed_on(dtype):
        z = torch.zeros(2, dtype=dtype, requires_grad=True)
        return torch.autograd.grad(rule(z, eps=eps).sum(), z)[0]

    for dtype in DTYPES:
        assert (passed_on(dtype) == 0).all()
        assert (in_flush_mode(passed_on, dtype) == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_slope_of_a_norm_comes_from_its_statistics_and_not_from_small_inputs(dtype):
    layer_norm, rms_norm = (kind(20, eps=1e-5, dtype=dtype) for kind in (nn.LayerNorm, nn.RMSNorm))

    def gradients():
        for norm in (layer_norm, rms_norm):
            x = around_zero(dtype).requires_grad_()
            c = torch.arange(20).to(dtype)
            inside = x.clone()  # relevance comes to results, not to leaves
            with Propagation(norm, ATTNLRP):
                y = norm(inside)
            yield torch.autograd.grad(y, x, c)[0]

    for kept, flush in zip(gradients(), in_flush_mode(list, gradients()), strict=True):
        assert kept.isfinite().all()
        assert torch.equal(kept, flush)


def test_the_slope_is_that_of_float64_at_every_number_of_float16():
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(torch.float16)
    x = x[x.isfinite() & (x.abs() >= torch.finfo(torch.float16).tiny)]
    for f, at_zero in [*ACTIVATIONS.values(), (torch.relu, 0.0)]:
        half, double = (slopes(f, at_zero, x.to(dtype)) for dtype in (torch.float16, torch.float64))
        torch.testing.assert_close(half.double(), double, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("eps", [0.1, 1e-6, 1e-12])
def test_the_stabiliser_keeps_all_digits_of_float64(eps):
    z = torch.tensor([0.0, -0.0, 3.0, -3.0], dtype=torch.float64)
    want = torch.tensor([eps, eps, 3 + eps, -3 - eps], dtype=torch.float64)
    assert torch.equal(rules.stabilize(z, eps), want)

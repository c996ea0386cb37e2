"""The three implementations of every rule agree, entry by entry, at eps = 1/4 to 1e-12."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numeric.fast import rules as fast
from tests.support.agreement import CASES, check

ENTRIES = st.integers(-3, 3)


@pytest.mark.parametrize("name", CASES)
def test_the_three_texts_of_a_rule_agree(name):
    case = CASES[name]
    nonzero = [ENTRIES.filter(bool) if case.nonzero else ENTRIES]
    elements = nonzero + [ENTRIES] * (len(case.shapes) - 1)
    arrays = [hnp.arrays(float, s, elements=e) for s, e in zip(case.shapes, elements, strict=True)]

    @settings(deadline=None, max_examples=25)
    @given(arrays=st.tuples(*arrays))
    def agree(arrays):
        *operands, c = arrays
        check(case, operands, c)

    agree()


ACTIVATIONS = {
    "gelu": (torch.nn.functional.gelu, 0.5),
    "tanh": (torch.tanh, 1.0),
    "relu": (torch.relu, 0.0),
    "silu": (torch.nn.functional.silu, 0.5),
}


def test_the_slope_is_that_of_float64_at_every_number_of_float16():
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(torch.float16)
    x = x[x.isfinite() & (x.abs() >= torch.finfo(torch.float16).tiny)]
    for f, at_zero in ACTIVATIONS.values():
        half, double = (slopes(f, at_zero, x.to(dtype)) for dtype in (torch.float16, torch.float64))
        torch.testing.assert_close(half.double(), double, rtol=2e-3, atol=2e-3)


def slopes(f, at_zero, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(fast.identity(f, x, slope_at_zero=at_zero).sum(), x)[0]


@pytest.mark.parametrize("eps", [0.1, 1e-6, 1e-12])
def test_the_stabiliser_keeps_all_digits_of_float64(eps):
    z = torch.tensor([0.0, -0.0, 3.0, -3.0], dtype=torch.float64)
    want = torch.tensor([eps, eps, 3 + eps, -3 - eps], dtype=torch.float64)
    assert torch.equal(fast.stabilize(z, eps), want)

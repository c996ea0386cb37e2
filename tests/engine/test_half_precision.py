"""Relevance in bfloat16 is that of float32 but for rounding, no more than a plain gradient's."""

import numpy as np
import pytest
import torch

from benchmarks.experiments.half_precision import differences, measured, prompts, rounded, sentences
from tests.support import cases


@pytest.fixture(scope="module", params=[sentences, prompts], ids=["classifier", "language model"])
def errors(request):
    return {method: values[:, 0] for method, values in measured(*request.param(12)).items()}


def test_rules_lose_at_most_twice_what_a_gradient_loses_to_bfloat16(errors):
    """A rule adds one rounded factor at most to an operation on its way back.

    These are twice as many roundings at most, which at worst add up.
    """
    gradient = np.median(errors["gradient-x-input"])
    for method in ("attnlrp", "cp-lrp"):
        assert 0 < np.median(errors[method]) <= 2 * gradient


def test_differences_are_those_of_the_formulas():
    want = torch.tensor([3.0, -4.0, 0.0, 0.0, 0.0, 0.0])
    assert differences(1.5 * want, want) == pytest.approx((0.5, 1.0, 1.0))
    other = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert differences(-want, want)[:2] == pytest.approx((2.0, -1.0))
    assert differences(other, other.roll(1))[2] == pytest.approx(0.8)


def test_both_formats_have_the_same_weights():
    model = cases.tiny_bert().float()
    half, full = rounded(model, torch.bfloat16), rounded(model, torch.float32)
    for a, b, c in zip(half.parameters(), full.parameters(), model.parameters(), strict=True):
        assert (a.dtype, b.dtype, c.dtype) == (torch.bfloat16, torch.float32, torch.float32)
        assert torch.equal(a.float(), b)
    assert not all(map(torch.equal, full.parameters(), model.parameters()))

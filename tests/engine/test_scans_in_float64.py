"""A model with a scan, which casts to float32, can be explained in float64 as it stands."""

import pytest

from numeric import attribute
from tests.census.build import CAUSAL, float64, with_inputs

ROUNDING = 1e-6  # of the largest relevance: a few float32 roundings, of rotations for example


@pytest.mark.parametrize("name", ["kimi_linear", "qwen3_next", "rwkv"])
def test_what_a_scan_selects_by_stays_in_float64_beside_its_values(name):
    with float64():
        model, batch = with_inputs(name, CAUSAL)
        want = attribute(model, batch, "cp-lrp").relevance
    found = attribute(model, batch, "cp-lrp").relevance
    assert (found - want).abs().max() <= ROUNDING * want.abs().max()

"""An interrupt at any line of ``numeric`` leaves the model as it was, and usable."""

import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import numeric
from numeric import attribute, compiled
from numeric.attribution import METHODS
from tests.traces import assert_same, snapshot

FOLDER = str(Path(numeric.__file__).parent)
POINTS = 12  # of each use; all of them when this is large


def in_a_block(model, batch):
    with compiled(model, disable=True) as explain:
        return explain(batch)


USES = {method: partial(attribute, method=method) for method in METHODS}
USES |= {
    "finite epsilon": partial(attribute, epsilon=0.1),
    "sweep": lambda model, batch: numeric.sweep(model, batch, [numeric.attribution.ATTNLRP]),
    "compiled": in_a_block,
}


class Interrupt(BaseException):
    pass


def lines(call, *, stop_at=None):
    """How many lines of ``numeric`` the call runs, or an Interrupt at one of them."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "line":
            count += 1
            if count == stop_at:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", USES)
def test_an_interrupt_at_any_line_leaves_no_trace(tiny, batch, name):
    use = partial(USES[name], tiny, batch)
    want, before = use(), snapshot(tiny)
    count = lines(use)
    for point in range(1, count + 1, max(1, count // POINTS)):
        with pytest.raises(Interrupt):
            lines(use, stop_at=point)
        assert_same(before, snapshot(tiny))
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    assert torch.equal(use().relevance, want.relevance)

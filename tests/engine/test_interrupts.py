"""An interrupt at any line of ``numeric`` leaves the model as it was, and usable."""

import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

import numeric
from lrp_axioms import attribute
from lrp_axioms.numeric.replay import calls, tape
from tests.support import uses
from tests.support.traces import assert_same, snapshot

FOLDER = str(Path(numeric.__file__).parent)
POINTS = 12  # of each use; all of them when this is large


USES = {name: use for name, use in uses.USES.items() if name != "audit"}


class Interrupt(BaseException):
    pass


def lines(call, *, stop_at=None):
    """The lines of ``numeric`` that the call runs, or an Interrupt where it first runs one."""
    seen = {}

    def trace(frame, event, _argument):
        place = frame.f_code.co_filename, frame.f_lineno
        if not place[0].startswith(FOLDER):
            return None
        if event == "line":
            seen[place] = True
            if place == stop_at:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return list(seen)


def test_an_interrupted_record_records_no_more(tiny, batch, monkeypatch):
    monkeypatch.setattr(calls, "AFTER", 0)

    def recorded(**options):
        calls.MEMORIES.clear()
        return lines(partial(attribute, tiny, batch), **options)

    found = [x for x in recorded() if x[0] in (calls.__file__, tape.__file__)]
    assert len(found) > 100
    for place in found:
        with pytest.raises(Interrupt):
            recorded(stop_at=place)
        assert not torch._C._len_torch_dispatch_stack(), place
        assert not torch._C._len_torch_function_stack(), place
        assert not is_in_torch_dispatch_mode(), place


@pytest.mark.parametrize("name", USES)
def test_an_interrupt_at_any_line_leaves_no_trace(tiny, batch, name):
    use = partial(USES[name], tiny, batch)
    want, before = use(), snapshot(tiny)
    found = lines(use)
    for place in found[:: max(1, len(found) // POINTS)]:
        with pytest.raises(Interrupt):
            lines(use, stop_at=place)
        assert_same(before, snapshot(tiny))
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
    assert torch.equal(use(), want)

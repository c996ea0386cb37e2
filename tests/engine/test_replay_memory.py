"""Tapes and counts of calls that are of no use are dropped, and nothing else is."""

import pytest
import torch
from torch.nn.modules.module import register_module_full_backward_hook

from lrp_axioms import attribute
from lrp_axioms.numeric.replay import calls
from tests.engine.test_replay import proved, warmed
from tests.support import cases


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Records at the second call of a shape, so that the third proves and the fourth replays."""
    monkeypatch.setattr(calls, "AFTER", 1)


def test_a_hook_of_all_modules_that_is_gone_does_not_matter():
    register_module_full_backward_hook(lambda *_: None).remove()
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    warmed(model, inputs)
    assert proved(model)


def test_a_tape_that_gives_no_result_is_dropped():
    model, inputs = cases.tiny_bert(), cases.tiny_batch()
    warmed(model, inputs)
    (tape,) = proved(model)
    ran = []
    tape.play = lambda *_: ran.append(1)
    for _ in range(2 * calls.MOST_FAILURES):
        attribute(model, inputs)
    assert len(ran) == calls.MOST_FAILURES


def test_shapes_of_calls_are_forgotten(monkeypatch):
    monkeypatch.setattr(calls, "SHAPES", 2)
    model = cases.tiny_bert()
    for size in range(2, 7):
        attribute(model, {"input_ids": torch.full((1, size), 5)})
        assert len(calls.MEMORIES[model].calls) <= 3

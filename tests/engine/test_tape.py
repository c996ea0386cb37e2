"""A tape knows every operation that its outputs depend on, and every value that code looked at."""

import pytest
import torch

from lrp_axioms.numeric.replay.tape import Recorder

FOREIGN = {
    "a tensor from elsewhere": lambda x, other: x + other,
    "values in NumPy": lambda x, other: x * float(x.numpy()[0]),
    "storage": lambda x, other: x * x.untyped_storage().nbytes(),
}


@pytest.mark.parametrize("why", FOREIGN)
def test_operations_that_are_not_all_known_make_no_tape(why):
    x, other = torch.ones(3), torch.ones(3)
    with Recorder([x], []) as recorder:
        out = FOREIGN[why](x, other)
    assert recorder.failed
    assert recorder.tape([out]) is None


LOOKS = {
    "a number": lambda x: x * 2 if x.sum() > 3 else x,
    "a list": lambda x: x * len([y for y in x.tolist() if y > 1]),
    "a shape": lambda x: x * len(x[x > 1]),
    "equality": lambda x: x if torch.equal(x, x.flip(0)) else -x,
    "distinct numbers": lambda x: x * x.unique().numel(),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_tape_compares_what_code_looked_at(look):
    compute = LOOKS[look]
    one, other = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([1.0, 2.0, 3.0])
    x = one.clone()
    with Recorder([x], []) as recorder:
        out = compute(x)
    play = recorder.tape([out])
    assert torch.equal(play(one)[0], compute(one))
    assert play(other) is None

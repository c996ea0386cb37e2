"""A tape knows every operation that its outputs depend on, and every value that code looked at."""

import copy
from collections import deque

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from lrp_axioms.numeric.replay.tape import Recorder

FOREIGN = {
    "a tensor from elsewhere": lambda x, other: x + other,
    "values in NumPy": lambda x, other: x * float(x.numpy()[0]),
    "a list of values": lambda x, other: x * torch.tensor([x[0], x[1], x[2]]),
    "a list of lists": lambda x, other: x * x.new_tensor([[x[0], x[1], x[2]]]),
    "an old constructor": lambda x, other: x * torch.Tensor([x[0], x[1], x[2]]),
    "a deep copy": lambda x, other: x * copy.deepcopy(x),
    "storage": lambda x, other: x * x.untyped_storage().nbytes(),
    "a queue of values": lambda x, other: x * torch.tensor(deque([x[0], x[1], x[2]])),
    "a text": lambda x, other: x * len(str(x)),
    "a text of a format": lambda x, other: x * len(f"{x}"),
    "places to split at": lambda x, other: x * len(x.tensor_split(x.long())[0]),
    "lengths": lambda x, other: pack_padded_sequence(x[:, None, None], x[:1].long()).data.sum(),
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


def test_a_tape_makes_numbers_anew_that_code_writes_over():
    def compute(x):
        return x + torch.tensor([0.0, 0.0, 0.0]).masked_fill_(x > 0, 1)

    one, other = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 3.0])
    with Recorder([one], []) as recorder:
        out = compute(one)
    play = recorder.tape([out])
    for x in (one, other, one):
        assert torch.equal(play(x)[0], compute(x))

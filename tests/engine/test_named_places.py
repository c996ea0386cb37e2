"""One of several tensors that a module reads or returns is named by its place."""

import pytest
import torch
from torch import nn

from numeric import attribute, audit
from tests.support.cases import close
from tests.support.own_modules import make, read


class Several(nn.Module):
    """Reads several tensors, and has modules that return several."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.attend = nn.MultiheadAttention(3, 1, bias=False, batch_first=True)
        self.split = Split()
        self.head = nn.Linear(3, 2, bias=False)

    def forward(self, *numbers):
        x, (last, _) = self.lstm(numbers[0] + numbers[1])
        parts = self.split(self.attend(x, x, x)[0])
        return self.head(parts["part"].sum(dim=1) + last[0])


class Split(nn.Module):
    def forward(self, x):
        return {"part": x, "number": 2}


@pytest.mark.parametrize("of", ["lstm[0]", "attend[0]", "split['part']"])
def test_one_of_several_tensors_is_named_by_its_place(of):
    module, inputs = make(Several).double(), (torch.randn(1, 5, 4).double(),) * 2
    a = attribute(module, inputs, "cp-lrp", of=of, read=read, axes=-1)
    b = audit(module, inputs, "cp-lrp", of=of, read=read, axes=-1)
    _, (last, _) = module.lstm(inputs[0] + inputs[1])
    past = read(module.head(last[0]))[0]  # which the last state has, past the tensor
    close(a.relevance.sum() + past, a.logit[0])
    close(torch.from_numpy(b.relevance), a.relevance[0])


def test_one_of_the_arguments_of_any_number_is_named_by_its_place():
    class Sum(nn.Module):
        def forward(self, *numbers):
            return numbers[0] + 2 * numbers[1]

    one, other = torch.randn(2, 2, 3).double()
    found = attribute(Sum().eval(), (one, other), "cp-lrp", of="numbers[1]", read=read)
    close(found.logit - found.residual, 2 * other[:, 1])


@pytest.mark.parametrize(("of", "said"), [
    ("lstm", r"is a tuple; name floats.* such as 'lstm\[0\]'"),
    ("lstm[2]", r"of='lstm\[2\]': tensors there are \[0\], \[1\]\[0\], \[1\]\[1\]"),
    ("split['number']", "is a int; name floats"),
    ("split['numbers']", r"tensors there are \['part'\], \['number'\]"),
    ("numbers[2]", r"tensors there are \[0\], \[1\]"),
    ("lstn[0]", "did you mean"),
])  # fmt: skip
def test_a_place_that_is_not_there_is_refused(of, said):
    module, inputs = make(Several), (torch.randn(1, 5, 4),) * 2
    with pytest.raises(ValueError, match=said):
        attribute(module, inputs, "cp-lrp", of=of, read=read)

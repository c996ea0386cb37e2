"""Code may write into an activation through a view of it, or after it has read the activation."""

import pytest
import torch

from axioms.composites import ATTNLRP, GRADIENT_X_INPUT, UnassignedOperation
from numeric import attribute
from tests.census.measure import audited
from tests.support.audits import behind, eager

HALF = 12


def tripled(y):
    return torch.cat([y[..., :HALF] * 3, y[..., HALF:]], -1)


def through_a_view(y):
    y[..., :HALF].mul_(3)
    return y


def by_an_operator(y):
    view = y[..., :HALF]
    view *= 3
    return y


def filled(y):
    view = y[..., :HALF]
    view[...] = view * 3
    return y


def filled_itself(y):
    y[..., :HALF] = y[..., :HALF] * 3
    return y


def after_a_view(y):
    view = y[..., :HALF]
    y.mul_(3)
    return torch.cat([view, y[..., HALF:] / 3], -1)


def read_by_a_sum(y):
    y.sum(-1)
    y.mul_(3)
    y[..., HALF:] /= 3
    return y


def filled_after_a_view(y):
    view = y.view(-1)
    y[..., :HALF] = y[..., :HALF] * 3
    return view.view_as(y)


WRITES = (
    through_a_view, by_an_operator, filled, filled_itself, after_a_view, read_by_a_sum,
    filled_after_a_view,
)  # fmt: skip
EYE = torch.eye(24).double()
FIRST = {
    "a function": torch.tanh,
    "a scaled function": lambda x: x * 2,
    "a square": lambda x: (x @ EYE).square(),
    "a product of matrices": lambda x: x @ EYE,
    "a norm": lambda x: x / x.pow(2).mean(-1, keepdim=True).sqrt(),
}
THEN = lambda y: y, torch.sigmoid, lambda y: y * y


@pytest.mark.parametrize("composite", [ATTNLRP, GRADIENT_X_INPUT], ids=lambda x: x.name)
@pytest.mark.parametrize("first", FIRST)
def test_writes_have_the_relevance_of_new_tensors(first, composite):
    for last in THEN:
        want = attribute(*behind(FIRST[first], tripled, last), composite, target=1)
        for write in WRITES:
            model, inputs = behind(FIRST[first], write, last)
            found = attribute(model, inputs, composite, target=1)
            said = f"{write.__name__}: {found.relevance} is not {want.relevance}"
            assert torch.allclose(found.logit, want.logit), said
            assert torch.allclose(found.relevance, want.relevance, rtol=1e-8, atol=1e-10), said
            if composite == ATTNLRP:
                assert audited(model, inputs, "sequence classification") < 1e-8, said


def in_steps(x, read):
    t = torch.tanh(0.8 * (x + 0.04 * x**3))
    read(t)
    return 0.5 * x * t.add_(1)


def test_a_function_in_steps_may_be_read_between_them():
    want, *others = (
        attribute(*behind(lambda x, read=read: in_steps(x, read)), ATTNLRP, target=1).relevance
        for read in (lambda t: None, torch.amax, lambda t: t[..., :HALF], lambda t: t.detach())
    )
    assert all(torch.equal(found, want) for found in others)


def reshaped(y):
    y.sum()
    y.unsqueeze_(1).squeeze_(1).transpose_(1, 2)
    return y.transpose(1, 2)


def test_a_function_may_get_another_shape_in_place():
    want, found = (
        attribute(*behind(torch.tanh, step), ATTNLRP, target=1) for step in (lambda y: y, reshaped)
    )
    assert torch.equal(found.relevance, want.relevance)


WRITTEN = {
    "copied": lambda v: v.copy_(v.rsqrt()),
    "filled": lambda v: v.__setitem__(..., v.rsqrt()),
    "in place": torch.rsqrt_,
    "in place after a read": lambda v: (v.amin(), v.rsqrt_()),
}
USED = lambda x, v: x * v, lambda x, v: x * v.expand_as(x), lambda x, v: x * (v.to(x.dtype) * 2)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_variance_with_a_floor_may_become_its_inverse_root(name):
    variance = lambda x: x.pow(2).mean(-1, keepdim=True).clamp(min=1e-9)

    def norm(x, use):
        WRITTEN[name](v := variance(x))
        return use(x, v)

    for use in USED:
        want = behind(lambda x, use=use: use(x, variance(x).rsqrt()))
        given = behind(lambda x, use=use: norm(x, use))
        found = attribute(*given, ATTNLRP, target=1).relevance
        assert torch.allclose(found, attribute(*want, ATTNLRP, target=1).relevance, atol=1e-10)
        assert audited(*given, "sequence classification") < 1e-8


class Filled(torch.nn.Module):
    def forward(self, x):
        y = torch.tanh(x)
        y[..., 0] = 0
        return y


class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.filled = Filled()

    def forward(self, x):
        return x * self.filled(x)


def test_relevance_at_a_filled_function_is_found():
    model, inputs = eager()
    model.bert.encoder.layer[0].intermediate.intermediate_act_fn = Gate().eval()
    want = attribute(model, inputs, ATTNLRP, target=1)
    path = "bert.encoder.layer.0.intermediate.intermediate_act_fn.filled"
    found = attribute(model, inputs, ATTNLRP, target=1, at=path)
    assert torch.equal(found.relevance, want.relevance)
    assert found.inside[path].abs().sum() > 0


@pytest.mark.parametrize("last", THEN)
def test_a_write_that_gradients_do_not_see_is_refused_in_a_function(last):
    given = behind(lambda x: (y := torch.tanh(x), y.detach().mul_(3))[0], last)
    with pytest.raises(UnassignedOperation, match="tanh, whose input or output is written to"):
        attribute(*given, ATTNLRP)

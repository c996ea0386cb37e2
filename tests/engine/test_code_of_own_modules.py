"""Own modules that write into their arguments, or add a bias to a product, are explained."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from axioms import kinds
from axioms.composites import ATTNLRP
from numeric import attribute
from tests.support.own_modules import make, read


class Writing(nn.Module):
    """Writes into both of its arguments."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(3, 3)

    def forward(self, x, scale):
        x *= 2
        scale += 1
        return self.map(x) * scale


def test_what_code_writes_into_its_arguments_changes_none_of_the_users():
    module, x, scale = make(Writing), torch.randn(2, 3), torch.ones(3)
    given = {"x": x.clone(), "scale": scale.clone()}
    found = attribute(module, given, "cp-lrp", of="x", read=read)
    assert torch.equal(given["x"], x)
    assert torch.equal(given["scale"], scale)
    torch.testing.assert_close(found.logit, read(module(x, scale)))


class Biaffine(nn.Module):
    """Multiplies two vectors, and adds a bias."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)
        self.weight, self.bias = nn.Parameter(torch.randn(3, 4, 4)), nn.Parameter(torch.randn(3))

    def forward(self, x):
        a, b = self.first(x), self.second(x)
        return torch.einsum("bi,kij,bj->bk", a, self.weight, b) + self.bias


def test_a_bias_behind_a_product_does_not_make_it_a_score():
    module, x = make(Biaffine), torch.randn(2, 3)
    with_bias = attribute(module, x, "cp-lrp", of="x", read=read)
    with torch.no_grad():
        module.bias.zero_()
    without = attribute(module, x, "cp-lrp", of="x", read=read)
    assert without.relevance.abs().max() > 1e-3
    torch.testing.assert_close(with_bias.relevance, without.relevance)


class Scaled(nn.Module):
    """Adds a bias by ``addmm``, beta times."""

    def __init__(self, beta):
        super().__init__()
        self.beta, self.weight = beta, nn.Parameter(torch.randn(3, 4))
        self.bias = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight, beta=self.beta)


class Unbatched(nn.Module):
    """Maps a signal, (channel, place), of as many channels as places."""

    def __init__(self):
        super().__init__()
        self.map = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x):
        return self.map(x[0])[None]


@pytest.mark.parametrize(
    ("make_module", "shape"),
    [(partial(Scaled, 0.5), (2, 3)), (partial(Scaled, 0), (2, 3)), (Unbatched, (1, 4, 4))],
)
def test_a_bias_that_is_left_out_is_left_out_as_it_was_added(make_module, shape):
    """Inputs of one output then share all of its relevance."""
    torch.manual_seed(0)
    module, x = make_module().eval(), torch.rand(shape)
    rules = replace(ATTNLRP, rules={**ATTNLRP.rules, kinds.LINEAR: kinds.EPSILON_WITHOUT_BIAS})
    a = attribute(module, {"x": x}, rules, of="x", read=lambda out: out.flatten(1)[:, 1])
    torch.testing.assert_close(a.relevance.sum(dim=1), a.logit)

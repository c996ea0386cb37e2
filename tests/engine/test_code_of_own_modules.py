"""Own modules that write into their arguments, or add a bias to a product, are explained."""

import torch
from torch import nn

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

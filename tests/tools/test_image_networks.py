"""Agreement with zennit and Captum, where installed, on a network of images by the epsilon rule."""

import pytest
import torch
from torch import nn

from numeric import attribute


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 4),
        ).double().eval()  # fmt: skip


@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
def test_the_epsilon_rule_is_zennits(epsilon):
    pytest.importorskip("zennit.core", reason="zennit is not installed")
    from zennit.composites import LayerMapComposite
    from zennit.rules import Epsilon, Pass

    images = torch.randn(2, 3, 16, 16, dtype=torch.float64, requires_grad=True)
    composite = LayerMapComposite(
        [((nn.Conv2d, nn.Linear), Epsilon(epsilon=epsilon)), (nn.ReLU, Pass())]
    )
    with composite.context(network()) as module:
        number = module(images)[:, 1]
        (theirs,) = torch.autograd.grad(number, images, grad_outputs=number.detach())
    read = lambda output: output[:, 1]
    ours = attribute(network(), images.detach(), "attnlrp", of="input", read=read, epsilon=epsilon)
    assert theirs.abs().amax() > 1e-3
    torch.testing.assert_close(ours.inside["input"], theirs, rtol=1e-6, atol=1e-9)


def test_the_epsilon_rule_is_captums():
    lrp = pytest.importorskip("captum.attr._core.lrp", reason="captum is not installed")
    images, module = torch.randn(2, 3, 16, 16, dtype=torch.float64), network()
    module[5].rule = lrp.EpsilonRule()  # Captum has none for nn.Flatten, which moves entries
    theirs = lrp.LRP(module).attribute(images.clone().requires_grad_(), target=1)
    read = lambda output: output[:, 1]
    ours = attribute(network(), images, "attnlrp", of="input", read=read, epsilon=1e-9)
    assert theirs.abs().amax() > 1e-3
    torch.testing.assert_close(ours.inside["input"], theirs.detach(), rtol=1e-6, atol=1e-9)

"""Relevance of images is read where their pixels first become a map, whatever the model."""

import pytest
import torch

from axioms.composites import CP_LRP, GRADIENT_X_INPUT
from numeric import attribute
from tests.census.build import IMAGES, with_inputs
from tests.census.measure import without_shifts
from tests.support.cases import close
from tests.support.traces import watch

pytestmark = pytest.mark.usefixtures("float64")
POSITIONS = {  # of images of 64 x 64: the first map's, and tokens that are put before them
    "vit": 17, "deit": 18, "clip": 5, "siglip": 16, "dinov2_with_registers": 21, "swin": 256,
    "hiera": 256, "pvt_v2": 256, "convnext": 256, "resnet": 1024, "bit": 1024,
    "mobilenet_v2": 1024, "levit": 1024, "focalnet": 256,
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIONS)
def test_every_position_has_relevance_that_adds_up_without_biases(name):
    model, images = with_inputs(name, IMAGES)
    a = attribute(model, images)
    with without_shifts(model):
        b = attribute(model, images, CP_LRP)
    assert a.relevance.shape == (2, POSITIONS[name])
    assert (a.relevance != 0).double().mean() > 0.5  # ReLU may pass none of a position
    assert a.relevance.isfinite().all()
    # BatchNorms of many layers lose some digits of the ten that are asked for.
    close(b.relevance.sum(dim=1), b.logit, tolerance=1e-9)


@pytest.mark.parametrize("name", ["resnet", "focalnet", "hiera"])
def test_positions_are_those_of_the_first_map_row_by_row(name):
    model, images = with_inputs(name, IMAGES)
    a = attribute(model, images, GRADIENT_X_INPUT, share="word")
    first, seen = next(m for m in model.modules() if isinstance(m, torch.nn.Conv2d)), []
    with watch(first, seen.append):
        logits = model(**images).logits
    (c,) = torch.autograd.grad(logits.gather(1, a.target[:, None]).sum(), seen)
    close(a.relevance, (seen[0] * c).sum(dim=1).flatten(1).detach(), tolerance=1e-9)


def test_an_image_that_is_moved_moves_the_relevance_of_its_patches():
    """The model has no positions; patches are of 16 x 16 pixels, four in a row."""
    model, images = with_inputs("vit", IMAGES)
    with torch.no_grad():
        model.vit.embeddings.position_embeddings.zero_()
    a = attribute(model, images).relevance
    pixels = images["pixel_values"].roll((16, 32), (2, 3))
    b = attribute(model, {"pixel_values": pixels}).relevance
    close(b[:, 0], a[:, 0])
    patches = a[:, 1:].view(2, 4, 4).roll((1, 2), (1, 2))
    close(b[:, 1:], patches.flatten(1))

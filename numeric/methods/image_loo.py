"""Leave-One-Out for images: one patch of pixels gives way to the mean of all patches."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lrp_axioms.numeric.methods.memory_budget import check_batch_size
from lrp_axioms.numeric.models.batches import PIXELS, Batch
from lrp_axioms.numeric.targets.chosen import Chosen
from lrp_axioms.numeric.targets.readout import Readout

SIDE, LEAST = 16, 8
"""Pixels of a patch's side by default, and the least that counts as the model's own patch."""
GRID, SEEN, PLACES = "image_grid_thw", "pixel_attention_mask", "image_position_ids"


def without_patches(
    model: PreTrainedModel, batch: Batch, readout: Readout, patch: int | None, batch_size: int
) -> tuple[list[Chosen], Tensor, Tensor, dict[str, Tensor]]:
    """Returns targets, their logits, the losses without each patch, and the ``grid`` of patches.

    Losses are (target, batch, patch).  The grid, rows and columns, is of one image per example.
    A patch gives way to the mean of all patches of its image, pixel by pixel, which a model that
    cuts its image into these patches maps to the mean of their embeddings.  Where a processor has
    cut the images of an example, it is the mean over all of them, without padding.  Patches are
    squares of ``patch`` pixels, row by row, or the rows of pixels that a processor has cut already.
    None is the model's ``patch_size`` if it is at least 8 and divides the image, and 16 otherwise.
    Raises ValueError for a size that does not divide the image, for hidden pixels, and for examples
    that do not have the same number of images.
    """
    with torch.no_grad():
        rows = readout.run(model, batch.arguments())
    readout = readout.choose(rows)
    logits = torch.stack([each.of(rows) for each in readout.targets])
    whole, mean, number, grid = _cut(model, batch, patch)
    examples, patches = len(whole), int(number.max()) + 1
    if batch.mixed and examples > 1:
        _check_alone(model, batch, readout, logits)
    counts = (torch.arange(n, device=whole.device) for n in (examples, patches))
    pairs = torch.cartesian_prod(*counts)
    check_batch_size(batch_size)
    less = []
    with torch.no_grad():
        for example, left_out in (part.unbind(dim=1) for part in pairs.split(batch_size)):
            inputs = batch.copies(example)
            here = number == left_out.view(-1, *[1] * (whole.ndim - 1))
            pixels = torch.where(here, mean[example], whole[example])
            inputs[PIXELS] = pixels.reshape_as(inputs[PIXELS])
            rows = readout.run(model, inputs, example)
            less.append(torch.stack([each.of(rows, example) for each in readout.targets]))
    without = torch.cat(less, dim=1).to(logits.dtype).unflatten(1, (examples, patches))
    return readout.targets, logits, logits[:, :, None] - without, grid


def _cut(
    model: PreTrainedModel, batch: Batch, patch: int | None
) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    """Returns pixels by example, the mean patch and the patch's number at each, and the grid."""
    x: Any = batch.pixel_values  # of a batch with images
    seen, at = batch.others.get(SEEN), batch.others.get(PLACES)
    seen = (at != -1).all(dim=-1) if seen is None and at is not None else seen
    examples = len(batch.attention_mask)
    if odd := [len(y) for y in (x, *batch.others.values()) if len(y) % examples]:
        raise ValueError(
            f"{odd[0]} images or patches of {examples} examples: pass as many images with each, or "
            "one example at a time"
        )
    if x.ndim < 4 or GRID in batch.others:
        if patch is not None:
            raise ValueError(f"patch={patch!r}: the processor has cut the image; leave it out")
        x = x.reshape(examples, -1, *x.shape[1 + (x.ndim == 3) :])
        each = [1] * (x.ndim - 2)
        number = torch.arange(x.shape[1], device=x.device).view(1, -1, *each)
        real = x.new_ones(x.shape[:2]) if seen is None else seen
        real = (real == 1).reshape(examples, -1, *each)
        wide = torch.promote_types(x.dtype, torch.float32)  # a sum of many patches is large
        total = x.where(real, 0).sum(dim=1, keepdim=True, dtype=wide)
        mean = (total / real.sum(dim=1, keepdim=True)).to(x.dtype)
        return x, mean.where(real, x), number, {}  # padding stays as it is, and loses nothing
    if seen is not None and (seen != 1).any():
        raise ValueError(
            f"{SEEN} hides pixels, which would count in the mean of all patches; pass one example "
            "at a time, with images of one size"
        )
    x = x.reshape(examples, -1, *x.shape[-3:])
    *_, images, _, height, width = x.shape
    side = _side(model.config, height, width) if patch is None else patch
    if type(side) is not int or side < 1 or height % side or width % side:
        raise ValueError(
            f"patch={side!r}: an image of {height} x {width} pixels cannot be cut into squares of "
            "this size; pass patch, a divisor of both"
        )
    if side == height == width:
        raise ValueError(
            f"patch={side}: an image of {height} x {width} pixels is one patch, which is its own "
            "mean; pass a smaller divisor"
        )
    squares = x.unflatten(4, (-1, side)).unflatten(3, (-1, side))
    mean = squares.mean(dim=(3, 5), keepdim=True).expand_as(squares).reshape_as(x)
    rows, columns = (torch.arange(n, device=x.device) // side for n in (height, width))
    grid = rows[:, None] * (width // side) + columns
    first = torch.arange(images, device=x.device) * (int(grid.max()) + 1)
    numbers = (first[:, None, None] + grid)[None, :, None]
    sides = torch.tensor([height // side, width // side], device=x.device)
    return x, mean, numbers, {"grid": sides} if images == 1 else {}


def _side(config: Any, height: int, width: int) -> int:
    size = getattr(getattr(config, "vision_config", config), "patch_size", SIDE)
    own = type(size) is int and size >= LEAST and not height % size and not width % size
    return size if own else SIDE


def _check_alone(model: PreTrainedModel, batch: Batch, readout: Readout, logits: Tensor) -> None:
    """Raises ValueError unless each example keeps its logits when the batch is turned round."""
    turned = torch.arange(logits.shape[1], device=logits.device).flip(0)
    with torch.no_grad():
        rows = readout.run(model, batch.copies(turned), turned)
    again = torch.stack([each.of(rows, turned) for each in readout.targets])
    unit = torch.finfo(model.dtype).eps ** 0.5
    if (again - logits[:, turned]).abs().max() > unit * logits.abs().max():
        raise ValueError(
            "examples do not have the same number of images or patches, or depend on each other: "
            "whose image is whose is not known; pass one example at a time"
        )

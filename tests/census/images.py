"""An image with a text for a small model of any architecture that reads both."""

from collections.abc import Iterator
from inspect import signature

import torch
from torch import Tensor, nn

from tests.census.sizes import MARK, SIZE, START

PACKED = ("lfm2_vl",)  # pixels of a patch in a row, with the shape of the image beside them
IN_MAPS = ("paddleocr_vl", "kimi_k25")  # (patch, channel, height, width)
SEVERAL = {"idefics": 1, "idefics2": 1, "idefics3": 1, "smolvlm": 1, "llava_next": 2,
    "llava_next_video": 2, "llava_onevision": 2}  # fmt: skip
"""Images of one example, where they have an axis of their own."""
SIDE, SQUARE = 4, 16  # patches, and pixels of a patch that is left out


def image_with_text(model: nn.Module) -> dict[str, Tensor]:
    """One image, in the form that the model's processor gives it, and 7 words around it."""
    pixels = image(model)
    ids = torch.randint(10, 50, (1, 7), generator=torch.Generator().manual_seed(2))
    places = torch.full((1, placeholders(model, pixels)), MARK)
    ids = torch.cat([ids[:, :3], places, ids[:, 3:]], dim=1)
    ones = torch.ones_like(ids)
    beside = {
        "mm_token_type_ids": (ids == MARK).long(),
        "image_embeds_position_mask": ids == MARK,
        "qformer_input_ids": ids[:, :3],
        "image_attention_mask": ones[:, :, None],
        "bbox": torch.zeros(1, ids.shape[1], 4, dtype=torch.int64),
    }
    if model.config.is_encoder_decoder:
        beside["decoder_input_ids"] = torch.tensor([[START, 12, 13]])
    takes = signature(model.forward).parameters
    beside = {name: x for name, x in beside.items() if name in takes}
    return {"input_ids": ids, "attention_mask": ones} | beside | pixels


def image(model: nn.Module) -> dict[str, Tensor]:
    """The pixels of one image, and the tensors that say how they are packed."""
    takes, kind = signature(model.forward).parameters, model.config.model_type
    config = getattr(model.config, "vision_config", model.config)
    drawn = torch.Generator().manual_seed(1)
    rows = {"dtype": torch.float64, "generator": drawn}
    size, patch = getattr(config, "image_size", SIZE), getattr(config, "patch_size", 16)
    size = size if isinstance(size, int) else SIZE
    if "image_grid_thw" in takes or kind in PACKED:
        frames = getattr(config, "temporal_patch_size", 1) or 1
        shape = (3, patch, patch) if kind in IN_MAPS else (3 * frames * patch**2,)
        pixels = torch.randn(SIDE**2, *shape, **rows)
        if kind not in PACKED:
            return {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, SIDE, SIDE]])}
        seen = torch.ones(1, SIDE**2, dtype=torch.int64)
        shapes = torch.tensor([[SIDE, SIDE]])
        return {"pixel_values": pixels[None], "spatial_shapes": shapes,
            "pixel_attention_mask": seen}  # fmt: skip
    images = (SEVERAL[kind],) if kind in SEVERAL else ()
    found = {"pixel_values": torch.randn(1, *images, 3, size, size, **rows)}
    if "image_sizes" in takes and kind not in ("llava", "video_llava"):
        found["image_sizes"] = torch.tensor([[size, size]])
    return found


def placeholders(model: nn.Module, pixels: dict[str, Tensor]) -> int:
    """How many features the model makes of the image; 0 if it puts them nowhere in the text."""
    owners = [x for x in (model, getattr(model, "model", None)) if hasattr(x, "get_image_features")]
    if not owners:
        return getattr(model.config, "latent_query_num", 0)
    takes = signature(owners[0].get_image_features).parameters
    given = {name: x for name, x in pixels.items() if name in takes}
    if "qformer_input_ids" in takes:
        given["qformer_input_ids"] = torch.full((1, 3), START)
    with torch.no_grad():
        found = owners[0].get_image_features(**given)
    found = getattr(found, "pooler_output", found)
    rows = [found] if isinstance(found, Tensor) else found
    return sum(x[..., 0].numel() for x in rows)


def packed_images(pixels: Tensor) -> Iterator[Tensor]:
    """Images without each row of pixels: the mean row stands in its place."""
    axis = 1 if pixels.ndim == 3 else 0
    for n in range(pixels.shape[axis]):
        yield pixels.index_copy(axis, torch.tensor([n]), pixels.mean(dim=axis, keepdim=True))


def cut_images(pixels: Tensor) -> Iterator[Tensor]:
    """Images without each square of pixels, of all examples at once."""
    images = pixels.reshape(len(pixels), -1, *pixels.shape[-3:])
    corners = range(0, pixels.shape[-2], SQUARE), range(0, pixels.shape[-1], SQUARE)
    for n in range(images.shape[1]):
        squares = [(y, x) for y in corners[0] for x in corners[1]]
        parts = [images[:, n, :, y : y + SQUARE, x : x + SQUARE] for y, x in squares]
        mean = torch.stack(parts).mean(dim=0)
        for y, x in squares:
            changed = images.clone()
            changed[:, n, :, y : y + SQUARE, x : x + SQUARE] = mean
            yield changed.reshape(pixels.shape)

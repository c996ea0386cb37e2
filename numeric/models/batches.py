"""Inputs of a model: a tokenizer's batch, images, or sounds with the text written so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lrp_axioms.numeric.models.facts import ModelFacts
from lrp_axioms.numeric.models.families import FIRST

KEYS = ("input_ids", "attention_mask", "token_type_ids")
DECODER = "decoder_input_ids"
DECODER_MASK = "decoder_attention_mask"
PIXELS = "pixel_values"
SOUND = "input_features"
FIXED = ("labels", "inputs_embeds", "position_ids", "input_features", "past_key_values",
    "logits_to_keep", "kwargs")  # fmt: skip
"""Arguments that an image with a text does not come with."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A tokenizer's batch, images or sounds, on the model's device; texts are (batch, token).

    Images have a mask (batch, 1), for all of each, and sounds a mask (batch, 0), because they
    have no relevance.  Images with a text have ``others``: sizes and places by name.
    """

    attention_mask: Tensor  # 1 at tokens, 0 at padding
    facts: ModelFacts  # about the model
    input_ids: Tensor | None = None
    token_type_ids: Tensor | None = None  # the model's own default
    pixel_values: Tensor | None = None  # (batch, channel, height, width), or as a model packs them
    input_features: Tensor | None = None  # (batch, band, frame) of a sound, in place of ids
    decoder_input_ids: Tensor | None = None  # (batch, token) of the text written so far
    others: Mapping[str, Tensor] = field(default_factory=dict)

    def arguments(self) -> dict[str, Tensor]:
        unmasked = ("attention_mask",) * (self.input_ids is None)
        own = {
            key: x for key, x in vars(self).items() if isinstance(x, Tensor) and key not in unmasked
        }
        return own | dict(self.others)

    def copies(self, example: Tensor) -> dict[str, Tensor]:
        """Returns the arguments of copies of ``example``, (copy,); each may have several images."""
        size = len(self.attention_mask)
        return {
            key: x.unflatten(0, (size, -1))[example].flatten(0, 1)
            for key, x in self.arguments().items()
        }

    @property
    def mixed(self) -> bool:
        """Whether images come with a text."""
        return self.input_ids is not None and self.pixel_values is not None

    def of_text(self) -> "Batch":
        """Returns the batch; ValueError if images come with its text."""
        if self.mixed:
            raise ValueError(
                f"inputs has {PIXELS}, and what is asked for is of texts alone: call attribute(), "
                "or audit(), for an image with a text"
            )
        return self

    def call(self, model: nn.Module) -> Any:
        return model(**self.arguments())

    @property
    def device(self) -> torch.device:
        return self.attention_mask.device

    @property
    def ids(self) -> Tensor:
        """The ids of a batch that is known to be of texts."""
        if self.input_ids is None:
            raise ValueError("the batch has no input_ids; pass that of a tokenizer")
        return self.input_ids

    @property
    def texts(self) -> list[Tensor]:
        """The ids that have relevance: the text, and after it the text of a decoder."""
        return [x for x in (self.input_ids, self.decoder_input_ids) if x is not None]

    @property
    def present(self) -> Tensor:
        """1 at the tokens of ``texts``, side by side, and 0 at padding."""
        if self.decoder_input_ids is None:
            return self.attention_mask
        return torch.cat([self.attention_mask, torch.ones_like(self.decoder_input_ids)], dim=1)

    @property
    def predicting(self) -> tuple[Tensor | None, Tensor]:
        """The ids of the text whose tokens have logits, and its mask."""
        if self.decoder_input_ids is None:
            return self.input_ids, self.attention_mask
        return self.decoder_input_ids, torch.ones_like(self.decoder_input_ids)

    @property
    def read(self) -> Tensor | None:
        """The token of every example whose row the model reads its logits from: (batch,).

        None for classifiers without a record in ``lrp_axioms.numeric.models.families``.
        """
        if self.decoder_input_ids is not None or self.facts.is_causal:
            return last_column(self.predicting[1] == 1)
        if self.facts.reads is None:
            return None
        if self.facts.reads == FIRST:
            return self.attention_mask.new_zeros(len(self.attention_mask), dtype=torch.int64)
        pad = self.facts.padding_id
        return last_column(torch.ones_like(self.attention_mask) if pad is None else self.ids != pad)

    @property
    def known_read(self) -> Tensor:
        """Returns ``read`` of a model that is known to read one token of every example."""
        if (found := self.read) is None:
            raise ValueError("which token the model reads is not known")
        return found

    @property
    def position_ids(self) -> Tensor | None:
        """Positions that the model gives to ``ids``, or None if they are 0, 1, 2, ..."""
        padding = self.facts.padding_position
        if padding is None:
            return None
        words = self.ids != padding
        return padding + words.cumsum(dim=1) * words


def last_column(present: Tensor) -> Tensor:
    """Returns each row's last column that is not 0."""
    return (torch.arange(present.shape[1], device=present.device) * present).argmax(dim=1)


def make_batch(model: PreTrainedModel, inputs: Mapping[str, Tensor], facts: ModelFacts) -> Batch:
    """Makes a Batch of ``inputs`` without structural problems, on the device of ``model``."""
    # Copies, because inference-mode tensors cannot be saved for a backward pass.
    # Hooks that load weights from "meta" when they are used fetch the inputs there.
    lazy = model.device.type == "meta"
    given = {
        key: (x if lazy else x.to(model.device)).detach().clone()
        for key, x in inputs.items()
        if x is not None
    }
    if "input_ids" in given:
        mask = torch.ones_like(given["input_ids"])
    else:
        first, *_ = given.values()
        size = len(first), int(PIXELS in given)
        mask = torch.ones(size, dtype=torch.int64, device=first.device)
    others: dict[str, Tensor] = {}  # tensors without a field of Batch, such as sizes of images
    if {PIXELS, "input_ids"} <= given.keys():
        own = {*KEYS, DECODER, PIXELS} - {"token_type_ids" if facts.token_types is None else ""}
        others = {key: given.pop(key) for key in [*given] if key not in own}
    return Batch(facts=facts, others=others, **{"attention_mask": mask} | given)


def odd_tensor(name: str, x: Tensor) -> str | None:
    """Describes a sparse, nested, quantised, complex or meta tensor as a problem; else None."""
    if x.is_nested or x.layout is not torch.strided:
        return f"{name} is a {'nested' if x.is_nested else 'sparse'} tensor; pass a dense one"
    if x.device.type == "meta" or x.is_quantized or x.is_complex():
        kind = "without values (meta)" if x.device.type == "meta" else f"of {x.dtype}"
        return f"{name} is a tensor {kind}; pass int64, or floats for images and sounds"
    return None


def first_map(model: Any) -> nn.Module | None:
    """Returns the lookup of words or the map of pixels, of models that declare one."""
    try:
        found = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return found if isinstance(found, nn.Module) else None


def image_problems(model: PreTrainedModel, inputs: Mapping[str, object]) -> Iterator[str]:
    pixels = inputs.get(PIXELS) if isinstance(inputs, Mapping) else None
    if not isinstance(pixels, Tensor) or len(inputs) != 1:
        yield (
            f"inputs must be a mapping with {PIXELS!r} alone, a float tensor (batch, channel, "
            'height, width), such as image_processor(image, return_tensors="pt")'
        )
        return
    if problem := odd_tensor(PIXELS, pixels):
        yield problem
        return
    takes: Any = first_map(model)  # any class; its sizes have names of their own
    size = getattr(takes, "image_size", None)  # many models take any size that their maps divide
    shape = (takes.num_channels, *size) if isinstance(size, tuple) else pixels.shape[1:]
    if pixels.ndim != 4 or pixels.shape[1:] != shape or not len(pixels):
        axes = ", ".join(
            map(str, ("batch", *shape) if size else ("batch", "channel", "height", "width"))
        )
        yield f"{PIXELS} has shape {tuple(pixels.shape)}; the model takes ({axes})"
    if not pixels.is_floating_point():
        yield f"{PIXELS} has dtype {pixels.dtype}; pass what the model's image processor returns"


def pixel_problems(batch: Batch) -> Iterator[str]:
    x = batch.pixel_values
    if x is not None and (wrong := x.numel() - int(x.isfinite().sum())):
        yield f"{PIXELS} has {wrong} values that are not finite; pass an image without them"


def named_with_images(model: PreTrainedModel) -> tuple[str, ...]:
    """Names the arguments of a text with images, which have one tensor of pixels."""
    takes = signature(model.forward).parameters
    return tuple(x for x in takes if x not in FIXED and (x == PIXELS or PIXELS not in x))


def takes_images(model: PreTrainedModel) -> bool:
    """Decides whether a model reads a text, and images with it."""
    takes = signature(model.forward).parameters
    return PIXELS in takes and "input_ids" in takes


def placeholder(model: PreTrainedModel) -> int | None:
    """Returns the token that stands for a feature of an image in a text, if there is one.

    Where a text reads images by cross-attention, as in Mllama, their token is a word.
    """
    if getattr(model.config.get_text_config(), "cross_attention_layers", None):
        return None
    named = (getattr(model.config, f"image_token_{end}", None) for end in ("id", "index"))
    return next((x for x in named if x is not None), None)


def places_of_images(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Marks the tokens of a text, (batch, token), in whose place features of an image stand."""
    if (marked := batch.others.get("image_embeds_position_mask")) is not None:
        return marked.bool()
    token = placeholder(model)
    return batch.ids == (-1 if token is None else token)


def placeholder_problems(model: PreTrainedModel, ids: Tensor, *, pixels: bool) -> Iterator[str]:
    """Yields a problem of a text with the places of an image and no image, or the reverse."""
    if (token := placeholder(model)) is None:
        return
    empty = (~(ids == token).any(dim=1)).nonzero()[:, 0].tolist()
    if pixels and len(empty) == len(ids):
        yield (
            f"{PIXELS} is given, and no text has the placeholder of an image, token {token}: put "
            "it into the text once per feature of the image, as the model's processor does, or "
            f"leave {PIXELS} out"
        )
    elif not pixels and len(empty) < len(ids):
        yield (
            f"the text has the placeholder of an image, token {token}, and inputs has no {PIXELS}: "
            'pass what processor(images=image, text=text, return_tensors="pt") returns'
        )


def sound_problems(model: PreTrainedModel, inputs: Mapping[str, object]) -> Iterator[str]:
    """Yields problems in the structure of ``inputs`` of a model that writes down speech."""
    if not isinstance(inputs, Mapping) or set(inputs) != {SOUND, DECODER}:
        yield (
            f"inputs must be a mapping with {SOUND!r}, as the model's feature extractor returns "
            f"them, and {DECODER!r}, the ids of what was written so far, and nothing else"
        )
        return
    sound, written = inputs[SOUND], inputs[DECODER]
    if not isinstance(sound, Tensor) or not sound.is_floating_point() or sound.ndim != 3:
        yield f"{SOUND} must be a float tensor (batch, band, frame)"
    elif not isinstance(written, Tensor) or written.ndim != 2 or len(written) != len(sound):
        yield f"{DECODER} must be a tensor of ids (batch, token), of {len(sound)} examples"

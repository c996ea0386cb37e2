"""What the configuration of a model says about the texts that it takes, in one record."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

NO_END = 1 << 62
"""In place of a number of tokens or ids that has no limit."""
WRITTEN = ("max_target_positions", "max_decoder_position_embeddings")
POSITIONS = (
    "max_position_embeddings", "max_encoder_position_embeddings", "max_seq_len", *WRITTEN,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about a model, read from its configuration.

    text: the part of the configuration that is about texts
    two: an encoder reads a text, and a decoder writes another
    rotary: positions are rotated, which has no end
    made_for: tokens of the longest text that the model was made for
    positions: entries of its table of positions
    written: tokens of the longest text that its decoder has positions for
    words, token_types: sizes of these vocabularies; ``token_types`` is None without any
    padding_id: the id that stands for padding
    layers: number of layers, 0 where it is not known
    attention: name of the implementation
    """

    text: PreTrainedConfig
    two: bool
    rotary: bool
    made_for: int
    positions: int
    written: int
    words: int
    token_types: int | None
    padding_id: int | None
    layers: int
    attention: str


def facts_of(model: nn.Module) -> ModelFacts:
    """The facts about a model; ValueError for a configuration that they cannot be read from."""
    for problem in config_problems(model):
        raise ValueError(problem)
    config: Any = model.config
    text = config.get_text_config()
    rotary = bool(getattr(text, "rope_parameters", None))
    made_for = _first(text, POSITIONS)
    return ModelFacts(
        text=text,
        two=bool(getattr(config, "is_encoder_decoder", False)),
        rotary=rotary,
        made_for=made_for,
        positions=NO_END if rotary else made_for,
        written=_first(text, WRITTEN),
        words=_first(text, ("vocab_size",)),
        token_types=getattr(text, "type_vocab_size", None),
        padding_id=getattr(text, "pad_token_id", None),
        layers=getattr(text, "num_hidden_layers", 0),
        attention=str(text._attn_implementation),
    )


def config_problems(model: nn.Module) -> Iterator[str]:
    """What is wrong with a configuration that facts cannot be read from."""
    config: Any = model.config
    text = config.get_text_config()
    if not isinstance(text, PreTrainedConfig):
        yield (
            f"the text part of the {type(config).__name__} is {text!r} ({type(text).__name__}); "
            "set it to a configuration, or take it out of config.json"
        )


def _first(config: PreTrainedConfig, names: tuple[str, ...]) -> int:
    """The first of ``names`` that is a number of something; XLNet has -1 positions, for no end."""
    found = (getattr(config, name, None) for name in names)
    return next((x for x in found if type(x) is int and x > 0), NO_END)

"""Reads the limits and sizes for texts from the configuration of a model, into one record."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

NO_END = 1 << 62
"""Stands for no limit of tokens or ids."""
WRITTEN = ("max_target_positions", "max_decoder_position_embeddings")
POSITIONS = (
    "max_position_embeddings", "max_encoder_position_embeddings", "max_seq_len", *WRITTEN,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Facts about a model, read from its configuration.

    text: the part of the configuration about texts
    two: whether an encoder reads one text and a decoder writes another
    rotary: whether positions are rotations, which have no limit
    made_for: tokens of the longest text that the model was made for
    positions: entries of the table of positions
    written: tokens of the longest text for which the decoder has positions
    words, token_types: sizes of the vocabularies; ``token_types`` is None if there are none
    padding_id: id of the padding token
    layers: number of layers, 0 if it is unknown
    attention: name of the implementation of attention
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
    """Reads the facts about a model; raises ValueError if the text part is no configuration."""
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
    """The problems of a configuration without a readable text part."""
    config: Any = model.config
    text = config.get_text_config()
    if not isinstance(text, PreTrainedConfig):
        yield (
            f"the text part of the {type(config).__name__} is {text!r} ({type(text).__name__}); "
            "set it to a configuration, or remove it from config.json"
        )


def _first(config: PreTrainedConfig, names: tuple[str, ...]) -> int:
    """The first value above 0 of ``names``, else NO_END; XLNet has -1 positions for no limit."""
    found = (getattr(config, name, None) for name in names)
    return next((x for x in found if type(x) is int and x > 0), NO_END)

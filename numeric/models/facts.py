"""Reads all facts about a model before it runs, into one record."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

from lrp_axioms.numeric.models import families, heads

Modules = list[tuple[str, nn.Module]]  # each with its path
NO_END = 1 << 62
"""Stands for no limit of tokens or ids."""
WRITTEN = ("max_target_positions", "max_decoder_position_embeddings")
POSITIONS = (
    "max_position_embeddings", "max_encoder_position_embeddings", "max_seq_len", *WRITTEN,
)  # fmt: skip
TABLES = ("position_embeddings", "embed_positions", "wpe", "positions_embed")
"""The names of tables of absolute positions in Transformers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFacts:
    """Facts about a model, from its class, its configuration and its modules.

    head: the kind of its logits
    reads: the token whose row the head reads, FIRST or LAST; None if no record says it
    is_causal: whether the logits of every token predict the next token, given a text alone
    padding_position: the position of padding, which tokens are counted on from; None: from 0
    counts_columns: whether a table of positions is read by the number of the column
    text: the part of the configuration about texts
    two: whether an encoder reads one text and a decoder writes another
    rotary: whether positions are rotations, which have no limit
    made_for: tokens of the longest text that the model was made for
    positions: tokens of the longest text that it has positions for
    written_at_most: tokens of the longest text that the model, or its decoder, can go on with
    words, written_words: sizes of the vocabularies of a text, and of the text of a decoder
    token_types: number of token types; None if there are none
    padding_id: id of the padding token
    layers: number of layers, 0 if it is unknown
    attention: name of the implementation of attention
    """

    head: str
    reads: str | None
    is_causal: bool
    padding_position: int | None
    counts_columns: bool
    text: PreTrainedConfig
    two: bool
    rotary: bool
    made_for: int
    positions: int
    written_at_most: int
    words: int
    written_words: int
    token_types: int | None
    padding_id: int | None
    layers: int
    attention: str


def facts_of(model: nn.Module, modules: Sequence[nn.Module] = ()) -> ModelFacts:
    """Reads the facts about a model; raises ValueError if the text part is no configuration.

    ``modules`` are all of the model, if they are known.
    """
    for problem in config_problems(model):
        raise ValueError(problem)
    config: Any = model.config
    text = config.get_text_config()
    modules = modules or [module for _, module in modules_of(model)]
    two = bool(getattr(config, "is_encoder_decoder", False)) and any(
        "decoder" in name for module in modules for name in module._modules
    )  # such as T5, and not its encoder alone
    biased = getattr(text, "position_biased_input", True)  # else distances alone, as in DeBERTa-v3
    kind = getattr(text, "position_embedding_type", "absolute") if biased else None
    rotary = bool(getattr(text, "rope_parameters", None)) or kind == "rotary"
    made_for, words = _first(text, POSITIONS), _first(text, ("vocab_size",))
    padding = _padding_position(modules)
    limited = made_for < NO_END and not rotary and kind is not None
    positions = made_for - (0 if padding is None else padding + 1) if limited else NO_END
    written = _first(text, WRITTEN)
    head = heads.kind(type(model))
    is_causal = families.is_causal(type(model), two=two)
    if head == heads.MASKED:  # XLM's class is of both kinds
        is_causal = is_causal and bool(getattr(config, "causal", False))
    return ModelFacts(
        head=heads.NEXT if is_causal else head,
        reads=families.reads(type(model)),
        is_causal=is_causal,
        padding_position=padding,
        counts_columns=not rotary and _counts_columns(modules),
        text=text,
        two=two,
        rotary=rotary,
        made_for=made_for,
        positions=positions,
        written_at_most=written if written < NO_END else positions,
        words=getattr(config, "src_vocab_size", None) or words,
        written_words=getattr(config, "decoder_vocab_size", None) or words,
        token_types=getattr(text, "type_vocab_size", None),
        padding_id=getattr(text, "pad_token_id", None),
        layers=getattr(text, "num_hidden_layers", 0),
        attention=str(text._attn_implementation),
    )


def modules_of(model: object) -> Modules:
    """Lists ``named_modules()`` in a third of its time."""
    found: dict[nn.Module, str] = {}
    waiting = [("", model)] if isinstance(model, nn.Module) else []
    while waiting:
        path, module = waiting.pop()
        if module not in found:
            found[module] = path
            start = path and path + "."
            inside = reversed(module._modules.items())
            waiting += [(start + name, child) for name, child in inside if child is not None]
    return [(path, module) for module, path in found.items()]


def config_problems(model: nn.Module) -> Iterator[str]:
    """Yields the problem of a configuration without a readable text part."""
    config: Any = model.config
    text = config.get_text_config()
    if not isinstance(text, PreTrainedConfig):
        yield (
            f"the text part of the {type(config).__name__} is {text!r} ({type(text).__name__}); "
            "set it to a configuration, or remove it from config.json"
        )


def reads_end(model: object) -> bool:
    """Decides whether a classifier reads the last column, even if it is padding, as XLNet does."""
    summary = model._modules.get("sequence_summary") if isinstance(model, nn.Module) else None
    return getattr(summary, "summary_type", None) == "last"


def _first(config: PreTrainedConfig, names: tuple[str, ...]) -> int:
    """Returns the first value above 0 of ``names``, else NO_END; XLNet has -1 for no limit."""
    found = (getattr(config, name, None) for name in names)
    return next((x for x in found if type(x) is int and x > 0), NO_END)


def _padding_position(modules: Iterable[nn.Module]) -> int | None:
    tables = [module._modules.get("position_embeddings") for module in modules]  # a fast look
    found = [getattr(table, "padding_idx", None) for table in tables if table is not None]
    return next((number for number in found if number is not None), None)


def _counts_columns(modules: Iterable[nn.Module]) -> bool:
    """Decides whether a table of absolute positions is read by column numbers, padding or not.

    Other tables count from the id of padding, or from the mask, which they take.
    """
    named = [(name, x) for module in modules for name, x in module._modules.items()]
    tables = [x for name, x in named if name in TABLES and x is not None]
    asks = any("attention_mask" in signature(x.forward).parameters for x in tables)
    counts = all(getattr(x, "padding_idx", None) is None for x in tables)
    return bool(tables) and not asks and counts

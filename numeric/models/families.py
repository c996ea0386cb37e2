"""What no operation shows about a family of models: one record for each of its classifiers.

Rules need none of this, and a model that is not here can be explained like any other.  What is
known here makes Leave-One-Out, Integrated Gradients and sweeps cheaper.  Classes are matched
exactly, because a subclass may compute something else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import signature

from torch import Tensor, nn
from transformers.models.auto import modeling_auto

from numeric.models.facts import facts_of

FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class Family:
    """Of one class of classifiers, and of the modules that it is made of.

    reads: the token whose row the head reads: the first, or the last whose id is not padding's
    attention: ``name`` of the class of its attention modules
    projections: their children whose outputs are Q, K and V
    join: that of the modules in which attention joins the stream, where copies may go on with
        the one row that is read, and the child that receives both ("": the module itself)
    """

    reads: str
    attention: str
    projections: tuple[str, str, str]
    join: tuple[str, str] | None = None


PLAIN, SHORT = ("query", "key", "value"), ("q_proj", "k_proj", "v_proj")

FAMILIES = {
    "bert.BertForSequenceClassification": Family(
        FIRST, "bert.BertSelfAttention", PLAIN, ("bert.BertSelfOutput", "")
    ),
    "roberta.RobertaForSequenceClassification": Family(
        FIRST, "roberta.RobertaSelfAttention", PLAIN, ("roberta.RobertaSelfOutput", "")
    ),
    "electra.ElectraForSequenceClassification": Family(
        FIRST, "electra.ElectraSelfAttention", PLAIN, ("electra.ElectraSelfOutput", "")
    ),
    "distilbert.DistilBertForSequenceClassification": Family(
        FIRST,
        "distilbert.DistilBertSelfAttention",
        ("q_lin", "k_lin", "v_lin"),
        ("distilbert.TransformerBlock", "sa_layer_norm"),
    ),
    "albert.AlbertForSequenceClassification": Family(FIRST, "albert.AlbertAttention", PLAIN),
    "vit.ViTForImageClassification": Family(FIRST, "vit.ViTAttention", SHORT),
    "gpt2.GPT2ForSequenceClassification": Family(
        LAST,
        "gpt2.GPT2Attention",
        ("c_attn", "c_attn", "c_attn"),  # one output, in that order
    ),
    "llama.LlamaForSequenceClassification": Family(LAST, "llama.LlamaAttention", SHORT),
    "mistral.MistralForSequenceClassification": Family(LAST, "mistral.MistralAttention", SHORT),
    "qwen2.Qwen2ForSequenceClassification": Family(LAST, "qwen2.Qwen2Attention", SHORT),
    "qwen3.Qwen3ForSequenceClassification": Family(LAST, "qwen3.Qwen3Attention", SHORT),
}
"""By ``name`` of the class, so that no model is imported but the one that is explained."""

ATTENTION = {family.attention: family.projections for family in FAMILIES.values()}
"""Attention modules, and the children whose outputs are Q, K and V.

What comes between these and the scores (the norms of Qwen3, rotation, shared heads) multiplies
a cotangent by a matrix, so a factor may act before it as well as after it.  Each module calls the
attention that its own ``config`` names, once, with nothing but these three.
"""

JOINS = dict(family.join for family in FAMILIES.values() if family.join)

CAUSAL = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()}
"""Names of the classes that are language models, in which every token predicts the next."""

IMAGE_TEXT = {*modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()}
"""Names of classes of models that read images and texts and write texts."""


def name(cls: type) -> str:
    """A class of Transformers by its model, such as "bert.BertLayer"; "" of any other class."""
    package, _, model = cls.__module__.rpartition(".modeling_")
    return f"{model}.{cls.__name__}" if package == f"transformers.models.{model}" else ""


def projections(module: nn.Module) -> tuple[str, ...] | None:
    """Children of an attention module whose outputs are Q, K and V; None of any other module."""
    return ATTENTION.get(name(type(module)))


def reads(model: nn.Module) -> str | None:
    """FIRST, LAST, or None where no record says which token the head reads."""
    family = FAMILIES.get(name(type(model)))
    return family.reads if family else None


def is_causal(model: nn.Module) -> bool:
    """Whether the logits of every token predict the next token, given a text alone."""
    name = type(model).__name__
    return name in CAUSAL or (name in IMAGE_TEXT and not facts_of(model).two)


def padding_position(modules: Iterable[nn.Module]) -> int | None:
    """The position that stands for padding, from which tokens are counted on; None: from 0."""
    tables = [module._modules.get("position_embeddings") for module in modules]  # a fast look
    found = [getattr(table, "padding_idx", None) for table in tables if table is not None]
    return next((number for number in found if number is not None), None)


TABLES = ("position_embeddings", "embed_positions", "wpe", "positions_embed")
"""How modules of Transformers call their tables of absolute positions."""


def counts_columns(model: nn.Module, modules: Sequence[nn.Module]) -> bool:
    """Whether a table of absolute positions is read by the number of the column, padding or not.

    Others count from the id that stands for padding, or take the mask, from which they count.
    """
    named = [(name, x) for module in modules for name, x in module._modules.items()]
    tables = [x for name, x in named if name in TABLES and x is not None]
    if not tables or facts_of(model).rotary:
        return False
    asks = any("attention_mask" in signature(x.forward).parameters for x in tables)
    return not asks and all(getattr(x, "padding_idx", None) is None for x in tables)


def position_ids(model: nn.Module, input_ids: Tensor) -> Tensor | None:
    """Positions that the model gives to ``input_ids``, or None if they are 0, 1, 2, ..."""
    padding = padding_position(model.modules())
    if padding is None:
        return None
    words = input_ids != padding
    return padding + words.cumsum(dim=1) * words

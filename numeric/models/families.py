"""Facts that no operation shows about a family of models: one record for each classifier.

Rules need none of this, and a model that is not here can be explained like any other.  These
facts make Leave-One-Out, Integrated Gradients and sweeps cheaper.  Classes are matched
exactly, because a subclass may compute something else.
"""

from dataclasses import dataclass

from torch import nn
from transformers.models.auto import modeling_auto

FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class Family:
    """One class of classifiers, and the modules that it is made of.

    reads: the token whose row the head reads: the first, or the last whose id is not padding's
    attention: ``name`` of the class of its attention modules
    projections: their children whose outputs are Q, K and V
    join: ``name`` of the class of modules that add attention to the stream, where copies may go
        on with the one row that is read, and the child that receives both ("": the module itself)
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
        ("c_attn", "c_attn", "c_attn"),  # one output, in this order
    ),
    "llama.LlamaForSequenceClassification": Family(LAST, "llama.LlamaAttention", SHORT),
    "mistral.MistralForSequenceClassification": Family(LAST, "mistral.MistralAttention", SHORT),
    "qwen2.Qwen2ForSequenceClassification": Family(LAST, "qwen2.Qwen2Attention", SHORT),
    "qwen3.Qwen3ForSequenceClassification": Family(LAST, "qwen3.Qwen3Attention", SHORT),
}
"""By ``name`` of the class, so that no model is imported but the explained one."""

ATTENTION = {family.attention: family.projections for family in FAMILIES.values()}
"""Attention modules, and the children whose outputs are Q, K and V.

Steps between these and the scores (the norms of Qwen3, rotation, shared heads) multiply
a cotangent by a matrix, so a factor may act before them as well as after them.  Each module
calls the attention that its own ``config`` names, once, with nothing but these three.
"""

JOINS = dict(family.join for family in FAMILIES.values() if family.join)

CAUSAL = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()}
"""Names of classes of language models whose tokens each predict the next one."""

DECODERS = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
DECODERS -= {*modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES}
"""Types of causal models; most of their classifiers find the last token by the id of padding."""

CLASSIFIES = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
IMAGE_TEXT = {*modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()}
"""Names of classes of models that read images and texts and write texts."""
WRITES = CAUSAL | IMAGE_TEXT


def name(cls: type) -> str:
    """Names a class of Transformers by its model, such as "bert.BertLayer"; "" for any other."""
    package, _, model = cls.__module__.rpartition(".modeling_")
    return f"{model}.{cls.__name__}" if package == f"transformers.models.{model}" else ""


def projections(module: nn.Module) -> tuple[str, ...] | None:
    """Returns children of an attention module whose outputs are Q, K and V; None for others."""
    return ATTENTION.get(name(type(module)))


def reads(cls: type) -> str | None:
    """Returns FIRST, LAST, or None where no record says which token the head reads."""
    family = FAMILIES.get(name(cls))
    return family.reads if family else None


def is_causal(cls: type, *, two: bool) -> bool:
    """Decides whether logits predict the next token, by a class or the first base with a head.

    two: whether a decoder may write another text
    """
    names = (base.__name__ for base in cls.__mro__)
    known = next((x for x in names if x in WRITES or x.endswith(CLASSIFIES)), "")
    return known in CAUSAL or (known in IMAGE_TEXT and not two)

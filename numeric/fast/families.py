"""Which modules of which Transformers models carry which kind of operation.

Tables only, matched by exact class: a subclass may compute something else.  A class that is in
no table has no rule, and a model that contains one is refused with all such modules listed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from transformers import activations
from transformers.models.albert import modeling_albert as albert
from transformers.models.auto import modeling_auto
from transformers.models.bert import modeling_bert as bert
from transformers.models.distilbert import modeling_distilbert as distilbert
from transformers.models.electra import modeling_electra as electra
from transformers.models.gpt2 import modeling_gpt2 as gpt2
from transformers.models.llama import modeling_llama as llama
from transformers.models.mistral import modeling_mistral as mistral
from transformers.models.qwen2 import modeling_qwen2 as qwen2
from transformers.models.qwen3 import modeling_qwen3 as qwen3
from transformers.models.roberta import modeling_roberta as roberta
from transformers.models.vit import modeling_vit as vit
from transformers.pytorch_utils import Conv1D

from axioms import kinds
from axioms.composites import Operation

BERT_LIKE = ((bert, "Bert"), (roberta, "Roberta"), (electra, "Electra"))
LLAMA_LIKE = ((llama, "Llama"), (mistral, "Mistral"), (qwen2, "Qwen2"), (qwen3, "Qwen3"))


def _classes(families, *suffixes):
    """One class per family and suffix, for families that copy one another's code."""
    return [getattr(code, name + suffix) for code, name in families for suffix in suffixes]


LEAVES = {
    nn.Linear: kinds.LINEAR,
    Conv1D: kinds.LINEAR,  # whose weight is (in, out)
    nn.LayerNorm: kinds.LAYER_NORM,
}
LEAVES |= dict.fromkeys(_classes(LLAMA_LIKE, "RMSNorm"), kinds.RMS_NORM)
LEAVES |= dict.fromkeys(
    (
        nn.GELU,
        nn.Tanh,
        nn.ReLU,
        nn.SiLU,
        activations.GELUActivation,
        activations.NewGELUActivation,
        activations.FastGELUActivation,
        activations.GELUTanh,
        activations.SiLUActivation,
    ),
    kinds.ACTIVATION,
)

RESIDUAL_SUMS = {
    distilbert.Embeddings: ("LayerNorm",),
    distilbert.TransformerBlock: ("sa_layer_norm", "output_layer_norm"),
    albert.AlbertEmbeddings: ("LayerNorm",),
    albert.AlbertAttention: ("LayerNorm",),
    albert.AlbertLayer: ("full_layer_layer_norm",),
    gpt2.GPT2Model: ("drop",),
    vit.ViTEmbeddings: ("dropout",),
}
RESIDUAL_SUMS |= dict.fromkeys(
    _classes(BERT_LIKE, "Embeddings", "SelfOutput", "Output"), ("LayerNorm",)
)
"""Modules that add, and the children that receive nothing but a sum, and all of it."""

STREAMS = {gpt2.GPT2Block, vit.ViTLayer, *_classes(LLAMA_LIKE, "DecoderLayer")}
"""Modules that add to a stream which goes on beside their norms: no child receives all of it."""

ATTENTION = {
    distilbert.DistilBertSelfAttention: ("q_lin", "k_lin", "v_lin"),
    albert.AlbertAttention: ("query", "key", "value"),
    gpt2.GPT2Attention: ("c_attn", "c_attn", "c_attn"),  # one output, in that order
    vit.ViTAttention: ("q_proj", "k_proj", "v_proj"),
}
ATTENTION |= dict.fromkeys(_classes(BERT_LIKE, "SelfAttention"), ("query", "key", "value"))
ATTENTION |= dict.fromkeys(_classes(LLAMA_LIKE, "Attention"), ("q_proj", "k_proj", "v_proj"))
"""Attention modules, and the children whose outputs are Q, K and V.

What comes between these and the scores (the norms of Qwen3, rotation, shared heads) multiplies
a cotangent by a matrix, so a factor may act before it as well as behind it.  Each module calls the
attention that its own ``config`` names, once, with nothing but these three.
"""

GATED = dict.fromkeys(_classes(LLAMA_LIKE, "MLP"), "down_proj")
"""Modules that multiply two activations, and the child that receives the product."""

FUNCTIONAL = {roberta.RobertaClassificationHead: ("dense", torch.tanh, "out_proj")}
"""Modules that apply a function between two children; dropout beside it is the identity.

DistilBertForSequenceClassification makes its ReLU as it runs; it is not here, because the slope
of ReLU is y / x, so that its plain gradient is the identity rule.
"""

EMBEDDINGS = {
    distilbert.Embeddings: ("word_embeddings", "LayerNorm"),
    albert.AlbertEmbeddings: ("word_embeddings", "LayerNorm"),
    gpt2.GPT2Model: ("wte", "drop"),
    vit.ViTEmbeddings: ("patch_embeddings", "dropout"),
}
EMBEDDINGS |= dict.fromkeys(_classes(BERT_LIKE, "Embeddings"), ("word_embeddings", "LayerNorm"))
EMBEDDINGS |= dict.fromkeys(_classes(LLAMA_LIKE, "Model"), ("embed_tokens", None))
"""Where words enter, and the child that receives the sum of all embeddings.

None: nothing is added to words, since position enters by rotation.
"""

CLASS_TOKEN = {vit.ViTEmbeddings: "cls_token"}
"""Embeddings that put a token of their own before those that enter: it counts as a word."""

BEFORE_THE_SUM = {vit.ViTPatchEmbeddings}
"""Modules that act on pixels, of which no relevance is asked."""

CALLS = dict.fromkeys(_classes(BERT_LIKE, "Intermediate"), "intermediate_act_fn")
"""Modules that call what may be a plain function, and the name they call it by."""

READS_FIRST_TOKEN = {
    bert.BertPooler,
    roberta.RobertaClassificationHead,
    electra.ElectraClassificationHead,
    distilbert.DistilBertForSequenceClassification,
    albert.AlbertModel,
    vit.ViTForImageClassification,
}
"""Modules that read the first column of a batch, whatever is there."""

READS_LAST_TOKEN = {
    gpt2.GPT2ForSequenceClassification,
    *_classes(LLAMA_LIKE, "ForSequenceClassification"),
}
"""Modules that read the last token whose id is not that of padding, whatever is masked."""

COUNTS_POSITIONS = {roberta.RobertaEmbeddings}
"""Embeddings that count positions from the padding id on, and only where there is no padding."""

WITHOUT_ARITHMETIC = {
    nn.Dropout,  # identity, since only models in eval mode are accepted
    nn.Identity,
    nn.Embedding,
    nn.ModuleList,
    bert.BertPooler,
    distilbert.FFN,
    distilbert.Transformer,
    distilbert.DistilBertModel,
    distilbert.DistilBertForSequenceClassification,
    electra.ElectraClassificationHead,
    albert.AlbertLayerGroup,  # the depths share its layers, so that no layer has a number
    albert.AlbertTransformer,
    albert.AlbertModel,
    albert.AlbertForSequenceClassification,
    gpt2.GPT2MLP,
    gpt2.GPT2ForSequenceClassification,
    vit.ViTPatchEmbeddings,
    vit.ViTMLP,
    vit.ViTModel,
    vit.ViTForImageClassification,
    *_classes(BERT_LIKE, "Attention", "Intermediate", "Layer", "Encoder", "Model"),
    *_classes(BERT_LIKE, "ForSequenceClassification"),
    *_classes(LLAMA_LIKE, "RotaryEmbedding"),  # makes constants, from positions alone
    *_classes(LLAMA_LIKE, "Model", "ForSequenceClassification"),
}

CAUSAL = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()}
"""Names of the classes that are language models, of which every token predicts the next."""

LAYER = re.compile(r"\.(?:layer|layers|h)\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Site:
    """One module at which a rule applies."""

    module: nn.Module
    operation: Operation


def places(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every path and its module, of which one module may have several; the root first."""
    return list(model.named_modules(remove_duplicate=False))


def sites(at: list[tuple[str, nn.Module]]) -> list[Site]:
    """Every operation at the places ``at``; modules of unknown class are kept, as such."""
    outside = tuple(f"{path}." for path, module in at if type(module) in BEFORE_THE_SUM)
    found = []
    for path, module in at:
        operations = () if path.startswith(outside) else _kinds(module)
        found += [Site(module, _operation(kind, path)) for kind in operations]
    return found


@cache
def _operation(kind, path):
    layer = LAYER.search(path)
    return Operation(kind=kind, module=path, layer=layer and int(layer[1]))


def reads_first_token(model: nn.Module) -> bool:
    return any(type(module) in READS_FIRST_TOKEN for module in model.modules())


def reads_last_token(model: nn.Module) -> bool:
    return type(model) in READS_LAST_TOKEN


def is_causal(model: nn.Module) -> bool:
    """Whether every token has logits of what comes next."""
    return type(model).__name__ in CAUSAL


def reads_one_token(model: nn.Module) -> bool:
    """Whether the logits are known to be read from one row: another class may average over all."""
    return reads_last_token(model) or type(model) in WITHOUT_ARITHMETIC


def position_ids(model: nn.Module, input_ids: Tensor) -> Tensor | None:
    """Positions that the model gives to ``input_ids``, or None if they are 0, 1, 2, ..."""
    embeddings = counts_positions(model.modules())
    if embeddings is None:
        return None
    return embeddings.create_position_ids_from_input_ids(input_ids, embeddings.padding_idx)


def counts_positions(modules: Iterable[nn.Module]) -> nn.Module | None:
    """The embeddings among ``modules`` that count positions from the padding id on, if any do."""
    return next((module for module in modules if type(module) in COUNTS_POSITIONS), None)


def _kinds(module):
    cls = type(module)
    if "forward" in vars(module):  # then its class no longer says what it computes
        return [f"{cls.__name__} with a replaced forward"]
    if cls in CALLS and not isinstance(getattr(module, CALLS[cls]), nn.Module):
        return [f"{CALLS[cls]} that is no module"]
    found = [LEAVES[cls]] if cls in LEAVES else []
    found += [kinds.SCORES, kinds.SOFTMAX, kinds.READOUT] if cls in ATTENTION else []
    found += [kinds.ADD] if cls in RESIDUAL_SUMS or cls in STREAMS else []
    found += [kinds.PRODUCT] if cls in GATED else []
    found += [kinds.ACTIVATION] if cls in FUNCTIONAL else []
    return found if found or cls in WITHOUT_ARITHMETIC else [cls.__name__]

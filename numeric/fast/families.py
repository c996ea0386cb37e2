"""Which modules of which Transformers models carry which kind of operation.

Tables only, matched by exact class: a subclass may compute something else.  A class that is in
no table has no rule, and a model that contains one is refused with all such modules listed.
"""

import re
from dataclasses import dataclass

from torch import nn
from transformers import activations
from transformers.models.bert import modeling_bert as bert

from axioms import kinds
from axioms.composites import Operation

LEAVES = {nn.Linear: kinds.LINEAR, nn.LayerNorm: kinds.LAYER_NORM}
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
    bert.BertEmbeddings: "LayerNorm",
    bert.BertSelfOutput: "LayerNorm",
    bert.BertOutput: "LayerNorm",
}
"""Modules that add, and the child that receives the sum."""

ATTENTION = {bert.BertSelfAttention: ("query", "key", "value")}
"""Attention modules, and the children whose outputs are Q, K and V."""

EMBEDDINGS = {bert.BertEmbeddings: ("word_embeddings", "LayerNorm")}
"""Where words enter, and the child that receives the sum of all embeddings."""

CALLS = {bert.BertIntermediate: "intermediate_act_fn"}
"""Modules that call what may be a plain function, and the name they call it by."""

READS_FIRST_TOKEN = {bert.BertPooler}
"""Modules that read the first column of a batch, whatever is there."""

WITHOUT_ARITHMETIC = {
    nn.Dropout,  # identity, since only models in eval mode are accepted
    nn.Identity,
    nn.Embedding,
    nn.ModuleList,
    bert.BertAttention,
    bert.BertIntermediate,
    bert.BertLayer,
    bert.BertEncoder,
    bert.BertPooler,
    bert.BertModel,
    bert.BertForSequenceClassification,
}

LAYER = re.compile(r"\.layer\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Site:
    """One module at which a rule applies."""

    module: nn.Module
    operation: Operation


def sites(model: nn.Module) -> list[Site]:
    """Every operation of ``model`` by path; modules of unknown class are kept, as such."""
    found = []
    for path, module in model.named_modules(remove_duplicate=False):
        layer = LAYER.search(path)
        found += [
            Site(module, Operation(kind=kind, module=path, layer=layer and int(layer[1])))
            for kind in _kinds(module)
        ]
    return found


def reads_first_token(model: nn.Module) -> bool:
    return any(type(module) in READS_FIRST_TOKEN for module in model.modules())


def _kinds(module):
    cls = type(module)
    if "forward" in vars(module):  # then its class no longer says what it computes
        return [f"{cls.__name__} with a replaced forward"]
    if cls in CALLS and not isinstance(getattr(module, CALLS[cls]), nn.Module):
        return [f"{CALLS[cls]} that is no module"]
    if cls in LEAVES:
        return [LEAVES[cls]]
    if cls in ATTENTION:
        return [kinds.SCORES, kinds.SOFTMAX, kinds.READOUT]
    if cls in RESIDUAL_SUMS:
        return [kinds.ADD]
    return [] if cls in WITHOUT_ARITHMETIC else [cls.__name__]

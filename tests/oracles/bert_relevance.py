"""Relevance in the BERT of ``bert.py``, from one logit down to the embeddings.

Operations go by the module paths of Hugging Face's ``BertForSequenceClassification``, too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from axioms import kinds
from axioms.composites import Composite, Operation
from numeric.reference.dispatch import RULES
from tests.oracles.bert import EMBEDDINGS, Bert, forward, layer_paths, merge_heads, split_heads


@dataclass
class Relevance:
    """Relevance, in logits, at the sum of the embeddings, before the first LayerNorm."""

    tokens: np.ndarray  # (t)
    channels: np.ndarray  # (t, c), which ``tokens`` sums
    word: np.ndarray  # (t), the shares of the three operands of the sum
    position: np.ndarray  # (t)
    type: np.ndarray  # (t)
    logit: float
    target: int
    outputs: dict[str, np.ndarray]  # (t, c), at the output of every linear map, norm, activation


def operations(model: Bert) -> list[Operation]:
    """Every relevance-carrying operation, by kind, module path and layer."""
    listed = [
        Operation(kind=kinds.LINEAR, module="classifier"),
        Operation(kind=kinds.ACTIVATION, module="bert.pooler.activation"),
        Operation(kind=kinds.LINEAR, module="bert.pooler.dense"),
        Operation(kind=kinds.LAYER_NORM, module="bert.embeddings.LayerNorm"),
        Operation(kind=kinds.ADD, module="bert.embeddings"),
    ]
    for layer in range(model.num_layers):
        attention, output, intermediate, mlp = layer_paths(layer)
        places = [
            *((kind, attention) for kind in (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)),
            *((kinds.LINEAR, f"{attention}.{name}") for name in ("query", "key", "value")),
            *((kinds.LINEAR, f"{module}.dense") for module in (output, intermediate, mlp)),
            *((kinds.ADD, module) for module in (output, mlp)),
            *((kinds.LAYER_NORM, f"{module}.LayerNorm") for module in (output, mlp)),
            (kinds.ACTIVATION, f"{intermediate}.intermediate_act_fn"),
        ]
        listed += [Operation(kind=kind, module=path, layer=layer) for kind, path in places]
    return listed


def rule_names(model: Bert, composite: Composite) -> dict[tuple[str, str], str]:
    """The rule of every operation, by kind and module path.

    Raises UnassignedOperation (axioms.composites) that lists the operations without a rule, or with
    a rule that is none on relevance, such as "gradient".
    """
    places = operations(model)
    names = composite.assign(places, known=RULES)
    return {(op.kind, op.module): name for op, name in zip(places, names, strict=True)}


def relevance(
    model: Bert,
    input_ids: ArrayLike,
    *,
    composite: Composite,
    target: int | None = None,
    eps: float = 0.0,
    token_type_ids: ArrayLike | None = None,
    keep: ArrayLike | None = None,
) -> Relevance:
    """Eqs. 1 and 3-5, as ``composite`` assigns them, from one logit down to the embeddings.

    input_ids, token_type_ids, keep: (t), as in ``forward``; target: class index, default the
    predicted one.  Raises the errors of ``rule_names``.
    """
    names = rule_names(model, composite)
    at = forward(model, input_ids, token_type_ids=token_type_ids, keep=keep)
    heads = model.num_attention_heads
    outputs: dict[str, np.ndarray] = {}

    def through(kind: str, module: str, r: np.ndarray, *activations: Any) -> Any:
        if kind in {kinds.LINEAR, kinds.LAYER_NORM, kinds.ACTIVATION}:  # modules of their own
            outputs[module] = r
        return RULES[kind, names[kind, module]].messages(*activations, r, eps=eps)

    def linear(module: str, r: np.ndarray, x: np.ndarray) -> Any:
        return through(kinds.LINEAR, module, r, x, *model.linear(module))

    def norm(module: str, r: np.ndarray) -> Any:
        path = f"{module}.LayerNorm"
        activations = at[f"{module}.sum"], *model.norm(path), model.layer_norm_eps
        return through(kinds.LAYER_NORM, path, r, *activations)

    logits = at["classifier"]
    target = int(logits.argmax()) if target is None else target
    r = np.zeros_like(logits)
    r[target] = logits[target]
    r = linear("classifier", r, at["bert.pooler.activation"])
    r = through(kinds.ACTIVATION, "bert.pooler.activation", r)

    # inputs[l] is the input of layer l; the last one is the pooler's, at [CLS] alone.
    inputs = [at["bert.embeddings.LayerNorm"]]
    inputs += [at[f"{layer_paths(layer)[-1]}.LayerNorm"] for layer in range(model.num_layers)]
    first_row = linear("bert.pooler.dense", r, inputs[-1][0])
    r = np.zeros_like(inputs[-1])
    r[0] = first_row

    for layer in reversed(range(model.num_layers)):
        attention, output, intermediate, mlp = layer_paths(layer)
        x, middle = inputs[layer], at[f"{output}.LayerNorm"]

        r = norm(mlp, r)
        r, skip = through(kinds.ADD, mlp, r, (at[f"{mlp}.dense"], middle))
        activation = f"{intermediate}.intermediate_act_fn"
        r = through(kinds.ACTIVATION, activation, linear(f"{mlp}.dense", r, at[activation]))
        r = linear(f"{intermediate}.dense", r, middle) + skip

        r = norm(output, r)
        r, skip = through(kinds.ADD, output, r, (at[f"{output}.dense"], x))
        r = linear(f"{output}.dense", r, merge_heads(at[f"{attention}.readout"]))
        paths = [f"{attention}.{name}" for name in ("query", "key", "value")]
        q, k, v = (split_heads(at[path], heads) for path in paths)
        weights, scores = at[f"{attention}.weights"], at[f"{attention}.scores"]
        r_weights, r_v = through(kinds.READOUT, attention, split_heads(r, heads), weights, v)
        r_scores = through(kinds.SOFTMAX, attention, r_weights, scores)
        r_q, r_k = through(kinds.SCORES, attention, r_scores, q, k, q.shape[-1] ** -0.5)
        r = skip
        for path, part in zip(paths, (r_q, r_k, r_v), strict=True):
            r = r + linear(path, merge_heads(part), x)

    r = norm("bert.embeddings", r)
    operands = tuple(at[table] for table in EMBEDDINGS)
    word, position, types = through(kinds.ADD, "bert.embeddings", r, operands)
    return Relevance(
        tokens=r.sum(axis=-1),
        channels=r,
        word=word.sum(axis=-1),
        position=position.sum(axis=-1),
        type=types.sum(axis=-1),
        logit=float(logits[target]),
        target=target,
        outputs=outputs,
    )

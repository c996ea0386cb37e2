"""A whole BERT sequence classifier, embeddings to logits: its forward pass.

One sentence at a time, without padding, in float64.  Axis letters: ``t`` token, ``c`` channel,
``h`` head, ``j`` query row, ``i`` key row, ``r`` query/key channel, ``p`` value channel.
Parameters and activations go by the module paths of Hugging Face's
``BertForSequenceClassification``; a linear weight is stored (out, in) as there.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, expit

from numeric.reference import rules


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    y: np.ndarray = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return y


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * expit(x),
    "tanh": np.tanh,
}

EMBEDDINGS = tuple(
    f"bert.embeddings.{name}_embeddings" for name in ("word", "position", "token_type")
)


@dataclass
class Bert:
    """The parameters by state-dict name, and the few numbers that they do not show."""

    parameters: dict[str, np.ndarray]
    num_attention_heads: int
    layer_norm_eps: float
    hidden_act: str  # a key of ACTIVATIONS

    @property
    def num_layers(self) -> int:
        names = (name.split(".") for name in self.parameters if ".encoder.layer." in name)
        return 1 + max(int(parts[3]) for parts in names)

    def linear(self, module: str) -> tuple[np.ndarray, np.ndarray]:
        """Weight (in, out), as in Eq. 1, and bias of a linear layer."""
        return self.parameters[f"{module}.weight"].T, self.parameters[f"{module}.bias"]

    def norm(self, module: str) -> tuple[np.ndarray, np.ndarray]:
        return self.parameters[f"{module}.weight"], self.parameters[f"{module}.bias"]


def load(folder: str | Path) -> Bert:
    """Reads ``config.json`` and ``model.safetensors`` of the embedded classifier into float64."""
    from safetensors.numpy import load_file

    config = json.loads((Path(folder) / "config.json").read_text())
    arrays = load_file(Path(folder) / "model.safetensors")
    return Bert(
        parameters={name: array.astype(np.float64) for name, array in arrays.items()},
        num_attention_heads=config["num_attention_heads"],
        layer_norm_eps=config["layer_norm_eps"],
        hidden_act=config["hidden_act"],
    )


def layer_paths(layer: int) -> list[str]:
    """The module paths of one layer: attention, its output, the two halves of the MLP."""
    names = ("attention.self", "attention.output", "intermediate", "output")
    return [f"bert.encoder.layer.{layer}.{name}" for name in names]


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """(t, c) -> (h, t, c / h)"""
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def merge_heads(x: np.ndarray) -> np.ndarray:
    """(h, t, c / h) -> (t, c)"""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def forward(
    model: Bert,
    input_ids: ArrayLike,
    *,
    token_type_ids: ArrayLike | None = None,
    keep: ArrayLike | None = None,
) -> dict[str, np.ndarray]:
    """Every activation of one sentence, by the path of the module that computes it.

    input_ids, token_type_ids (default 0), keep (bool, default all true): (t).  A token with
    ``keep`` false keeps its place but is no key in any layer: its weight is exactly 0.
    Next to the outputs of modules (t, c): ``scores`` and ``weights`` (h, j, i) and ``readout``
    (h, j, p) of each ``attention.self``, and the ``sum`` (t, c) before each LayerNorm.  The
    logits are at ``classifier``.
    """
    input_ids = np.asarray(input_ids)
    types = np.zeros_like(input_ids) if token_type_ids is None else np.asarray(token_type_ids)
    keep = np.ones(len(input_ids), bool) if keep is None else np.asarray(keep, bool)
    heads, activation = model.num_attention_heads, ACTIVATIONS[model.hidden_act]
    at: dict[str, np.ndarray] = {}

    def linear(module: str, x: np.ndarray) -> np.ndarray:
        weight, bias = model.linear(module)
        at[module] = x @ weight + bias
        return at[module]

    def norm(module: str, x: np.ndarray) -> np.ndarray:
        at[f"{module}.sum"] = x
        weight, bias = model.norm(f"{module}.LayerNorm")
        deviation = np.sqrt(x.var(axis=-1, keepdims=True) + model.layer_norm_eps)
        at[f"{module}.LayerNorm"] = (x - x.mean(axis=-1, keepdims=True)) / deviation * weight + bias
        return at[f"{module}.LayerNorm"]

    for table, row in zip(EMBEDDINGS, (input_ids, np.arange(len(input_ids)), types), strict=True):
        at[table] = model.parameters[f"{table}.weight"][row]
    embedding: Any = sum(at[table] for table in EMBEDDINGS)
    x = norm("bert.embeddings", embedding)

    for layer in range(model.num_layers):
        attention, output, intermediate, mlp = layer_paths(layer)
        paths = [f"{attention}.{name}" for name in ("query", "key", "value")]
        q, k, v = (split_heads(linear(path, x), heads) for path in paths)
        z = np.einsum("hjr,hir->hji", q, k) / np.sqrt(q.shape[-1])
        at[f"{attention}.scores"] = np.where(keep, z, -np.inf)
        at[f"{attention}.weights"] = rules.softmax(at[f"{attention}.scores"])
        at[f"{attention}.readout"] = np.einsum("hji,hip->hjp", at[f"{attention}.weights"], v)
        x = norm(output, linear(f"{output}.dense", merge_heads(at[f"{attention}.readout"])) + x)

        at[f"{intermediate}.intermediate_act_fn"] = activation(linear(f"{intermediate}.dense", x))
        x = norm(mlp, linear(f"{mlp}.dense", at[f"{intermediate}.intermediate_act_fn"]) + x)

    at["bert.pooler.activation"] = np.tanh(linear("bert.pooler.dense", x[0]))
    linear("classifier", at["bert.pooler.activation"])
    return at

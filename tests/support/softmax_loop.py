"""The errors of softmax propagation slowly: one text, head, query and key at a time, in NumPy."""

from dataclasses import fields
from functools import partial

import numpy as np
import torch

from numeric.evaluation.softmax_errors import SoftmaxErrors
from tests.oracles import bert
from tests.support import cases

FIELDS = [field.name for field in fields(SoftmaxErrors)]
MESSAGES = ("removal", "value", "unseen", "taylor", "zeroing")
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12)
TARGET = [1, 0]  # not the predicted classes


def readout_of(model, layer):
    return model.bert.encoder.layer[layer].attention.self


def activations(model, batch, example):
    """The tokens of one text; per layer logits (h, j, i), values (h, i, p), readout, g."""
    kept = batch["attention_mask"][example].numpy() == 1
    at = bert.forward(
        cases.reference_of(model),
        batch["input_ids"][example].numpy(),
        token_type_ids=batch["token_type_ids"][example].numpy(),
        keep=kept,
    )
    tokens = np.flatnonzero(kept)
    heads, layers = model.config.num_attention_heads, model.config.num_hidden_layers
    for layer, g in zip(range(layers), gradients(model, batch, example), strict=True):
        path = f"bert.encoder.layer.{layer}.attention.self"
        v = bert.split_heads(at[f"{path}.value"], heads)
        g = bert.split_heads(g, heads)
        z = at[f"{path}.scores"][:, tokens][:, :, tokens]
        yield z, v[:, tokens], at[f"{path}.readout"][:, tokens], g[:, tokens]


def gradients(model, batch, example):
    """df_c/dO of one text in every layer, by autograd of the stock model, (token, channel)."""
    outs = []
    layers = range(model.config.num_hidden_layers)
    keep = lambda _m, _i, output: outs.append(output[0])
    handles = [readout_of(model, layer).register_forward_hook(keep) for layer in layers]
    logits = model(**{key: x[[example]] for key, x in batch.items()}).logits
    for handle in handles:
        handle.remove()
    return [g[0].numpy() for g in torch.autograd.grad(logits[0, TARGET[example]], outs)]


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def loop(z, v, o, g):
    """(messages by name, (h, j, i), and all fields) of one layer of one text."""
    heads, n, _ = z.shape
    found = {name: np.zeros((heads, n, n)) for name in MESSAGES}
    entropies, default, mean_square, square = [], 0.0, 0.0, 0.0
    for h, j in np.ndindex(heads, n):
        a = softmax(z[h, j])
        entropies.append(-sum(p * np.log(p) for p in a))
        mean_square += (o[h, j] @ g[h, j]) ** 2
        for i in range(n):
            without, zeroed = z[h, j].copy(), z[h, j].copy()
            without[i], zeroed[i] = -np.inf, 0.0
            found["removal"][h, j, i] = (o[h, j] - softmax(without) @ v[h]) @ g[h, j]
            found["zeroing"][h, j, i] = (o[h, j] - softmax(zeroed) @ v[h]) @ g[h, j]
            found["value"][h, j, i] = a[i] * v[h, i] @ g[h, j]
            found["unseen"][h, j, i] = a[i] * o[h, j] @ g[h, j]
            row = [z[h, j, i] * a[i] * ((k == i) - a[k]) * v[h, k] @ g[h, j] for k in range(n)]
            found["taylor"][h, j, i] = sum(row)
            default += min(a[i], 1 / n) * abs(v[h, i] @ g[h, j])
            square += a[i] * (v[h, i] @ g[h, j]) ** 2
    removal, value, unseen, taylor, zeroing = (found[name].ravel() for name in MESSAGES)
    tokens = {name: x.sum(axis=(0, 1)) for name, x in found.items()}
    size = lambda x: sum(map(abs, x))
    return found, {
        "entropy": np.mean(entropies),
        "flatness": np.mean(entropies) / np.log(n),
        "default_share": default / size(value),
        "structural_bias": size(unseen) / size(value),
        "unseen_share": mean_square / square,
        "linearization_error": size(taylor - removal) / size(removal),
        "first_order_error": size(taylor - zeroing) / size(zeroing),
        "centred_error": size(value - unseen - removal) / size(removal),
        "taylor_r": np.corrcoef(taylor, removal)[0, 1],
        "value_r": np.corrcoef(value, removal)[0, 1],
        "taylor_token_r": np.corrcoef(tokens["taylor"], tokens["removal"])[0, 1],
        "value_token_r": np.corrcoef(tokens["value"], tokens["removal"])[0, 1],
    }

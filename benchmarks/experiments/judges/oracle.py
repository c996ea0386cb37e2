"""``python -m benchmarks.experiments.judges.oracle MODEL ...``: what bounds one backward pass.

Mask relevance replaces every nonlinearity of a BERT by its slope at the whole text.  Here some of
them are replaced by their secant between the whole text and the text without the token, which only
a second forward pass knows.  With all secants this is Leave-One-Out; the gain of the secants of one
kind says how much agreement the slopes of that kind cost, whatever else a method does.
"""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from benchmarks.experiments.columns import interval
from benchmarks.experiments.judges.budgets import sentences
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric.evaluation.correlation import pearson
from numeric.reference import bert
from numeric.reference.bert import merge_heads, split_heads

At = dict[str, np.ndarray]
"""Every activation of a forward pass, by module path."""
NORM, ACTIVATION, TANH, SOFTMAX, SCORES, READOUT = KINDS = (
    "deviation of LayerNorm",
    "activation",
    "tanh",
    "softmax",
    "product of queries and keys",
    "product of weights and values",
)
SETTINGS: dict[str, Collection[str]] = {
    "slopes only": (),
    **{f"secants of {kind}": (kind,) for kind in KINDS},
    "all secants": KINDS,
}
STEP = 1e-5  # of the central differences that stand for the slope of an activation


def without(model: bert.Bert, ids: np.ndarray) -> list[At]:
    """The whole text, and the text without each token in turn."""
    every = np.arange(len(ids))
    return [bert.forward(model, ids), *(bert.forward(model, ids, keep=every != t) for t in every)]


def relevance(
    model: bert.Bert, passes: Sequence[At], target: int, secants: Collection[str]
) -> np.ndarray:
    """(t), in logits: Leave-One-Out if ``secants`` are all ``KINDS``; ``passes`` as ``without``.

    With none of them it is the exact derivative of the logit by masks, with the factor 1 / (1 - A)
    of each layer (theorem 55), rows of the token itself included.
    """
    whole, *others = passes
    return np.array([-_change(model, whole, x, secants)[target] for x in others])


def _change(model: bert.Bert, whole: At, less: At, secants: Collection[str]) -> np.ndarray:
    """What the logits change by."""
    linear = lambda path, dx: dx @ model.linear(path)[0]
    dx = np.zeros_like(whole["bert.embeddings.LayerNorm"])
    for layer in range(model.num_layers):
        attention, output, intermediate, mlp = bert.layer_paths(layer)
        read = merge_heads(_attention(model, attention, dx, whole, less, secants))
        dx = _norm(model, output, linear(f"{output}.dense", read) + dx, whole, less, secants)
        inner = linear(f"{intermediate}.dense", dx)
        inner *= _steepness(
            bert.ACTIVATIONS[model.hidden_act],
            *(x[f"{intermediate}.dense"] for x in (whole, less)),
            secant=ACTIVATION in secants,
        )
        dx = _norm(model, mlp, linear(f"{mlp}.dense", inner) + dx, whole, less, secants)
    pooled = linear("bert.pooler.dense", dx[0]) * _steepness(
        np.tanh, *(x["bert.pooler.dense"] for x in (whole, less)), secant=TANH in secants
    )
    return linear("classifier", pooled)


def _attention(model, path, dx, whole, less, secants):
    """(h, t, c): without the token at these scores and values, and by what else has changed."""
    heads = model.num_attention_heads
    split = lambda name, x: split_heads(x[f"{path}.{name}"], heads)
    dq, dk, dv = (
        split_heads(dx @ model.linear(f"{path}.{name}")[0], heads)
        for name in ("query", "key", "value")
    )
    q, k, v = (split(name, whole) for name in ("query", "key", "value"))
    a, b = whole[f"{path}.weights"], less[f"{path}.weights"]
    kept = a * (b > 0)
    kept /= kept.sum(axis=-1, keepdims=True)
    q_at, k_at = (q, k)
    if SCORES in secants:
        q_at, k_at = (split(x, whole) / 2 + split(x, less) / 2 for x in ("query", "key"))
    dz = (q_at @ dk.swapaxes(1, 2) + dq @ k_at.swapaxes(1, 2)) / np.sqrt(q.shape[-1])
    share = _logarithmic_mean(kept, b) if SOFTMAX in secants else a
    da = share * (dz - (share * dz).sum(axis=-1, keepdims=True) / share.sum(axis=-1, keepdims=True))
    v_at, a_at = (v, a)
    if READOUT in secants:
        v_at, a_at = v / 2 + split("value", less) / 2, kept / 2 + b / 2
    return (kept - a) @ v + da @ v_at + a_at @ dv


def _logarithmic_mean(a, b):
    """(b - a) / (log b - log a), 0 where both are."""
    none = (a <= 0) | (b <= 0)
    d = np.log(np.where(none, 1, b)) - np.log(np.where(none, 1, a))
    return np.where(none, 0, a * np.where(d == 0, 1, np.expm1(d) / np.where(d == 0, 1, d)))


def _norm(model, path, dx, whole, less, secants):
    c, c_less = (x[f"{path}.sum"] - x[f"{path}.sum"].mean(-1, keepdims=True) for x in (whole, less))
    if NORM not in secants:
        c_less = c
    s, s_less = (
        np.sqrt((x**2).mean(-1, keepdims=True) + model.layer_norm_eps) for x in (c, c_less)
    )
    dc = dx - dx.mean(-1, keepdims=True)
    bend = ((c + c_less) * dc).mean(-1, keepdims=True) / (s * s_less * (s + s_less))
    return (dc / s_less - c * bend) * model.norm(f"{path}.LayerNorm")[0]


def _steepness(function, x, y, *, secant):
    """The secant between x and y, or the slope at x, which also stands for secants of no length."""
    slope = (function(x + STEP) - function(x - STEP)) / (2 * STEP)
    far = abs(y - x) > STEP
    chord = (function(y) - function(x)) / np.where(far, y - x, 1)
    return np.where(secant & far, chord, slope)


def agreement(name: str, texts: data.Texts) -> dict[str, dict[str, np.ndarray]]:
    """By setting: r with Leave-One-Out of every text, over all and over content tokens."""
    words = models.load(name).tokenizer
    model = bert.load(models.EMBEDDED.get(name, name))
    found: dict[str, list[tuple[float, float]]] = {setting: [] for setting in SETTINGS}
    for text in texts.texts:
        ids = np.array(words(text, truncation=True)["input_ids"])
        passes = without(model, ids)
        logits = np.array([x["classifier"] for x in passes])
        target = int(logits[0].argmax())
        exact = (logits[0] - logits[1:])[None, :, target]
        content = ~np.isin(ids, words.all_special_ids)[None]
        for setting, secants in SETTINGS.items():
            own = relevance(model, passes, target, secants)[None]
            r = [pearson(own, exact, keep)[0] for keep in (np.ones_like(content), content)]
            found[setting].append((r[0], r[1]))
    return {
        setting: means(dict(zip(("all", "content"), np.array(r).T, strict=True)))
        for setting, r in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="BERT classifiers")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--dataset", choices=("sst2", "imdb"), default="sst2")
    parser.add_argument("--examples", type=int, default=60)
    options = parser.parse_args(arguments)
    texts = data.load(options.dataset, data_dir=options.data_dir, training=True)
    chosen = sentences(texts, options.examples)
    print("| model | nonlinearities | all | content |\n|---|---|--:|--:|")
    for name in options.models:
        for setting, row in agreement(name, chosen).items():
            cells = [interval(tokens)(row) for tokens in ("all", "content")]
            print(f"| {' | '.join([Path(name).name, setting, *cells])} |", flush=True)


if __name__ == "__main__":
    main()

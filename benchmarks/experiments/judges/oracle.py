"""``python -m benchmarks.experiments.judges.oracle MODEL ...``: what bounds one backward pass.

Mask relevance replaces every nonlinearity of a BERT by its slope at the whole text.  Here some of
them are replaced by their secant between the whole text and the text without the token, which only
a second forward pass knows.  With all secants this is Leave-One-Out; the gain of the secants of one
kind says how much agreement the slopes of that kind cost, whatever else a method does.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from benchmarks.experiments import arguments
from benchmarks.experiments.columns import interval
from benchmarks.experiments.judges.budgets import sentences
from benchmarks.experiments.maps import means
from benchmarks.sources import data, models
from numeric.evaluation.correlation import pearson
from numeric.reference import bert

At = dict[str, np.ndarray]
"""Activations of a forward pass, or of several behind one more axis in front, by module path."""
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
READ = (
    *(f"attention.self.{name}" for name in ("query", "key", "value", "weights")),
    *("output.sum", "intermediate.dense", "bert.pooler.dense", "classifier"),
)
"""Ends of the paths of all that secants need of a pass."""
STEP = 1e-5  # of the central differences that stand for the slope of an activation


def without(model: bert.Bert, ids: np.ndarray) -> tuple[At, At]:
    """Of the whole text, and of the text without each token in turn: (without, token, ...)."""
    every = np.arange(len(ids))
    whole = bert.forward(model, ids)
    passes = (bert.forward(model, ids, keep=every != t) for t in every)
    others = [{path: x[path] for path in x if path.endswith(READ)} for x in passes]
    return whole, {path: np.stack([x[path] for x in others]) for path in others[0]}


def relevance(
    model: bert.Bert, passes: tuple[At, At], target: int, secants: Collection[str]
) -> np.ndarray:
    """(t), in logits: Leave-One-Out if ``secants`` are all ``KINDS``; ``passes`` as ``without``.

    With none of them it is the exact derivative of the logit by masks, with the factor 1 / (1 - A)
    of each layer (theorem 55), rows of the token itself included.
    """
    return -_change(model, *passes, secants)[:, target]


def _change(model: bert.Bert, whole: At, less: At, secants: Collection[str]) -> np.ndarray:
    """(without, class): what the logits change by."""
    linear = lambda path, dx: dx @ model.linear(path)[0]
    steepness = lambda function, path, kind: _steepness(
        function, whole[path], less[path] if kind in secants else None
    )
    activation = bert.ACTIVATIONS[model.hidden_act]
    dx = np.zeros_like(less[f"{bert.layer_paths(0)[1]}.sum"])
    for layer in range(model.num_layers):
        attention, output, intermediate, mlp = bert.layer_paths(layer)
        read = _attention(model, attention, dx, whole, less, secants)
        dx = _norm(model, output, linear(f"{output}.dense", read) + dx, whole, less, secants)
        inner = linear(f"{intermediate}.dense", dx)
        inner *= steepness(activation, f"{intermediate}.dense", ACTIVATION)
        dx = _norm(model, mlp, linear(f"{mlp}.dense", inner) + dx, whole, less, secants)
    pooled = linear("bert.pooler.dense", dx[:, 0])
    return linear("classifier", pooled * steepness(np.tanh, "bert.pooler.dense", TANH))


def _attention(model, path, dx, whole, less, secants):
    """(without, t, c): without the token at these scores and values, and by what else changed."""
    heads = model.num_attention_heads
    split = lambda x: x.reshape(*x.shape[:-1], heads, -1).swapaxes(-3, -2)
    names = ("query", "key", "value")
    dq, dk, dv = (split(dx @ model.linear(f"{path}.{name}")[0]) for name in names)
    q, k, v = (split(whole[f"{path}.{name}"]) for name in names)
    q_less, k_less, v_less = (split(less[f"{path}.{name}"]) for name in names)
    a, b = whole[f"{path}.weights"], less[f"{path}.weights"]
    kept = a * (b > 0)
    kept /= kept.sum(axis=-1, keepdims=True)
    q_at, k_at = (q / 2 + q_less / 2, k / 2 + k_less / 2) if SCORES in secants else (q, k)
    dz = (q_at @ dk.swapaxes(-1, -2) + dq @ k_at.swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
    share = _logarithmic_mean(kept, b) if SOFTMAX in secants else a
    da = share * (dz - (share * dz).sum(axis=-1, keepdims=True) / share.sum(axis=-1, keepdims=True))
    v_at, a_at = (v / 2 + v_less / 2, kept / 2 + b / 2) if READOUT in secants else (v, a)
    return _merged((kept - a) @ v + da @ v_at + a_at @ dv)


def _merged(x):
    """(..., h, t, c / h) -> (..., t, c)"""
    x = x.swapaxes(-3, -2)
    return x.reshape(*x.shape[:-2], -1)


def _logarithmic_mean(a, b):
    """(b - a) / (log b - log a), 0 where both are."""
    none = (a <= 0) | (b <= 0)
    d = np.log(np.where(none, 1, b)) - np.log(np.where(none, 1, a))
    return np.where(none, 0, a * np.where(d == 0, 1, np.expm1(d) / np.where(d == 0, 1, d)))


def _norm(model, path, dx, whole, less, secants):
    centred = lambda x: x - x.mean(-1, keepdims=True)
    c = centred(whole[f"{path}.sum"])
    c_less = centred(less[f"{path}.sum"]) if NORM in secants else c
    s, s_less = (
        np.sqrt((x**2).mean(-1, keepdims=True) + model.layer_norm_eps) for x in (c, c_less)
    )
    dc = centred(dx)
    bend = ((c + c_less) * dc).mean(-1, keepdims=True) / (s * s_less * (s + s_less))
    return (dc / s_less - c * bend) * model.norm(f"{path}.LayerNorm")[0]


def _steepness(function, x, y=None):
    """The slope at x or, where it has a length, the secant between x and y."""
    slope = (function(x + STEP) - function(x - STEP)) / (2 * STEP)
    if y is None:
        return slope
    far = abs(y - x) > STEP
    return np.where(far, (function(y) - function(x)) / np.where(far, y - x, 1), slope)


def agreement(name: str, texts: data.Texts) -> dict[str, dict[str, np.ndarray]]:
    """By setting: r with Leave-One-Out of every text, over all and over content tokens."""
    words = models.load(name).tokenizer
    model = bert.load(models.EMBEDDED.get(name, name))
    found: dict[str, list[tuple[float, float]]] = {setting: [] for setting in SETTINGS}
    for text in texts.texts:
        ids = np.array(words(text, truncation=True)["input_ids"])
        passes = without(model, ids)
        logits, others = (x["classifier"] for x in passes)
        target = int(logits.argmax())
        exact = (logits - others)[None, :, target]
        content = ~np.isin(ids, words.all_special_ids)[None]
        for setting, secants in SETTINGS.items():
            own = relevance(model, passes, target, secants)[None]
            r = [pearson(own, exact, keep)[0] for keep in (np.ones_like(content), content)]
            found[setting].append((r[0], r[1]))
    return {
        setting: means(dict(zip(("all", "content"), np.array(r).T, strict=True)))
        for setting, r in found.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table in Markdown."""
    options = arguments.parser(main.__doc__, datasets=("sst2", "imdb"), examples=60).parse_args(
        argv
    )
    texts = data.load(options.dataset, data_dir=options.data_dir, training=True)
    chosen = sentences(texts, options.examples)
    print("| model | nonlinearities | all | content |\n|---|---|--:|--:|")
    for name in options.models:
        for setting, row in agreement(name, chosen).items():
            cells = [interval(tokens)(row) for tokens in ("all", "content")]
            print(f"| {' | '.join([Path(name).name, setting, *cells])} |", flush=True)


if __name__ == "__main__":
    main()

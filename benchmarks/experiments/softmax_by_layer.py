"""Attention entropy and the errors of §3.2 by layer, beside the gain of bypassing the softmax."""

import numpy as np

from lrp_axioms.benchmarks.experiments.maps import Measured, means, statistics, too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, number, value
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO


def layer_errors(row, classifier, data, shard) -> dict[str, list]:
    """Computes attention entropy and the errors of §3.2, per text and layer (counted from 1)."""
    # loads Transformers, which a finished result does not need
    from lrp_axioms.benchmarks.experiments import text
    from lrp_axioms.numeric.evaluation.softmax_errors import softmax_errors

    found = vars(softmax_errors(classifier.model, text.in_batch(classifier, data, shard)[0]))
    values = {key: np.asarray(x) for key, x in found.items() if np.ndim(x) == 2}
    depth = next(iter(values.values())).shape[1]
    layers = list(range(1, depth + 1)) * len(shard)
    columns = {"example": np.repeat(shard, depth).tolist(), "layer": layers}
    return columns | {key: x.ravel().tolist() for key, x in values.items()}


def softmax(data: Measured) -> Result:
    loo, base = data.maps["LOO"], statistics(data.maps["none"], data.maps["LOO"])
    columns = {key: data.layers[key].to_numpy() for key in data.layers.column_names}
    layer, _ = columns.pop("layer"), columns.pop("example")
    rows = []
    for n in sorted(set(layer.tolist())):
        values = {key: column[layer == n] for key, column in columns.items()}
        single = statistics(data.maps[str(n)], loo)
        gains = {f"gain {x}": single[f"r {x}"] - base[f"r {x}"] for x in ("all", "content")}
        rows.append({"layer": n, **means(values | gains)})
    return data.result(
        "softmax",
        title=f"§3.2 measured: attention and softmax errors by layer, on {data.dataset}",
        text=TEXT,
        rows=rows,
        examples={key: data.layers[key].to_pylist() for key in ("example", "layer", *columns)},
        notes=(*_notes(rows), *too_few(len(loo.present)), *undefined(rows)),
    )


def _notes(rows):
    """Correlates a layer's errors with its entropy, and with the gain of bypassing it."""
    from scipy.stats import pearsonr

    n = len(rows)
    if n < 4:
        return

    def against(key, other):
        r = pearsonr([row[key] for row in rows], [row[other] for row in rows])
        low, high = r.confidence_interval()
        return f"{r.statistic:+z.2f} [{low:+z.2f}, {high:+z.2f}]"

    names = {
        "flatness": "Flatness of attention",
        "linearization_error": "Linearization error",
        "structural_bias": "Structural bias",
    }
    for key, name in names.items():
        said = " and ".join(f"{against(key, f'gain {t}')} ({t} tokens)" for t in ("all", "content"))
        yield f"{name} against the gain of bypassing that layer alone, over {n} layers: r = {said}."
    errors = {"linearization_error": "removal", "first_order_error": "a logit of 0"}
    said = [f"{against(key, 'flatness')} (effect of {of})" for key, of in errors.items()]
    yield (
        f"Relative error of Eq. 5 against flatness, over {n} layers: r = {' and '.join(said)}; the "
        "paper argues that the error is largest where attention is flat. Against removal it is "
        "|z (1 - A) - 1| in every entry, so that large logits alone make it large."
    )


def figure(result):
    """Draws by layer flatness, the errors of §3.2, and the gain of bypassing that layer."""
    from lrp_axioms.benchmarks.experiments import drawing

    figure = drawing.empty(8, 3.2)
    axes, gain = figure.subplots(1, 2)
    layers = [row["layer"] for row in result.rows]
    lines = {
        "flatness": ("flatness of attention", "o-", "0.2"),
        "structural_bias": ("structural bias", "s--", "0.2"),
        "linearization_error": ("linearization error", "^:", "0.2"),
        "centred_error": ("the same, centred", "v:", "0.6"),
    }
    for key, (label, style, grey) in lines.items():
        axes.plot(layers, [row[key] for row in result.rows], style, color=grey, ms=4, label=label)
    axes.set_ylabel("relative to what it should be")
    for tokens, shift in (("all", -0.2), ("content", 0.2)):
        drawing.bars(gain, np.array(layers) + shift, result.rows, f"gain {tokens}", tokens)
    gain.axhline(0, color="0.5", lw=0.8)
    gain.set_ylabel("gain in r, this layer bypassed")
    gain.legend(frameon=False, fontsize=8, loc="upper left")
    for each in (axes, gain):
        each.set_xlabel("layer")
        each.xaxis.get_major_locator().set_params(integer=True)
    return drawing.with_legend(figure)


def _signed(key):
    """Formats a difference; a star where its interval excludes 0."""

    def cell(row):
        star = "*" if row[f"{key} low"] > 0 or row[f"{key} high"] < 0 else " "
        return f"{row[key]:+z.3f}{star}"

    return cell


TEXT = (
    "Per layer, mean over texts. Flatness is the entropy of attention rows over log n (1: "
    "uniform). Structural bias (§3.2 (1)): the part of CP-LRP's message that removing a key "
    "cannot change, A⟨O, g⟩, against the whole message, A⟨v, g⟩ (absolute sums). Linearization "
    "error (§3.2 (2)): Eq. 5 against the exact effect of removing the key from its row, relative. "
    "'Centred' drops the factor z from Eq. 5. Gain: r with Leave-One-Out when this layer alone "
    "bypasses the softmax, minus r of AttnLRP. g is the true gradient of the logit."
)

EXPERIMENT = Experiment(
    name="softmax",
    rows=(LOO, "figure2-{}", "softmax-{}"),
    measure=layer_errors,
    run=softmax,
    columns=[
        ("layer", value("layer")),
        ("flatness", number("flatness", 2)),
        ("struct.\nbias", number("structural_bias", 2)),
        ("lin.\nerror", number("linearization_error", 2)),
        ("centred", number("centred_error", 2)),
        ("r Eq. 5", number("taylor_r", 2)),
        ("r value", number("value_r", 2)),
        ("gain, all", _signed("gain all")),
        ("content", _signed("gain content")),
    ],
    figure=figure,
)

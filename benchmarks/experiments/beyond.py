"""What the paper did not ask: special tokens, open choices, and the errors of §3.2 by layer."""

import numpy as np

from benchmarks.experiments.agreement import SEED, Measured, correlations, means, statistics
from benchmarks.experiments.result import Result, undefined
from numeric.evaluation.correlation import bootstrap_mean, pearson

# Which tokens count, given those that are present: the first is [CLS], the last [SEP].
TOKENS = {
    "all": lambda present, ends: present,
    "without [CLS]": lambda present, ends: present & ~ends[0],
    "without [SEP]": lambda present, ends: present & ~ends[1],
    "without both": lambda present, ends: present & ~ends[0] & ~ends[1],
}


def special(data: Measured) -> Result:
    """How much of CP-LRP's advantage over AttnLRP is carried by [CLS] and [SEP] alone."""
    loo = data.maps["LOO"]
    places = np.arange(loo.present.shape[1])
    last = loo.present.sum(axis=1, keepdims=True) - 1
    ends = places == 0, places == last
    rows, gaps = [], {}
    for tokens, chosen in TOKENS.items():
        keep = chosen(loo.present, ends)
        r = {m: pearson(data.maps[m].relevance, loo.relevance, keep) for m in ("AttnLRP", "CP-LRP")}
        gaps[tokens] = r["CP-LRP"] - r["AttnLRP"]
        rows.append({"tokens": tokens, **means(r | {"gap": gaps[tokens]})})
    for label in ("LOO", "AttnLRP", "CP-LRP"):
        size = np.abs(data.maps[label].relevance)
        for name, end in zip(("[CLS]", "[SEP]"), ends, strict=True):
            share = (size * end).sum(axis=1) / size.sum(axis=1)
            rows.append({"tokens": f"share of {name}", "method": label, **means({"share": share})})
    return data.result(
        "special",
        title=f"[CLS] and [SEP]: what they carry of CP-LRP's advantage, on {data.dataset}",
        text=(
            "Mean Pearson's r with Leave-One-Out over all tokens, and with one or both special "
            "tokens left out of the correlation; 'gap' is r of CP-LRP minus r of AttnLRP of the "
            "same text, with its 95 % bootstrap interval. Below: the share of [CLS] and of [SEP] "
            "in the sum of absolute relevance."
        ),
        rows=rows,
        notes=tuple(_special_notes(gaps)),
    )


def _special_notes(gaps):
    carried = gaps["all"] - gaps["without both"]
    whole, kept, lost = (
        bootstrap_mean(x, seed=SEED) for x in (gaps["all"], gaps["without both"], carried)
    )
    yield (
        f"r of CP-LRP minus r of AttnLRP is {whole.mean:+.3f} over all tokens and {kept.mean:+.3f} "
        f"[{kept.low:+.3f}, {kept.high:+.3f}] without [CLS] and [SEP]: the two tokens account for "
        f"{lost.mean:+.3f} [{lost.low:+.3f}, {lost.high:+.3f}] of it."
    )


REFERENCES = {
    "LOO": "attention mask",
    "LOO, [MASK] in place": "[MASK]",
    "LOO, deletion": "deletion",
    "LOO, logit difference": "logit difference",
}


def sensitivity(data: Measured) -> Result:
    """Agreement with LOO while one choice that the paper leaves open changes at a time."""
    rows = []
    for label, maps in data.maps.items():
        method, _, choice = label.partition(", ")
        row = {"method": method, "choice": choice or "as in Table 2"}
        for reference, name in REFERENCES.items():
            if label != reference:
                found = correlations(maps, data.maps[reference])
                row |= means(
                    {f"{name} {tokens}": found[f"r {tokens}"] for tokens in ("all", "content")}
                )
        rows.append(row)
    order = ["AttnLRP", "CP-LRP", "LOO", *(row["method"] for row in rows)]
    return data.result(
        "sensitivity",
        title=f"Open choices: how much they change r with Leave-One-Out, on {data.dataset}",
        text=(
            "Mean Pearson's r over content tokens (and over all tokens) between each variant and "
            "four references: Leave-One-Out by attention mask (the paper's), with [MASK] in "
            "place, by deletion (what follows moves up; [CLS], whose row the classifier reads, is "
            "only hidden), and of the difference of the two logits. "
            "One choice changes at a time; rules change inside the layers. What is changed runs in "
            "float64, the maps of Table 2 in its float32."
        ),
        rows=sorted(rows, key=lambda row: order.index(row["method"])),
        notes=(*_sensitivity_notes(rows), *undefined(rows)),
    )


def _sensitivity_notes(rows):
    found = {(row["method"], row["choice"]): row for row in rows}
    choices = [choice for method, choice in found if method == "AttnLRP"]
    choices = [choice for choice in choices if ("CP-LRP", choice) in found]
    for tokens in ("all", "content"):
        key = f"attention mask {tokens}"
        wins = {c: found["CP-LRP", c][key] - found["AttnLRP", c][key] for c in choices}
        ahead = [c for c, gap in wins.items() if gap > 0]
        behind = [c for c, gap in wins.items() if gap <= 0]
        yield (
            f"Over {tokens} tokens the mean r of CP-LRP is above that of AttnLRP with: "
            f"{'; '.join(ahead) or 'none'}; not above it with: {'; '.join(behind) or 'none'}."
        )


def softmax(data: Measured) -> Result:
    """Attention entropy and the errors of §3.2 per layer, beside the gain of bypassing it there."""
    loo, base = data.maps["LOO"], statistics(data.maps["none"], data.maps["LOO"])
    columns = {key: data.layers[key].to_numpy() for key in data.layers.column_names}
    layer = columns.pop("layer")
    example = columns.pop("example")
    rows = []
    for n in sorted(set(layer.tolist())):
        values = {key: column[layer == n] for key, column in columns.items()}
        single = statistics(data.maps[str(n)], loo)
        gains = {
            f"gain {tokens}": single[f"r {tokens}"] - base[f"r {tokens}"]
            for tokens in ("all", "content")
        }
        rows.append({"layer": n, **means(values | gains)})
    return data.result(
        "softmax",
        title=f"§3.2 measured: attention and softmax errors by layer, on {data.dataset}",
        text=SOFTMAX_TEXT,
        rows=rows,
        examples={"example": example.tolist(), "layer": layer.tolist()}
        | {key: column.tolist() for key, column in columns.items()},
        notes=tuple(_softmax_notes(rows)),
    )


def _softmax_notes(rows):
    """How the errors of a layer go along with its entropy, and with what bypassing it gains."""
    from scipy.stats import pearsonr

    pick = lambda key: [row[key] for row in rows]
    n = len(rows)
    for key, name in (
        ("flatness", "Flatness of attention"),
        ("linearization_error", "Linearization error"),
        ("structural_bias", "Structural bias"),
    ):
        if n < 4:
            return
        gains = {t: pearsonr(pick(key), pick(f"gain {t}")) for t in ("all", "content")}
        ends = {t: g.confidence_interval() for t, g in gains.items()}
        yield (
            f"{name} against the gain of bypassing that layer alone, over {n} layers: r = "
            + " and ".join(
                f"{gains[t].statistic:+.2f} [{ends[t].low:+.2f}, {ends[t].high:+.2f}] ({t} tokens)"
                for t in gains
            )
            + "."
        )
    if n >= 4:
        r = pearsonr(pick("linearization_error"), pick("flatness"))
        yield (
            f"Linearization error against flatness, over {n} layers: r = {r.statistic:+.2f}; the "
            "paper argues that the error is largest where attention is flat, which is "
            f"{'what' if r.statistic > 0 else 'not what'} these layers show."
        )


SOFTMAX_TEXT = (
    "Per layer, mean over texts. Flatness is the entropy of attention rows over log n (1: "
    "uniform). Structural bias (§3.2 (1)): the part of CP-LRP's message that removing a key "
    "cannot change, A⟨O, g⟩, against the whole message, A⟨v, g⟩ (absolute sums). Linearization "
    "error (§3.2 (2)): Eq. 5 against the exact effect of removing the key from its row, relative. "
    "'Centred' drops the factor z from Eq. 5. Gain: r with Leave-One-Out when this layer alone "
    "bypasses the softmax, minus r of AttnLRP. g is the true gradient of the logit."
)

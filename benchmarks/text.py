"""The paper's text experiments, with per-example values: Table 2 (methods), Figure 2 (layers)."""

import time
from dataclasses import dataclass

import numpy as np
import torch

from axioms.composites import ATTNLRP, bypass_softmax
from benchmarks import figures
from benchmarks.data import Texts
from benchmarks.experiment import Result, Track, undefined, untracked
from benchmarks.models import Classifier
from numeric import Attribution, attribute
from numeric.evaluation.correlation import bootstrap_mean, normalise, pearson
from numeric.evaluation.perturbation import ORDERS, perturbation_curve
from numeric.inputs import prepare

METHODS = {
    "LOO": "loo",
    "IG": "integrated-gradients",
    "Rollout": "attention-rollout",
    "AttnLRP": "attnlrp",
    "CP-LRP": "cp-lrp",
}

PAPER = {
    "SST": {
        "LOO": (1.00, 1.11, 0.33, 0.78),
        "IG": (-0.05, 0.48, 0.36, 0.12),
        "Rollout": (0.08, 0.72, 0.38, 0.35),
        "AttnLRP": (0.22, 0.88, 0.05, 0.83),
        "CP-LRP": (0.52, 1.00, 0.22, 0.79),
    },
    "IMDB": {
        "LOO": (1.00, 2.20, -0.94, 3.14),
        "IG": (0.00, 1.98, 2.70, -0.72),
        "Rollout": (0.04, 2.85, 1.38, 1.47),
        "AttnLRP": (0.25, 3.72, -2.64, 6.36),
        "CP-LRP": (0.26, 3.73, -3.02, 6.75),
    },
}
"""Table 2 of the paper: LOO r, LeRF, MoRF, Delta."""

SEED = 0  # of the bootstrap
FEW = 20  # texts, below which resampling them says little about others


@dataclass(frozen=True)
class Group:
    """Examples of similar length, so that little of a batch is padding."""

    index: list[int]
    inputs: dict[str, torch.Tensor]
    content: np.ndarray  # (example, token), bool: neither special token nor padding
    present: np.ndarray  # (example, token), bool: not padding
    loo: Attribution  # of the predicted class


def check(classifier: Classifier, data: Texts) -> None:
    """Explains the first text, so that what cannot be explained is refused before long runs.

    Raises ValueError or UnassignedOperation, as ``attribute`` does.
    """
    attribute(classifier.model, _encode(classifier, data.texts[:1], return_tensors="pt"))


def groups(classifier: Classifier, data: Texts, *, size: int = 32, track: Track = untracked):
    """The texts tokenised, sorted by length, with their exact LOO for the predicted class."""
    lengths = [len(ids) for ids in _encode(classifier, data.texts).input_ids]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    found = []
    for start in track(range(0, len(order), size), "leave-one-out"):
        index = order[start : start + size]
        inputs = _encode(
            classifier,
            [data.texts[i] for i in index],
            padding=True,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = inputs.pop("special_tokens_mask").numpy() == 1
        present = inputs["attention_mask"].numpy() == 1
        loo = attribute(classifier.model, inputs, "loo")
        found.append(Group(index, dict(inputs), present & ~special, present, loo))
    return found


def correlations(a: Attribution, group: Group) -> dict[str, np.ndarray]:
    """Pearson r with LOO per example: over all tokens and content tokens, raw and normalised."""
    relevance, loo = (x.relevance.numpy(force=True) for x in (a, group.loo))
    out = {}
    for tokens, keep in (("all", group.present), ("content", group.content)):
        out[f"r {tokens}"] = pearson(relevance, loo, keep)
        out[f"r {tokens}, sum to one"] = pearson(
            normalise(relevance, keep), normalise(loo, keep), keep
        )
    return out


def table2(
    classifier: Classifier, data: Texts, found: list[Group], *, track: Track = untracked
) -> Result:
    """Table 2: agreement of each method with LOO, and perturbation curves."""
    start = time.perf_counter()
    columns: dict[str, list] = {}
    for group in track(found, "methods and perturbation curves"):
        for label, method in METHODS.items():
            values = {"example": group.index, "method": [label] * len(group.index)}
            values["label"] = [data.labels[i] for i in group.index]
            values |= _measure(classifier.model, group, method, chunk=data.chunk)
            for key, column in values.items():
                columns.setdefault(key, []).extend(np.asarray(column).tolist())
    rows = [row for label in METHODS for row in _with_paper(_row(columns, label), data.paper)]
    return Result(
        name="table2",
        title=f"Table 2: agreement with Leave-One-Out on {_name(data)} (paper: {data.paper})",
        text=TABLE2_TEXT,
        settings=settings(classifier, data) | {"chunk": data.chunk},
        rows=rows,
        examples=columns,
        notes=_notes(columns, data.paper) + undefined(rows),
        figure=figures.table2,
        seconds=time.perf_counter() - start,
    )


def sweep(
    classifier: Classifier, data: Texts, found: list[Group], *, track: Track = untracked
) -> Result:
    """Figure 2: r with LOO when some layers bypass the softmax, in the paper's three orders."""
    start = time.perf_counter()
    depth = classifier.model.config.num_hidden_layers
    wanted = {
        (mode, n + 1): frozenset(layers(n, depth))
        for mode, layers in SWEEPS.items()
        for n in range(depth)
    }
    columns: dict[str, list] = {"layers": [], "example": []}
    for chosen in track(sorted({frozenset(), *wanted.values()}, key=sorted), "layer sweep"):
        for group in found:
            composite = bypass_softmax(chosen) if chosen else ATTNLRP
            a = attribute(classifier.model, group.inputs, composite, group.loo.target)
            columns["layers"] += [" ".join(str(n + 1) for n in sorted(chosen))] * len(group.index)
            columns["example"] += group.index
            for key, r in correlations(a, group).items():
                columns.setdefault(key, []).extend(r.tolist())
    rows = [
        {"order": mode, "layer": layer, **_sweep_row(columns, chosen)}
        for (mode, layer), chosen in {("AttnLRP", None): frozenset(), **wanted}.items()
    ]
    return Result(
        name="figure2",
        title=f"Figure 2: which layers gain from bypassing the softmax, on {_name(data)}",
        text=SWEEP_TEXT,
        settings=settings(classifier, data),
        rows=rows,
        examples=columns,
        figure=figures.figure2,
        seconds=time.perf_counter() - start,
    )


SWEEPS = {
    "front to back": lambda n, depth: range(n + 1),
    "back to front": lambda n, depth: range(n, depth),
    "single layer": lambda n, depth: [n],
}

TABLE2_TEXT = (
    "Mean over examples of Pearson's r between each method's relevance and Leave-One-Out (token "
    "masked in the attention mask, logit of the predicted class), over all tokens and over "
    "content tokens alone ([CLS] and [SEP] left out), with 95 % bootstrap intervals over "
    "examples. The paper normalises every map to sum to one, which turns r around whenever "
    "exactly one of the two sums is negative: its r belongs beside 'sum to one'. LeRF and MoRF "
    "are the mean logit while tokens are removed, least or most relevant first; Δ = LeRF − MoRF. "
    "The paper's numbers belong to BERT-base on SST-2 or IMDB: they stand beside ours for "
    "comparison, not as a target."
)
SWEEP_TEXT = (
    "AttnLRP everywhere, except that the named layers treat attention as CP-LRP does (all "
    "relevance to the values, none through the softmax): mean Pearson's r with Leave-One-Out. "
    "Layer n of 'front to back' means layers 1 to n, of 'back to front' layers n to the last."
)


def settings(classifier: Classifier, data: Texts) -> dict:
    """All that determines the numbers of an experiment on text."""
    return {
        "model": classifier.name,
        "model_sha256": classifier.sha256,
        "dataset": data.name,
        "dataset_origin": data.origin,
        "dataset_sha256": data.sha256,
        "examples": len(data.texts),
        "tokens_at_most": classifier.model.config.max_position_embeddings,
        "device": str(classifier.model.device),
        "dtype": str(classifier.model.dtype),
        "bootstrap_seed": SEED,
    }


def _encode(classifier, texts, **options):
    """Texts beyond the model's positions are cut there."""
    limit = classifier.model.config.max_position_embeddings
    return classifier.tokenizer(list(texts), truncation=True, max_length=limit, **options)


def _measure(model, group, method, *, chunk):
    """Per-example values of one method on one group of examples."""
    known = method == "loo"
    a = group.loo if known else attribute(model, group.inputs, method, group.loo.target)
    batch = prepare(model, group.inputs)
    curve = {
        order: perturbation_curve(model, batch, a.relevance, a.target, order=order, chunk=chunk)
        for order in ORDERS
    }
    return {
        "tokens": group.present.sum(axis=1),
        "target": a.target.cpu(),
        "logit": a.logit.cpu(),
        "residual": a.residual.cpu(),
        **correlations(a, group),
        "LeRF": curve["lerf"].mean.cpu(),
        "MoRF": curve["morf"].mean.cpu(),
    }


def _row(columns, label):
    """One line of Table 2."""
    mine = np.array(columns["method"]) == label
    pick = lambda key: np.array(columns[key], dtype=float)[mine]
    row = {"method": label}
    for key in (key for key in columns if key.startswith("r ")):
        mean, low, high, undefined = bootstrap_mean(pick(key), seed=SEED)
        row |= {key: mean, f"{key} low": low, f"{key} high": high, f"{key} undefined": undefined}
    row |= {"LeRF": pick("LeRF").mean(), "MoRF": pick("MoRF").mean()}
    row["Δ"] = row["LeRF"] - row["MoRF"]
    return row


def _with_paper(row, block):
    """A line of Table 2, and the paper's own line; the paper normalises its maps."""
    names = ("r all, sum to one", "LeRF", "MoRF", "Δ")
    paper = dict(zip(names, PAPER[block][row["method"]], strict=True))
    return [row, {"method": "  paper", **paper}]


def _sweep_row(columns, chosen):
    mine = np.array(columns["layers"]) == " ".join(str(n + 1) for n in sorted(chosen))
    keys = [key for key in columns if key.startswith("r ")]
    means = {k: bootstrap_mean(np.array(columns[k])[mine], seed=SEED) for k in keys}
    return {"layers": len(chosen), **{k: m.mean for k, m in means.items()}}


def _name(data):
    return f"{len(data.texts)} texts of {data.name!r}"


def _notes(columns, block):
    """Which of the two LRP variants is closer to LOO, in words, from the per-example values."""
    gaps = {tokens: _paired_gap(columns, f"r {tokens}") for tokens in ("all", "content")}
    notes = [f"Over {tokens} tokens, {_compared(gap)}." for tokens, gap in gaps.items()]
    if len(set(columns["example"])) < FEW:
        notes.append(f"With fewer than {FEW} texts these intervals are too narrow: use more.")
    if all(map(_decided, gaps.values())) and gaps["all"].mean * gaps["content"].mean < 0:
        notes.append(
            "The sign of that difference changes once [CLS] and [SEP] are left out: which rule is "
            "closer hinges on two tokens that carry no content."
        )
    paper = {method: PAPER[block][method][0] for method in ("CP-LRP", "AttnLRP")}
    notes.append(
        f"The paper reports {paper['CP-LRP']:.2f} for CP-LRP and {paper['AttnLRP']:.2f} for "
        f"AttnLRP on {block}, over all tokens, with BERT-base."
    )
    return tuple(notes)


def _paired_gap(columns, key):
    values = {"CP-LRP": {}, "AttnLRP": {}}
    for method, example, r in zip(columns["method"], columns["example"], columns[key], strict=True):
        values.get(method, {})[example] = r
    ours, other = values.values()
    return bootstrap_mean([ours[n] - other[n] for n in sorted(ours)], seed=SEED)


def _decided(gap):
    return gap.low > 0 or gap.high < 0


def _compared(gap):
    if np.isnan(gap.mean):
        return "no text has an r for both CP-LRP and AttnLRP"
    verdict = "the interval contains 0, so these texts do not separate the two"
    if _decided(gap):
        verdict = f"{'CP-LRP' if gap.mean > 0 else 'AttnLRP'} is closer to Leave-One-Out"
    return (
        f"r of CP-LRP minus r of AttnLRP is {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] "
        f"(paired, 95 % bootstrap): {verdict}"
    )

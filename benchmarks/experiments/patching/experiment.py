"""Activation patching: how well coefficients of one backward pass predict it, rule by rule."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from lrp_axioms.axioms import kinds
from lrp_axioms.axioms.composites import ATTNLRP, BYPASS, CP_LRP, GRADIENT_X_INPUT, Composite
from lrp_axioms.benchmarks.errors import UnavailableError
from lrp_axioms.benchmarks.experiments.causes.measure import language_model
from lrp_axioms.benchmarks.experiments.maps import means, too_few
from lrp_axioms.benchmarks.experiments.patching.pairs import Pair, network, prompt_pairs, text_pairs
from lrp_axioms.benchmarks.experiments.record import Experiment, above_interval, number, value
from lrp_axioms.benchmarks.experiments.result import Result, joined, undefined
from lrp_axioms.benchmarks.running.workers import Each, Track, collected, in_turn, untracked
from lrp_axioms.benchmarks.sources import models
from lrp_axioms.benchmarks.sources.data import Texts
from lrp_axioms.numeric.evaluation.correlation import pearson
from lrp_axioms.numeric.evaluation.patching import PLACES, Patched, patching
from lrp_axioms.numeric.models import digests

COUNT = 8  # pairs of every model
LABELS = {
    "gradient": "gradient", "norms": "norms", "activations": "activ.", "gates": "gates",
    "halves": "halves", "bypass": "bypass", "attnlrp": "AttnLRP", "cp-lrp": "CP-LRP",
}  # fmt: skip
"""Set of rules -> header of its column."""
RANDOM = {"random, pre-norm": "before", "random, post-norm": "after"}
"""Model with random weights -> place of its norms, before or after attention and MLP."""
WORD, TENTH, MASK, ZEROS = "another word", "a tenth of it", "[MASK]", "zeros"
CORRUPTED = {
    WORD: "patched is what the run of the text with the other word has there",
    TENTH: "a tenth of that change",
    MASK: "the same word masked",
    ZEROS: "nothing instead of another run",
}
NORMS = (kinds.LAYER_NORM, kinds.RMS_NORM)
ATTENTION = (kinds.SCORES, kinds.SOFTMAX, kinds.READOUT)


def _alone(name: str, rules: dict[str, str]) -> Composite:
    return Composite(name, {**GRADIENT_X_INPUT.rules, **rules})


RULES = {
    "gradient": GRADIENT_X_INPUT,
    "norms": _alone("norms", {kind: ATTNLRP.rules[kind] for kind in NORMS}),
    "activations": _alone("activations", {kinds.ACTIVATION: kinds.IDENTITY}),
    "gates": _alone("gates", {kinds.PRODUCT: kinds.EQUAL_SPLIT}),
    "halves": _alone("halves", {kind: ATTNLRP.rules[kind] for kind in ATTENTION}),
    "bypass": _alone("bypass", BYPASS),
    "attnlrp": ATTNLRP,
    "cp-lrp": CP_LRP,
}  # fmt: skip
"""The gradient, each rule of LRP alone with the gradient elsewhere, and all of them together."""


def model_names(classifier: models.Classifier) -> tuple[str, ...]:
    """Names the models to measure: four for the embedded classifier, else the model itself."""
    if classifier.name == "embedded":
        return ("embedded", "embedded-lm", *RANDOM)
    is_class = classifier.explains == "class"
    if is_class and classifier.model.config.num_labels < 2:
        raise ValueError(
            f"table 'patching' compares two logits, and {classifier.name} has one; leave it out"
        )
    return (classifier.name if is_class else language_model(classifier, table="patching"),)


def measured(
    names: Sequence[str],
    data: Texts,
    count: int = COUNT,
    *,
    each: Each = in_turn,
    track: Track = untracked,
) -> Result:
    """Measures all ``RULES`` on at most ``count`` pairs of every model and corruption."""
    cells = [(name, kind) for name in names for kind in CORRUPTED if _has(name, kind)]
    measure = partial(cell, count, data)
    found = collected(measure, cells, each=each, track=track, description="patching")
    columns = joined(found.values())
    rows = list(table(columns))
    return Result(
        name="patching",
        table="patching",
        title="Activation patching: what do coefficients of one backward pass predict?",
        text=(
            "Patching replaces what a layer, its attention or its MLP returns at one token by what "
            "a corrupted run has there; its effect is what the difference of two logits loses. It "
            "is predicted by coefficients, the gradient or relevance per unit of activation, times "
            f"the change. Corruptions: {'; '.join(f'{k}: {v}' for k, v in CORRUPTED.items())}. "
            "Each value is Pearson's r over all layers and tokens of a pair at which both runs "
            "differ, in the mean over pairs, with 95 % bootstrap intervals. 'norms', "
            "'activations', 'gates', 'halves' and 'bypass' apply one rule alone: deviations held, "
            "identity, equal split of gated MLPs, AttnLRP's attention, and CP-LRP's. 'norms by "
            "theorem 57' is the share of the squared effects at places where the theorem says "
            "that holding the deviation of the next norm is closer than its gradient."
        ),
        settings={"models": {name: model(name).sha256 for name in names}}
        | {"dataset": data.name, "dataset_sha256": data.sha256, "pairs": count},
        rows=rows,
        examples=columns,
        notes=(*notes(rows), *too_few(min(x["pairs"] for x in rows), "pairs"), *undefined(rows)),
    )


def _has(name: str, kind: str) -> bool:
    """Whether a model is measured: random ones for norms alone, masks in texts of classifiers."""
    if name in RANDOM:
        return kind in (WORD, TENTH)
    has_mask = model(name).tokenizer.mask_token_id is not None
    return kind != MASK or (has_mask and model(name).explains == "class")


@cache
def model(name: str) -> models.Classifier:
    return with_random_weights(name) if name in RANDOM else models.load(name)


def with_random_weights(name: str) -> models.Classifier:
    """Makes a small OPT for the language of causes, with random weights as large as trained."""
    found = network(norms=RANDOM[name], seed=0, init_std=0.15).eval()
    reader = models.load("embedded-lm")
    return replace(reader, model=found, name=name, sha256=digests.of_model(found))


def cell(count: int, data: Texts, which: tuple[str, str]) -> dict[str, list]:
    """Computes columns of one model and corruption: a line per pair and kind of place."""
    name, kind = which
    of = model(name)
    if of.explains == "class":
        pairs = list(text_pairs(of, data.texts, count))
    else:
        pairs = list(prompt_pairs(of, count, right=name not in RANDOM))
    if not pairs:
        raise UnavailableError(
            f"model {name!r}: none of {len(data.texts)} texts has a word whose opposite is as many "
            "tokens, or no prompt is answered right; pass --dataset sst2, or more --examples"
        )
    about = lambda pair: {"model": name, "corrupted": kind, "text": pair.text}
    rows = [about(pair) | row for pair in pairs for row in scores(patched(of, pair, kind))]
    return {key: [row[key] for row in rows] for key in rows[0]}


def patched(of: models.Classifier, pair: Pair, kind: str) -> Patched:
    other = {WORD: pair.other, TENTH: pair.other, MASK: pair.masked, ZEROS: None}[kind]
    size = 0.1 if kind == TENTH else 1.0
    return patching(of.model, pair.clean, other, RULES, target=pair.target, size=size)


def scores(found: Patched) -> Iterator[dict]:
    """Returns by kind of place r of every rule, and whether theorem 57 prefers held deviations."""
    closer = found.held_is_closer()
    for place in PLACES:
        keep = found.keep[place].reshape(1, -1)
        effect = found.effect[place].reshape(1, -1)
        squares = (effect**2 * keep).ravel()
        known = ~np.isnan(found.length[place]).ravel()
        held = squares[closer[place].ravel() & known].sum()
        row = {"place": place, "places": int(keep.sum())}
        row["held"] = float(held / squares[known].sum()) if squares[known].any() else np.nan
        for rule, predicted in found.predicted.items():
            row[rule] = float(pearson(predicted[place].reshape(1, -1), effect, keep)[0])
        yield row


def table(columns: dict[str, list]) -> Iterator[dict]:
    """Yields a row per model, corruption and kind of place; "gain": of norms over the gradient."""
    keys = ("model", "corrupted", "place")
    lines = list(zip(*(columns[key] for key in keys), strict=True))
    for group in dict.fromkeys(lines):
        kept = np.array([line == group for line in lines])
        values = {key: np.array(columns[key])[kept] for key in (*RULES, "held")}
        values["gain"] = values["norms"] - values["gradient"]
        row = dict(zip(keys, group, strict=True)) | {"pairs": int(kept.sum())}
        row["places"] = int(np.array(columns["places"])[kept].sum())
        yield row | means(values)


def notes(rows: Sequence[dict]) -> Iterator[str]:
    """Compares gradient and held norms by place, and with the verdict of theorem 57."""
    clear = [x for x in rows if x["gain low"] > 0 or x["gain high"] < 0]
    clear = [x for x in clear if not np.isnan(x["held"])]
    agree = [x for x in clear if (x["gain"] > 0) == (x["held"] > 0.5)]
    yield (
        f"In {len(agree)} of {len(clear)} rows in which held norms and the gradient differ "
        "(95 %), the one with the higher r is the one that theorem 57 names for most of the effect."
    )
    for row in rows:
        if row["corrupted"] == WORD and row["model"] not in RANDOM:
            best = max(RULES, key=lambda rule, row=row: row[rule])
            yield (
                f"{row['model']}, {row['place']}: gradient {row['gradient']:.2f}, norms held "
                f"{row['norms']:.2f}, CP-LRP {row['cp-lrp']:.2f}; best is {best}, {row[best]:.2f}."
            )


def figure(result):
    """Draws r of every set of rules by kind of place, for each trained model."""
    from lrp_axioms.benchmarks.experiments import drawing

    rows = [row for row in result.rows if row["corrupted"] in ("another word", "zeros")]
    rows = [row for row in rows if not row["model"].startswith("random")]
    shown = list(dict.fromkeys((row["model"], row["corrupted"]) for row in rows))
    made = drawing.empty(9, 2.6 * len(shown))
    axes = made.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axis, (model, corrupted) in zip(axes, shown, strict=True):
        of = [row for row in rows if (row["model"], row["corrupted"]) == (model, corrupted)]
        for n, (row, marker) in enumerate(zip(of, "osD", strict=True)):
            for x, key in enumerate(LABELS):
                y, reach = drawing.interval([row], key)
                style = {"marker": marker, "color": ("#0072B2", "#D55E00", "#009E73")[n], "ms": 5}
                label = row["place"] if x == 0 else None
                axis.errorbar([x + 0.15 * (n - 1)], y, yerr=reach, ls="", label=label, **style)
        axis.set_title(f"{model}, {corrupted}", fontsize=9)
        axis.set_xticks(range(len(LABELS)), list(LABELS.values()))
        axis.set_ylabel("Pearson's r", fontsize=9)
    return drawing.with_legend(made)


EXPERIMENT = Experiment(
    name="patching",
    prepare=lambda request: {"names": model_names(request.classifier)},
    run=lambda request, names: measured(
        names, request.data, request.prompts or COUNT, each=request.each, track=request.track
    ),
    columns=[
        ("model", value("model")),
        ("corrupted by", value("corrupted")),
        ("place", value("place")),
        *((label, above_interval(key)) for key, label in LABELS.items()),
        ("norms by\ntheorem 57", number("held", 2)),
    ],
    shortest=lambda row: row["corrupted"] == "another word",
    figure=figure,
    summary=lambda result: result.notes[:1],
)

"""Table 2: how far each method agrees with Leave-One-Out, and its perturbation curves."""

from collections.abc import Mapping

import numpy as np

from lrp_axioms.benchmarks.experiments.maps import (
    GAP,
    SEED,
    Measured,
    means,
    stacked,
    statistics,
    too_few,
)
from lrp_axioms.benchmarks.experiments.record import Experiment, interval, number, percent, value
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, flipped

METHODS = ("LOO", "IG", "Rollout", "AttnLRP", "CP-LRP")  # in the order of the paper, before others
OTHERS = ("identity softmax", "RelP", "LibraGrad", "DePass", "PA-LRP", "GIM", "AtMan")
"""Methods of other papers, which a terminal leaves out."""
PAPER = "  paper"
PAIR = ("CP-LRP", "AttnLRP")  # whose difference is put in words


def table2(data: Measured) -> Result:
    loo = data.maps["LOO"]
    order = sorted(data.maps, key=[*METHODS, *data.maps].index)
    found = {label: statistics(data.maps[label], loo) for label in order}
    for values in found.values():
        values["flips"] = flipped(values["r all"], values["r all, sum to one"])
    rows = []
    for label, values in found.items():
        paper = {"method": PAPER, **data.paper.get(label, {})}
        rows += [{"method": label, **means(values)}, paper]
    return data.result(
        "table2",
        title=f"Table 2: agreement with Leave-One-Out on {data.dataset}",
        text=TEXT,
        rows=rows,
        examples=stacked(found, loo, "method"),
        notes=(*notes(found, data.paper), *_gaps(data), *undefined(rows)),
    )


def _gaps(data):
    """Reports the gap to completeness of paths that are summed in steps."""
    for label, maps in data.maps.items():
        if GAP not in maps.values or label not in data.steps:
            continue
        gap = np.abs(maps.values[GAP])
        yield (
            f"{label} with {data.steps[label]}: completeness gap of {gap.mean():.3f} logits in the "
            f"mean over texts, {gap.max():.3f} at most."
        )


def notes(values: Mapping[str, Mapping], paper: Mapping[str, Mapping]) -> tuple[str, ...]:
    """Says in words, from the per-text values, which of the two LRP variants is closer to LOO."""
    if not set(PAIR) <= set(values):
        return ()
    gaps = {tokens: paired_gap(values, f"r {tokens}") for tokens in ("all", "content")}
    found = [f"Over {tokens} tokens, {_compared(gap)}." for tokens, gap in gaps.items()]
    found += too_few(len(values[PAIR[0]]["r all"]))
    if all(map(_decided, gaps.values())) and gaps["all"].mean * gaps["content"].mean < 0:
        found.append(HINGES)
    theirs = [paper.get(method, {}).get(AS_IN_THE_PAPER) for method in PAIR]
    if None not in theirs:
        gap = paired_gap(values, AS_IN_THE_PAPER)
        found.append(
            "Of maps that sum to one, as in the paper, the difference over all tokens is "
            f"{_signed(gap)}; the paper has {theirs[0]:.2f} against {theirs[1]:.2f} (BERT-base)."
        )
    return tuple(found)


def paired_gap(values: Mapping[str, Mapping], key: str):
    """Returns r of CP-LRP minus r of AttnLRP: mean over texts, with interval."""
    ours, other = (values[method][key] for method in PAIR)
    return bootstrap_mean(ours - other, seed=SEED)


def _decided(gap):
    return gap.low > 0 or gap.high < 0


def _compared(gap):
    if np.isnan(gap.mean):
        return "no text has an r for both CP-LRP and AttnLRP"
    verdict = "the interval contains 0, so these texts do not separate the two"
    if _decided(gap):
        verdict = f"{'CP-LRP' if gap.mean > 0 else 'AttnLRP'} is closer to Leave-One-Out"
    return f"r of CP-LRP minus r of AttnLRP is {_signed(gap)} (paired, 95 % bootstrap): {verdict}"


def _signed(gap):
    return f"{gap.mean:+z.3f} [{gap.low:+z.3f}, {gap.high:+z.3f}]"


def figure(result):
    """Draws r with LOO by method, over all and over content tokens, with the paper's marks."""
    from lrp_axioms.benchmarks.experiments import drawing

    pairs = zip(result.rows[::2], result.rows[1::2], strict=True)
    pairs = [(row, paper) for row, paper in pairs if row["method"] != "LOO"]
    rows = [row for row, _ in pairs]
    figure = drawing.empty(7, 3)
    axes = figure.subplots()
    x = np.arange(len(rows))
    for offset, tokens in ((-0.2, "all"), (0.2, "content")):
        drawing.bars(axes, x + offset, rows, f"r {tokens}", tokens)
    paper = [row.get("r all, sum to one", np.nan) for _, row in pairs]
    axes.plot(x, paper, "D", color="white", mec="black", label="paper (BERT-base, sum to one)")
    axes.set_xticks(x, [row["method"] for row in rows])
    axes.set_ylabel("Pearson's r with Leave-One-Out")
    axes.axhline(0, color="0.5", lw=0.8)
    return drawing.with_legend(figure)


def summary(result):
    """Yields r of both LRP variants, and the findings."""
    all_tokens, content = interval("r all"), interval("r content")
    for row in result.rows:
        if row["method"] in ("AttnLRP", "CP-LRP"):
            yield (
                f"{result.settings['dataset']}, {row['method']}: r with Leave-One-Out is "
                f"{all_tokens(row)} over all tokens, {content(row)} over content tokens."
            )
    yield from result.notes


AS_IN_THE_PAPER = "r all, sum to one"  # the column of its numbers
HINGES = (
    "The sign of that difference changes once [CLS] and [SEP] are left out: which rule is closer "
    "hinges on two tokens that carry no content."
)
TEXT = (
    "Mean over texts of Pearson's r between each method's relevance and Leave-One-Out (token "
    "masked in the attention mask, logit of the predicted class), over all tokens and over content "
    "tokens alone ([CLS] and [SEP] left out), with 95 % bootstrap intervals over texts. The paper "
    "normalises every map to sum to one, which turns r around whenever exactly one of the two sums "
    "is negative (theorem 76): its r belongs beside 'sum to one', and 'flips' is the share of "
    "texts where r turns around. LeRF and MoRF are the mean logit while tokens are removed, least "
    "or most relevant first; Δ = LeRF − MoRF; AOPC is the logit's mean drop from its start. The "
    "paper's numbers belong to BERT-base on SST-2 or IMDB: they stand beside ours for comparison, "
    "not as a target."
)

EXPERIMENT = Experiment(
    name="table2",
    rows=(LOO, "table2-{}-*"),
    run=table2,
    columns=[
        ("method", value("method")),
        ("r, all\ntokens", interval("r all")),
        ("r, content\ntokens", interval("r content")),
        ("sum\nto 1", number("r all, sum to one", 2)),
        ("flips", percent("flips")),
        ("LeRF", number("LeRF", 2)),
        ("MoRF", number("MoRF", 2)),
        ("Δ", number("Δ", 2)),
    ],
    shortest=lambda row: row["method"] not in OTHERS and row != {"method": PAPER},
    figure=figure,
    summary=summary,
)

"""How much of CP-LRP's advantage over AttnLRP is carried by [CLS] and [SEP] alone."""

from collections.abc import Mapping

import numpy as np

from lrp_axioms.benchmarks.errors import UnavailableError
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.maps import SEED, Measured, means, too_few
from lrp_axioms.benchmarks.experiments.record import Experiment, Request, interval, number
from lrp_axioms.benchmarks.experiments.result import Result, undefined
from lrp_axioms.benchmarks.experiments.rows import LOO, LRP
from lrp_axioms.numeric.evaluation.correlation import bootstrap_mean, pearson

TOKENS = ("all", "without [CLS]", "without [SEP]", "without both")  # choices of tokens that count


def special(data: Measured) -> Result:
    loo = data.maps["LOO"]
    places = np.arange(loo.present.shape[1])
    here, first = loo.present, places == 0
    last = places == here.sum(axis=1, keepdims=True) - 1
    counted = here, here & ~first, here & ~last, here & ~first & ~last
    rows, gaps = [], {}
    for tokens, keep in zip(TOKENS, counted, strict=True):
        r = {m: pearson(data.maps[m].relevance, loo.relevance, keep) for m in ("AttnLRP", "CP-LRP")}
        gaps[tokens] = r["CP-LRP"] - r["AttnLRP"]
        rows.append({"tokens": tokens, **means(r | {"gap": gaps[tokens]})})
    for label in ("LOO", "AttnLRP", "CP-LRP"):
        size = np.abs(data.maps[label].relevance)
        for name, end in {"[CLS]": first, "[SEP]": last}.items():
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
        notes=(*_notes(gaps), *too_few(len(loo.present)), *undefined(rows)),
    )


def check(request: Request) -> Mapping:
    """Raises UnavailableError for texts that do not begin and end with a special token."""
    masks = [x["special_tokens_mask"] for x in text.read(request.classifier, request.data).tokens]
    if count := sum(not (mask[0] and mask[-1]) for mask in masks):
        raise UnavailableError(
            f"table 'special' compares [CLS] and [SEP], and {count} texts begin or end with a word"
            "; leave the table out, or pass a model whose tokenizer adds both"
        )
    return {}


def _notes(gaps):
    carried = gaps["all"] - gaps["without both"]
    defined = ~np.isnan(carried)  # so that the parts add up
    whole, kept, lost = (
        bootstrap_mean(x[defined], seed=SEED) for x in (gaps["all"], gaps["without both"], carried)
    )
    yield (
        f"r of CP-LRP minus r of AttnLRP is {whole.mean:+z.3f} over all tokens and "
        f"{kept.mean:+z.3f} [{kept.low:+z.3f}, {kept.high:+z.3f}] without [CLS] and [SEP]: the two "
        f"tokens account for {lost.mean:+z.3f} [{lost.low:+z.3f}, {lost.high:+z.3f}] of it."
    )


EXPERIMENT = Experiment(
    name="special",
    rows=(LOO, *LRP),
    run=special,
    prepare=check,
    columns=[
        (
            "tokens that count",
            lambda row: ", ".join(row[x] for x in ("tokens", "method") if x in row),
        ),
        ("share of\n|relevance|", number("share")),
        ("r of\nAttnLRP", number("AttnLRP")),
        ("r of\nCP-LRP", number("CP-LRP")),
        ("gap", interval("gap")),
    ],
)

"""Time of LRP against Leave-One-Out, as ratios measured in alternating runs, by length of text."""

import itertools
import math
import statistics
from collections.abc import Sequence
from functools import partial

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.record import Experiment, number, value
from lrp_axioms.benchmarks.experiments.result import Result
from lrp_axioms.benchmarks.running.timing import alternate, plain_gradient, random_text
from lrp_axioms.benchmarks.running.workers import Track, untracked
from lrp_axioms.benchmarks.sources.models import Classifier

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
LONGEST = 128  # where nobody asks for more: beyond it Leave-One-Out takes minutes
REPEATS = 7
LONG = 128  # beyond it rounds are fewer, because Leave-One-Out grows with the square of length
FIT_FROM = 64  # tokens: below, the fixed cost of a call hides how time grows
LABELS = {"gradient": "gradient", "attnlrp": "AttnLRP", "cp-lrp": "CP-LRP", "loo": "LOO"}


def _relevance(method, model, inputs):
    return attribute(model, inputs, method).relevance


METHODS = {name: partial(_relevance, name) for name in LABELS} | {"gradient": plain_gradient}


def by_length(
    model,
    *,
    lengths: Sequence[int],
    repeats: int,
    loo_once: bool = False,
    track: Track = untracked,
) -> list[dict]:
    """For one text of each length: seconds of every method, a list with one entry per round.

    ``loo_once``: Leave-One-Out is not part of the rounds but follows them, once.
    """
    longest = text.limit(model)
    rows = []
    for tokens in track([n for n in lengths if n <= longest], "time of LRP and LOO"):
        inputs = random_text(model, batch=1, tokens=tokens)
        run = {name: lambda f=f, x=inputs: f(model, x) for name, f in METHODS.items()}
        slow = {"loo": run.pop("loo")} if loo_once else {}
        rounds = repeats if tokens <= LONG else max(2, repeats * LONG**2 // tokens**2)
        ready = int(loo_once or tokens <= LONG)  # Leave-One-Out of a long text takes minutes
        seconds = alternate(run, repeats=rounds, warm_up=ready, device=model.device)
        # Warms up on the first text: the first call of a process is slow.
        once = alternate(slow, repeats=1, warm_up=int(not rows), device=model.device)
        rows.append({"tokens": tokens} | seconds | once)
    return rows


def loo_over_attnlrp(row: dict) -> list[float]:
    """Returns a ratio per round of AttnLRP, to its own round of LOO or to the only one."""
    return [a / b for a, b in zip(itertools.cycle(row["loo"]), row["attnlrp"], strict=False)]


def lrp_versus_loo(
    classifier: Classifier,
    *,
    longest: int = LONGEST,
    repeats: int = REPEATS,
    track: Track = untracked,
) -> Result:
    """Measures milliseconds per text, by length up to ``longest``, and the ratio of LOO to LRP."""
    model = classifier.model
    lengths = [tokens for tokens in LENGTHS if tokens <= longest]
    measured = by_length(model, lengths=lengths, repeats=repeats, loo_once=True, track=track)
    rows = []
    for row in measured:
        ratios = loo_over_attnlrp(row)
        rows.append(
            {"tokens": row["tokens"], "rounds": len(ratios)}
            | {f"{name} ms": 1000 * statistics.median(row[name]) for name in METHODS}
            | {"LOO / AttnLRP": statistics.median(ratios)}
            | {"ratio": f"{statistics.median(ratios):.1f} [{min(ratios):.1f}, {max(ratios):.1f}]"}
        )
    return Result(
        name="time",
        table="time",
        title="Time: one LRP pass against Leave-One-Out",
        text=(
            f"Milliseconds for one text on this machine, median of {repeats} alternating runs "
            f"(fewer beyond {LONG} tokens), and of one run of Leave-One-Out; the ratio is that of "
            "this run to the median AttnLRP run, with its range. "
            "'gradient' is plain gradient x input of the same model. Random token ids: time "
            "depends on shapes alone."
        ),
        settings={"model": classifier.name, "model_sha256": classifier.sha256}
        | {"device": str(model.device), "dtype": str(model.dtype), "repeats": repeats},
        rows=rows,
        notes=_exponents(measured),
    )


def _exponents(rows):
    fits = [f"{LABELS[name]} {a:.2f} ± {error:.2f}" for name, (a, error) in growth(rows).items()]
    if not fits:
        return ()
    span = f"From {max(FIT_FROM, rows[0]['tokens'])} to {rows[-1]['tokens']} tokens"
    note = f"{span} time grows as a power of length, with exponent (± standard error)"
    return (f"{note}: {', '.join(fits)}.",)


def growth(rows: Sequence[dict]) -> dict[str, tuple[float, float]]:
    """Fits the exponent a of time ~ tokens^a by method, with its standard error, to rows by length.

    Fitted to the rows from FIT_FROM tokens on; empty where these are fewer than three.
    """
    fitted = [row for row in rows if row["tokens"] >= FIT_FROM]
    if len(fitted) < 3:
        return {}
    from scipy.stats import linregress

    tokens = [math.log(row["tokens"]) for row in fitted]
    fits = {
        name: linregress(tokens, [math.log(statistics.median(row[name])) for row in fitted])
        for name in METHODS
    }
    return {name: (fit.slope, fit.stderr) for name, fit in fits.items()}


def figure(result):
    """Draws milliseconds against text length, log-log."""
    from matplotlib.ticker import LogLocator

    from lrp_axioms.benchmarks.experiments import drawing

    figure = drawing.empty(6, 3.2)
    axes = figure.subplots()
    ticks = [row["tokens"] for row in result.rows]
    for label, style in {"LOO": "D-.", "AttnLRP": "o-", "CP-LRP": "s--", "gradient": "^:"}.items():
        more = {"mfc": "white" if label == "gradient" else "0.2", "ms": 4, "label": label}
        milliseconds = [row[f"{label.lower()} ms"] for row in result.rows]
        axes.loglog(ticks, milliseconds, style, color="0.2", **more)
    axes.set_xticks(ticks, ticks)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("tokens in the text")
    axes.set_ylabel("milliseconds per text (median)")
    return drawing.with_legend(figure)


def summary(result):
    """Says how much longer Leave-One-Out takes for the longest text."""
    for last in result.rows[-1:]:
        yield (
            f"Leave-One-Out takes {last['LOO / AttnLRP']:.1f} times as long as AttnLRP at "
            f"{last['tokens']} tokens."
        )


EXPERIMENT = Experiment(
    name="time",
    run=lambda request: lrp_versus_loo(
        request.classifier, longest=request.longest or LONGEST, track=request.track
    ),
    columns=[
        ("tokens", value("tokens")),
        ("gradient, ms", number("gradient ms", 1)),
        ("AttnLRP, ms", number("attnlrp ms", 1)),
        ("CP-LRP, ms", number("cp-lrp ms", 1)),
        ("LOO, ms", number("loo ms", 1)),
        ("LOO / AttnLRP", value("ratio")),
    ],
    figure=figure,
    summary=summary,
)

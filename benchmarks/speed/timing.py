"""Time of LRP against Leave-One-Out, as ratios measured in alternating runs."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.experiments.result import Result, Track, untracked
from benchmarks.sources.models import Classifier
from numeric import attribute

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
LONGEST = 128  # where nobody asks for more: beyond it Leave-One-Out takes minutes
REPEATS = 7
LONG = 128  # beyond it rounds are fewer, because Leave-One-Out grows with the square of length
ONE_ROW = {"logits_to_keep": 1, "use_cache": False}
FIT_FROM = 64  # tokens: below, the fixed cost of a call hides how time grows


def plain_gradient(model, inputs, **options):
    """Gradient x input as anyone would write it: the yardstick of every speed claim.

    Parameters are frozen here too, so that no rule wins by that alone.  ``options`` go to the
    model: with ``ONE_ROW`` a language model computes the logits of its last token alone, as ours.
    """
    flags = [(p, p.requires_grad) for p in model.parameters()]
    model.requires_grad_(requires_grad=False)
    try:
        words = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
        mask = inputs["attention_mask"]
        logits = model(inputs_embeds=words, attention_mask=mask, **options).logits
        (gradient,) = torch.autograd.grad(logits.flatten(1).amax(dim=1).sum(), words)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(requires_grad=flag)
    return (words * gradient).sum(dim=-1).detach()


METHODS = {
    "gradient": plain_gradient,
    "attnlrp": lambda model, inputs: attribute(model, inputs, "attnlrp").relevance,
    "cp-lrp": lambda model, inputs: attribute(model, inputs, "cp-lrp").relevance,
    "loo": lambda model, inputs: attribute(model, inputs, "loo").relevance,
}


LABELS = {"gradient": "gradient", "attnlrp": "AttnLRP", "cp-lrp": "CP-LRP", "loo": "LOO"}


def random_text(model, *, batch: int, tokens: int) -> dict[str, torch.Tensor]:
    """Token ids without meaning: time depends on shapes alone."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, model.config.vocab_size, (batch, tokens), generator=generator)
    ids = ids.to(model.device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def alternate(
    functions: dict[str, Callable],
    *,
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    device: torch.device | str | None = None,
) -> dict[str, list[float]]:
    """Seconds of each function in turn, ``repeats`` times after ``warm_up`` rounds.

    Alternating runs meet the same background load, so that ratios within a round are fair.
    ``clock``: ``time.process_time`` counts the work of this process alone, which suits long runs
    on CPUs that others use too; a GPU's work shows only on the default.  ``device``: where the
    functions compute; None is the accelerator in use, if there is one.
    """
    seconds = {name: [] for name in functions}
    for n in range(warm_up + repeats):
        for name, function in functions.items():
            _synchronize(device)
            start = clock()
            function()
            _synchronize(device)
            if n >= warm_up:
                seconds[name].append(clock() - start)
    return seconds


def _synchronize(device):
    elsewhere = device is None or torch.device(device).type != "cpu"
    if elsewhere and torch.accelerator.is_available():
        torch.accelerator.synchronize(device)


def peak_memory(function: Callable, *, device: str = "cpu") -> int:
    """Most bytes that torch had allocated at once on a device during a call, beyond those before.

    ``device``: where the call computes, "cpu" or a GPU such as "cuda".
    """
    if torch.device(device).type == "cuda":
        function()  # the first products take memory that stays
        _synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        _synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    activity = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity], profile_memory=True) as profile:
        function()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events), default=0)


def operations(function: Callable) -> int:
    """Floating-point operations of the products inside a call."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        function()  # the counter does not know every fused kernel
    return counted.get_total_flops()


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
    longest = model.config.max_position_embeddings
    rows = []
    for tokens in track([n for n in lengths if n <= longest], "time of LRP and LOO"):
        inputs = random_text(model, batch=1, tokens=tokens)
        run = {name: lambda f=f, x=inputs: f(model, x) for name, f in METHODS.items()}
        slow = {"loo": run.pop("loo")} if loo_once else {}
        rounds = repeats if tokens <= LONG else max(2, repeats * LONG**2 // tokens**2)
        seconds = alternate(run, repeats=rounds, device=model.device)
        # The first text of all is not what the first call of a process should be timed on.
        once = alternate(slow, repeats=1, warm_up=int(not rows), device=model.device)
        rows.append({"tokens": tokens} | seconds | once)
    return rows


def loo_over_attnlrp(row: dict) -> list[float]:
    """One ratio per round of AttnLRP, to its own round of LOO or to the only one."""
    return [a / b for a, b in zip(itertools.cycle(row["loo"]), row["attnlrp"], strict=False)]


def lrp_versus_loo(
    classifier: Classifier,
    *,
    longest: int = LONGEST,
    repeats: int = REPEATS,
    track: Track = untracked,
) -> Result:
    """Milliseconds per text, of each length up to ``longest``, and the ratio of LOO to LRP."""
    start = time.perf_counter()
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
        settings={
            "model": classifier.name,
            "model_sha256": classifier.sha256,
            "device": str(model.device),
            "dtype": str(model.dtype),
            "repeats": repeats,
        },
        rows=rows,
        notes=_exponents(measured),
        seconds=time.perf_counter() - start,
    )


def _exponents(rows):
    fits = [f"{LABELS[name]} {a:.2f} ± {error:.2f}" for name, (a, error) in growth(rows).items()]
    if not fits:
        return ()
    span = f"From {max(FIT_FROM, rows[0]['tokens'])} to {rows[-1]['tokens']} tokens"
    note = f"{span} time grows as a power of length, with exponent (± standard error)"
    return (f"{note}: {', '.join(fits)}.",)


def growth(rows: Sequence[dict]) -> dict[str, tuple[float, float]]:
    """The exponent a of time ~ tokens^a by method, and its standard error, from rows by length.

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

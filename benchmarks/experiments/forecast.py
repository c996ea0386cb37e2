"""Forecasts time and memory of rows from one timed pass, their trials and the lengths of texts."""

import resource
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from benchmarks.experiments import text
from benchmarks.experiments.record import Request
from benchmarks.experiments.rows import Row
from benchmarks.running.threads import one_thread
from benchmarks.running.timing import alternate, random_text
from numeric import attribute
from numeric.methods.amplification import AmplifiedRelevance
from numeric.methods.catalogue import METHODS, ONE_PASS
from numeric.methods.memory_budget import bytes_kept
from numeric.models.facts import facts_of

TIMED = 1024  # tokens of the batch that is timed
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of a unit of ``ru_maxrss``


@dataclass(frozen=True)
class Forecast:
    """What rows will take from their beginning; ``bytes`` are the most of one process."""

    seconds: float
    bytes: int
    processes: int

    def __str__(self):
        minutes = self.seconds / 60
        time = f"{minutes / 60:.1f} h" if minutes >= 120 else f"{max(minutes, 1):.0f} min"
        each = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"about {time} in all, in {each} of {self.bytes / 2**30:.1f} GiB"


@one_thread()  # as in a worker
def forecast(
    request: Request,
    rows: Sequence[Row],
    trials: Mapping[str, float],
    workers: int,
    *,
    least: float = 0,
) -> Forecast | None:
    """Multiplies passes of rows by the time of a pass at the length where most time is spent.

    ``trials``: row -> passes, as by ``text.check``.  Processes wait for the last part of a row.
    Returns None for fewer than ``least`` seconds.
    """
    model, data = request.classifier.model, text.read(request.classifier, request.data)
    shards = text.shards(request.classifier, data)
    lengths = np.array([len(each["input_ids"]) for each in data.tokens])
    workers = 1 if model.device.type != "cpu" else workers
    depth, seconds, spent = facts_of(model).layers, 0.0, np.zeros(len(lengths))
    passes = [lengths * _passes(row, trials[row.name], lengths, depth, data.chunk) for row in rows]
    for tokens in passes:
        parts = [tokens[shard].sum() for shard in shards]
        seconds += max(sum(parts) / workers, *parts)
        spent += tokens
    length = round(np.average(lengths, weights=spent))
    batch = random_text(model, batch=min(len(lengths), max(1, TIMED // length)), tokens=length)
    pass_ = partial(torch.inference_mode()(model), **batch)
    (of_pass,) = alternate({"pass": pass_}, repeats=1, device=model.device)["pass"]
    seconds *= of_pass / batch["input_ids"].numel()
    if seconds < least:
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT  # by trials, with the model
    largest = max(shards, key=lambda shard: len(shard) * lengths[shard].max())
    kept = len(largest) * _activations(model, rows, depth, int(lengths[largest].max()))
    return Forecast(seconds, held + kept, workers)


def _passes(row, tried, tokens, depth, chunk):
    """Returns passes per text: those of its trial, one per token, and two curves of every map."""
    variants = row.composites(depth).values()
    named = [v for v in variants if isinstance(v.method, str)]
    each = [v.options.get("budget", tokens) for v in named if "per token" in METHODS[v.method].cost]
    curves = len(variants) * row.curves * (np.ceil(tokens / chunk) + 1)  # half a text in the mean
    return tried + curves + sum(np.minimum(tokens, most) for most in each)


def _activations(model, rows, depth, tokens):
    """Returns the most bytes that a method with one pass keeps of a text: a sweep as its first."""
    found = [list(row.composites(depth).values())[: 1 if row.sweep else None] for row in rows]
    methods = [variant.method for each in found for variant in each]
    one = random_text(model, batch=1, tokens=tokens)
    chosen = [m for m in methods if not isinstance(m, str) or METHODS[m].cost == ONE_PASS]
    with warnings.catch_warnings():  # words without meaning may be amplified
        warnings.simplefilter("ignore", AmplifiedRelevance)
        return max(
            [bytes_kept(model, partial(attribute, model, one, m)) for m in chosen], default=0
        )

"""Forecasts time and memory of rows from one timed pass, their trials and the lengths of texts."""

import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from lrp_axioms import attribute
from lrp_axioms.benchmarks.experiments import text
from lrp_axioms.benchmarks.experiments.record import Request
from lrp_axioms.benchmarks.running.timing import alternate, one_thread
from lrp_axioms.numeric.methods.catalogue import METHODS, ONE_PASS
from lrp_axioms.numeric.methods.memory_budget import bytes_kept
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.inputs import prepare

TIMED = 1024  # tokens of the batch that is timed
UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of a unit of ``ru_maxrss``


@one_thread()  # as in a worker
def forecast(request: Request, rows, trials, processes: int) -> tuple[float, Callable[[], int]]:
    """Returns seconds, and a function that counts the bytes of a process.

    Seconds are passes of rows times a pass at the length where most time is spent; processes wait
    for the last part of a row.  ``trials``: row -> passes, as by ``text.check``.
    """
    classifier, model = request.classifier, request.classifier.model
    data = text.read(classifier, request.data)
    shards = text.shards(classifier, data)
    lengths = np.array([len(each["input_ids"]) for each in data.tokens])
    found = [lengths * _passes(row, trials, lengths, model, data.chunk) for row in rows]
    length = round(np.average(lengths, weights=sum(found)))
    batch = lambda numbers: text.in_batch(classifier, data, numbers)[0]
    shard = min(shards, key=lambda part: abs(lengths[part].mean() - length))
    timed = shard[: max(1, TIMED // length)]
    one_pass = partial(torch.inference_mode()(model), **prepare(model, batch(timed)).arguments())
    (seconds,) = alternate({"pass": one_pass}, repeats=1, device=model.device)["pass"]
    parts = [[tokens[shard].sum() for shard in shards] for tokens in found]
    seconds *= sum(max(sum(x) / processes, *x) for x in parts) / lengths[timed].sum()
    sizes = [(len(x), int(lengths[x[-1]]), x[-1]) for x in shards]  # each ends with its longest
    largest = {max(sizes, key=lambda part: part[0] * part[1] ** n) for n in (1, 2)}
    sent = sum(x.nbytes for x in model.parameters()) * 3 * (processes > 1)  # read beside the last
    of_part = lambda count, _, last: _bytes(model, rows, count, batch([last]), least=sent)
    return seconds, lambda: max(of_part(*part) for part in largest)


def _passes(row, trials, tokens, model, chunk):
    """Counts passes per text: its trial, one per token, and two curves of every map."""
    variants = row.composites(facts_of(model).layers).values()
    named = [v for v in variants if isinstance(v.method, str)]
    each = [v.options.get("budget", tokens) for v in named if "per token" in METHODS[v.method].cost]
    drawn = [(METHODS[v.method].options | v.options).get("samples", 0) for v in named]
    curves = len(variants) * row.curves * (np.ceil(tokens / chunk) + 1)  # half a text in the mean
    curves += sum(np.minimum(np.exp2(tokens.clip(max=64)), most) for most in drawn)
    return trials[row.name] + curves + sum(np.minimum(tokens, most) for most in each)


def _most_so_far():
    """Returns the most bytes that this process has held, or 0 on Windows, which does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def _bytes(model, rows, texts, longest, *, least):
    """Adds the activations of methods with one pass to the most so far; a sweep is its first."""
    held = _most_so_far()  # with model and trials
    depth = facts_of(model).layers
    of = lambda row: [*row.composites(depth).values()][: 1 if row.sweep else None]
    methods = [v.method for row in rows for v in of(row)]
    run = partial(attribute, model, longest)
    wide = [m for m in methods if not isinstance(m, str) or METHODS[m].cost == ONE_PASS]
    with warnings.catch_warnings(action="ignore"):  # the rows tell them
        kept = max([bytes_kept(model, partial(run, m)) for m in wide], default=0)
    return held + max(least, texts * kept)

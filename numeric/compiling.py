"""LRP for many batches: the rules stay on the model, and its passes may be one compiled graph."""

import inspect
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import RLock

import torch
from torch import _dynamo
from transformers import PreTrainedModel

from axioms.composites import Composite
from numeric.attribution import composite_of, explained
from numeric.fast import scope
from numeric.inputs import check_model
from numeric.methods.lrp import check_share, read

LEAST = "2.13"  # version of torch whose compiler traces torch.autograd.grad
TRACING = {"trace_autograd_ops": True, "recompile_limit": 64}
"""Settings of the compiler: a graph holds both passes; so many shapes and kinds of input."""
_BLOCKS = itertools.count()


@contextmanager
def compiled(
    model: PreTrainedModel,
    method: str | Composite = "attnlrp",
    *,
    epsilon: float = 0.0,
    share: str | None = None,
    disable: bool = False,
    **options,
) -> Iterator:
    """``explain(inputs, target=None)``, which is ``attribute`` by ``torch.compile``.

    ``method`` is "attnlrp", "cp-lrp", "gradient-x-input" or a Composite; ``epsilon`` and ``share``
    are those of ``numeric.methods.lrp``; ``options`` go to ``torch.compile`` (``dynamic``,
    ``mode``, ``backend``...).  The first batch of a shape, with padding or without, waits for the
    compiler, half a minute or more; relevance differs from that of ``attribute`` by rounding.
    Torch 2.13 fails on GPT-2 with ``dynamic=True``, which the default does not need.
    With ``disable=True`` nothing is compiled: relevance is that of ``attribute``, and the rules are
    planned and placed once for the block, on a twin that shares the model's weights: modules that
    are replaced and weights that are moved inside the block do not reach it.  Batches of several
    threads run one after the other.
    Raises what ``attribute`` raises, ValueError for methods that are no rules, and RuntimeError
    where torch is too old.
    """
    known = list(inspect.signature(torch.compile).parameters)[1:]  # behind the model
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"compiled() has no option {', '.join(map(repr, unknown))}; it has epsilon, share and "
            f"those of torch.compile: {', '.join(known)}"
        )
    if not disable and not hasattr(_dynamo.config, "trace_autograd_ops"):
        raise RuntimeError(
            f"torch {torch.__version__} cannot compile a backward pass into the graph; install "
            f"torch {LEAST} or newer, or call attribute(model, inputs, {method!r})"
        )
    name, composite, share = composite_of(method, share)
    check_share(share)
    modules = check_model(model)
    with scope.applied(model, composite, eps=epsilon) as tap:

        def both_ways(arguments, target):
            logits = tap.model(**arguments).logits
            last = logits.shape[1] - 1  # what is out of range is refused after the pass
            chosen = logits.argmax(dim=1) if target is None else target.clamp(0, last)
            logit = logits.gather(1, chosen[:, None])
            (c,) = torch.autograd.grad(logit.sum(), tap.embedding)
            relevance = read(tap, c, share)
            tap.clear()  # nothing but values may leave the graph
            return relevance, logits.detach()

        quick, settings = both_ways, nullcontext
        if not disable:
            # Code of its own, by which the compiler counts what it has compiled for a block.
            both_ways.__code__ = both_ways.__code__.replace(co_name=f"both_ways_{next(_BLOCKS)}")
            quick = torch.compile(both_ways, **{"fullgraph": True} | options)
            settings = partial(_dynamo.config.patch, **TRACING)

        def run(model, batch, choose, target):
            size = len(batch.attention_mask)
            if target is not None:
                target = torch.as_tensor(target, device=model.device).long().expand(size)
            tap.clear()  # of a batch that broke off
            arguments = batch.arguments()
            if not disable and (batch.attention_mask == 1).all():
                # Stock code looks whether a mask hides anything, and its graph cannot: it would
                # always attend with a mask, for which GPUs have slower kernels.  (The graph of a
                # decoder without a cache makes itself one from the positions.)
                arguments.pop("attention_mask", None)
            with settings(), torch.enable_grad():
                relevance, logits = quick(arguments, target)
            return relevance, *choose(logits), {}

        def explain(inputs, target=None):
            used = {"epsilon": epsilon, "share": share}
            by_target = partial(run, target=target)
            with turn:
                if ended:
                    raise RuntimeError(
                        "the block of compiled() has ended, and with it the rules; call inside "
                        "the block, or open another"
                    )
                return explained(model, inputs, target, name, by_target, used, modules=modules)

        turn, ended = RLock(), []  # the tap is for one thread at a time
        try:
            yield explain
        finally:
            with turn:
                ended.append(True)

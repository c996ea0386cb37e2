"""Time, memory and operations of calls: what the table of times and all benchmarks measure with."""

import itertools
import time
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

ONE_ROW = {"logits_to_keep": 1, "use_cache": False}


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

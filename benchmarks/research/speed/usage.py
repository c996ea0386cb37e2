"""Answers, memory and operations of calls."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from lrp_axioms.benchmarks.running.timing import synchronize

ONE_ROW = {"logits_to_keep": 1, "use_cache": False}
"""With these options a language model computes the logits of its last token alone, as ours."""


def keeping(runs: Mapping[str, Callable]) -> tuple[dict[str, Callable], dict]:
    """Returns calls that keep their last answers, and the answers: a wrong one has no speed."""
    answers = {}

    def keep(name, run):
        answers[name] = run()

    return {name: partial(keep, name, run) for name, run in runs.items()}, answers


def peak_memory(function: Callable, *, device: str = "cpu") -> int:
    """Returns the peak of torch's bytes on a device during a call, beyond the bytes before it.

    ``device``: where the call computes, "cpu" or a GPU such as "cuda".
    """
    if torch.device(device).type == "cuda":
        function()  # the first products take memory that stays
        synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    activity = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[activity], profile_memory=True) as profile:
        function()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events), default=0)


def operations(function: Callable) -> int:
    """Counts floating-point operations of the products inside a call."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        function()  # the counter does not know every fused kernel
    return counted.get_total_flops()

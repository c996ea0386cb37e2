"""Times calls that alternate, and limits the threads that compute."""

import time
from collections.abc import Callable
from contextlib import contextmanager

import torch

from lrp_axioms.numeric.models.facts import facts_of


@contextmanager
def one_thread():
    """Limits PyTorch to one thread: more slow down small products, above all on busy processors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def plain_gradient(model, inputs, **options):
    """Computes gradient x input as anyone would write it: the yardstick of every speed claim.

    Parameters are frozen here too, so that no rule wins by that alone.  ``options`` go to the
    model.
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
    """Draws token ids without meaning: time depends on shapes alone.

    A classifier with an encoder and a decoder reads the row of the one end of its text.
    """
    facts, generator = facts_of(model), torch.Generator().manual_seed(0)
    ids = torch.randint(1, facts.words, (batch, tokens), generator=generator).to(model.device)
    end = getattr(facts.text, "eos_token_id", None)
    if facts.two and isinstance(end, int):
        ids[ids == end] = facts.words - 1
        ids[:, -1] = end
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def alternate(
    functions: dict[str, Callable],
    *,
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    device: torch.device | str | None = None,
) -> dict[str, list[float]]:
    """Times each function in turn, ``repeats`` times after ``warm_up`` rounds, in seconds.

    Alternating runs meet the same background load, so that ratios within a round are fair.
    ``clock``: ``time.process_time`` counts the work of this process alone, which suits long runs
    on CPUs that others use too; a GPU's work shows only on the default.  ``device``: where the
    functions compute; None is the accelerator in use, if there is one.
    """
    seconds = {name: [] for name in functions}
    for n in range(warm_up + repeats):
        for name, function in functions.items():
            synchronize(device)
            start = clock()
            function()
            synchronize(device)
            if n >= warm_up:
                seconds[name].append(clock() - start)
    return seconds


def synchronize(device: torch.device | str | None) -> None:
    """Waits for a device; None is the accelerator in use, if there is one."""
    elsewhere = device is None or torch.device(device).type != "cpu"
    if elsewhere and torch.accelerator.is_available():
        torch.accelerator.synchronize(device)

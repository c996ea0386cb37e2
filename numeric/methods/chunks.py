"""How many masked copies run at once: as many as a budget of memory holds, of like length."""

from collections.abc import Iterator
from numbers import Integral

import torch
from torch import Tensor

AUTO = "auto"
ON_CPU = 1 << 26
"""Bytes for "auto" on a CPU: more was no faster on BERT-base, and a quarter of it 10 % slower."""
ALIKE = 0.9
"""A copy shorter than this share of the longest, by two tokens or more, begins a new chunk."""


def chunks(
    lengths: Tensor, need: Tensor, *, batch_size: int, memory: int | str, device
) -> Iterator[Tensor]:
    """Copies that run together, the longest first.

    lengths: (copy,) tokens to run   need: (copy,) bytes, as by ``bytes_of_a_copy``
    At most ``batch_size`` copies, which together need at most ``memory`` bytes when all are
    padded to the longest; "auto" is 64 MiB on a CPU, and half of what is free on a GPU.
    Raises ValueError for a budget or a ``batch_size`` below one copy.
    """
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: pass a whole number of copies, at least 1")
    budget = _budget(memory, device, largest=int(need.max()) if len(need) else 0)
    order = lengths.argsort(descending=True, stable=True)
    while len(order):
        longest = lengths[order[0]]
        fit = budget // max(1, int(need[order].max()))
        alike = int((lengths[order] >= (longest * ALIKE).clamp(max=longest - 1)).sum())
        size = min(batch_size, max(1, fit), alike)
        yield order[:size]
        order = order[size:]


def bytes_of_a_copy(model, tokens: Tensor, *, keys: Tensor, kept: Tensor) -> Tensor:
    """Most bytes that one copy holds at once in a forward pass without gradients, about.

    tokens: (copy,) that run   keys: (copy,) that are attended to   kept: (copy,) cached before
    The widest moment of a layer: both sides of the activation in the MLP or, where scores are
    spelled out, three sets of them; beside it the stream, queries, keys, values and the cache.
    """
    config = model.config.get_text_config()
    width, layers = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", None)
    inner = inner or getattr(config, "n_inner", None) or 4 * width
    spelled_out = config._attn_implementation == "eager"
    scores = 3 * config.num_attention_heads * tokens * keys * spelled_out
    held = tokens * (3 * inner + 8 * width) + scores + 2 * width * (layers * kept + 2 * keys)
    return held * torch.finfo(model.dtype).bits // 8


def _budget(memory, device, *, largest):
    if isinstance(memory, str) and memory == AUTO:
        free = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else ON_CPU
        return max(free, largest)  # one copy at a time is the least there is
    if not isinstance(memory, Integral) or isinstance(memory, bool) or memory < 1:
        raise ValueError(f'memory={memory!r}: pass a number of bytes, or "auto"')
    if memory < largest:
        raise ValueError(
            f"memory={memory}: one copy of the longest text needs about {largest} bytes; pass at "
            "least that, or shorten the text"
        )
    return int(memory)

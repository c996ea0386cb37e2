"""Groups masked copies of like length, as many as a budget of memory holds at once."""

from collections.abc import Callable, Iterator
from numbers import Integral

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from lrp_axioms.numeric.models.facts import ModelFacts, facts_of
from lrp_axioms.numeric.models.heads import MASKED, NEXT

AUTO = "auto"
ON_CPU = 1 << 26
"""Bytes for "auto" on a CPU: more was no faster on BERT-base, and a quarter of it 10 % slower."""
ON_CPU_WITH_GRADIENTS = 1 << 27
"""A limit where activations wait for the backward pass; half was 5 % slower on BERT-base."""
ALIKE = 0.9
"""A copy shorter than this share of the longest, by two tokens or more, begins a new chunk."""


def chunks(
    lengths: Tensor,
    need: Tensor,
    *,
    batch_size: int,
    memory: int | str,
    device: torch.device,
    on_cpu: int = ON_CPU,
    least: int = 1,
) -> Iterator[Tensor]:
    """Yields copies that run together, the longest first.

    lengths: (copy,) tokens to run   need: (copy,) bytes, as by ``bytes_of_a_copy``
    At most ``batch_size`` copies, which together need at most ``memory`` bytes when all are
    padded to the longest; "auto" is ``on_cpu`` there, and half of the free memory on a GPU.
    Copies of like length, and further ones up to ``least`` tokens, where these fit.
    Raises ValueError for a budget or a ``batch_size`` below one copy.
    """
    check_batch_size(batch_size)
    budget = _budget(memory, device, on_cpu, largest=int(need.max()) if len(need) else 0)
    order = lengths.argsort(descending=True, stable=True)
    while len(order):
        longest = lengths[order[0]]
        fit = budget // max(1, int(need[order].max()))
        alike = int((lengths[order] >= (longest * ALIKE).clamp(max=longest - 1)).sum())
        size = min(batch_size, max(1, fit), max(alike, least // int(longest)))
        yield order[:size]
        order = order[size:]


def check_batch_size(size: int) -> None:
    """Raises ValueError for a number of copies that is not whole, or below 1."""
    if type(size) is not int or size < 1:
        raise ValueError(f"batch_size={size!r}: pass a whole number of copies, at least 1")


def bytes_of_a_copy(
    model: PreTrainedModel, tokens: Tensor, *, keys: Tensor, kept: Tensor, rows: int | None = None
) -> Tensor:
    """Estimates the most bytes of one copy at once in a forward pass without gradients.

    tokens: (copy,) that run   keys: (copy,) that are attended to   kept: (copy,) cached before
    rows: the number of rows that a language model gives logits of; None: all tokens
    The widest moment of a layer: both sides of the activation in the MLP or, where scores are
    spelled out, three sets of them; beside it the stream, queries, keys, values and the cache.
    """
    facts = facts_of(model)
    width, inner, heads = _sizes(model, facts)
    layers = _size(facts.text, "num_hidden_layers")
    scores = 3 * heads * tokens * keys
    held = tokens * (3 * inner + 8 * width) + scores + 2 * width * (layers * kept + 2 * keys)
    if facts.head in (NEXT, MASKED):  # logits come after the layers
        words = _size(facts.text, "vocab_size")
        held = held.maximum(2 * words * (tokens if rows is None else torch.full_like(tokens, rows)))
    return held * model.dtype.itemsize


def bytes_with_gradients(model: PreTrainedModel, tokens: Tensor, *, kept: Tensor) -> Tensor:
    """Estimates the most bytes of one copy at once in a forward pass and back to its embeddings.

    tokens: (copy,) that run   kept: (copy,) bytes for the backward pass, ``bytes_kept``
    The widest moment comes at the top, where all waits: beside it the gradients around the
    activation in the MLP, two sets of scores where they are spelled out, and the stream's.
    """
    width, inner, heads = _sizes(model, facts_of(model))
    held = tokens * (3 * inner + 3 * width) + 2 * heads * tokens**2
    return kept + held * model.dtype.itemsize


def bytes_kept(model: nn.Module, run: Callable[[], object]) -> int:
    """Counts the bytes that a forward pass keeps for the backward pass, beside the model's own.

    They differ with family, attention and activation, and autograd knows them.
    """
    own = {x.untyped_storage().data_ptr() for x in (*model.parameters(), *model.buffers())}
    held: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return x.detach()  # the same memory, so that nothing else takes that place

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        waiting = run()  # until all is counted
    del waiting
    return sum(held.values())


def _sizes(model: PreTrainedModel, facts: ModelFacts) -> tuple[int, int, int]:
    """Returns the width, the width inside the MLP, and the heads whose scores are spelled out.

    On a GPU no fused kernel takes float64, so that "sdpa" spells them out there too.
    """
    config = facts.text
    width = _size(config, "hidden_size", "d_model", "d_latents")
    inner = _size(config, "intermediate_size", "hidden_dim", "n_inner") or 4 * width
    without_kernel = model.device.type == "cuda" and model.dtype == torch.float64
    spelled_out = facts.attention == "eager" or without_kernel
    return width, inner, _size(config, "num_attention_heads") * spelled_out


def _size(config: PreTrainedConfig, *names: str) -> int:
    """Reads the first of ``names`` that ``config`` knows, or 0."""
    if getattr(config, "is_heterogeneous", False):
        config = config.per_layer_config[0]
    return next((x for name in names if type(x := getattr(config, name, None)) is int), 0)


def _budget(memory: int | str, device: torch.device, on_cpu: int, *, largest: int) -> int:
    if isinstance(memory, str) and memory == AUTO:
        free = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else on_cpu
        return max(free, largest)  # one copy at a time is the least there is
    if not isinstance(memory, Integral) or isinstance(memory, bool) or memory < 1:
        raise ValueError(f'memory={memory!r}: pass a number of bytes, or "auto"')
    if memory < largest:
        raise ValueError(
            f"memory={memory}: one copy of the longest text needs about {largest} bytes; pass at "
            "least that, or shorten the text"
        )
    return int(memory)

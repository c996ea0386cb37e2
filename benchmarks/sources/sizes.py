"""Compares the sizes of a config with its weights, before memory is allocated."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

REPEATED = re.compile(r"layer|block|expert|depth|stage")  # counts of modules
COUNTED = re.compile(r"n(um)?_")
PARTS, LABELS = 2**10, 2**16  # always allowed: layers and the like, labels
PACKED, SMALL = 4, 2**30  # allowed bytes of float32: per stored byte, and beyond them


def check_counts(name: str, config: Mapping, source: Path | str) -> None:
    """Raises ValueError for more layers or labels than the weights can belong to."""
    most = max(PARTS, _tensors(source))
    if wrong := list(_counts(config, most)):
        raise ValueError(
            f"model {name!r}, config.json: {', '.join(wrong)}; the weights have 0 to {most} "
            f"parts, and at most {LABELS} labels are read: get the model again"
        )


def _counts(config, most) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _counts(value, most)
        limit = LABELS if key == "num_labels" else most if REPEATED.search(key) else None
        for number in value if isinstance(value, list) else [value]:
            least = 0 if COUNTED.match(key) else number  # a chosen layer may count from the end
            if limit and isinstance(number, int) and not least <= number <= limit:
                yield f"{key} = {number}"


def _tensors(source):
    count = 0
    for path in source.glob("*.safetensors") if isinstance(source, Path) else ():
        try:
            with safe_open(path, "pt") as file:
                count += len(file.keys())
        except (SafetensorError, OSError):
            continue  # from_pretrained reports it
    return count


def check_bytes(name: str, empty: PreTrainedModel, source: Path) -> None:
    """Raises ValueError if ``empty``, a model on device meta, is far larger than its files."""
    stored = sum(x.stat().st_size for x in source.iterdir() if x.suffix in (".safetensors", ".bin"))
    tensors = [*empty.named_parameters(), *empty.named_buffers()]
    float32 = torch.float32.itemsize
    if (needed := sum(x.numel() for _, x in tensors) * float32) > PACKED * stored + SMALL:
        key, largest = max(tensors, key=lambda found: found[1].numel())
        raise ValueError(
            f"model {name!r}, config.json: a model of {needed} bytes, with {key} of shape "
            f"{list(largest.shape)}, has weights of {stored} bytes: get the model again"
        )

"""Compares a config with its weights: sizes before memory is allocated, names afterwards."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import PreTrainedModel

from lrp_axioms.numeric.spelling import some

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


def check_names(name: str, model: PreTrainedModel, info: Mapping, config: Mapping) -> None:
    """Raises ValueError for weights that the files lack, and for weights of another config."""
    wrote = any("ConditionalGeneration" in cls for cls in config.get("architectures") or ())
    if wrote and any("classification_head" in key for key in info["missing_keys"]):
        raise ValueError(
            f"model {name!r} writes texts, and classifies none; pass --generate N to `explain`, "
            "which then explains up to N tokens that it writes"
        )
    if info["missing_keys"]:
        raise ValueError(
            f"model {name!r} has no weights for {some(sorted(info['missing_keys']))}: they would "
            "be random; pass a checkpoint that was fine-tuned, or a language model"
        )
    if unused := list(_unused(model, info["unexpected_keys"])):
        raise ValueError(
            f"model {name!r} has weights that its config leaves out: {some(unused)} "
            f"(num_hidden_layers = {getattr(model.config, 'num_hidden_layers', None)}): they "
            "belong to another config; get config.json again"
        )


def _unused(model, keys):
    """Returns weights of layers beyond the last, and of parameters that are None.

    Others may be left out: heads for another task, and buffers of earlier versions.
    """
    modules = dict(model.named_modules())
    modules |= {x.removeprefix(f"{model.base_model_prefix}."): modules[x] for x in modules}
    for key in sorted(keys):
        places = [(key[: x.start()], int(x[1])) for x in re.finditer(r"\.(\d+)(?=\.)", key)]
        stacks = [(modules.get(path), number) for path, number in places]
        path, _, name = key.rpartition(".")
        off = path in modules and modules[path]._parameters.get(name, name) is None
        if off or any(isinstance(x, nn.ModuleList) and n >= len(x) for x, n in stacks):
            yield key

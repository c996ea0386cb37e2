"""Digests of all that the answers of a model depend on."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase


def of_model(model: torch.nn.Module) -> str:
    """Returns SHA-256 over names and values of all parameters and buffers, whatever their file."""
    sha = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        sha.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        sha.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def of_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns SHA-256 over a tokenizer's rules, without cutting and padding, which calls set."""
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules = {key: rules[key] for key in rules if key not in ("truncation", "padding")}
    else:
        places = ("name_or_path", "vocab_file", "merges_file")  # where it was read from
        given = {key: str(x) for key, x in tokenizer.init_kwargs.items() if key not in places}
        rules = {"class": type(tokenizer).__name__, "vocab": tokenizer.get_vocab(), "init": given}
        merges: Mapping[Any, int] = getattr(tokenizer, "bpe_ranks", {})
        rules["merges"] = sorted((rank, *pair) for pair, rank in merges.items())
    settings = [tokenizer.padding_side, tokenizer.truncation_side, tokenizer.model_input_names]
    return _sha256([rules, tokenizer.special_tokens_map, settings])


def of_config(config: PreTrainedConfig | GenerationConfig) -> str:
    """Returns SHA-256 over all settings except a model's path, its library and its dtype."""
    told = json.loads(config.to_json_string())
    other = ("_name_or_path", "transformers_version", "dtype")
    return _sha256({key: value for key, value in told.items() if key not in other})


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

"""Model folders and results that cannot be used, each with a part of the one message."""

import json
import math

import torch

from tests.support.folders import indexed, pickled, put, settings, weights

NEEDS = "could not be loaded: "


def tokenizer(**new):
    return settings("tokenizer_config.json", **new)


MODELS = {
    # config.json
    "nothing": (put("config.json", ""), NEEDS),
    "a list": (put("config.json", "[]"), NEEDS),
    "a number": (put("config.json", "3"), NEEDS),
    "null": (put("config.json", "null"), NEEDS),
    "half": (put("config.json", "{"), NEEDS),
    "no text": (put("config.json", b"\xff\xfe{"), NEEDS),
    "zeros": (put("config.json", bytes(9)), NEEDS),
    "deep": (put("config.json", '{"a":' * 100_000), "maximum recursion depth"),
    "no config": (put("config.json", None), "has no config.json"),
    "no kind": (put("config.json", "{}"), "model_type"),
    "an unknown kind": (settings(model_type="abacus"), NEEDS),
    "another kind": (settings(model_type="gpt2"), "no weights for ...score.weight"),
    "a kind of images": (settings(model_type="vit"), "Unrecognized configuration class"),
    "a list of kinds": (settings(model_type=["bert"]), "unhashable"),
    "a kind of another library": (settings(model_type="timm_wrapper"), "timm"),
    "another width": (settings(hidden_size=10), NEEDS),
    "a width in words": (settings(hidden_size="8"), "'hidden_size'"),
    "a width below 0": (settings(hidden_size=-8), "negative dimension"),
    "no heads": (settings(num_attention_heads=0), NEEDS),
    "heads that do not fit": (settings(num_attention_heads=3), "not a multiple"),
    "layers in words": (settings(num_hidden_layers="two"), "'num_hidden_layers'"),
    "more layers": (settings(num_hidden_layers=3), "no weights for ...layer.2"),
    "no vocabulary": (settings(vocab_size=0), NEEDS),
    "no end of text": (settings(max_position_embeddings=None), "'max_position_embeddings'"),
    "padding elsewhere": (settings(pad_token_id=99), "Padding_idx"),
    "an unknown activation": (settings(hidden_act="magic"), "'magic'"),
    "an epsilon in words": (settings(layer_norm_eps="x"), "'layer_norm_eps'"),
    "labels in a list": (settings(id2label=["a", "b"]), NEEDS),
    "labels without numbers": (settings(id2label={"x": "a"}), "'x'"),
    "one label": (settings(id2label={"0": "a"}), NEEDS),
    "an unknown dtype": (settings(dtype="float99"), "float99"),
    "pieces": (settings(chunk_size_feed_forward=3), "chunk size 3"),
    "tuples": (settings(return_dict=False), "config.return_dict=False"),
    "weights elsewhere": (settings(transformers_weights="../taken"), "../taken"),
    # weights
    "no weights": (put("model.safetensors", None), "no file named model.safetensors"),
    "empty weights": (put("model.safetensors", ""), "header too small"),
    "text for weights": (put("model.safetensors", "no weights at all"), "header too large"),
    "a list for weights": (put("model.safetensors", b"\2" + bytes(7) + b"[]"), "invalid JSON"),
    "not a number": (weights(lambda x: x * torch.nan), "non-finite logits"),
    "endless": (weights(lambda x: x * torch.inf), "non-finite logits"),
    "an index of nothing": (indexed("{}"), "'weight_map'"),
    "an index in a list": (indexed("[]"), NEEDS),
    "half an index": (indexed("{"), NEEDS),
    "an index without shards": (indexed('{"weight_map": {}, "metadata": {}}'), NEEDS),
    "an index of a number": (indexed('{"weight_map": 3, "metadata": {}}'), NEEDS),
    "an index of a shard that is not there": (
        indexed('{"weight_map": {"a": "gone.safetensors"}, "metadata": {}}'), "gone.safetensors",
    ),
    "a pickled list": (pickled([1]), NEEDS),
    "a pickled number": (pickled(3), NEEDS),
    "a pickle of other weights": (pickled({"a": torch.ones(1)}), "no weights for"),
    "half a pickle": ((put("model.safetensors", None), put("pytorch_model.bin", b"\x80")), NEEDS),
    "no pickle": ((put("model.safetensors", None), put("pytorch_model.bin", "text")), NEEDS),
    "an empty pickle": ((put("model.safetensors", None), put("pytorch_model.bin", "")), NEEDS),
    # tokenizer
    "no tokenizer": (
        (put("tokenizer.json", None), put("tokenizer_config.json", None)), "has no tokenizer",
    ),
    "an empty tokenizer": (put("tokenizer.json", ""), NEEDS),
    "a list for a tokenizer": (put("tokenizer.json", "[]"), NEEDS),
    "nothing of a tokenizer": (put("tokenizer.json", "{}"), "'added_tokens'"),
    "a list of settings": (put("tokenizer_config.json", "[]"), NEEDS),
    "settings that are no text": (put("tokenizer_config.json", b"\xff"), "'utf-8'"),
    "a class that is a number": (tokenizer(tokenizer_class=3), NEEDS),
    "a length in words": (tokenizer(model_max_length="x"), NEEDS),
    "a token that is a number": (tokenizer(cls_token=3), "cls_token"),
    "padding above": (tokenizer(padding_side="up"), "Padding side"),
    "inputs that are a number": (tokenizer(model_input_names=3), NEEDS),
}  # fmt: skip

RESULT = {
    "name": "time", "table": "time", "title": "Time", "text": "", "settings": {}, "rows": [],
    "notes": [], "seconds": 1.0, "provenance": {},
}  # fmt: skip


def result(**changed):
    return json.dumps(RESULT | changed)


NONE, OTHER = "time.json is no result of this program", "time.json has rows of another kind"
RESULTS = {
    "half": ("{", NONE),
    "nothing": ("", NONE),
    "a list": ("[]", NONE),
    "a number": ("3", NONE),
    "deep": ("[" * 100_000, NONE),
    "no keys": ('{"name": "table2"}', f"{NONE} (KeyError: 'table')"),
    "a key too many": (result(colour=1), f"{NONE}...'colour'"),
    "a time of NaN": (result(seconds=math.nan), f"{NONE} (ValueError: NaN, which no result has)"),
    "an unknown table": (result(table="table9"), f"{NONE} (table 'table9')"),
    "a title that is a number": (result(title=3), f"{NONE}...title of another type"),
    "rows of numbers": (result(rows=[3]), NONE),
    "rows of another table": (result(rows=[{"tokens": 3}]), f"{OTHER} (KeyError: 'loo ms')"),
    "words for numbers": (
        result(table="special", rows=[{"tokens": "all", "AttnLRP": "much"}]), OTHER,
    ),
    "no rows to draw": (result(table="figure2"), OTHER),
    "a note that is a number": (
        result(table="theorems", notes=[3]), f"{NONE}...notes of another type",
    ),
    "a table without settings": (result(table="table1-mnist"), f"{OTHER} (KeyError: 'accuracy')"),
    "half a line of Table 2": (result(table="table2", rows=[{"method": "AttnLRP"}]), OTHER),
}  # fmt: skip
"""Contents of a file time.json."""

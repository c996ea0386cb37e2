"""Model folders and results that cannot be used, each with a part of the one message."""

import json
import math

import torch

from tests.support.folders import indexed, pickled, put, settings, weights

NEEDS = "could not be loaded: "


def tokenizer(**new):
    return settings("tokenizer_config.json", **new)


MODELS = {  # `models.load` tells errors of any type in one way
    # config.json
    "nothing": (put("config.json", ""), NEEDS),
    "a list": (put("config.json", "[]"), NEEDS),
    "no text": (put("config.json", b"\xff\xfe{"), NEEDS),
    "deep": (put("config.json", '{"a":' * 100_000), "maximum recursion depth"),
    "no config": (put("config.json", None), "has no config.json"),
    "no kind": (put("config.json", "{}"), "model_type"),
    "another kind": (settings(model_type="gpt2"), "no weights for ...score.weight"),
    "a kind of images": (settings(model_type="vit"), "Unrecognized configuration class"),
    "a kind of another library": (settings(model_type="timm_wrapper"), "timm"),
    "a width in words": (settings(hidden_size="8"), "'hidden_size'"),
    "more layers": (settings(num_hidden_layers=3), "no weights for ...layer.2"),
    "fewer layers": (settings(num_hidden_layers=1),
        "...encoder.layer.1...(num_hidden_layers = 1): ...get conf"),
    "no layers": (settings(num_hidden_layers=0), "...encoder.layer.0...(num_hidden_layers = 0): "),
    "layers below none": (settings(num_hidden_layers=-1), "config.json: num_hidden_layers = -1; t"),
    "an unknown activation": (settings(hidden_act="magic"), "'magic'"),
    "labels in a list": (settings(id2label=["a", "b"]), NEEDS),
    "an unknown dtype": (settings(dtype="float99"), "float99"),
    "a part that is no config": (settings(text_config=3), "text part of the BertConfig is 3 (int)"),
    "pieces in words": (settings(chunk_size_feed_forward={}),
        "itself fails on this input (TypeError: ...check its"),
    "pieces": (settings(chunk_size_feed_forward=3), "chunk size 3"),
    "tuples": (settings(return_dict=False), "config.return_dict=False"),
    "weights elsewhere": (settings(transformers_weights="../taken"), "../taken"),
    "labels without end": (settings(num_labels=10**6), "config.json: num_labels = 1000000; the"),
    "layers without end": (settings(num_hidden_layers=2000), "num_hidden_layers = 2000; the"),
    "layers in a list": (settings(text_config={"depths": [2, 2000]}), ": depths = 2000; the"),
    **{
        f"a huge {key}": (settings(**{key: 10**9}), f"a model of ...{name}...{10**9}")
        for key, name in {
            "hidden_size": "query", "vocab_size": "word_embeddings",
            "intermediate_size": "dense", "max_position_embeddings": "position_embeddings",
            "type_vocab_size": "token_type_embeddings",
        }.items()
    },
    # weights
    "no weights": (put("model.safetensors", None), "no file named model.safetensors"),
    "text for weights": (put("model.safetensors", "no weights at all"), "header too large"),
    "not a number": (weights(lambda x: x * torch.nan), "non-finite logits"),
    "an index of nothing": (indexed("{}"), "'weight_map'"),
    "an index of a shard that is not there": (
        indexed('{"weight_map": {"a": "gone.safetensors"}, "metadata": {}}'), "gone.safetensors",
    ),
    "a pickled list": (pickled([1]), NEEDS),
    "a pickle of other weights": (pickled({"a": torch.ones(1)}), "no weights for"),
    "no pickle": ((put("model.safetensors", None), put("pytorch_model.bin", "text")), NEEDS),
    # tokenizer
    "no tokenizer": ((put("tokenizer.json", None), put("tokenizer_config.json", None)),
        "has no tokenizer"),
    "nothing of a tokenizer": (put("tokenizer.json", "{}"), "'added_tokens'"),
    "a list of settings": (put("tokenizer_config.json", "[]"), NEEDS),
    "settings that are no text": (put("tokenizer_config.json", b"\xff"), "'utf-8'"),
    "a table that is none": (settings("tokenizer.json",
        normalizer={"type": "Precompiled", "precompiled_charsmap": ""}), "PanicException"),
    "padding above": (tokenizer(padding_side="up"), "Padding side"),
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
    "a list": ("[]", NONE),
    "deep": ("[" * 100_000, NONE),
    "no keys": ('{"name": "table2"}', f"{NONE}...table is missing"),
    "a time of NaN": (result(seconds=math.nan), f"{NONE}: seconds: must be a finite number"),
    "an unknown table": (result(table="table9"), f"{NONE} (table 'table9')"),
    "a title that is a number": (result(title=3), f"{NONE}: title: must be a valid string, not 3"),
    "rows of numbers": (result(rows=[3]), NONE),
    "rows of another table": (result(rows=[{"tokens": 3}]), f"{OTHER} (KeyError: 'loo ms')"),
    "words for numbers": (result(table="special", rows=[{"tokens": "all", "AttnLRP": "much"}]),
        OTHER),
    "no rows to draw": (result(table="figure2"), OTHER),
    "a note that is a number": (result(table="theorems", notes=[3]),
        f"{NONE}: notes[0]: must be a valid string, not 3"),
    "half a line of Table 2": (result(table="table2", rows=[{"method": "AttnLRP"}]), OTHER),
}  # fmt: skip
"""Contents of a file time.json."""

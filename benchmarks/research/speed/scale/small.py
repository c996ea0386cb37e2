"""A classifier of two layers, and any number of short texts, so that only the machinery counts."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import torch
from transformers import BertConfig, BertForSequenceClassification

from lrp_axioms.benchmarks.sources import data, models
from lrp_axioms.numeric.models import digests


def classifier() -> models.Classifier:
    """Makes a random BERT of two layers, 16 wide, with the embedded tokenizer."""
    embedded = models.load()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=embedded.model.config.vocab_size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    model = BertForSequenceClassification(config).eval()
    return replace(
        embedded,
        name="two layers",
        model=model,
        sha256=digests.of_model(model),
        config_sha256=digests.of_config(config),
    )


def texts(count: int) -> Iterator[str]:
    """Draws texts of one to ten words of the embedded sentences."""
    known = sorted({word for text in data.load().texts for word in text.split()})
    draw = random.Random(0)
    one = lambda: " ".join(draw.choices(known, k=draw.randint(1, 10)))
    return itertools.islice(iter(one, None), count)

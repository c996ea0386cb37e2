"""Tiny models of every head of a text, with one tokenizer."""

import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForTokenClassification,
)

from tests.support import folders

LABELS = {0: "dull", 1: "fine", 2: "fine"}
HEADS = {
    "masked": BertForMaskedLM,
    "tags": BertForTokenClassification,
    "answers": BertForQuestionAnswering,
}


def write_heads(checkpoint, place):
    """Writes one folder per head to ``place``, all with the tokenizer of a tiny classifier."""
    folders.copy(checkpoint, place / "classes", folders.settings(id2label=LABELS))
    for name, head in HEADS.items():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(folders.WORDS), hidden_size=8, num_hidden_layers=2,
            num_attention_heads=2, intermediate_size=12, max_position_embeddings=24,
            initializer_range=0.5, id2label=LABELS if name == "tags" else None,
        )  # fmt: skip
        head(config).eval().save_pretrained(place / name)
        AutoTokenizer.from_pretrained(checkpoint).save_pretrained(place / name)
    return place

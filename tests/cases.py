"""Models and texts that several tests share."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification

from numeric.reference import bert

EMBEDDED = Path(__file__).parents[1] / "benchmarks" / "assets" / "bert12-sst2"
SENTENCES = ["a gripping , funny and sometimes too long film .", "not bad !", "i hated it"]


def tiny_config(**options):
    sizes = dict(
        vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=9, num_labels=3, initializer_range=0.5,
    )  # fmt: skip
    return BertConfig(**sizes | options)


def tiny_bert(**options):
    """A random BERT classifier in float64, with every bias and every norm away from 0 and 1."""
    return perturbed(BertForSequenceClassification, **options)


def perturbed(cls, **options):
    torch.manual_seed(0)
    model = cls(tiny_config(**options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def tiny_batch():
    """Two texts of 6 and 3 tokens, with two kinds of token type; a fresh one at every call."""
    return {
        "input_ids": torch.tensor([[2, 7, 1, 5, 7, 3], [2, 4, 3, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0]]),
    }


def reference_of(model):
    """The same parameters for the NumPy text."""
    return bert.Bert(
        parameters={name: p.detach().numpy().copy() for name, p in model.state_dict().items()},
        num_attention_heads=model.config.num_attention_heads,
        layer_norm_eps=model.config.layer_norm_eps,
        hidden_act=model.config.hidden_act,
    )


def load_embedded(attn_implementation):
    return BertForSequenceClassification.from_pretrained(
        EMBEDDED, dtype=torch.float64, attn_implementation=attn_implementation
    ).eval()


def encode(sentences):
    """A padded batch of the embedded model's tokenizer."""
    tokenizer = Tokenizer.from_file(str(EMBEDDED / "tokenizer.json"))
    rows = [torch.tensor(tokenizer.encode(text).ids) for text in sentences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return {
        "input_ids": ids,
        "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long(),
    }

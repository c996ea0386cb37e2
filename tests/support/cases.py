"""Models and texts that several tests share."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from tests.oracles import bert

EMBEDDED = Path(__file__).parents[2] / "benchmarks" / "assets" / "bert12-sst2"
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
    return moved(cls(tiny_config(**options)))


def moved(model):
    """The model in float64 and eval mode, every parameter moved at random: no bias is 0."""
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def first(inputs):
    """The first example of a batch."""
    return {key: x[:1] for key, x in inputs.items()}


def tiny_batch():
    """Two texts of 6 and 3 tokens, with two kinds of token type; a fresh one at every call."""
    return {
        "input_ids": torch.tensor([[2, 7, 1, 5, 7, 3], [2, 4, 3, 0, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0]]),
    }


def reference_of(model):
    """The model's parameters for the NumPy reference."""
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


TEXT = dict(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=24, max_position_embeddings=20, num_labels=3, pad_token_id=0,
    initializer_range=0.3,
)  # fmt: skip
BERT_LIKE = TEXT | {"type_vocab_size": 2}
LLAMA_LIKE = TEXT | {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True}
FAMILIES = {
    "bert": (transformers.BertForSequenceClassification, BERT_LIKE),
    "roberta": (transformers.RobertaForSequenceClassification,
        BERT_LIKE | {"pad_token_id": 1, "bos_token_id": 0}),
    "electra": (transformers.ElectraForSequenceClassification, BERT_LIKE | {"embedding_size": 12}),
    "albert": (transformers.AlbertForSequenceClassification, BERT_LIKE | {"embedding_size": 12}),
    "distilbert": (transformers.DistilBertForSequenceClassification,
        dict(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=24, num_labels=3,
        max_position_embeddings=20, pad_token_id=0, initializer_range=0.3)),
    "gpt2": (transformers.GPT2ForSequenceClassification,
        dict(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_inner=24, n_positions=20,
        num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.3)),
    "llama": (transformers.LlamaForSequenceClassification, LLAMA_LIKE),
    "mistral": (transformers.MistralForSequenceClassification, LLAMA_LIKE | {"head_dim": 8}),
    "qwen2": (transformers.Qwen2ForSequenceClassification, LLAMA_LIKE),
    "qwen3": (transformers.Qwen3ForSequenceClassification, LLAMA_LIKE | {"head_dim": 8}),
    "vit": (transformers.ViTForImageClassification,
        dict(image_size=6, patch_size=2, num_channels=2, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=24, num_labels=3, initializer_range=0.3)),
}  # fmt: skip
"""Classes and sizes of every family of ``numeric.models.families``, smallest that is general."""


ALL = list(FAMILIES)
ROTARY = ["llama", "mistral", "qwen2", "qwen3"]
DECODERS = ["gpt2", *ROTARY]
ENCODERS = [name for name in ALL if name not in (*DECODERS, "vit")]
# Code of Transformers that passes through float32 whatever the model's dtype.
SINGLE = 1e-5


def family(name, *, seed=0, attn_implementation="sdpa", **options):
    """A random stock classifier in float64, no bias 0 and no norm 1, and a batch of two for it.

    Texts have 6 and 4 tokens, the second padded on the right.
    """
    cls, sizes = FAMILIES[name]
    torch.manual_seed(seed)
    config = cls.config_class(**sizes | options)
    config._attn_implementation = attn_implementation
    return moved(cls(config)), family_inputs(name)


def one_text(name, **options):
    """A family's classifier and the first example of its batch."""
    model, inputs = family(name, **options)
    return model, first(inputs)


def family_inputs(name):
    if name == "vit":
        drawn = torch.Generator().manual_seed(1)
        return {"pixel_values": torch.randn(2, 2, 6, 6, dtype=torch.float64, generator=drawn)}
    pad = FAMILIES[name][1]["pad_token_id"]
    return {
        "input_ids": torch.tensor([[2, 17, 41, 5, 27, 3], [2, 44, 13, 3, pad, pad]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]),
    }


def six_texts(name, *, hole=False, left=False):
    """Texts of 2 to 12 tokens, padded on one side; a hole hides two tokens of the first."""
    mask = (torch.arange(12) < torch.tensor([12, 2, 7, 7, 3, 10])[:, None]).long()
    mask = mask.flip(1) if left else mask
    ids = torch.randint(4, 50, (6, 12), generator=torch.Generator().manual_seed(2))
    ids = ids.where(mask == 1, torch.tensor(FAMILIES[name][1]["pad_token_id"]))
    if hole:
        mask[0, 4:6] = 0
    return {"input_ids": ids, "attention_mask": mask}


def tolerance(name, exact=1e-10):
    """The rounding of a family whose stock code may pass through float32."""
    return SINGLE if name in ROTARY else exact


def without_biases(name, **options):
    """A family whose linear maps and norms add nothing, and its inputs."""
    model, inputs = family(name, **options)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("bias"):
                parameter.zero_()
    return model, inputs


class Exponential(nn.Module):
    """A function of activations that has no rule."""

    def forward(self, x):
        return x.exp()


class ThroughNumpy(nn.Module):
    """Values that come back from another library, which knows nothing of their past."""

    def forward(self, x):
        return torch.from_numpy(x.detach().numpy().copy())


def close(got, want, *, tolerance=1e-10):
    size = want.detach().abs().max().item()
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * size)


def tokens_of(count):
    """A tokenizer of words "w5" to "w9" and on, without special tokens, and a text of them."""
    known = {"[PAD]": 0, "[UNK]": 1} | {f"w{n}": n for n in range(2, 30)}
    words = Tokenizer(WordLevel(known, unk_token="[UNK]"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )
    return tokenizer, " ".join(f"w{n}" for n in range(5, 5 + count))

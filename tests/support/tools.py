"""Models, texts and a tokenizer of the tests of ``numeric.tools``."""

import warnings

import pytest
import torch
import transformers
from transformers import BertTokenizerFast, LlamaForCausalLM

from tests.support import cases, folders

TEXT = "a fine [MASK] film ."
PROMPT = "a dull film"


def tiny_tokenizer(folder):
    (folder / "words.txt").write_text("\n".join(folders.WORDS))
    return BertTokenizerFast(vocab=str(folder / "words.txt"), model_max_length=20)


def bert(head, **options):
    return cases.perturbed(getattr(transformers, f"BertFor{head}"), vocab_size=11, **options)


def language_model(cls=LlamaForCausalLM, **options):
    like = cases.FAMILIES["gpt2"][1] if "GPT2" in cls.__name__ else cases.LLAMA_LIKE
    torch.manual_seed(0)
    return cls(cls.config_class(**like | {"vocab_size": 11} | options)).double().eval()


def translator():
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=11, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, feed_forward_proj="relu",
        initializer_factor=1.0,
    )  # fmt: skip
    return cases.moved(transformers.T5ForConditionalGeneration(config).double().eval())


def loaded(name):
    """A package whose own warnings, at import, are not this test's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed (docs/TOOLS.md)")

"""Tiny models that write text, and a tokenizer for all of them."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

from tests.census.sizes import tiny
from tests.support import cases

TWO = ["t5", "bart", "marian"]
"""Models that read one text and write another."""

PROMPT, ANSWER = "a bad cab", "fed a beef"


def tokenizer():
    """A tokenizer for words of the letters a to h, small enough for the smallest models."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=18, special_tokens=special, show_progress=False)
    made.train_from_iterator(["a bad cab had a beef", "he fed a dad", "a face faded"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def model_of(name, kind=None):
    kind = kind or (AutoModelForSeq2SeqLM if name in TWO else AutoModelForCausalLM)
    torch.manual_seed(0)
    config = tiny(name)
    config.decoder_start_token_id = 1
    return cases.moved(getattr(kind, "from_config", kind)(config))

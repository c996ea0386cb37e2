"""Texts and their tokenizer as a user passes them, checked before anything is tokenized."""

import reprlib
import warnings
from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedModel

from numeric.stock.facts import facts_of


def check_order(model: object, tokenizer: object) -> None:
    """Raises ValueError unless these may be a model and its tokenizer, in this order."""
    if not isinstance(model, nn.Module) or isinstance(tokenizer, nn.Module):
        raise ValueError(
            f"model is a {type(model).__name__} and tokenizer a {type(tokenizer).__name__}; pass "
            "the model first, and then its tokenizer"
        )
    if not callable(tokenizer) and not hasattr(tokenizer, "decode"):
        raise ValueError(f"tokenizer is a {type(tokenizer).__name__}; pass that of the model")


def check_texts(texts: Sequence[object]) -> None:
    """Raises ValueError for no texts, and for what is neither a text nor a pair of them."""
    if not texts:
        raise ValueError("texts is empty; pass a text, or several")
    wrong = [f"texts[{n}]={reprlib.repr(x)}" for n, x in enumerate(texts) if not _is_text(x)]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: pass texts, or pairs of them such as a question and its context"
        )


def warn_beyond(model: PreTrainedModel, tokens: int) -> None:
    """Warns the caller's caller of a text that is longer than those a rotary model was made for.

    Rotation has no end, so that the model reads it, but it may have learned nothing of such texts.
    """
    facts = facts_of(model)
    if facts.rotary and tokens > facts.made_for:
        said = f"the text has {tokens} tokens, and the model was made for {facts.made_for}"
        warnings.warn(said, stacklevel=3)


def _is_text(x: object) -> bool:
    parts = x if isinstance(x, tuple | list) and len(x) == 2 else [x]
    return all(isinstance(part, str) for part in parts)

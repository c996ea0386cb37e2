"""Texts and their tokenizer as a user passes them, checked before anything is tokenized."""

import reprlib
from collections.abc import Sequence

from torch import nn


def check_order(model: object, tokenizer: object) -> None:
    """Raises ValueError unless these may be a model and its tokenizer, in this order."""
    if not isinstance(model, nn.Module) or isinstance(tokenizer, nn.Module):
        raise ValueError(
            f"model is a {type(model).__name__} and tokenizer a {type(tokenizer).__name__}; pass "
            "the model first, and then its tokenizer"
        )
    if not callable(tokenizer):
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


def _is_text(x: object) -> bool:
    pair = isinstance(x, tuple | list) and len(x) == 2
    return isinstance(x, str) or (pair and all(isinstance(part, str) for part in x))

"""Checks the texts and the tokenizer that a user passes, before a text is tokenized."""

import reprlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from os import PathLike
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.models.checks import no_model
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.spelling import text_fault
from lrp_axioms.numeric.warning import warn_caller

CHAT = "tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)"
# A fast tokenizer keeps padding and truncation of a call, and another thread's call changes them.
TOKENIZING = threading.RLock()
IDS = 'attribute(model, {"input_ids": ids}), with ids as a tensor (batch, token)'


def check_order(model: object, tokenizer: object) -> None:
    """Raises ValueError unless these may be a model and its tokenizer, in this order."""
    if isinstance(tokenizer, nn.Module) or _is_tokenizer(model):
        raise ValueError(
            f"model is a {type(model).__name__} and tokenizer a {type(tokenizer).__name__}; pass "
            "the model first, and then its tokenizer"
        )
    if not isinstance(model, PreTrainedModel):
        raise ValueError(no_model(model))
    check_tokenizer(tokenizer)


def check_tokenizer(tokenizer: object) -> None:
    """Raises ValueError unless ``tokenizer`` is a tokenizer."""
    if not _is_tokenizer(tokenizer):
        inside = ", its attribute tokenizer" * _is_tokenizer(getattr(tokenizer, "tokenizer", None))
        raise ValueError(
            f"tokenizer is a {type(tokenizer).__name__}; pass the model's tokenizer{inside}"
        )


def _is_tokenizer(x: object) -> bool:
    return callable(getattr(x, "convert_ids_to_tokens", None))


def checked_texts(texts: Any) -> list[Any]:
    """Returns the texts, or pairs of texts, that a user passes as one text or several.

    Raises ValueError that lists every value that is no text, with the next step.
    """
    if isinstance(texts, str):
        texts = [texts]
    elif isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(x, str) for x in texts):
        raise ValueError(f"texts={texts!r}: pass [(a, b)] for a pair, or [a, b] for two texts")
    elif _is_no_list(texts):
        raise ValueError(f"texts is a {type(texts).__name__}; {_instead(texts)}")
    elif (axes := getattr(texts, "ndim", 1)) != 1:
        raise ValueError(f"texts is an array of {axes} dimensions: {_instead(texts)}")
    found: list[Any] = list(texts)
    if not found:
        raise ValueError("texts is empty; pass a text, or a list of texts")
    wrong = {n: fault for n, x in enumerate(found) if (fault := _fault(x))}
    if wrong:
        listed = ", ".join(f"texts[{n}]={reprlib.repr(found[n])} ({wrong[n]})" for n in wrong)
        raise ValueError(f"{listed}: {_instead(found[next(iter(wrong))])}")
    return found


def _is_no_list(x: object) -> bool:
    """Decides if ``x`` is no sequence of texts: not iterable, unordered, a table or a tensor."""
    table = hasattr(x, "columns")  # a table iterates over the names of its columns
    odd = isinstance(x, bytes | Mapping | Set | PathLike | Tensor)
    return odd or table or not isinstance(x, Iterable)


def _fault(x: Any) -> str | None:
    parts = x if isinstance(x, tuple | list) and len(x) == 2 else [x]
    faults = (text_fault(part) for part in parts)
    return next((fault for fault in faults if fault), None)


def is_chat(x: Any) -> bool:
    """Decides whether ``x`` is a message, or a list of messages."""
    first = x[0] if isinstance(x, list | tuple) and x else x
    return isinstance(first, Mapping) and "role" in first


def _instead(x: Any) -> str:
    """Returns the next step for a value that is no text and no pair of texts."""
    if is_chat(x):
        return f"a chat becomes a text by {CHAT}"
    if isinstance(x, Mapping) and "input_ids" in x:
        return "it is encoded already; pass it to attribute(model, inputs, tokenizer=tokenizer)"
    if isinstance(x[0] if isinstance(x, list | tuple) and x else x, int | Tensor):
        return f"for ids, call {IDS}"
    if isinstance(x, PathLike):
        return "pass the texts in the file, such as Path(file).read_text().splitlines()"
    return "pass a text, a list of texts, or a list of pairs such as a question and its context"


def check_special(tokenizer: PreTrainedTokenizerBase, texts: Iterable[Any]) -> None:
    """Raises ValueError for texts with special tokens that ``tokenizer`` adds, too."""
    if twice := {n: x for n, x in enumerate(texts) if is_doubled(tokenizer, x)}:
        listed = ", ".join(f"texts[{n}]={reprlib.repr(x)}" for n, x in twice.items())
        raise ValueError(
            f"{listed}: the text begins or ends with special tokens that the tokenizer adds, too; "
            "remove them from the text, or call attribute(model, inputs) with tokenizer(text, "
            "add_special_tokens=False)"
        )


def is_doubled(tokenizer: PreTrainedTokenizerBase, text: Any) -> bool:
    """Decides whether a text, or one of a pair, begins or ends with a token that is added."""
    parts = [text] if isinstance(text, str) else text
    if not any(_has_special(tokenizer, part) for part in parts):
        return False
    own = tokenized(tokenizer, list(parts), add_special_tokens=False)["input_ids"]
    added = Counter(tokenized(tokenizer, [text])["input_ids"][0])
    added -= Counter(n for ids in own for n in ids)
    return any(n in added for ids in own for n in (*ids[:1], *ids[-1:]))


def ids_once(tokenizer: PreTrainedTokenizerBase, text: str, *, written: bool = False) -> list[int]:
    """Returns the ids of a text, with each special token at its ends once, as after a template.

    written: whether it is a target (``text_target``), which some tokenizers divide otherwise
    """
    read = partial(tokenized, tokenizer, text, written=written)
    ids: list[int] = read()["input_ids"]
    if not _has_special(tokenizer, text):
        return ids
    own: list[int] = read(add_special_tokens=False)["input_ids"]
    for n in range(len(ids)):
        if ids[n : n + len(own)] == own:
            before, behind = ids[:n], ids[n + len(own) :]
            before = before[: n - (before[-1:] == own[:1])]
            return before + own + behind[behind[:1] == own[-1:] :]
    return ids


def _has_special(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Looks for a special token in a text at any place, because white space may be no token."""
    return any(name in text for name in tokenizer.all_special_tokens)


def tokenized(
    tokenizer: Callable[..., Any],
    texts: str | Sequence[str | tuple[str, str]],
    *,
    written: bool = False,
    **options: Any,
) -> Any:
    """Returns ``tokenizer(texts)``; raises ValueError with the text that crashes its library."""
    try:
        with TOKENIZING:
            if written and getattr(tokenizer, "tgt_lang", "") is not None:  # or it is not known
                return tokenizer(text_target=texts, **options)
            return tokenizer(texts, **options)
    except BaseException as error:
        if not is_panic(error):
            raise
        several = [texts] if isinstance(texts, str) else list(texts)
        for text in several if len(several) > 1 else ():
            tokenized(tokenizer, [text], **options)
        raise ValueError(
            f"the tokenizer crashes at {reprlib.repr(several[0])} ({error}); leave this text out, "
            "or get the tokenizer again"
        ) from error


def is_panic(error: BaseException) -> bool:
    """Decides whether ``error`` is a panic of a Rust library, which is no subclass of Exception."""
    return type(error).__name__ == "PanicException"


def warn_beyond(model: PreTrainedModel, tokens: int) -> None:
    """Warns of a text that is longer than a rotary model was made for.

    Rotation has no end, so that the model reads it, but it may have learned nothing of such texts.
    """
    facts = facts_of(model)
    if facts.rotary and tokens > facts.made_for:
        said = f"the text has {tokens} tokens, and the model was made for {facts.made_for}"
        warn_caller(said)

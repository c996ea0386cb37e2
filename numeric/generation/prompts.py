"""Reads a prompt and its answers: a text, a chat, ids, or a sound."""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.generation.segments import Place, find_messages, find_segments
from lrp_axioms.numeric.methods.options import builtin
from lrp_axioms.numeric.models.batches import DECODER, SOUND
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.inputs import check_ids
from lrp_axioms.numeric.models.texts import CHAT, ids_once, is_chat
from lrp_axioms.numeric.spelling import text_fault
from lrp_axioms.numeric.targets.naming import text_ids


class Prompt(NamedTuple):
    """The inputs of a model, and ids and names that belong to them.

    ids: of the prompt, none of a sound   source: the ids that an encoder reads
    segments: the name of each token's segment, or () without names
    answer, contrast: ids of answers that are given
    """

    inputs: dict[str, Tensor]
    ids: list[int]
    source: list[int]
    two: bool
    segments: tuple[str, ...]
    answer: list[int] | None
    contrast: list[int] | None

    def with_text(self, before: Sequence[int], answer: Sequence[int]) -> dict[str, Tensor]:
        """Returns the inputs with the text that is read up to the last token of an answer."""
        text = torch.tensor([[*before, *answer[:-1]]])
        return self.inputs | {DECODER if self.two else "input_ids": text}


def read_prompt(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    answer: Any,
    contrast: Any,
    segments: Mapping[str, Place] | None,
) -> Prompt:
    """Reads a prompt, its answers and its segments; raises ValueError for unreadable ones."""
    two, hears = facts_of(model).two, model.main_input_name == SOUND
    chat = prompt if is_chat(prompt) and not hears else None
    text = prompt if chat is None else text_of_chat(tokenizer, chat)
    if segments and (hears or not isinstance(text, str)):
        raise ValueError("segments are parts of a text or a chat; pass one as the prompt")
    # A template writes the special tokens of a chat.
    ids = [] if hears else _ids(tokenizer, text, "prompt", ids_once if chat is None else text_ids)
    inputs = _sound(model, prompt) if hears else {"input_ids": torch.tensor([ids])}
    check_ids(model, inputs)
    names: tuple[str, ...] = ()
    if segments:
        names = find_segments(tokenizer, text, ids, segments)
    elif segments is None and chat is not None:
        names = find_messages(tokenizer, partial(text_of_chat, tokenizer), chat, ids)
    answer, contrast = (
        None if x is None else _answer(model, tokenizer, x, name)
        for name, x in (("answer", answer), ("contrast", contrast))
    )
    return Prompt(inputs, ids, ids if two else [], two, names, answer, contrast)


def _answer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: Any, name: str
) -> list[int]:
    """Returns the ids of an answer or a contrast.

    A text has no start token, and a contrast has no end token until the answer has one.
    """
    two = facts_of(model).two
    ids = _ids(tokenizer, text, name, partial(ids_once, written=True) if two else text_ids)
    if not isinstance(text, str):
        return ids
    if two and ids[1:] and ids[0] == start_of(model):
        ids = ids[1:]
    ends = name == "contrast" and ids[1:] and ids[-1] == tokenizer.eos_token_id
    return ids[:-1] if ends else ids


def start_of(model: PreTrainedModel) -> int:
    """Returns the token that a decoder begins with."""
    for config in (model.generation_config, model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if type(found := getattr(config, name, None)) is int:
                return found
    raise ValueError(
        f"the config of this {type(model).__name__} has no decoder_start_token_id, with which an "
        "answer begins; set model.config.decoder_start_token_id"
    )


def _sound(model: PreTrainedModel, prompt: Any) -> dict[str, Tensor]:
    if not isinstance(prompt, Tensor) or prompt.ndim != 3 or len(prompt) != 1:
        raise ValueError(
            f"prompt is a {type(prompt).__name__}: {type(model).__name__} hears; pass the {SOUND} "
            "of its feature extractor, (1, band, frame)"
        )
    return {SOUND: prompt}


def _ids(
    tokenizer: PreTrainedTokenizerBase, text: Any, name: str, read: Callable[..., list[int]]
) -> list[int]:
    """Returns the ids of a text with at least one token, given as a text or as ids."""
    if isinstance(text, str):
        fault = text_fault(text) if text.strip() else None
        ids = [] if fault else read(tokenizer, text)
    else:
        fault, ids = None, _list_ids(text)
    if fault or not ids or not all(type(x) is int for x in ids):
        what = fault or f"{type(text).__name__} without tokens"
        raise ValueError(
            f"{name}={reprlib.repr(text)} ({what}): pass one {name}, as a text or as its ids"
            + f"; a chat becomes a text by {CHAT}" * is_chat(text)
            + "; explain_generations takes several prompts" * (name == "prompt")
        )
    return ids


def text_of_chat(tokenizer: PreTrainedTokenizerBase, messages: Any) -> str:
    """Writes messages as one text, up to the beginning of the model's answer."""
    messages = [messages] if isinstance(messages, Mapping) else list(messages)
    answers = messages[-1].get("role") == "assistant"
    how: dict[str, Any] = {"continue_final_message" if answers else "add_generation_prompt": True}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **how))


def _list_ids(ids: Any) -> list[Any]:
    """Returns the ids in a batch of one text without padding, in an array or in a list; else []."""
    if isinstance(ids, Mapping):
        padded = 0 in torch.as_tensor(ids.get("attention_mask", 1))
        ids = () if padded else ids.get("input_ids", ())
    if isinstance(ids, Tensor) and (ids.is_meta or ids.layout != torch.strided or not ids.ndim):
        return []
    if isinstance(ids, str | bytes | PathLike) or not isinstance(ids, Iterable):
        return []
    ids = ids.tolist() if hasattr(ids, "tolist") else [*map(builtin, ids)]
    return _list_ids(ids[0]) if len(ids) == 1 and isinstance(ids[0], list | Tensor) else ids


def unpadded(batch: Mapping[str, Any]) -> list[list[int]]:
    """Returns the ids of every row of a batch, without padding on either side."""
    rows = [torch.as_tensor(x).tolist() for x in batch.get("input_ids", ())]
    if rows and isinstance(rows[0], int):  # the ids of one text
        return unpadded({key: [x] for key, x in batch.items()})
    masks = [torch.as_tensor(x).int().tolist() for x in batch.get("attention_mask", ())]
    masks = masks or [[1] * len(row) for row in rows]
    holes = [n for n, mask in enumerate(masks) if "10" in "".join(map(str, mask)).strip("0")]
    if holes:
        raise ValueError(
            f"attention_mask hides tokens in the middle of rows {holes}; a language model writes "
            "after a whole text: leave these tokens out of input_ids"
        )
    return [
        [x for x, kept in zip(ids, mask, strict=True) if kept]
        for ids, mask in zip(rows, masks, strict=True)
    ]

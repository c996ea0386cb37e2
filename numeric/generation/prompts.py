"""Reads prompts and answers: texts, chats, ids, and batches of these."""

import reprlib
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lrp_axioms.numeric.generation.segments import Place, segments_of, spans_by_role
from lrp_axioms.numeric.models.batches import SOUND
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.inputs import check_ids
from lrp_axioms.numeric.models.texts import CHAT, ids_once, is_chat, tokenized
from lrp_axioms.numeric.spelling import text_fault


class Prompt(NamedTuple):
    """Inputs of a model, the name of each token's segment, () without names, and ids of answers."""

    inputs: dict[str, Tensor]
    segments: tuple[str, ...]
    answer: list[int] | None
    contrast: list[int] | None


def read_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: Any, **own: Any
) -> tuple[list[Prompt], bool]:
    """Reads every prompt with its ``own`` answer, contrast and segments; also tells a batch.

    Raises one ValueError for all prompts of a batch that cannot be read.
    """
    prompts = None if model.main_input_name == SOUND else _rows(prompt)
    if prompts is None:
        return [_read(model, tokenizer, prompt, **own)], False
    faults, found = [], []
    for name, x in own.items():
        if x is not None and not (isinstance(x, list) and len(x) == len(prompts)):
            said = f"pass a list with one for each of {len(prompts)} prompts"
            faults.append(f"{name} is {reprlib.repr(x)}: {said}")
    for n, each in enumerate([] if faults else prompts):
        try:
            given = {name: x and x[n] for name, x in own.items()}
            found.append(_read(model, tokenizer, each, **given))
        except ValueError as error:
            faults.append(f"prompt[{n}]: {error}")
    if faults:
        raise ValueError("\n".join(faults))
    return found, True


def _rows(prompt: Any) -> list[Any] | None:
    """Returns the prompts of a batch: a list of texts or chats, or several rows of ids; or None."""
    if isinstance(prompt, Mapping):
        rows, masks = _rows(prompt.get("input_ids")), prompt.get("attention_mask")
        if rows is None or masks is None:
            return rows
        if len(masks) != len(rows):
            raise ValueError(f"attention_mask has {len(masks)} rows, and input_ids {len(rows)}")
        keys = ("input_ids", "attention_mask")
        return [dict(zip(keys, both, strict=True)) for both in zip(rows, masks, strict=True)]
    if hasattr(prompt, "tolist") and prompt.ndim == 2 and len(prompt) > 1:
        return list(prompt)
    first = prompt[0] if isinstance(prompt, list) and prompt else None
    texts = isinstance(first, str) or (isinstance(first, list) and is_chat(first))
    return prompt if texts or (isinstance(first, list | Tensor) and len(prompt) > 1) else None


def _read(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    *,
    answer: Any,
    contrast: Any,
    segments: Mapping[str, Place] | None,
) -> Prompt:
    two, hears = facts_of(model).two, model.main_input_name == SOUND
    if is_chat(prompt) and not hears:
        chat = [prompt] if isinstance(prompt, Mapping) else list(prompt)
        prompt = _of_chat(tokenizer, chat)
        if segments is None and tokenizer.is_fast:
            segments = spans_by_role(prompt, chat)
    if segments and (hears or not isinstance(prompt, str)):
        raise ValueError("segments are parts of a text or a chat; pass one in the place of ids")
    if hears and (not isinstance(prompt, Tensor) or prompt.ndim != 3 or len(prompt) != 1):
        raise ValueError(
            f"prompt is a {type(prompt).__name__}: {type(model).__name__} hears; pass the {SOUND} "
            "of its feature extractor, (1, band, frame)"
        )
    if isinstance(prompt, Mapping) and prompt.get("attention_mask") is not None:
        prompt = _unpadded(prompt, behind=two)
    ids = [] if hears else _ids(tokenizer, prompt, "prompt", special=True)
    inputs = {SOUND: prompt} if hears else {"input_ids": torch.tensor([ids])}
    check_ids(model, inputs)
    return Prompt(
        inputs,
        segments_of(tokenizer, prompt, ids, segments) if segments else (),
        None if answer is None else _ids(tokenizer, answer, "answer", special=two),
        None if contrast is None else _ids(tokenizer, contrast, "contrast", special=two),
    )


def _ids(tokenizer: PreTrainedTokenizerBase, text: Any, name: str, *, special: bool) -> list[int]:
    """Returns the ids of a text with at least one token, given as a text or as ids."""
    if isinstance(text, str):
        fault = text_fault(text) if text.strip() else None
        ids = [] if fault else _read_once(tokenizer, text, special=special)
    else:
        fault, ids = None, _list_ids(text)
    if fault or not ids or not all(type(x) is int for x in ids):
        what = fault or f"{type(text).__name__} without tokens"
        raise ValueError(
            f"{name}={reprlib.repr(text)} ({what}): pass one {name}, as a text or as its ids"
            + f"; a chat becomes a text by {CHAT}" * is_chat(text)
        )
    return ids


def _of_chat(tokenizer: PreTrainedTokenizerBase, messages: Any) -> str:
    """Writes messages as one text, up to the beginning of the model's answer."""
    answers = messages[-1].get("role") == "assistant"
    how: dict[str, Any] = {"continue_final_message" if answers else "add_generation_prompt": True}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, **how))


def _read_once(tokenizer: PreTrainedTokenizerBase, text: str, *, special: bool) -> list[int]:
    if special:
        return ids_once(tokenizer, text)
    return list(tokenized(tokenizer, text, add_special_tokens=False)["input_ids"])


def _list_ids(ids: Any) -> list[Any]:
    """Returns the ids in a batch of one text without padding, in an array or in a list; else []."""
    if isinstance(ids, Mapping):
        padded = 0 in torch.as_tensor(ids.get("attention_mask", 1))
        ids = () if padded else ids.get("input_ids", ())
    if isinstance(ids, Tensor) and (ids.is_meta or ids.layout != torch.strided or not ids.ndim):
        return []
    if isinstance(ids, str | bytes | PathLike) or not isinstance(ids, Iterable):
        return []
    ids = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    return _list_ids(ids[0]) if len(ids) == 1 and isinstance(ids[0], list | Tensor) else ids


def _unpadded(prompt: Mapping[str, Any], *, behind: bool) -> list[Any]:
    """Returns ids without padding before them, and ``behind`` them where an encoder reads them."""
    ids, mask = (_list_ids(prompt.get(key)) for key in ("input_ids", "attention_mask"))
    tokens = [n for n, x in enumerate(mask) if x == 1] or [len(ids)]
    end = tokens[-1] + 1 if behind else len(ids)
    hidden = sorted({*range(tokens[0], end)} - {*tokens})
    if hidden or len(mask) != len(ids):
        raise ValueError(
            f"attention_mask is 0 at columns {hidden} of {len(ids)}, behind the first token, as "
            'padding on the right is: pad on the left (tokenizer.padding_side = "left"), or pass '
            "the texts"
        )
    return ids[tokens[0] : end]

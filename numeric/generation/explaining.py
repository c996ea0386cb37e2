"""Explains generated text in one call: ``explain_generation(model, tokenizer, prompt)``."""

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from lrp_axioms.axioms.composites import Composite
from lrp_axioms.numeric.attribution import attribute_each, run_method
from lrp_axioms.numeric.generation.result import Generation
from lrp_axioms.numeric.models.batches import DECODER, SOUND, Batch
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.inputs import check_ids
from lrp_axioms.numeric.models.texts import (
    CHAT,
    check_order,
    ids_once,
    is_chat,
    tokenized,
    warn_beyond,
)
from lrp_axioms.numeric.results.words import pieces
from lrp_axioms.numeric.spelling import text_fault
from lrp_axioms.numeric.targets import Target, log_probability, logit
from lrp_axioms.numeric.targets.readout import Found, Readout

SCALES = {"logit": logit, "log-probability": log_probability}


def explain_generation(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str | Sequence[int] | Sequence[Mapping[str, Any]] | Tensor,
    *,
    answer: str | Sequence[int] | None = None,
    max_new_tokens: int = 20,
    generation_config: GenerationConfig | None = None,
    method: str | Composite = "attnlrp",
    scale: str = "logit",
    **options: Any,
) -> Generation:
    """Returns relevance for each token that a language model writes, of all tokens before it.

    The model continues ``prompt``, a text, its ids or the messages of a chat, greedily by at most
    ``max_new_tokens``, with ``model.generate``, as far as it has positions, or by a
    ``generation_config``, such as one that samples, whose number of tokens holds; or ``answer`` is
    explained, a text or ids, as if the model had written it.  Messages become a text by the
    tokenizer's chat template, which begins an answer, or goes on with the last message if that is
    the assistant's.  Special tokens at the ends of a prompt, as chat templates write them, are not
    added again.  The text of an answer is tokenized by itself; pass ids where a token spans
    the end of the prompt and the start of the answer.  Row i of the relevance is
    ``attribute(model, prompt + answer[:i], method, target=answer[i])``, but all rows share one
    forward pass, and each takes one backward pass by a ``method`` with rules; one more pass finds
    probabilities, and one over the prompt checks that the model does not see later tokens.  Other
    methods and ``options`` are as in ``attribute``.  ``scale`` is "logit" or "log-probability".
    An encoder with a decoder reads ``prompt`` in the encoder, and its rows hold the relevance of
    both texts.  Where it reads a sound, as Whisper does, ``prompt`` is its ``input_features``,
    (1, band, frame), and relevance of the sound is in the residual.
    Warns where the whole text is longer than a model with rotary positions was made for.
    Raises ValueError for an empty prompt or answer, for models that write no text or whose logits
    depend on later tokens, and the errors of ``attribute``.
    """
    check_order(model, tokenizer)
    if scale not in SCALES:
        raise ValueError(f"scale={scale!r}: pass one of {', '.join(SCALES)}")
    if answer is not None and generation_config is not None:
        raise ValueError("generation_config would be ignored: `answer` is explained; leave one out")
    if not model.can_generate():
        raise ValueError(f"{type(model).__name__} writes no text; pass a language model")
    two = facts_of(model).two
    read = _model_inputs(model, tokenizer, prompt)
    source = read["input_ids"][0].tolist() if "input_ids" in read else []
    check_ids(model, read)
    if answer is None:
        written = _write(model, tokenizer, read, max_new_tokens, generation_config)
        start = written[:1] if two else []
        written = written[1:] if two else written[len(source) :]
    else:
        start = [_start(model)] if two else []
        written = _ids(tokenizer, answer, "answer", special=two)
    if not written:
        raise ValueError("nothing was written: the model ends at once; pass answer")
    before = start or source
    text = torch.tensor([before + written[:-1]])
    warn_beyond(model, text.shape[1])
    inputs = read | {DECODER: text} if two else {"input_ids": text}
    targets = [SCALES[scale](x, at=len(before) - 1 + n) for n, x in enumerate(written)]
    found = attribute_each(model, inputs, method, targets=targets, **options)
    scores = [log_probability(x, at=len(before) - 1 + n) for n, x in enumerate(written)]
    likely = run_method(model, inputs, scores, "the logits alone", _logits_alone, {})
    inputs |= {DECODER if two else "input_ids": text[:, : len(before)]}
    _check_first(model, inputs, targets[0], found[0].logit)
    relevance = torch.stack([each.relevance[0] for each in found])
    first = len(source) + len(start)
    parts = (source, start + written) if two else (source + written,)
    return Generation(
        # Later tokens have no relevance but rounding of the copies without them.
        relevance=torch.nn.functional.pad(relevance.tril(first - 1), (0, 1)).cpu(),
        logit=torch.stack([each.logit[0] for each in found]).cpu(),
        residual=torch.stack([each.residual[0] for each in found]).cpu(),
        tokens=tuple(x for ids in parts for x in pieces(tokenizer, ids)),
        source=len(source) if two else 0,
        model=type(model).__name__,
        method=found[0].method,
        scale=scale,
        probability=torch.stack([each.logit[0] for each in likely]).exp().cpu(),
    )


def explain_generations(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Any] | Mapping[str, Any],
    *,
    answers: Sequence[Any] | None = None,
    **options: Any,
) -> list[Generation]:
    """Calls ``explain_generation`` for each prompt of a list or a batch, without padding.

    ``prompts`` is a list of texts, ids or chats, or a tokenizer's batch, whose masked tokens at the
    ends of its rows are left out.  ``answers`` has one answer per prompt.  Options and errors are
    described in ``explain_generation``.
    Raises ValueError for no prompts, another number of answers, and a mask with holes.
    """
    rows = _unpadded(prompts) if isinstance(prompts, Mapping) else prompts
    if isinstance(rows, str) or is_chat(rows) or not len(rows):
        raise ValueError(f"prompts={reprlib.repr(prompts)}: pass a list with at least one prompt")
    if answers is not None and (isinstance(answers, str) or len(answers) != len(rows)):
        raise ValueError(
            f"answers={reprlib.repr(answers)}: pass one per prompt, {len(rows)} in all"
        )
    given = [{"answer": x} for x in answers] if answers is not None else [{}] * len(rows)
    pairs = zip(rows, given, strict=True)
    return [explain_generation(model, tokenizer, row, **options, **one) for row, one in pairs]


def _unpadded(batch: Mapping[str, Any]) -> list[list[int]]:
    """Returns the ids of every row of a batch, without padding on either side."""
    rows = [torch.as_tensor(x).tolist() for x in batch.get("input_ids", ())]
    masks = [torch.as_tensor(x).tolist() for x in batch.get("attention_mask", ())]
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


def _check_first(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], target: Target, whole: Tensor
) -> None:
    """Raises ValueError unless the first written token's logit is the same without later tokens."""
    (alone,) = run_method(model, inputs, [target], "the logit alone", _logits_alone, {})
    few_bits = getattr(model, "is_quantized", False)  # rounding may depend on all tokens
    unit = torch.finfo(torch.bfloat16 if few_bits else model.dtype).eps
    unit = max(unit, torch.finfo(torch.float32).eps)
    if ((alone.logit - whole).abs() > unit**0.5 * alone.details["size"]).any():
        raise ValueError(
            f"{type(model).__name__} sees the tokens that follow: the first written token has "
            f"{whole.item():.6g} in the whole text and {alone.logit.item():.6g} where nothing "
            "follows it; call attribute() for each token, on the text before it"
        )


def _logits_alone(model: PreTrainedModel, batch: Batch, readout: Readout) -> Iterator[Found]:
    """Finds the logits and no relevance, as a method."""
    with torch.no_grad():
        rows = readout.run(model, batch.arguments())
    nothing = torch.zeros_like(batch.present, dtype=rows.logits.dtype)
    for chosen in readout.choose(rows).targets:
        yield Found(nothing, chosen.target, chosen.of(rows), {"size": chosen.size(rows)})


def _model_inputs(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: Any
) -> dict[str, Tensor]:
    """Returns the model's inputs: ids of a text, or a sound."""
    if model.main_input_name != SOUND:
        return {"input_ids": torch.tensor([_ids(tokenizer, prompt, "prompt", special=True)])}
    if not isinstance(prompt, Tensor) or prompt.ndim != 3 or len(prompt) != 1:
        raise ValueError(
            f"prompt is a {type(prompt).__name__}: {type(model).__name__} hears; pass the {SOUND} "
            "of its feature extractor, (1, band, frame)"
        )
    return {SOUND: prompt}


def _ids(tokenizer: PreTrainedTokenizerBase, text: Any, name: str, *, special: bool) -> list[int]:
    """Returns the ids of a text with at least one token, given as a text or as ids."""
    if special and is_chat(text):
        text = _of_chat(tokenizer, text)
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
            + "; explain_generations takes several prompts" * (name == "prompt")
        )
    return ids


def _of_chat(tokenizer: PreTrainedTokenizerBase, messages: Any) -> str:
    """Writes messages as one text, up to the beginning of the model's answer."""
    messages = [messages] if isinstance(messages, Mapping) else list(messages)
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


@torch.no_grad()
def _write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    read: dict[str, Tensor],
    count: int,
    config: GenerationConfig | None,
) -> list[int]:
    """Writes greedily, or as ``config`` says; returns the first tokens and the written ones."""
    length = read["input_ids"].shape[1] if "input_ids" in read else 0
    if config is not None and config.max_new_tokens is not None:
        count = config.max_new_tokens
    elif config is not None and config.max_length is not None:
        count = config.max_length - length * (not facts_of(model).two)
    if type(count) is not int or count < 1:
        raise ValueError(f"max_new_tokens={count!r}: pass a whole number of tokens, at least 1")
    read = {key: x.to(model.device) for key, x in read.items()}
    if "input_ids" in read and not facts_of(model).two:
        count = min(count, facts_of(model).positions + 1 - read["input_ids"].shape[1])
    if "input_ids" in read:
        read["attention_mask"] = torch.ones_like(read["input_ids"])
    # Not by a class's own code, such as Whisper's, which adds tokens that it did not choose.
    by: Any = GenerationMixin if SOUND in read else type(model)
    how: dict[str, Any] = {"do_sample": False, "num_beams": 1, "max_new_tokens": count}
    if config is not None:
        how = {"generation_config": config, "max_new_tokens": count, "tokenizer": tokenizer}
    found = by.generate(model, **read, **how)
    written: list[int] = getattr(found, "sequences", found)[0].tolist()
    return written


def _start(model: PreTrainedModel) -> int:
    """Returns the token that a decoder begins with."""
    for config in (model.generation_config, model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if type(found := getattr(config, name, None)) is int:
                return found
    raise ValueError(
        f"the config of this {type(model).__name__} has no decoder_start_token_id, with which an "
        "answer begins; set model.config.decoder_start_token_id"
    )

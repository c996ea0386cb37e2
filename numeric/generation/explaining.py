"""Explains generated text in one call: ``explain_generation(model, tokenizer, prompt)``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

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
from lrp_axioms.numeric.generation.contrasts import GOES_ON, contrast_answers, parted
from lrp_axioms.numeric.generation.prompts import Prompt, read_prompts
from lrp_axioms.numeric.generation.result import Generation
from lrp_axioms.numeric.generation.segments import REST, Place
from lrp_axioms.numeric.models.batches import DECODER, SOUND, Batch
from lrp_axioms.numeric.models.facts import facts_of
from lrp_axioms.numeric.models.texts import check_order, warn_beyond
from lrp_axioms.numeric.results.result import Attribution
from lrp_axioms.numeric.results.words import pieces
from lrp_axioms.numeric.targets import Target, log_probability, logit
from lrp_axioms.numeric.targets.readout import Found, Readout

SCALES = {"logit": logit, "log-probability": log_probability}
One = str | Sequence[int] | Sequence[Mapping[str, Any]] | Mapping[str, Any] | Tensor
Several = list[str] | list[list[Mapping[str, Any]]] | list[list[int]]


@overload
def explain_generation(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: Several, **options: Any
) -> list[Generation]: ...
@overload
def explain_generation(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: One, **options: Any
) -> Generation: ...
def explain_generation(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Any,
    *,
    answer: str | Sequence[Any] | None = None,
    contrast: str | Sequence[Any] | None = None,
    segments: Mapping[str, Place] | Sequence[Mapping[str, Place]] | None = None,
    max_new_tokens: int = 20,
    generation_config: GenerationConfig | None = None,
    method: str | Composite = "attnlrp",
    scale: str = "logit",
    **options: Any,
) -> Generation | list[Generation]:
    """Returns relevance for each token that a language model writes, of all tokens before it.

    The model continues ``prompt``, a text, its ids or the messages of a chat, greedily by at most
    ``max_new_tokens``, with ``model.generate``, as far as it has positions, or by a
    ``generation_config``, such as one that samples, whose number of tokens holds; or ``answer`` is
    explained, a text or ids, as if the model had written it.  Messages become a text by the
    tokenizer's chat template, which begins an answer, or goes on with the last message if that is
    the assistant's.  Several prompts, a list of texts or chats or rows of ids, give a list of
    results, each as of its prompt alone; ``answer``, ``contrast`` and ``segments`` are then lists
    with one for each.  Padding on the left, in a tokenizer's batch, is left out.  Special tokens at
    the ends of a prompt, as chat templates write them, are not added again.  The text of an answer
    is tokenized by itself; pass ids where a token spans the end of the prompt and the start of the
    answer.  Row i of the relevance is
    ``attribute(model, prompt + answer[:i], method, target=answer[i])``, but all rows share one
    forward pass, and each takes one backward pass by a ``method`` with rules; one more pass finds
    probabilities, and one over the prompt checks that the model does not see later tokens.  Other
    methods and ``options`` are as in ``attribute``.  ``scale`` is "logit" or "log-probability".
    ``contrast``, a text or ids, is an answer that was not written: the explained numbers add up to
    log P(answer) - log P(contrast) behind the tokens that both begin with.  Row 0 is the
    difference of two logits, for the first tokens that differ; row 1, if there is more, is the
    difference of log-probabilities of the rest.  It takes a second forward pass, and at most three
    backward passes.  The end token of the answer is added to the contrast.
    ``segments`` names parts of a text, each a text that is in the prompt once, or its first
    character and the one behind it; a chat has its messages, by role, if the tokenizer is fast.
    ``Generation.by("segment")`` adds up relevance by segment; tokens in none are the "rest".
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
    own = {"answer": answer, "contrast": contrast, "segments": segments}
    prompts, several = read_prompts(model, tokenizer, prompt, **own)
    writes = partial(_write, model, tokenizer, count=max_new_tokens, config=generation_config)
    run = partial(attribute_each, model, method=method, **options)
    found = [_explain(model, tokenizer, writes, run, scale, each) for each in prompts]
    return found if several else found[0]


def _explain(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    writes: Callable[[dict[str, Tensor]], list[int]],
    run: Callable[..., list[Attribution]],
    scale: str,
    prompt: Prompt,
) -> Generation:
    """Explains one answer, or contrasts it with another one."""
    two, read, written, other = facts_of(model).two, prompt.inputs, prompt.answer, prompt.contrast
    source = read["input_ids"][0].tolist() if "input_ids" in read else []
    if written is None:
        written = writes(read)
        start = written[:1] if two else []
        written = written[1:] if two else written[len(source) :]
    else:
        start = [_start(model)] if two else []
    if not written:
        raise ValueError("nothing was written: the model ends at once; pass answer")
    other, shared = parted(tokenizer, written, other)
    before, written = (start or source) + written[:shared], written[shared:]
    at, first = len(before) - 1, len(source) * two + len(before)

    def inputs(answer: Sequence[int]) -> dict[str, Tensor]:
        text = torch.tensor([before + list(answer[:-1])])
        return read | {DECODER: text} if two else {"input_ids": text}

    def explained(answer: Sequence[int], targets: Sequence[Target]) -> list[Attribution]:
        warn_beyond(model, at + len(answer))
        return run(inputs(answer), targets=targets)

    if other:
        found = contrast_answers(explained, written, other, at=at, column=first)
        relevance = torch.stack([each.relevance[0] for each in found])
    else:
        found = explained(written, [SCALES[scale](x, at=at + n) for n, x in enumerate(written)])
        # Later tokens have no relevance but rounding of the copies without them.
        relevance = torch.stack([each.relevance[0] for each in found]).tril(first - 1)
        relevance = torch.nn.functional.pad(relevance, (0, 1))
    scores = [log_probability(x, at=at + n) for n, x in enumerate(written)]
    likely = run_method(model, inputs(written), scores, "the logits alone", _logits_alone, {})
    _check_first(model, inputs(written[:1]), scores[0], likely[0].logit)
    chance = torch.stack([each.logit[0] for each in likely])
    tokens = [*pieces(tokenizer, source if two else []), *pieces(tokenizer, before + written)]
    if other:  # in one or two rows
        rest = ["".join(tokens[first + 1 :]) or GOES_ON]
        tokens = tokens[: first + 1] + rest[: len(found) - 1]
        chance = torch.stack([chance[0], chance[1:].sum()])[: len(found)]
    return Generation(
        relevance=relevance.cpu(),
        logit=torch.stack([each.logit[0] for each in found]).cpu(),
        residual=torch.stack([each.residual[0] for each in found]).cpu(),
        tokens=tuple(tokens),
        source=len(source) if two else 0,
        model=type(model).__name__,
        method=found[0].method,
        scale="log-probability difference" if other else scale,
        probability=chance.exp().cpu(),
        contrast="".join(pieces(tokenizer, before + other)[len(before) :]) if other else None,
        segments=prompt.segments and prompt.segments + (REST,) * (first - len(prompt.segments)),
    )


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
        how["num_return_sequences"] = 1  # the others would fill the best one with padding
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
